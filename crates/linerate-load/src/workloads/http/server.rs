//! A connection at the passive end: files for GET and HEAD, whole or a part, room for PUT and POST,
//! one request after the other.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use linerate_model::{Counter, FlowReport, Nanos};
use linerate_sys::readiness::Interest;
use socket2::Socket;

use super::HttpParams;
use super::chunks::{self, Before, Frame};
use super::head::{Coding, Fields, HeadBuffer, Looked, Method, Request};
use crate::workloads::rendezvous::would_wait;
use crate::workloads::transfer::{
    Account, Bench, Clients, Course, Dial, Failure, Form, FoundPath, Guest, Incoming, Outgoing,
    Part, Protocol, Sent, Shaken, Store, TransferStage, Tree, Turn, Watched, percent, resolve,
    spelled,
};
use crate::{LoadError, Secret};

const PART_REST: Nanos = Nanos(200_000);
/// Room for the head of an answer.
const WORDS_BYTES: usize = 1024;
/// The longest path understood: as much as a head may have.
const PATH_BYTES: usize = 8192;
/// Bytes of a chunk that is sent: a call's worth.
const CHUNK_BYTES: u64 = 1 << 20;
/// Room for what frames a chunk.
const FRAME_ROOM: usize = 64;

/// What a request's target means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Known(FoundPath),
    /// It does not prove the session.
    Stranger,
    /// It cannot be decoded.
    Malformed,
}

