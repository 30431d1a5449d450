//! A connection at the passive end: a file for GET, room for PUT and POST, one request after the other.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use linerate_model::{Counter, FlowReport, Nanos};
use linerate_sys::readiness::Interest;
use socket2::Socket;

use super::HttpParams;
use super::head::{HeadBuffer, Looked, Method, Request};
use crate::workloads::rendezvous::would_wait;
use crate::workloads::transfer::{
    Account, Bench, Dial, Failure, Guest, Incoming, Outgoing, Protocol, Sent, Shaken, Stage, Store, Turn, Watched,
    spelled,
};
use crate::{LoadError, Secret};

const PART_REST: Nanos = Nanos(200_000);
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
const CREATED: &[u8] = b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n";
const CREATED_LAST: &[u8] = b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
const NOT_FOUND: &[u8] = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
const NOT_ALLOWED: &[u8] = b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
const LENGTH_REQUIRED: &[u8] = b"HTTP/1.1 411 Length Required\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// What is written before something else happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Words {
    Continue,
    /// The head of a file.
    File,
    Created,
    NotFound,
    NotAllowed,
    LengthRequired,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// TLS is agreed upon.
    Securing,
    Head,
    /// So many bytes of these words are written.
    Saying(Words, usize),
    Sending,
    Receiving,
    Storing,
    /// Nothing more is said; the client is to close.
    Leaving,
}

/// One place.
pub(crate) struct HttpGuest {
    /// The path that proves the session; none for foreign clients.
    path: Option<String>,
    file_bytes: u64,
    head_of_file: [Vec<u8>; 2],
    incoming: Option<Incoming>,
    outgoing: Option<Outgoing>,
    connection: Option<Watched>,
    token: u64,
    state: State,
    head: HeadBuffer,
    left: u64,
    moved: u64,
    closes: bool,
    account: Account,
    dial: Dial,
    /// Of TLS, as first agreed upon.
    cipher: Option<String>,
}

impl HttpGuest {
    pub(super) fn new(
        params: &HttpParams,
        number: u32,
        dial: Dial,
        store: &Store,
        secret: Secret,
    ) -> Result<Self, LoadError> {
        let files = params.files();
        let size = files.file_size.0;
        let head = |more: &str| {
            format!("HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: {size}\r\n{more}\r\n")
        };
        Ok(Self {
            path: (files.clients == crate::workloads::transfer::Clients::Own).then(|| format!("/{}", spelled(secret))),
            file_bytes: size,
            head_of_file: [head("").into_bytes(), head("Connection: close\r\n").into_bytes()],
            incoming: files.is_upload().then(|| Incoming::new(store, number)).transpose()?,
            outgoing: (!files.is_upload()).then(|| Outgoing::new(store, number)).transpose()?,
            connection: None,
            token: 0,
            state: State::Head,
            head: HeadBuffer::new(),
            left: 0,
            moved: 0,
            closes: false,
            account: Account::default(),
            dial,
            cipher: None,
        })
    }

    fn wait(&mut self, bench: &Bench<'_>, interest: Interest) -> Result<Turn, Failure> {
        let token = self.token;
        self.connection.as_mut().expect("a guest has one").wait(bench.readiness, token, interest)?;
        Ok(Turn::Network)
    }

    fn rest(&mut self, bench: &Bench<'_>, until: Nanos) -> Turn {
        self.connection.as_mut().expect("a guest has one").rest(bench.readiness);
        Turn::Until(until)
    }

    fn secure(&mut self, bench: &Bench<'_>) -> Result<Turn, Failure> {
        let connection = self.connection.as_mut().expect("a guest has one");
        if let Shaken::Waits(interest) = connection.shake()? {
            return self.wait(bench, interest);
        }
        if self.cipher.is_none() {
            self.cipher = connection.cipher();
        }
        self.moved += 1;
        self.state = State::Head;
        Ok(Turn::Moved)
    }

    fn look(&mut self, bench: &mut Bench<'_>) -> Result<Turn, Failure> {
        let connection = self.connection.as_mut().expect("a guest has one");
        match self.head.request(connection, self.path.as_deref())? {
            Looked::Nothing => self.wait(bench, Interest::Readable),
            Looked::Part => Ok(self.rest(bench, bench.now + PART_REST)),
            Looked::Ended => Ok(Turn::Done),
            Looked::Head(request) => {
                self.moved += 1;
                let words = self.asked(request, bench)?;
                self.state = match words {
                    Some(words) => State::Saying(words, 0),
                    None => State::Receiving,
                };
                Ok(Turn::Moved)
            }
        }
    }

    /// What to say to `request`; nothing if its body comes first.
    fn asked(&mut self, request: Request, bench: &mut Bench<'_>) -> Result<Option<Words>, Failure> {
        let fields = request.fields;
        self.closes = fields.closes;
        if !request.is_ours {
            self.account.count(bench.tally, Counter::Foreign, 1);
            self.closes = true;
            return Ok(Some(Words::NotFound));
        }
        Ok(match (request.method, &mut self.incoming) {
            (Method::Get, None) => Some(Words::File),
            (Method::Put, Some(incoming)) => match fields.length.filter(|_| !fields.is_coded) {
                Some(length) => {
                    self.left = length;
                    incoming.begin(Some(length))?;
                    fields.expects.then_some(Words::Continue)
                }
                None => {
                    self.closes = true;
                    Some(Words::LengthRequired)
                }
            },
            _ => {
                self.closes = true;
                Some(Words::NotAllowed)
            }
        })
    }

