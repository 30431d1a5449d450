//! Server at the passive end: a control connection that is answered line by line, and one data
//! connection at a time.

mod data;
mod listing;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use linerate_model::{Counter, FlowReport};
use linerate_sys::readiness::Interest;
use socket2::Socket;

use super::FtpParams;
use super::commands::{Command, FEATURES, parse};
use super::lines::{Lines, Words};
use super::protection::Protection;
use crate::Result;
use crate::workloads::transfer::{
    Account, Bench, Clients, Course, Dial, Failure, Form, FoundPath, Guest, Incoming, Opening,
    Outgoing, Shaken, TransferStage, Tree, Turn, Watched, resolve, spelled,
};

/// Longest path, the same as the longest line.
const PATH_BYTES: usize = 4096;

/// Next action after all replies are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Command,
    /// Before the TLS handshake of the control connection.
    Unsecured,
    Securing,
    /// Waiting for the data connection of a requested file.
    Expecting,
    /// During the TLS handshake of the data connection.
    SecuringData,
    Moving,
    Storing,
    Leaving,
}

/// Content of the data connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cargo {
    /// This file of the tree. Uploads have no file of the tree, whatever their names.
    File(usize),
    /// A folder in this form, of which this many bytes are sent.
    Listing(usize, Form, usize),
}

/// Server of one control connection at a time.
pub(crate) struct FtpGuest {
    /// Password that proves the session; none for foreign clients.
    password: Option<String>,
    tree: Arc<Tree>,
    /// Current folder, last argument, and the path of the argument.
    folder: Vec<u8>,
    argument: Vec<u8>,
    path: Vec<u8>,
    /// Start of the next file, in bytes: REST.
    restart: u64,
    cargo: Cargo,
    incoming: Option<Incoming>,
    outgoing: Option<Outgoing>,
    dial: Dial,
    control: Option<Watched>,
    /// TLS, if the trial has it, and whether the client has requested it for commands and files.
    protection: Option<Protection>,
    is_secured: bool,
    is_protected: bool,
    peer: Option<IpAddr>,
    lines: Lines,
    words: Words,
    is_trusted: bool,
    listener: Option<Watched>,
    data: Option<Watched>,
    /// Connection of the last file, whose bytes may still be in flight: it is counted after the
    /// client's next command.
    ended: Option<Watched>,
    token: u64,
    state: State,
    moved: u64,
    course: Course,
    account: Account,
}

impl FtpGuest {
    pub(super) fn new(params: &FtpParams, opening: Opening<'_>) -> Result<Self> {
        let Opening { number, dial, store, secret } = opening;
        let files = &params.common.files;
        Ok(Self {
            password: (files.clients == Clients::Own).then(|| spelled(secret)),
            tree: store.tree(),
            folder: Vec::with_capacity(PATH_BYTES),
            argument: Vec::with_capacity(PATH_BYTES),
            path: Vec::with_capacity(PATH_BYTES),
            restart: 0,
            cargo: Cargo::File(0),
            incoming: files.is_upload().then(|| Incoming::new(store, number)).transpose()?,
            outgoing: (!files.is_upload()).then(|| Outgoing::new(store, number)).transpose()?,
            protection: dial.security.as_ref().map(Protection::new),
            is_secured: false,
            is_protected: false,
            dial,
            control: None,
            peer: None,
            lines: Lines::new(),
            words: Words::new(),
            is_trusted: false,
            listener: None,
            data: None,
            ended: None,
            token: 0,
            state: State::Command,
            moved: 0,
            course: Course::default(),
            account: Account::default(),
        })
    }

    fn listen(&mut self, bench: &mut Bench<'_>) -> Result<Turn, Failure> {
        let command = match self.lines.line() {
            Some(line) => parse(line, self.password.as_deref(), &mut self.argument),
            None => {
                let control = self.control.as_mut().expect("a guest has one");
                return match self.lines.read(control, TransferStage::Transfer) {
                    Ok(true) => Ok(Turn::Moved),
                    Ok(false) => control.wait(bench, Interest::Readable),
                    // A client that closes between commands is done, which is no failure.
                    Err(Failure::Closed(_)) => Ok(Turn::Done),
                    Err(failure) => Err(failure),
                };
            }
        };
        self.moved += 1;
        // The client's next command shows that the last file has arrived.
        self.count_ended(bench);
        self.obey(command, bench)?;
        Ok(Turn::Moved)
    }

