//! A stream at the active end: log in once, then for each file a data connection, its bytes, and the server's word that all is well.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use linerate_model::{Counter, FlowReport, Nanos};
use linerate_sys::clock;
use linerate_sys::readiness::Interest;
use socket2::{SockAddr, Socket};

use super::lines::{self, Lines, Reply, Words};
use super::{FtpParams, Passive};
use crate::LoadError;
use crate::workloads::transfer::{
    Account, Bench, Course, Dial, Failure, Incoming, Outgoing, Protocol, Sent, Session, Stage, Store, Turn, Watched,
    connected,
};

const STORE_REST: Nanos = Nanos(200_000);

/// What is asked of the server, in this order; the last three for each file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    Greeting,
    User,
    Password,
    Binary,
    Size,
    Passive,
    File,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The control connection is being opened.
    Calling,
    /// The reply to this is awaited.
    Asked(Ask),
    /// The data connection is being opened.
    Connecting,
    /// Data flows; whether the server has announced it.
    Moving {
        announced: bool,
    },
    Storing {
        announced: bool,
    },
    /// The server's last word on the file is awaited.
    Confirming,
}

/// One stream.
pub(crate) struct FtpSession {
    dial: Dial,
    remote: SockAddr,
    user: (String, String),
    path: String,
    passive: Passive,
    incoming: Option<Incoming>,
    outgoing: Option<Outgoing>,
    upload_bytes: u64,
    is_foreign: bool,
    control: Option<Watched>,
    is_logged_in: bool,
    lines: Lines,
    words: Words,
    data: Option<Watched>,
    data_address: Option<SockAddr>,
    token: u64,
    state: State,
    /// What SIZE said, once.
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
        number: u32,
        dial: Dial,
        store: &Store,
        user: &(String, String),
        path: &str,
    ) -> Result<Self, LoadError> {
        let files = params.files();
        Ok(Self {
            remote: dial.remote.into(),
            dial,
            user: user.clone(),
            path: path.to_owned(),
            passive: params.passive,
            incoming: (!files.is_upload()).then(|| Incoming::new(store, number)).transpose()?,
            outgoing: files.is_upload().then(|| Outgoing::new(store, number)).transpose()?,
            upload_bytes: files.file_size.0,
            is_foreign: params.url.is_some(),
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

    /// Says a command; its reply is awaited.
    fn ask(&mut self, ask: Ask) {
        let path = &self.path;
        match ask {
            Ask::Greeting => self.words.clear(),
            Ask::User => self.words.set(format_args!("USER {}\r\n", self.user.0)),
            Ask::Password => self.words.set(format_args!("PASS {}\r\n", self.user.1)),
            Ask::Binary => self.words.set(format_args!("TYPE I\r\n")),
            Ask::Size => self.words.set(format_args!("SIZE {path}\r\n")),
            Ask::Passive if self.passive == Passive::Epsv => self.words.set(format_args!("EPSV\r\n")),
            Ask::Passive => self.words.set(format_args!("PASV\r\n")),
            Ask::File if self.outgoing.is_some() => self.words.set(format_args!("STOR {path}\r\n")),
            Ask::File => self.words.set(format_args!("RETR {path}\r\n")),
        }
        self.state = State::Asked(ask);
    }

    /// Says what is to be said and reads a reply, if one is there.
    fn talk(&mut self, bench: &Bench<'_>, stage: Stage) -> Result<Option<Reply>, Failure> {
        let control = self.control.as_mut().expect("a session under way has one");
        if !self.words.say(&control.socket)? {
            control.wait(bench.readiness, self.token, Interest::ReadableOrWritable)?;
            return Ok(None);
        }
        loop {
            if let Some(reply) = self.lines.reply()? {
                self.replies += 1;
                return Ok(Some(reply));
            }
            if !self.lines.read(&control.socket, stage)? {
                control.wait(bench.readiness, self.token, Interest::Readable)?;
                return Ok(None);
            }
        }
    }

    fn asked(&mut self, ask: Ask, bench: &mut Bench<'_>) -> Result<Turn, Failure> {
        let Some(reply) = self.talk(bench, Stage::FirstByte)? else { return Ok(Turn::Network) };
        let next = match (ask, reply.code) {
            // The server is not ready yet and will say so again.
            (Ask::Greeting, 120) => return Ok(Turn::Moved),
            (Ask::Greeting, 220) => Ask::User,
            (Ask::User, 331) => Ask::Password,
            (Ask::User | Ask::Password, 230 | 202) => Ask::Binary,
            (Ask::Binary, 200) => {
                self.is_logged_in = true;
                // Logging in is not part of a file.
                self.course = Course::begin(Nanos(clock::monotonic()));
                if self.outgoing.is_some() || self.is_sized { Ask::Passive } else { Ask::Size }
            }
            (Ask::Size, code) => {
                // A server that does not know it may still have the file.
                self.size = lines::size(self.lines.text(reply)).filter(|_| code == 213);
                self.is_sized = true;
                Ask::Passive
            }
            (Ask::Passive, 227 | 229) => {
                self.open_data(reply)?;
                return Ok(Turn::Moved);
            }
            (_, code) => return Err(Failure::Refused(code)),
        };
        self.ask(next);
        Ok(Turn::Moved)
    }

    /// Starts to connect to where `reply` says, which must be at the server itself.
    fn open_data(&mut self, reply: Reply) -> Result<(), Failure> {
        let own = self.dial.remote.ip();
        let text = self.lines.text(reply);
        let told = match self.passive {
            Passive::Epsv => lines::extended_port(text).map(|port| (own, port)),
            Passive::Pasv => lines::passive_address(text),
        };
        let (ip, port) = told.ok_or(Failure::Syntax("where to connect to for data"))?;
        if ip != own {
            return Err(Failure::Elsewhere(ip));
        }
        self.data_address = Some(SocketAddr::new(own, port).into());
        let socket = self.dial.open().map_err(|error| Failure::io(&error))?;
        self.data = Some(Watched::new(socket));
        self.course.lap();
        self.state = State::Connecting;
        Ok(())
    }

    fn connect(&mut self, bench: &Bench<'_>) -> Result<Turn, Failure> {
        let data = self.data.as_mut().expect("it is being opened");
        let address = self.data_address.as_ref().expect("it was told");
        if !connected(&data.socket, address)? {
            data.wait(bench.readiness, self.token + 1, Interest::ReadableOrWritable)?;
            return Ok(Turn::Network);
        }
        self.course.connect = self.course.lap();
        match (&mut self.incoming, &mut self.outgoing) {
            (Some(incoming), _) => incoming.begin(self.size)?,
            (None, Some(outgoing)) => outgoing.begin(data, self.upload_bytes)?,
            (None, None) => {}
        }
        self.ask(Ask::File);
        self.state = State::Moving { announced: false };
        Ok(Turn::Moved)
    }

    /// Whether the server has announced the file by now.
    fn hear(&mut self, bench: &Bench<'_>) -> Result<bool, Failure> {
        match self.talk(bench, Stage::Transfer)?.map(|reply| reply.code) {
            Some(100..200) => {
                // What it says next is looked for when the data has ended.
                self.control.as_mut().expect("a session under way has one").rest(bench.readiness);
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
            // RFC 959: data after the server's announcement only.
            return if announced { self.send(bench) } else { Ok(Turn::Network) };
        }
        let data = self.data.as_mut().expect("data flows over it");
        let incoming = self.incoming.as_mut().expect("a download has one");
        let received = incoming.take(data, u64::MAX, &mut self.account, bench)?;
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
        match received.turn {
            Turn::Network => data.wait(bench.readiness, self.token + 1, Interest::Readable)?,
            Turn::Until(_) => data.rest(bench.readiness),
            Turn::Moved | Turn::Done => {}
        }
        Ok(received.turn)
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
                data.wait(bench.readiness, self.token + 1, Interest::ReadableOrWritable)?;
                Ok(Turn::Network)
            }
            Sent::All => {
                self.came = self.upload_bytes;
                self.course.transfer = self.course.lap();
                // The end of the data connection is the end of the file; it is counted once the server has it.
                data.end_sending();
                data.rest(bench.readiness);
                self.state = State::Confirming;
                Ok(Turn::Moved)
            }
        }
    }

    fn store(&mut self, announced: bool, bench: &mut Bench<'_>) -> Result<Turn, Failure> {
        let incoming = self.incoming.as_mut().expect("a download has one");
        if !incoming.finish()? {
            self.control.as_mut().expect("a session under way has one").rest(bench.readiness);
            return Ok(Turn::Until(bench.now + STORE_REST));
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
        match self.talk(bench, Stage::Close)?.map(|reply| reply.code) {
            None => Ok(Turn::Network),
            Some(200..300) => {
                self.course.close = self.course.lap();
                self.drop_data();
                if let Some(size) = self.size.filter(|size| self.incoming.is_some() && *size != self.came) {
                    return Err(Failure::Size(size, self.came));
                }
                if self.is_foreign && self.outgoing.is_some() {
                    self.account.count(bench.tally, Counter::PayloadAcknowledged, self.upload_bytes);
                }
                Ok(Turn::Done)
            }
            Some(code) => Err(Failure::Refused(code)),
        }
    }

    fn drop_data(&mut self) {
        if let Some(data) = self.data.take() {
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
            self.ask(Ask::Passive);
            return Ok(());
        }
        let socket = self.dial.open().map_err(|error| Failure::io(&error))?;
        self.control = Some(Watched::new(socket));
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
                    control.wait(bench.readiness, self.token, Interest::ReadableOrWritable)?;
                    return Ok(Turn::Network);
                }
                control.socket.set_tcp_nodelay(true).map_err(|error| Failure::io(&error))?;
                self.ask(Ask::Greeting);
                Ok(Turn::Moved)
            }
            State::Asked(ask) => self.asked(ask, bench),
            State::Connecting => self.connect(bench),
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
            State::Calling | State::Connecting => Stage::Connect,
            State::Asked(_) => Stage::FirstByte,
            State::Moving { .. } if self.came == 0 => Stage::FirstByte,
            State::Moving { .. } => Stage::Transfer,
            State::Storing { .. } | State::Confirming => Stage::Close,
        })
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
        let modes = BTreeMap::from([(
            "passive".to_owned(),
            if self.passive == Passive::Epsv { "epsv" } else { "pasv" }.to_owned(),
        )]);
        let local = self.control.as_ref().and_then(|control| control.socket.local_addr().ok()?.as_socket());
        FlowReport {
            local: local.map(|address| address.to_string()).unwrap_or_default(),
            remote: self.dial.remote.to_string(),
            ..self.dial.report(modes, self.incoming.as_ref(), self.outgoing.as_ref())
        }
    }
}