    fn say(&mut self, words: Words, written: usize, bench: &mut Bench<'_>) -> Result<Turn, Failure> {
        let text = match words {
            Words::Continue => CONTINUE,
            Words::File => &self.head_of_file[usize::from(self.closes)],
            Words::Created if self.closes => CREATED_LAST,
            Words::Created => CREATED,
            Words::NotFound => NOT_FOUND,
            Words::NotAllowed => NOT_ALLOWED,
            Words::LengthRequired => LENGTH_REQUIRED,
        };
        let connection = self.connection.as_mut().expect("a guest has one");
        match connection.send(&text[written..]) {
            Ok(n) if written + n < text.len() => self.state = State::Saying(words, written + n),
            Ok(_) => match words {
                Words::Continue => self.state = State::Receiving,
                Words::File => {
                    self.outgoing.as_mut().expect("it serves files").begin(connection, self.file_bytes)?;
                    self.state = State::Sending;
                }
                Words::Created => self.next(),
                Words::NotFound | Words::NotAllowed | Words::LengthRequired => self.next(),
            },
            Err(error) if would_wait(&error) => return self.wait(bench, Interest::ReadableOrWritable),
            Err(error) => return Err(Failure::io(&error)),
        }
        Ok(Turn::Moved)
    }

    /// After an answer: the next request, or the end.
    fn next(&mut self) {
        self.state = State::Head;
        if self.closes {
            self.connection.iter_mut().for_each(Watched::end_sending);
            self.state = State::Leaving;
        }
    }

    fn send(&mut self, bench: &mut Bench<'_>) -> Result<Turn, Failure> {
        let connection = self.connection.as_mut().expect("a guest has one");
        let outgoing = self.outgoing.as_mut().expect("it serves files");
        match outgoing.send(connection, &mut self.account, bench.tally)? {
            Sent::Bytes(n) => self.moved += n,
            Sent::Full(n) => {
                self.moved += n;
                return self.wait(bench, Interest::ReadableOrWritable);
            }
            Sent::All => self.next(),
        }
        Ok(Turn::Moved)
    }

    fn receive(&mut self, bench: &mut Bench<'_>) -> Result<Turn, Failure> {
        if self.left == 0 {
            self.state = State::Storing;
            return Ok(Turn::Moved);
        }
        let connection = self.connection.as_mut().expect("a guest has one");
        let incoming = self.incoming.as_mut().expect("it takes files");
        let received = incoming.take(connection, self.left, &mut self.account, bench)?;
        self.moved += received.bytes;
        self.left -= received.bytes;
        if received.ended {
            return Err(Failure::Closed(Stage::Transfer));
        }
        match received.turn {
            _ if self.left == 0 => Ok(Turn::Moved),
            Turn::Network => self.wait(bench, Interest::Readable),
            Turn::Until(time) => Ok(self.rest(bench, time)),
            turn => Ok(turn),
        }
    }

    fn store(&mut self, bench: &mut Bench<'_>) -> Result<Turn, Failure> {
        if !self.incoming.as_mut().expect("it takes files").finish()? {
            return Ok(self.rest(bench, bench.now + PART_REST));
        }
        self.state = State::Saying(Words::Created, 0);
        Ok(Turn::Moved)
    }

    fn leave(&mut self, bench: &mut Bench<'_>) -> Result<Turn, Failure> {
        let connection = self.connection.as_mut().expect("a guest has one");
        match connection.discard(1 << 16, bench.buffer) {
            Ok(0) => Ok(Turn::Done),
            Ok(_) => Ok(Turn::Moved),
            Err(error) if would_wait(&error) => self.wait(bench, Interest::Readable),
            // Everything was said: how the client leaves is its affair.
            Err(_) => Ok(Turn::Done),
        }
    }
}

impl Guest for HttpGuest {
    fn admit(&mut self, socket: Socket, _peer: SocketAddr, token: u64, _bench: &mut Bench<'_>) -> Result<(), Failure> {
        let mut connection = Watched::new(socket);
        if let Some(security) = &self.dial.security {
            connection.secure(security.open()?);
        }
        self.connection = Some(connection);
        (self.token, self.state) = (token, State::Securing);
        Ok(())
    }

    fn go_on(&mut self, bench: &mut Bench<'_>) -> Result<Turn, Failure> {
        match self.state {
            State::Securing => self.secure(bench),
            State::Head => self.look(bench),
            State::Saying(words, written) => self.say(words, written, bench),
            State::Sending => self.send(bench),
            State::Receiving => self.receive(bench),
            State::Storing => self.store(bench),
            State::Leaving => self.leave(bench),
        }
    }

    fn progress(&self) -> u64 {
        self.moved
    }

    fn dismiss(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.account.keep(&connection.socket);
        }
    }

    fn account(&self) -> &Account {
        &self.account
    }

    fn carrier(&self) -> Option<&Socket> {
        self.connection.as_ref().map(|connection| &connection.socket)
    }

    fn report(&mut self) -> FlowReport {
        let mut modes = BTreeMap::new();
        if let (Some(security), Some(cipher)) = (&self.dial.security, self.cipher.take()) {
            security.modes(cipher, &mut modes);
        }
        self.dial.report(modes, self.incoming.as_ref(), self.outgoing.as_ref())
    }
}