/// What follows the head of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Follows {
    /// The client's body.
    Body,
    /// The file or its part, as begun.
    File,
    /// A folder's page.
    Page(usize),
    /// The next request, or the end.
    Next,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// TLS is agreed upon.
    Securing,
    Head,
    /// So many bytes of the words are written.
    Saying(Follows, usize),
    /// So many bytes of a folder's page are.
    Listing(usize, usize),
    /// So many bytes of what frames the next chunk are.
    Framing(usize),
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
    tree: Arc<Tree>,
    /// A target once it is decoded, and once it is resolved.
    decoded: Vec<u8>,
    resolved: Vec<u8>,
    incoming: Option<Incoming>,
    outgoing: Option<Outgoing>,
    connection: Option<Watched>,
    token: u64,
    state: State,
    head: HeadBuffer,
    words: Vec<u8>,
    /// What frames the next chunk, where an answer comes in chunks, and the place of the chunk in
    /// the body.
    frame: String,
    before: Before,
    chunked: bool,
    sends_chunks: bool,
    /// Bytes of a body still to come, or of a chunk of it, and where in a body of chunks they
    /// stand.
    left: u64,
    came_in: Option<Before>,
    moved: u64,
    closes: bool,
    course: Course,
    /// Whoever comes is not of the session: what is known of its transfers is known here alone.
    is_foreign: bool,
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
        let is_foreign = files.clients == Clients::Foreign;
        Ok(Self {
            path: (!is_foreign).then(|| format!("/{}", spelled(secret))),
            tree: store.tree(),
            decoded: Vec::with_capacity(PATH_BYTES),
            resolved: Vec::with_capacity(PATH_BYTES),
            incoming: files.is_upload().then(|| Incoming::new(store, number)).transpose()?,
            outgoing: (!files.is_upload()).then(|| Outgoing::new(store, number)).transpose()?,
            connection: None,
            token: 0,
            state: State::Head,
            head: HeadBuffer::new(),
            words: Vec::with_capacity(WORDS_BYTES),
            frame: String::with_capacity(FRAME_ROOM),
            before: Before::First,
            chunked: params.chunked,
            sends_chunks: false,
            left: 0,
            came_in: None,
            moved: 0,
            closes: false,
            course: Course::default(),
            is_foreign,
            account: Account::default(),
            dial,
            cipher: None,
        })
    }

    fn wait(&mut self, bench: &Bench<'_>, interest: Interest) -> Result<Turn, Failure> {
        let token = self.token;
        self.connection.as_mut().expect("a guest has one").wait(
            bench.readiness,
            token,
            interest,
        )?;
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
        let Self { head, connection, path, tree, decoded, resolved, .. } = self;
        let connection = connection.as_mut().expect("a guest has one");
        match head
            .request(connection, |text| target(text, path.as_deref(), tree, decoded, resolved))?
        {
            Looked::Nothing => self.wait(bench, Interest::Readable),
            Looked::Part => Ok(self.rest(bench, bench.now + PART_REST)),
            Looked::Ended => {
                self.settle(bench);
                Ok(Turn::Done)
            }
            Looked::Head(request) => {
                self.moved += 1;
                self.settle(bench);
                self.course = Course::begin(bench.now);
                self.state = match self.asked(request, bench)? {
                    Follows::Body if self.words.is_empty() => State::Receiving,
                    follows => State::Saying(follows, 0),
                };
                Ok(Turn::Moved)
            }
        }
    }

    /// Prepares the answer to `request`: its words, and what follows them.
    fn asked(
        &mut self,
        request: Request<Target>,
        bench: &mut Bench<'_>,
    ) -> Result<Follows, Failure> {
        let Request { method, target, fields, is_current } = request;
        self.words.clear();
        self.closes = fields.closes;
        let is_upload = self.incoming.is_some();
        match (target, method) {
            _ if fields.is_ambiguous => Ok(self.refuse("400 Bad Request", "")),
            (Target::Malformed, _) => Ok(self.refuse("400 Bad Request", "")),
            (Target::Stranger, _) => {
                self.account.count(bench.tally, Counter::Foreign, 1);
                Ok(self.refuse("404 Not Found", ""))
            }
            (_, Method::Put) if is_upload => self.take_in(fields),
            (_, Method::Get | Method::Head) if is_upload => {
                Ok(self.refuse("405 Method Not Allowed", "Allow: PUT, POST\r\n"))
            }
            (Target::Known(found), Method::Get | Method::Head) => {
                // What a client sends with a question is not read: it would be taken for the next.
                self.closes |=
                    fields.coding != Coding::None || fields.length.is_some_and(|length| length > 0);
                let is_head = method == Method::Head;
                match found {
                    FoundPath::File(file) => self.give(file, fields, is_head, is_current),
                    FoundPath::Folder(folder) => Ok(self.show(folder, is_head)),
                    FoundPath::Nothing => Ok(self.miss(is_head)),
                }
            }
            (_, _) => Ok(self.refuse("405 Method Not Allowed", "Allow: GET, HEAD\r\n")),
        }
    }

    /// Says this and closes: what the client may have sent behind its head is not read.
    fn refuse(&mut self, status: &str, more: &str) -> Follows {
        self.closes = true;
        // It fits what was set aside.
        let _ = write!(
            self.words,
            "HTTP/1.1 {status}\r\n{more}Content-Length: 0\r\nConnection: close\r\n\r\n"
        );
        Follows::Next
    }

    fn miss(&mut self, is_head: bool) -> Follows {
        let close = self.close_line();
        let length = if is_head { "" } else { "Content-Length: 0\r\n" };
        let _ = write!(self.words, "HTTP/1.1 404 Not Found\r\n{length}{close}\r\n");
        Follows::Next
    }

    fn close_line(&self) -> &'static str {
        if self.closes { "Connection: close\r\n" } else { "" }
    }

    fn take_in(&mut self, fields: Fields) -> Result<Follows, Failure> {
        (self.left, self.came_in) = match (fields.coding, fields.length) {
            (Coding::Chunked, _) => (0, Some(Before::First)),
            (Coding::None, Some(length)) => (length, None),
            (Coding::None, None) => return Ok(self.refuse("411 Length Required", "")),
            (Coding::Unknown, _) => return Ok(self.refuse("501 Not Implemented", "")),
        };
        self.incoming.as_mut().expect("it takes files").begin(fields.length)?;
        if fields.expects {
            self.words.extend(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        Ok(Follows::Body)
    }

    fn give(
        &mut self,
        file: usize,
        fields: Fields,
        is_head: bool,
        is_current: bool,
    ) -> Result<Follows, Failure> {
        let Ok((opened, size)) = self.tree.open(file) else { return Ok(self.miss(is_head)) };
        let close = self.close_line();
        // Nothing tells one state of a file from another here: a part under a condition is not
        // given (RFC 9110 clause 13.1.5).
        let asked = fields.range.filter(|_| !is_head && !fields.is_conditional);
        let part = match asked.map(|asked| asked.within(size)) {
            Some(None) => {
                let _ = write!(
                    self.words,
                    "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes \
                        */{size}\r\nContent-Length: 0\r\n{close}\r\n"
                );
                return Ok(Follows::Next);
            }
            Some(Some(part)) => part,
            None => 0..size,
        };
        let status = if asked.is_some() { "206 Partial Content" } else { "200 OK" };
        let _ = write!(
            self.words,
            "HTTP/1.1 {status}\r\nContent-Type: application/octet-stream\r\nAccept-Ranges: \
                bytes\r\nLast-Modified: {}\r\n{close}",
            self.tree.modified(file).http()
        );
        if asked.is_some() {
            let _ = write!(
                self.words,
                "Content-Range: bytes {}-{}/{size}\r\n",
                part.start,
                part.end - 1
            );
        }
        self.sends_chunks = self.chunked && is_current;
        let _ = match self.sends_chunks {
            true => write!(self.words, "Transfer-Encoding: chunked\r\n\r\n"),
            false => write!(self.words, "Content-Length: {}\r\n\r\n", part.end - part.start),
        };
        if is_head {
            return Ok(Follows::Next);
        }
        let connection = self.connection.as_ref().expect("a guest has one");
        self.outgoing
            .as_mut()
            .expect("it serves files")
            .begin(connection, Part { file: opened, bytes: part })?;
        Ok(Follows::File)
    }

    fn show(&mut self, folder: usize, is_head: bool) -> Follows {
        let close = self.close_line();
        let length = self.tree.listing(folder, Form::Page).len();
        let _ = write!(
            self.words,
            "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: \
                {length}\r\n{close}\r\n"
        );
        if is_head { Follows::Next } else { Follows::Page(folder) }
    }

    fn say(
        &mut self,
        follows: Follows,
        written: usize,
        bench: &mut Bench<'_>,
    ) -> Result<Turn, Failure> {
        let connection = self.connection.as_mut().expect("a guest has one");
        match connection.send(&self.words[written..]) {
            Ok(n) if written + n < self.words.len() => {
                self.state = State::Saying(follows, written + n)
            }
            Ok(_) => match follows {
                Follows::Body => self.state = State::Receiving,
                Follows::File if self.sends_chunks => {
                    self.before = Before::First;
                    self.next_frame();
                }
                Follows::File => self.state = State::Sending,
                Follows::Page(folder) => self.state = State::Listing(folder, 0),
                Follows::Next => self.next(),
            },
            Err(error) if would_wait(&error) => {
                return self.wait(bench, Interest::ReadableOrWritable);
            }
            Err(error) => return Err(Failure::io(&error)),
        }
        Ok(Turn::Moved)
    }

    fn list(
        &mut self,
        folder: usize,
        written: usize,
        bench: &mut Bench<'_>,
    ) -> Result<Turn, Failure> {
        let connection = self.connection.as_mut().expect("a guest has one");
        let page = self.tree.listing(folder, Form::Page);
        match connection.send(&page[written..]) {
            Ok(n) => {
                self.moved += n as u64;
                self.state = State::Listing(folder, written + n);
                if written + n == page.len() {
                    self.next();
                }
                Ok(Turn::Moved)
            }
            Err(error) if would_wait(&error) => self.wait(bench, Interest::ReadableOrWritable),
            Err(error) => Err(Failure::io(&error)),
        }
    }

    /// Prepares what frames the next chunk, or the end of the body.
    fn next_frame(&mut self) {
        let bytes = self.outgoing.as_mut().expect("it serves files").allow(CHUNK_BYTES);
        chunks::write(&mut self.frame, self.before, bytes);
        self.before = Before::Next;
        self.state = State::Framing(0);
    }

    fn frame(&mut self, written: usize, bench: &mut Bench<'_>) -> Result<Turn, Failure> {
        let connection = self.connection.as_mut().expect("a guest has one");
        match connection.send(&self.frame.as_bytes()[written..]) {
            Ok(n) if written + n < self.frame.len() => self.state = State::Framing(written + n),
            Ok(_) if self.outgoing.as_ref().is_some_and(Outgoing::is_through) => self.sent(bench),
            Ok(_) => self.state = State::Sending,
            Err(error) if would_wait(&error) => {
                return self.wait(bench, Interest::ReadableOrWritable);
            }
            Err(error) => return Err(Failure::io(&error)),
        }
        Ok(Turn::Moved)
    }

    /// The answer is out.
    fn sent(&mut self, bench: &mut Bench<'_>) {
        self.served(bench);
        self.next();
    }

    /// A file has gone through: where nobody else knows of it, it is counted here.
    fn served(&mut self, bench: &mut Bench<'_>) {
        if self.is_foreign {
            self.course.transfer = self.course.lap();
            self.course.record(bench.tally);
            self.account.count(bench.tally, Counter::Transactions, 1);
        }
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
            Sent::All if self.sends_chunks => self.next_frame(),
            Sent::All => self.sent(bench),
        }
        Ok(Turn::Moved)
    }

    /// What frames the next chunk of a client's body.
    fn unframe(&mut self, before: Before, bench: &mut Bench<'_>) -> Result<Turn, Failure> {
        let connection = self.connection.as_mut().expect("a guest has one");
        match self.head.frame(connection, before)? {
            Looked::Nothing => self.wait(bench, Interest::Readable),
            Looked::Part => Ok(self.rest(bench, bench.now + PART_REST)),
            Looked::Ended => Err(Failure::Closed(TransferStage::Transfer)),
            Looked::Head(Frame::Chunk { bytes, .. }) => {
                (self.left, self.came_in) = (bytes, Some(Before::Next));
                Ok(Turn::Moved)
            }
            Looked::Head(Frame::Last { .. }) => {
                self.state = State::Storing;
                Ok(Turn::Moved)
            }
        }
    }

    fn receive(&mut self, bench: &mut Bench<'_>) -> Result<Turn, Failure> {
        match self.came_in {
            Some(before) if self.left == 0 => return self.unframe(before, bench),
            None if self.left == 0 => {
                self.state = State::Storing;
                return Ok(Turn::Moved);
            }
            _ => {}
        }
        let connection = self.connection.as_mut().expect("a guest has one");
        let incoming = self.incoming.as_mut().expect("it takes files");
        let received = incoming.take(connection, self.left, &mut self.account, bench)?;
        self.moved += received.bytes;
        self.left -= received.bytes;
        if received.ended {
            return Err(Failure::Closed(TransferStage::Transfer));
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
        self.served(bench);
        let close = self.close_line();
        self.words.clear();
        let _ = write!(self.words, "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n{close}\r\n");
        self.state = State::Saying(Follows::Next, 0);
        Ok(Turn::Moved)
    }

    fn leave(&mut self, bench: &mut Bench<'_>) -> Result<Turn, Failure> {
        let connection = self.connection.as_mut().expect("a guest has one");
        match connection.discard(1 << 16, bench.buffer) {
            Ok(0) => {
                self.settle(bench);
                Ok(Turn::Done)
            }
            Ok(_) => Ok(Turn::Moved),
            Err(error) if would_wait(&error) => self.wait(bench, Interest::Readable),
            // Everything was said: how the client leaves is its affair.
            Err(_) => Ok(Turn::Done),
        }
    }
}

/// What `text`, the target of a request, means; `path` is the one expected, if one is.
fn target(
    text: &str,
    path: Option<&str>,
    tree: &Tree,
    decoded: &mut Vec<u8>,
    resolved: &mut Vec<u8>,
) -> Target {
    let only = tree.any_file().map(FoundPath::File);
    if let Some(path) = path {
        return if text == path {
            Target::Known(only.unwrap_or(FoundPath::Nothing))
        } else {
            Target::Stranger
        };
    }
    // A proxy's form of a target holds scheme and host as well (RFC 9112 clause 3.2.2).
    let text = match text.strip_prefix("http://").or_else(|| text.strip_prefix("https://")) {
        Some(rest) => rest.find('/').map_or("/", |at| &rest[at..]),
        None => text,
    };
    let text = text.split('?').next().unwrap_or(text);
    if percent::decode_into(text.as_bytes(), decoded).is_err() || !resolve(&[], decoded, resolved) {
        return Target::Malformed;
    }
    Target::Known(only.unwrap_or_else(|| tree.find(resolved)))
}

impl Guest for HttpGuest {
    fn admit(
        &mut self,
        socket: Socket,
        _peer: SocketAddr,
        token: u64,
        _bench: &mut Bench<'_>,
    ) -> Result<(), Failure> {
        let mut connection = Watched::new(socket);
        if let Some(security) = &self.dial.security {
            connection.secure(security.open()?);
        }
        self.connection = Some(connection);
        self.outgoing.iter_mut().for_each(Outgoing::renew);
        (self.token, self.state) = (token, State::Securing);
        Ok(())
    }

    fn go_on(&mut self, bench: &mut Bench<'_>) -> Result<Turn, Failure> {
        match self.state {
            State::Securing => self.secure(bench),
            State::Head => self.look(bench),
            State::Saying(follows, written) => self.say(follows, written, bench),
            State::Listing(folder, written) => self.list(folder, written, bench),
            State::Framing(written) => self.frame(written, bench),
            State::Sending => self.send(bench),
            State::Receiving => self.receive(bench),
            State::Storing => self.store(bench),
            State::Leaving => self.leave(bench),
        }
    }

    fn is_under_way(&self) -> bool {
        let is_moving = match self.state {
            State::Saying(follows, _) => matches!(follows, Follows::Body | Follows::File),
            State::Framing(_) | State::Sending | State::Receiving | State::Storing => true,
            State::Securing | State::Head | State::Listing(..) | State::Leaving => false,
        };
        is_moving || self.outgoing.as_ref().is_some_and(Outgoing::is_awaited)
    }

    fn settle(&mut self, bench: &mut Bench<'_>) {
        if let (Some(outgoing), Some(connection)) = (&mut self.outgoing, &self.connection) {
            outgoing.settle(&connection.socket, &mut self.account, bench.tally);
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
