//! Server at the passive end: files for GET and HEAD, whole or in part, room for PUT and POST, one
//! request after the other.

mod answers;

use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use linerate_model::{Counter, FlowReport, Nanos};
use linerate_sys::readiness::Interest;
use socket2::Socket;

use super::HttpParams;
use super::chunks::{self, Before, Frame};
use super::head::{HeadBuffer, Looked};
use crate::Result;
use crate::workloads::rendezvous::would_wait;
use crate::workloads::transfer::{
    Account, Bench, Clients, Course, Dial, Failure, Form, Guest, Incoming, Opening, Outgoing, Sent,
    Shaken, TransferStage, Tree, Turn, Watched, spelled,
};
use answers::target;

const PART_REST: Nanos = Nanos(200_000);
/// Room for the head of an answer.
const WORDS_BYTES: usize = 1024;
/// Longest path, the same as the longest head.
const PATH_BYTES: usize = 8192;
/// Bytes of a sent chunk, as many as one call takes.
const CHUNK_BYTES: u64 = 1 << 20;
/// Room for the framing of a chunk.
const FRAME_ROOM: usize = 64;

/// Part that follows the head of an answer.
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
    /// During the TLS handshake.
    Securing,
    Head,
    /// Writing the head of an answer, of which this many bytes are written.
    Saying(Follows, usize),
    /// Writing the page of this folder, of which this many bytes are written.
    Listing(usize, usize),
    /// Writing the framing of the next chunk, of which this many bytes are written.
    Framing(usize),
    Sending,
    Receiving,
    Storing,
    /// Everything is sent, and the client is expected to close.
    Leaving,
}

/// Server of one connection at a time.
pub(crate) struct HttpGuest {
    /// Path that proves the session; none for foreign clients.
    path: Option<String>,
    tree: Arc<Tree>,
    /// A request's target, decoded and then resolved.
    decoded: Vec<u8>,
    resolved: Vec<u8>,
    incoming: Option<Incoming>,
    outgoing: Option<Outgoing>,
    connection: Option<Watched>,
    state: State,
    head: HeadBuffer,
    words: Vec<u8>,
    /// Framing of the next chunk of an answer in chunks, and the chunk's place in the body.
    frame: String,
    before: Before,
    chunked: bool,
    sends_chunks: bool,
    /// Bytes still to receive of a body or of its current chunk, and the chunk's place in the
    /// body.
    left: u64,
    came_in: Option<Before>,
    moved: u64,
    closes: bool,
    course: Course,
    /// True if clients are not of the session: then only this end can count their transfers.
    is_foreign: bool,
    account: Account,
    dial: Dial,
    /// Cipher of the first TLS handshake.
    cipher: Option<String>,
}