    /// Returns the reply that refuses `command` in the present state, if it is refused.
    fn objection(&self, command: Command) -> Option<&'static str> {
        let needs_tls = self.protection.is_some();
        match command {
            Command::Quit | Command::Features => None,
            Command::Security { .. } | Command::BufferSize | Command::Protection { .. }
                if !needs_tls =>
            {
                Some("502 This trial is in the clear")
            }
            Command::Security { is_tls: false } => Some("504 Only AUTH TLS is supported"),
            Command::Security { .. } if self.is_secured => Some("503 TLS is active already"),
            Command::Security { .. } => None,
            _ if needs_tls && !self.is_secured => Some("530 AUTH TLS first"),
            Command::User | Command::Password { .. } | Command::BufferSize => None,
            Command::Protection { is_private: true } => None,
            Command::Protection { .. } => {
                Some("536 Files are as private as commands in this trial")
            }
            _ if !self.is_trusted => Some("530 Log in first"),
            Command::File { .. } | Command::List(_) if needs_tls && !self.is_protected => {
                Some("521 PROT P first")
            }
            _ => None,
        }
    }

    fn obey(&mut self, command: Command, bench: &mut Bench<'_>) -> Result<(), Failure> {
        // Checked in one place before any command has an effect.
        if let Some(objection) = self.objection(command) {
            self.words.set(format_args!("{objection}\r\n"));
            return Ok(());
        }
        match command {
            Command::Security { .. } => {
                self.words.set(format_args!("234 Go ahead\r\n"));
                self.state = State::Unsecured;
            }
            Command::BufferSize => self.words.set(format_args!("200 PBSZ=0\r\n")),
            Command::Protection { .. } => {
                self.is_protected = true;
                self.words.set(format_args!("200 Files are private\r\n"));
            }
            Command::User => self.words.set(format_args!("331 Password\r\n")),
            Command::Password { is_right: true } => {
                self.is_trusted = true;
                self.words.set(format_args!("230 Logged in\r\n"));
            }
            Command::Password { is_right: false } => {
                // A wrong password is a stranger, not a failure of the load.
                self.account.count(bench.tally, Counter::Foreign, 1);
                self.words.set(format_args!("530 Not the session's password\r\n"));
                self.state = State::Leaving;
            }
            Command::Passive | Command::ExtendedPassive => self.open_listener(command, bench)?,
            Command::Features => self.words.set(format_args!("{FEATURES}")),
            Command::Size | Command::Modified | Command::Facts => self.tell(command),
            Command::Restart(Some(at)) => {
                self.restart = at;
                self.words.set(format_args!("350 The next file begins at byte {at}\r\n"));
            }
            Command::Restart(None) => self.words.set(format_args!("501 Not a number of bytes\r\n")),
            Command::File { .. } | Command::List(_) if self.listener.is_none() => {
                self.words
                    .set(format_args!("425 Ask for a data connection first (EPSV or PASV)\r\n"));
            }
            // A trial moves files one way: the other end has no room or no files for the other.
            Command::File { is_upload } if is_upload != self.incoming.is_some() => {
                self.words.set(format_args!("550 Files go the other way in this trial\r\n"));
            }
            Command::File { is_upload } => self.choose(is_upload),
            Command::List(form) => self.list(form),
            Command::ChangeFolder | Command::ToParent => self.change_folder(command),
            Command::MakeFolder if self.incoming.is_some() => {
                self.words.set(format_args!(
                    "257 Uploads go where the trial puts them, whatever they are called\r\n"
                ));
            }
            Command::MakeFolder => self.words.set(format_args!("550 Nothing is changed here\r\n")),
            Command::Harmless | Command::Representation { is_spoken: true } => {
                self.words.set(format_args!("200 Well\r\n"));
            }
            Command::Representation { .. } => {
                self.words.set(format_args!("504 Files are binary streams here\r\n"))
            }
            Command::Folder => {
                self.words.set(format_args!("257 \"/"));
                let folder = &self.folder;
                // A quote is doubled (RFC 959 appendix II).
                self.words.add(|text| {
                    folder.iter().try_for_each(|byte| {
                        text.write_all(if *byte == b'"' {
                            b"\"\""
                        } else {
                            std::slice::from_ref(byte)
                        })
                    })?;
                    text.write_all(b"\"\r\n")
                });
            }
            Command::Abort => self.words.set(format_args!("225 Nothing is under way\r\n")),
            Command::System => self.words.set(format_args!("215 UNIX Type: L8\r\n")),
            Command::Quit => {
                self.words.set(format_args!("221 Goodbye\r\n"));
                self.state = State::Leaving;
            }
            Command::Unknown => self.words.set(format_args!("502 Not known here\r\n")),
        }
        Ok(())
    }

    /// Returns the file or folder that the argument names.
    fn found(&mut self) -> FoundPath {
        // The path is kept for listings and for the next change of folder.
        let is_path = resolve(&self.folder, &self.argument, &mut self.path);
        if is_path { self.tree.find(&self.path) } else { FoundPath::Nothing }
    }

    /// Chooses the file of a transfer.
    fn choose(&mut self, is_upload: bool) {
        // An offset applies to the next file only (RFC 3659 clause 5.4).
        let restart = std::mem::take(&mut self.restart);
        if is_upload && restart > 0 {
            // Earlier uploads are not kept.
            return self.words.set(format_args!("554 Uploads begin at byte 0 here\r\n"));
        }
        let file = match self.found() {
            _ if is_upload => 0,
            FoundPath::File(file) if restart <= self.tree.size(file) => file,
            FoundPath::File(_) => {
                return self.words.set(format_args!("554 The file ends before byte {restart}\r\n"));
            }
            _ => return self.refuse_path(),
        };
        self.restart = restart;
        self.cargo = Cargo::File(file);
        self.words.set(format_args!("150 Here it comes\r\n"));
        self.state = State::Expecting;
    }

    fn refuse_path(&mut self) {
        self.words.set(format_args!("550 There is no such file or folder\r\n"));
    }

    fn change_folder(&mut self, command: Command) {
        if command == Command::ToParent {
            self.argument.clear();
            self.argument.extend(b"..");
        }
        match self.found() {
            // Names of uploads, and of a trial's one file, have no meaning: any folder is accepted.
            FoundPath::Folder(_) => {}
            _ if self.tree.is_only() => {}
            _ => return self.refuse_path(),
        }
        self.folder.clone_from(&self.path);
        self.words.set(format_args!("250 Well\r\n"));
    }

    fn secure(&mut self) -> Result<Turn, Failure> {
        if !self.lines.is_empty() {
            // Commands before the handshake could have been injected by a third party (RFC 4217
            // clause 15).
            return Err(Failure::Syntax("commands in the clear after AUTH TLS"));
        }
        let control = self.control.as_mut().expect("a guest has one");
        self.protection.as_mut().expect("only a server with TLS gets here").control(control)?;
        self.state = State::Securing;
        Ok(Turn::Moved)
    }

    fn shake(&mut self, bench: &Bench<'_>) -> Result<Turn, Failure> {
        let control = self.control.as_mut().expect("a guest has one");
        if let Shaken::Waits(interest) = control.shake()? {
            return control.wait(bench, interest);
        }
        self.protection.as_mut().expect("only a server with TLS gets here").agreed(control);
        self.is_secured = true;
        self.moved += 1;
        self.state = State::Command;
        Ok(Turn::Moved)
    }

    fn count_ended(&mut self, bench: &mut Bench<'_>) {
        self.settle(bench);
        self.keep_ended();
    }

    fn keep_ended(&mut self) {
        if let Some(ended) = self.ended.take() {
            self.account.keep(&ended.socket);
        }
    }
}

