//! Stream at the active end: logs in once, then for each file opens a data connection, moves its
//! bytes, and waits for the server's confirmation. With TLS, the server begins the handshake of the
//! data connection after its announcement, so the handshake is part of the time to the first byte.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use linerate_model::{Counter, FlowReport, Nanos};
use linerate_sys::clock;
use linerate_sys::readiness::Interest;
use socket2::{SockAddr, Socket};

use super::lines::{self, Lines, Reply, Words};
use super::protection::Protection;
use super::{FtpParams, Passive};
use crate::Result;
use crate::workloads::transfer::{
    Account, Bench, Common, Course, Dial, Failure, Incoming, Names, Opening, Outgoing, Part, Sent,
    Session, Shaken, TransferStage, Turn, Watched, connected,
};

const STORE_REST: Nanos = Nanos(200_000);

/// Commands in this order; the last four are sent for each file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    Greeting,
    /// TLS, if the trial has it.
    Security,
    User,
    Password,
    /// Both of TLS: no buffer to be protected in pieces, and files protected like commands.
    BufferSize,
    Protection,
    Binary,
    Size,
    Passive,
    /// Start of the file, if not at its first byte.
    Restart,
    File,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Opening the control connection.
    Calling,
    /// Waiting for the reply to this command.
    Asked(Ask),
    /// During the TLS handshake of the control connection.
    Securing,
    /// Opening the data connection.
    Connecting,
    /// During the TLS handshake of the data connection.
    SecuringData {
        announced: bool,
    },
    /// Moving data; true once the server has announced it.
    Moving {
        announced: bool,
    },
    Storing {
        announced: bool,
    },
    /// Waiting for the server's last reply on the file.
    Confirming,
    /// TLS of the data connection failed for this reason; the server may report a better one.
    Explaining(Failure),
}

/// One stream.
pub(crate) struct FtpSession {
    dial: Dial,
    remote: SockAddr,
    user: (String, String),
    names: Names,
    passive: Passive,
    incoming: Option<Incoming>,
    outgoing: Option<Outgoing>,
    upload_bytes: u64,
    /// Start of downloads, in bytes.
    offset: u64,
    control: Option<Watched>,
    protection: Option<Protection>,
    is_logged_in: bool,
    lines: Lines,
    words: Words,
    data: Option<Watched>,
    data_address: Option<SockAddr>,
    token: u64,
    state: State,
    /// Reply to SIZE, once it is known.
    size: Option<u64>,
    is_sized: bool,
    came: u64,
    replies: u64,
    course: Course,
    account: Account,
}

impl FtpSession {
    pub(super) fn new(
        params: &FtpParams,
        Opening { number, dial, store, .. }: Opening<'_>,
        user: (String, String),
        path: &str,
    ) -> Result<Self> {
        let Common { files, placement, .. } = &params.common;
        Ok(Self {
            remote: dial.remote.into(),
            protection: dial.security.as_ref().map(Protection::new),
            dial,
            user,
            names: Names::new(path, files.files, number, placement.streams()),
            passive: params.passive,
            incoming: (!files.is_upload()).then(|| Incoming::new(store, number)).transpose()?,
            outgoing: files.is_upload().then(|| Outgoing::new(store, number)).transpose()?,
            upload_bytes: files.file_size.0,
            offset: files.offset.0,
            control: None,
            is_logged_in: false,
            lines: Lines::new(),
            words: Words::new(),
            data: None,
            data_address: None,
            token: 0,
            state: State::Calling,
            size: None,
            is_sized: false,
            came: 0,
            replies: 0,
            course: Course::default(),
            account: Account::default(),
        })
    }