impl HttpGuest {
    pub(super) fn new(params: &HttpParams, opening: Opening<'_>) -> Result<Self> {
        let Opening { number, dial, store, secret } = opening;
        let files = &params.common.files;
        let is_foreign = files.clients == Clients::Foreign;
        Ok(Self {
            path: (!is_foreign).then(|| format!("/{}", spelled(secret))),
            tree: store.tree(),
            decoded: Vec::with_capacity(PATH_BYTES),
            resolved: Vec::with_capacity(PATH_BYTES),
            incoming: files.is_upload().then(|| Incoming::new(store, number)).transpose()?,
            outgoing: (!files.is_upload()).then(|| Outgoing::new(store, number)).transpose()?,
            connection: None,
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

    fn secure(&mut self, bench: &Bench<'_>) -> Result<Turn, Failure> {
        let connection = self.connection.as_mut().expect("a guest has one");
        if let Shaken::Waits(interest) = connection.shake()? {
            return connection.wait(bench, interest);
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
            Looked::Nothing => connection.wait(bench, Interest::Readable),
            // The kernel reports the socket as readable until the rest of the head arrives.
            Looked::Part => Ok(connection.rest_until(bench, bench.now + PART_REST)),
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

    fn say(
        &mut self,
        follows: Follows,
        written: usize,
        bench: &mut Bench<'_>,
    ) -> Result<Turn, Failure> {
        let connection = self.connection.as_mut().expect("a guest has one");
        let Some(n) = connection.write(&self.words[written..])? else {
            return connection.wait(bench, Interest::ReadableOrWritable);
        };
        match follows {
            _ if written + n < self.words.len() => self.state = State::Saying(follows, written + n),
            Follows::Body => self.state = State::Receiving,
            Follows::File if self.sends_chunks => {
                self.before = Before::First;
                self.next_frame();
            }
            Follows::File => self.state = State::Sending,
            Follows::Page(folder) => self.state = State::Listing(folder, 0),
            Follows::Next => self.next(),
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
        let Some(n) = connection.write(&page[written..])? else {
            return connection.wait(bench, Interest::ReadableOrWritable);
        };
        self.moved += n as u64;
        self.state = State::Listing(folder, written + n);
        if written + n == page.len() {
            self.next();
        }
        Ok(Turn::Moved)
    }

    /// Prepares the framing of the next chunk, or the end of the body.
    fn next_frame(&mut self) {
        let bytes = self.outgoing.as_mut().expect("it serves files").allow(CHUNK_BYTES);
        chunks::write(&mut self.frame, self.before, bytes);
        self.before = Before::Next;
        self.state = State::Framing(0);
    }

    fn frame(&mut self, written: usize, bench: &mut Bench<'_>) -> Result<Turn, Failure> {
        let connection = self.connection.as_mut().expect("a guest has one");
        let Some(n) = connection.write(&self.frame.as_bytes()[written..])? else {
            return connection.wait(bench, Interest::ReadableOrWritable);
        };
        if written + n < self.frame.len() {
            self.state = State::Framing(written + n);
        } else if self.outgoing.as_ref().is_some_and(Outgoing::is_through) {
            self.sent(bench);
        } else {
            self.state = State::Sending;
        }
        Ok(Turn::Moved)
    }

    /// Ends a complete answer.
    fn sent(&mut self, bench: &mut Bench<'_>) {
        self.served(bench);
        self.next();
    }

    /// Counts a served file of a foreign client, which does not count it itself.
    fn served(&mut self, bench: &mut Bench<'_>) {
        if self.is_foreign {
            self.course.transfer = self.course.lap();
            self.course.record(bench.tally);
            self.account.count(bench.tally, Counter::Transactions, 1);
        }
    }

    /// Continues after an answer with the next request, or ends the connection.
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
                return connection.wait(bench, Interest::ReadableOrWritable);
            }
            Sent::All if self.sends_chunks => self.next_frame(),
            Sent::All => self.sent(bench),
        }
        Ok(Turn::Moved)
    }

    /// Reads the framing of the next chunk of a client's body.
    fn unframe(&mut self, before: Before, bench: &mut Bench<'_>) -> Result<Turn, Failure> {
        let connection = self.connection.as_mut().expect("a guest has one");
        match self.head.frame(connection, before)? {
            Looked::Nothing => connection.wait(bench, Interest::Readable),
            Looked::Part => Ok(connection.rest_until(bench, bench.now + PART_REST)),
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
        if self.left == 0 {
            return Ok(Turn::Moved);
        }
        connection.after(received.turn, bench)
    }

    fn store(&mut self, bench: &mut Bench<'_>) -> Result<Turn, Failure> {
        if !self.incoming.as_mut().expect("it takes files").finish()? {
            let connection = self.connection.as_mut().expect("a guest has one");
            return Ok(connection.rest_until(bench, bench.now + PART_REST));
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
            Err(error) if would_wait(&error) => connection.wait(bench, Interest::Readable),
            // The answer is complete, so an error of the client's close does not matter.
            Err(_) => Ok(Turn::Done),
        }
    }
}

impl Guest for HttpGuest {
    fn admit(
        &mut self,
        socket: Socket,
        _peer: SocketAddr,
        token: u64,
        _bench: &mut Bench<'_>,
    ) -> Result<(), Failure> {
        let mut connection = Watched::new(socket, token);
        if let Some(security) = &self.dial.security {
            connection.secure(security.open()?);
        }
        self.connection = Some(connection);
        self.outgoing.iter_mut().for_each(Outgoing::renew);
        self.state = State::Securing;
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