impl Guest for FtpGuest {
    fn admit(
        &mut self,
        socket: Socket,
        peer: SocketAddr,
        token: u64,
        _bench: &mut Bench<'_>,
    ) -> Result<(), Failure> {
        // Replies are short and wait for each other: without this each could be delayed.
        socket.set_tcp_nodelay(true).map_err(|error| Failure::io(&error))?;
        self.control = Some(Watched::new(socket, token));
        (self.token, self.state, self.peer) = (token, State::Command, Some(peer.ip()));
        // Foreign clients need no password.
        self.is_trusted = self.password.is_none();
        (self.is_secured, self.is_protected, self.restart) = (false, false, 0);
        self.folder.clear();
        self.outgoing.iter_mut().for_each(Outgoing::renew);
        self.lines.clear();
        self.words.set(format_args!("220 linerate\r\n"));
        Ok(())
    }

    fn go_on(&mut self, bench: &mut Bench<'_>) -> Result<Turn, Failure> {
        let control = self.control.as_mut().expect("a guest has one");
        // The last reply must leave before the next command is read, so that replies never mix.
        if self.state != State::Securing && !self.words.say(control)? {
            return control.wait(bench, Interest::ReadableOrWritable);
        }
        match self.state {
            State::Command => self.listen(bench),
            State::Unsecured => self.secure(),
            State::Securing => self.shake(bench),
            State::SecuringData => self.shake_data(bench),
            State::Expecting => self.expect(bench),
            State::Moving => self.move_file(bench).or_else(|failure| self.cut_off(failure, bench)),
            State::Storing => self.store(bench),
            State::Leaving => {
                self.control.iter_mut().for_each(Watched::end_sending);
                Ok(Turn::Done)
            }
        }
    }

    fn progress(&self) -> u64 {
        self.moved
    }

    fn is_under_way(&self) -> bool {
        let is_moving = matches!(self.state, State::SecuringData | State::Moving | State::Storing);
        let is_awaited = self.outgoing.as_ref().is_some_and(Outgoing::is_awaited);
        is_moving && matches!(self.cargo, Cargo::File(_))
            || is_awaited && (self.data.is_some() || self.ended.is_some())
    }

    fn settle(&mut self, bench: &mut Bench<'_>) {
        if let (Some(outgoing), Some(data)) =
            (&mut self.outgoing, self.data.as_ref().or(self.ended.as_ref()))
        {
            outgoing.settle(&data.socket, &mut self.account, bench.tally);
        }
    }

    fn dismiss(&mut self) {
        self.keep_ended();
        self.end_data();
        self.listener = None;
        self.control = None;
    }

    fn account(&self) -> &Account {
        &self.account
    }

    fn carrier(&self) -> Option<&Socket> {
        self.data.as_ref().or(self.ended.as_ref()).map(|data| &data.socket)
    }

    fn report(&mut self) -> FlowReport {
        let mut modes = BTreeMap::new();
        self.protection.iter_mut().for_each(|protection| protection.modes(&mut modes));
        self.dial.report(modes, self.incoming.as_ref(), self.outgoing.as_ref())
    }
}