    /// Sends a command and expects its reply.
    fn ask(&mut self, ask: Ask) {
        let path = &self.names;
        match ask {
            Ask::Greeting => self.words.clear(),
            Ask::Security => self.words.set(format_args!("AUTH TLS\r\n")),
            Ask::BufferSize => self.words.set(format_args!("PBSZ 0\r\n")),
            Ask::Protection => self.words.set(format_args!("PROT P\r\n")),
            Ask::User => self.words.set(format_args!("USER {}\r\n", self.user.0)),
            Ask::Password => self.words.set(format_args!("PASS {}\r\n", self.user.1)),
            Ask::Binary => self.words.set(format_args!("TYPE I\r\n")),
            Ask::Size => self.words.set(format_args!("SIZE {path}\r\n")),
            Ask::Passive if self.passive == Passive::Epsv => {
                self.words.set(format_args!("EPSV\r\n"))
            }
            Ask::Passive => self.words.set(format_args!("PASV\r\n")),
            Ask::Restart => self.words.set(format_args!("REST {}\r\n", self.offset)),
            Ask::File if self.outgoing.is_some() => self.words.set(format_args!("STOR {path}\r\n")),
            Ask::File => self.words.set(format_args!("RETR {path}\r\n")),
        }
        self.state = State::Asked(ask);
    }

    /// Sends the pending command and reads a reply, if one is present.
    fn talk(&mut self, bench: &Bench<'_>, stage: TransferStage) -> Result<Option<Reply>, Failure> {
        let control = self.control.as_mut().expect("a session under way has one");
        if !self.words.say(control)? {
            control.wait(bench, Interest::ReadableOrWritable)?;
            return Ok(None);
        }
        loop {
            if let Some(reply) = self.lines.reply()? {
                self.replies += 1;
                return Ok(Some(reply));
            }
            if !self.lines.read(control, stage)? {
                control.wait(bench, Interest::Readable)?;
                return Ok(None);
            }
        }
    }

    fn asked(&mut self, ask: Ask, bench: &mut Bench<'_>) -> Result<Turn, Failure> {
        let Some(reply) = self.talk(bench, TransferStage::FirstByte)? else {
            return Ok(Turn::Network);
        };
        let next = match (ask, reply.code) {
            // The server is not ready yet and will send another reply.
            (Ask::Greeting, 120) => return Ok(Turn::Moved),
            (Ask::Greeting, 220) if self.protection.is_some() => Ask::Security,
            (Ask::Greeting, 220) => Ask::User,
            (Ask::Security, 234) => {
                self.secure()?;
                return Ok(Turn::Moved);
            }
            (Ask::User, 331) => Ask::Password,
            // RFC 2228 clause 5.3: 232 is 230 for a user whom the security exchange has identified.
            (Ask::User | Ask::Password, 230 | 202 | 232) if self.protection.is_some() => {
                Ask::BufferSize
            }
            (Ask::User | Ask::Password, 230 | 202) => Ask::Binary,
            (Ask::BufferSize, 200) => Ask::Protection,
            (Ask::Protection, 200) => Ask::Binary,
            (Ask::Binary, 200) => {
                self.is_logged_in = true;
                // Logging in is not part of a file.
                self.course = Course::begin(Nanos(clock::monotonic()));
                self.first_of_file()
            }
            (Ask::Size, code) => {
                // A server without this command may still have the file.
                self.size = lines::size(self.lines.text(reply)).filter(|_| code == 213);
                self.is_sized = true;
                Ask::Passive
            }
            (Ask::Passive, 227 | 229) => {
                self.open_data(reply)?;
                return Ok(Turn::Moved);
            }
            // The server refuses EPSV: the older command has no IPv6 (RFC 2428 clause 3).
            (Ask::Passive, 500..600)
                if self.passive == Passive::Epsv && self.dial.remote.is_ipv4() =>
            {
                self.passive = Passive::Pasv;
                Ask::Passive
            }
            (Ask::Restart, 350) => {
                self.ask_for_file()?;
                return Ok(Turn::Moved);
            }
            (Ask::Restart, _) => return Err(Failure::Whole),
            (Ask::Security, code) => return Err(Failure::Unprotected("AUTH TLS", code)),
            (Ask::BufferSize, code) => return Err(Failure::Unprotected("PBSZ 0", code)),
            (Ask::Protection, code) => return Err(Failure::Unprotected("PROT P", code)),
            (_, code) => return Err(Failure::Refused(code)),
        };
        self.ask(next);
        Ok(Turn::Moved)
    }

    fn secure(&mut self) -> Result<(), Failure> {
        if !self.lines.is_empty() {
            return Err(Failure::Syntax("more words in the clear after the server agreed to TLS"));
        }
        let control = self.control.as_mut().expect("a session under way has one");
        self.protection.as_mut().expect("it was asked for").control(control)?;
        self.state = State::Securing;
        Ok(())
    }

    fn shake(&mut self, bench: &Bench<'_>) -> Result<Turn, Failure> {
        let control = self.control.as_mut().expect("a session under way has one");
        if let Shaken::Waits(interest) = control.shake()? {
            return control.wait(bench, interest);
        }
        self.protection.as_mut().expect("it was asked for").agreed(control);
        self.ask(Ask::User);
        Ok(Turn::Moved)
    }

    /// Returns the first command of each file. Many files each have a size of their own; that of a
    /// single file is requested once.
    fn first_of_file(&self) -> Ask {
        if self.outgoing.is_some() || self.is_sized { Ask::Passive } else { Ask::Size }
    }

    /// Starts to connect to the port that `reply` names, at the server itself.
    fn open_data(&mut self, reply: Reply) -> Result<(), Failure> {
        let own = self.dial.remote.ip();
        let text = self.lines.text(reply);
        let port =
            if reply.code == 229 { lines::extended_port(text) } else { lines::passive_port(text) };
        let port = port.ok_or(Failure::Syntax("where to connect to for data"))?;
        self.data_address = Some(SocketAddr::new(own, port).into());
        let socket = self.dial.open().map_err(|error| Failure::io(&error))?;
        self.data = Some(Watched::new(socket, self.token + 1));
        self.course.lap();
        self.state = State::Connecting;
        Ok(())
    }

    fn connect(&mut self, bench: &Bench<'_>) -> Result<Turn, Failure> {
        let data = self.data.as_mut().expect("it is being opened");
        let address = self.data_address.as_ref().expect("the server has named it");
        if !connected(&data.socket, address)? {
            return data.wait(bench, Interest::ReadableOrWritable);
        }
        self.course.connect = self.course.lap();
        match (&mut self.incoming, &mut self.outgoing) {
            (Some(incoming), _) => {
                incoming.begin(self.size.map(|size| size.saturating_sub(self.offset)))?
            }
            (None, Some(outgoing)) => {
                outgoing.renew();
                outgoing.begin(data, Part::whole(self.upload_bytes))?;
            }
            (None, None) => {}
        }
        if self.offset > 0 {
            self.ask(Ask::Restart);
            return Ok(Turn::Moved);
        }
        self.ask_for_file()?;
        Ok(Turn::Moved)
    }

    fn ask_for_file(&mut self) -> Result<(), Failure> {
        let data = self.data.as_mut().expect("it is open");
        if let Some(protection) = &self.protection {
            protection.data(data)?;
        }
        self.ask(Ask::File);
        self.state = match &self.protection {
            Some(_) => State::SecuringData { announced: false },
            None => State::Moving { announced: false },
        };
        Ok(())
    }

    fn shake_data(&mut self, announced: bool, bench: &Bench<'_>) -> Result<Turn, Failure> {
        let announced = announced || self.hear(bench)?;
        self.state = State::SecuringData { announced };
        let data = self.data.as_mut().expect("it is open");
        match data.shake() {
            Ok(Shaken::Waits(interest)) => return data.wait(bench, interest),
            Ok(Shaken::Done) => {}
            Err(failure) => return Ok(self.explain(failure)),
        }
        self.protection.as_mut().expect("it was asked for").data_agreed(data);
        self.state = State::Moving { announced };
        Ok(Turn::Moved)
    }

    /// Keeps the failure of TLS on a data connection until the server's next reply.
    fn explain(&mut self, failure: Failure) -> Turn {
        self.drop_data();
        self.state = State::Explaining(failure);
        Turn::Moved
    }

    fn explained(&mut self, failure: Failure, bench: &Bench<'_>) -> Result<Turn, Failure> {
        match self.talk(bench, TransferStage::Transfer) {
            Ok(None) => Ok(Turn::Network),
            Ok(Some(reply)) if reply.code < 200 => Ok(Turn::Moved),
            // The failure is not a refusal of the file.
            Ok(Some(reply)) if reply.code >= 400 => {
                Err(Failure::Unprotected("TLS of the data connection", reply.code))
            }
            Ok(Some(_)) | Err(_) => Err(failure),
        }
    }

    /// Returns true once the server has announced the file.
    fn hear(&mut self, bench: &Bench<'_>) -> Result<bool, Failure> {
        match self.talk(bench, TransferStage::Transfer)?.map(|reply| reply.code) {
            Some(100..200) => {
                // Its next reply is read after the end of the data.
                self.control.as_mut().expect("a session under way has one").rest(bench);
                Ok(true)
            }
            Some(code) => Err(Failure::Refused(code)),
            None => Ok(false),
        }
    }

    fn move_file(&mut self, announced: bool, bench: &mut Bench<'_>) -> Result<Turn, Failure> {
        let announced = announced || self.hear(bench)?;
        self.state = State::Moving { announced };
        if self.outgoing.is_some() {
            // RFC 959: data may arrive only after the server's announcement.
            return if announced { self.send(bench) } else { Ok(Turn::Network) };
        }
        let data = self.data.as_mut().expect("data flows over it");
        let incoming = self.incoming.as_mut().expect("a download has one");
        let received = match incoming.take(data, u64::MAX, &mut self.account, bench) {
            Err(failure @ Failure::Tls(_)) => return Ok(self.explain(failure)),
            received => received?,
        };
        if self.came == 0 && received.bytes > 0 {
            self.course.first_byte = self.course.lap();
        }
        self.came += received.bytes;
        if received.ended {
            self.course.transfer = self.course.lap();
            self.state = State::Storing { announced };
            self.drop_data();
            return Ok(Turn::Moved);
        }
        data.after(received.turn, bench)
    }

    fn send(&mut self, bench: &mut Bench<'_>) -> Result<Turn, Failure> {
        let data = self.data.as_mut().expect("data flows over it");
        if self.came == 0 {
            self.course.first_byte = self.course.lap();
        }
        let outgoing = self.outgoing.as_mut().expect("an upload has one");
        match outgoing.send(data, &mut self.account, bench.tally)? {
            Sent::Bytes(n) => {
                self.came += n;
                Ok(Turn::Moved)
            }
            Sent::Full(n) => {
                self.came += n;
                data.wait(bench, Interest::ReadableOrWritable)
            }
            Sent::All => {
                self.came = self.upload_bytes;
                self.course.transfer = self.course.lap();
                // The file ends with its data connection; it counts once the server confirms it.
                data.end_sending();
                data.rest(bench);
                self.state = State::Confirming;
                Ok(Turn::Moved)
            }
        }
    }

    fn store(&mut self, announced: bool, bench: &mut Bench<'_>) -> Result<Turn, Failure> {
        let incoming = self.incoming.as_mut().expect("a download has one");
        if !incoming.finish()? {
            let control = self.control.as_mut().expect("a session under way has one");
            return Ok(control.rest_until(bench, bench.now + STORE_REST));
        }
        if !announced {
            let announced = self.hear(bench)?;
            self.state = State::Storing { announced };
            return Ok(if announced { Turn::Moved } else { Turn::Network });
        }
        self.state = State::Confirming;
        Ok(Turn::Moved)
    }

    fn confirm(&mut self, bench: &mut Bench<'_>) -> Result<Turn, Failure> {
        match self.talk(bench, TransferStage::Close)?.map(|reply| reply.code) {
            None => Ok(Turn::Network),
            Some(200..300) => {
                self.course.close = self.course.lap();
                self.hear_out(bench);
                self.drop_data();
                let came = self.came + self.offset;
                if let Some(size) =
                    self.size.filter(|size| self.incoming.is_some() && *size != came)
                {
                    return Err(Failure::Size(size, came));
                }
                if let Some(outgoing) = &mut self.outgoing {
                    // Delivered: a server that stores files replies when it has them.
                    outgoing.confirm(&mut self.account, bench.tally);
                }
                // Only the data connection: that of the commands carries no payload.
                self.account.count(bench.tally, Counter::Connections, 1);
                self.names.advance();
                self.is_sized = self.names.is_one();
                Ok(Turn::Done)
            }
            Some(code) => Err(Failure::Refused(code)),
        }
    }

    /// Reads the server's bytes on a data connection that carried an upload. With TLS 1.3 they are
    /// the ticket by which the next connection resumes, because each ticket serves once (RFC 8446
    /// clause 4.6.1).
    fn hear_out(&mut self, bench: &mut Bench<'_>) {
        if let (Some(data), Some(_)) = (&mut self.data, &self.protection) {
            // Only tickets and the end are expected; other bytes are ignored.
            while data.receive(bench.buffer).is_ok_and(|n| n > 0) {}
        }
    }

    fn drop_data(&mut self) {
        if let Some(mut data) = self.data.take() {
            data.take_leave();
            self.account.keep(&data.socket);
        }
    }
}

impl Session for FtpSession {
    fn begin(&mut self, token: u64, bench: &mut Bench<'_>) -> Result<(), Failure> {
        self.token = token;
        self.came = 0;
        self.course = Course::begin(bench.now);
        if self.is_logged_in {
            self.ask(self.first_of_file());
            return Ok(());
        }
        let socket = self.dial.open().map_err(|error| Failure::io(&error))?;
        self.control = Some(Watched::new(socket, token));
        self.lines.clear();
        self.words.clear();
        self.state = State::Calling;
        Ok(())
    }

    fn go_on(&mut self, bench: &mut Bench<'_>) -> Result<Turn, Failure> {
        match self.state {
            State::Calling => {
                let control = self.control.as_mut().expect("it is being opened");
                if !connected(&control.socket, &self.remote)? {
                    return control.wait(bench, Interest::ReadableOrWritable);
                }
                control.socket.set_tcp_nodelay(true).map_err(|error| Failure::io(&error))?;
                self.ask(Ask::Greeting);
                Ok(Turn::Moved)
            }
            State::Asked(ask) => self.asked(ask, bench),
            State::Securing => self.shake(bench),
            State::Connecting => self.connect(bench),
            State::SecuringData { announced } => self.shake_data(announced, bench),
            State::Explaining(failure) => self.explained(failure, bench),
            State::Moving { announced } => self.move_file(announced, bench),
            State::Storing { announced } => self.store(announced, bench),
            State::Confirming => self.confirm(bench),
        }
    }

    fn progress(&self) -> u64 {
        self.came.wrapping_add(self.replies)
    }

    fn overdue(&self) -> Failure {
        Failure::TimedOut(match self.state {
            State::Explaining(failure) => return failure,
            State::Calling | State::Securing | State::Connecting => TransferStage::Connect,
            State::Asked(_) | State::SecuringData { .. } => TransferStage::FirstByte,
            State::Moving { .. } if self.came == 0 => TransferStage::FirstByte,
            State::Moving { .. } => TransferStage::Transfer,
            State::Storing { .. } | State::Confirming => TransferStage::Close,
        })
    }

    fn called(&self) -> Option<SocketAddr> {
        match self.state {
            State::Calling => Some(self.dial.remote),
            State::Connecting => self.data_address.as_ref()?.as_socket(),
            _ => None,
        }
    }

    fn abort(&mut self) {
        self.drop_data();
        self.control = None;
        self.is_logged_in = false;
    }

    fn course(&self) -> &Course {
        &self.course
    }

    fn account(&self) -> &Account {
        &self.account
    }

    fn carrier(&self) -> Option<&Socket> {
        self.data.as_ref().map(|data| &data.socket)
    }

    fn report(&mut self) -> FlowReport {
        let mut modes = BTreeMap::from([(
            "passive".to_owned(),
            if self.passive == Passive::Epsv { "epsv" } else { "pasv" }.to_owned(),
        )]);
        self.protection.iter_mut().for_each(|protection| protection.modes(&mut modes));
        let local =
            self.control.as_ref().and_then(|control| control.socket.local_addr().ok()?.as_socket());
        FlowReport {
            local: local.map(|address| address.to_string()).unwrap_or_default(),
            remote: self.dial.remote.to_string(),
            ..self.dial.report(modes, self.incoming.as_ref(), self.outgoing.as_ref())
        }
    }
}
