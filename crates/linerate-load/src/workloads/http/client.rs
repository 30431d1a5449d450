//! Stream at the active end: connects, requests, receives or sends, and repeats.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;

use linerate_model::{Counter, FlowReport, Nanos};
use linerate_sys::readiness::Interest;
use socket2::{SockAddr, Socket};

use super::HttpParams;
use super::chunks::{self, Before, Frame};
use super::head::{Answer, Coding, HeadBuffer, Looked};
use crate::Result;
use crate::workloads::rendezvous::would_wait;
use crate::workloads::transfer::{
    Account, Bench, Common, Course, Dial, Failure, Incoming, Names, Opening, Outgoing, Part, Sent,
    Session, Shaken, TransferStage, Turn, Watched, connected, unless_it_would_wait,
};

/// Rest before an incomplete head is parsed again: the kernel reports the socket as readable all
/// the time.
const PART_REST: Nanos = Nanos(200_000);
/// RFC 9110 clause 15: success, and interim answers.
const WELL: std::ops::Range<u16> = 200..300;
const INTERIM: std::ops::Range<u16> = 100..200;
/// RFC 9110 clause 15.3.7: a part of the file.
const PARTIAL: u16 = 206;
/// Bytes of a sent chunk, as many as one call takes.
const CHUNK_BYTES: u64 = 1 << 20;
/// Room for a request: servers refuse longer heads.
const REQUEST_BYTES: usize = 8192;
/// Room for the framing of a chunk.
const FRAME_ROOM: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Connecting,
    /// During the TLS handshake.
    Securing,
    /// Writing the request, of which this many bytes are written.
    Asking(usize),
    Sending,
    /// Writing the framing of the next chunk, of which this many bytes are written.
    Framing(usize),
    Answer,
    Receiving,
    /// Waiting for the framing of the answer's next chunk.
    Unframing(Before),
    /// The answer's own body, after an upload.
    Dismissing,
    Storing,
    Closing,
}

/// One stream.
pub(crate) struct HttpSession {
    dial: Dial,
    remote: SockAddr,
    /// Parts of a request before and after its path.
    request: String,
    method: &'static str,
    fields: String,
    names: Names,
    reuse: bool,
    incoming: Option<Incoming>,
    outgoing: Option<Outgoing>,
    upload_bytes: u64,
    /// Start of downloads, in bytes.
    offset: u64,
    sends_chunks: bool,
    frame: String,
    before: Before,
    /// True if the received body is in chunks: then `left` is that of one chunk.
    is_chunked: bool,
    connection: Option<Watched>,
    state: State,
    head: HeadBuffer,
    /// Bytes of the body still to receive; `None`: until the connection ends.
    left: Option<u64>,
    promised: u64,
    came: u64,
    closes: bool,
    /// Cipher of the first TLS handshake.
    cipher: Option<String>,
    course: Course,
    account: Account,
}

impl HttpSession {
    pub(super) fn new(
        params: &HttpParams,
        Opening { number, dial, store, .. }: Opening<'_>,
        authority: &str,
        path: &str,
    ) -> Result<Self> {
        let Common { files, placement, .. } = &params.common;
        let connection = if params.reuse { "keep-alive" } else { "close" };
        let size = files.file_size.0;
        // A chunked upload has no length; both together are forbidden (RFC 9112 clause 6.2).
        let sends_chunks = params.chunked && files.is_upload();
        let (method, field) = match (files.is_upload(), files.offset.0) {
            (true, _) if sends_chunks => ("PUT", "Transfer-Encoding: chunked\r\n".to_owned()),
            (true, _) => ("PUT", format!("Content-Length: {size}\r\n")),
            (false, 0) => ("GET", String::new()),
            // The rest of the file, as a download that was broken off would request it.
            (false, offset) => ("GET", format!("Range: bytes={offset}-\r\n")),
        };
        let fields = format!(
            "Host: {authority}\r\nUser-Agent: linerate\r\nAccept: */*\r\nConnection: \
                {connection}\r\n{field}\r\n"
        );
        Ok(Self {
            remote: dial.remote.into(),
            dial,
            request: String::with_capacity(REQUEST_BYTES),
            method,
            fields,
            names: Names::new(path, files.files, number, placement.streams()),
            reuse: params.reuse,
            incoming: (!files.is_upload()).then(|| Incoming::new(store, number)).transpose()?,
            outgoing: files.is_upload().then(|| Outgoing::new(store, number)).transpose()?,
            upload_bytes: size,
            offset: files.offset.0,
            sends_chunks,
            frame: String::with_capacity(FRAME_ROOM),
            before: Before::First,
            is_chunked: false,
            connection: None,
            state: State::Connecting,
            head: HeadBuffer::new(),
            left: None,
            promised: 0,
            came: 0,
            closes: false,
            cipher: None,
            course: Course::default(),
            account: Account::default(),
        })
    }

    fn connection(&mut self) -> &mut Watched {
        self.connection.as_mut().expect("a transfer under way has a connection")
    }

    fn connect(&mut self, bench: &Bench<'_>) -> Result<Turn, Failure> {
        let remote = self.remote.clone();
        // The connection is open once a peer is known. Writable alone may also mean an error.
        if !connected(&self.connection().socket, &remote)? {
            return self.connection().wait(bench, Interest::ReadableOrWritable);
        }
        if let Some(security) = &self.dial.security {
            let secured = security.open()?;
            self.connection().secure(secured);
        }
        self.state = State::Securing;
        Ok(Turn::Moved)
    }

    /// Continues the TLS handshake, which is part of connecting.
    fn secure(&mut self, bench: &Bench<'_>) -> Result<Turn, Failure> {
        if let Shaken::Waits(interest) = self.connection().shake()? {
            return self.connection().wait(bench, interest);
        }
        if self.cipher.is_none() {
            self.cipher = self.connection().cipher();
        }
        self.course.connect = self.course.lap();
        self.prepare();
        Ok(Turn::Moved)
    }

    /// Prepares the request for the next file.
    fn prepare(&mut self) {
        self.request.clear();
        // The text fits the reserved bytes, or they grow once.
        let _ = write!(self.request, "{} {} HTTP/1.1\r\n{}", self.method, self.names, self.fields);
        self.state = State::Asking(0);
    }

    fn ask(&mut self, written: usize, bench: &mut Bench<'_>) -> Result<Turn, Failure> {
        let connection = self.connection.as_mut().expect("it is open");
        let Some(n) = connection.write(&self.request.as_bytes()[written..])? else {
            return connection.wait(bench, Interest::ReadableOrWritable);
        };
        self.state = State::Asking(written + n);
        if written + n == self.request.len() {
            self.state = State::Answer;
            if let Some(outgoing) = &mut self.outgoing {
                // The request is not part of the transfer.
                self.course.lap();
                outgoing.begin(connection, Part::whole(self.upload_bytes))?;
                self.state = State::Sending;
                if self.sends_chunks {
                    self.before = Before::First;
                    self.next_frame();
                }
            }
        }
        Ok(Turn::Moved)
    }

    /// Prepares the framing of the next chunk, or the end of the body.
    fn next_frame(&mut self) {
        let bytes = self.outgoing.as_mut().expect("an upload has one").allow(CHUNK_BYTES);
        chunks::write(&mut self.frame, self.before, bytes);
        self.before = Before::Next;
        self.state = State::Framing(0);
    }

    fn frame(&mut self, written: usize, bench: &mut Bench<'_>) -> Result<Turn, Failure> {
        let connection = self.connection.as_mut().expect("it is open");
        match connection.send(&self.frame.as_bytes()[written..]) {
            Ok(n) if written + n < self.frame.len() => self.state = State::Framing(written + n),
            // The frame just written was the last one.
            Ok(_) if self.outgoing.as_ref().is_some_and(Outgoing::is_through) => {
                self.course.transfer = self.course.lap();
                self.state = State::Answer;
            }
            Ok(_) => self.state = State::Sending,
            Err(error) if would_wait(&error) => {
                return connection.wait(bench, Interest::ReadableOrWritable);
            }
            Err(error) => return Err(self.early_refusal().unwrap_or(Failure::io(&error))),
        }
        Ok(Turn::Moved)
    }

    fn send(&mut self, bench: &mut Bench<'_>) -> Result<Turn, Failure> {
        let connection = self.connection.as_mut().expect("it is open");
        let outgoing = self.outgoing.as_mut().expect("an upload has one");
        let sent = match outgoing.send(connection, &mut self.account, bench.tally) {
            // The server may have refused and closed. Its answer says more than the broken pipe.
            Err(failure @ Failure::Io(_)) => return Err(self.early_refusal().unwrap_or(failure)),
            sent => sent?,
        };
        match sent {
            Sent::Bytes(n) => {
                self.came += n;
                Ok(Turn::Moved)
            }
            Sent::Full(n) => {
                self.came += n;
                connection.wait(bench, Interest::ReadableOrWritable)
            }
            Sent::All if self.sends_chunks => {
                self.next_frame();
                Ok(Turn::Moved)
            }
            Sent::All => {
                self.course.transfer = self.course.lap();
                self.state = State::Answer;
                Ok(Turn::Moved)
            }
        }
    }

    /// A server that does not want a file may say so and close before it has come (RFC 9112 clause
    /// 9.6): what it said is why nothing more can be sent.
    fn early_refusal(&mut self) -> Option<Failure> {
        match self.head.answer(self.connection.as_mut()?) {
            Ok(Looked::Head(Answer { status, .. })) if status >= WELL.end => {
                Some(Failure::Refused(status))
            }
            _ => None,
        }
    }

    fn look(&mut self, bench: &mut Bench<'_>) -> Result<Turn, Failure> {
        let connection = self.connection.as_mut().expect("it is open");
        match self.head.answer(connection)? {
            Looked::Nothing => connection.wait(bench, Interest::Readable),
            Looked::Part => Ok(connection.rest_until(bench, bench.now + PART_REST)),
            Looked::Ended => Err(Failure::Closed(TransferStage::FirstByte)),
            // An interim answer is followed by the real one (RFC 9110 clause 15.2).
            Looked::Head(answer) if INTERIM.contains(&answer.status) => Ok(Turn::Moved),
            Looked::Head(answer) => self.answered(answer, bench),
        }
    }

    fn answered(&mut self, answer: Answer, bench: &mut Bench<'_>) -> Result<Turn, Failure> {
        if !WELL.contains(&answer.status) {
            return Err(Failure::Refused(answer.status));
        }
        self.is_chunked = match answer.fields.coding {
            Coding::None => false,
            Coding::Chunked => true,
            Coding::Unknown => {
                return Err(Failure::Syntax(
                    "a body in another coding than chunks, which this load does not take",
                ));
            }
        };
        // A message that two readers understand differently may smuggle a request (RFC 9112 clause
        // 11.2).
        if answer.fields.is_ambiguous {
            return Err(Failure::Syntax("two lengths"));
        }
        self.closes = !self.reuse || answer.fields.closes;
        self.left = answer.fields.length;
        if let Some(outgoing) = &mut self.outgoing {
            // Delivered: a server that stores files answers when it has them.
            outgoing.confirm(&mut self.account, bench.tally);
            self.state =
                if self.is_chunked { State::Unframing(Before::First) } else { State::Dismissing };
            return Ok(Turn::Moved);
        }
        // A server that ignores the range sends the whole file, which is another load.
        if self.offset > 0 && (answer.status != PARTIAL || answer.fields.first != Some(self.offset))
        {
            return Err(Failure::Whole);
        }
        if self.is_chunked {
            self.course.first_byte = self.course.lap();
            self.incoming.as_mut().expect("a download has one").begin(None)?;
            self.state = State::Unframing(Before::First);
            return Ok(Turn::Moved);
        }
        // Only the end of the connection could end such a body, and it stays open.
        if self.left.is_none() && !self.closes {
            return Err(Failure::Syntax("an answer without a length"));
        }
        self.course.first_byte = self.course.lap();
        self.promised = self.left.unwrap_or(0);
        self.incoming.as_mut().expect("a download has one").begin(self.left)?;
        self.state = if self.left == Some(0) { State::Storing } else { State::Receiving };
        Ok(Turn::Moved)
    }

    fn receive(&mut self, bench: &mut Bench<'_>) -> Result<Turn, Failure> {
        let connection = self.connection.as_mut().expect("it is open");
        let incoming = self.incoming.as_mut().expect("a download has one");
        let received =
            incoming.take(connection, self.left.unwrap_or(u64::MAX), &mut self.account, bench)?;
        self.came += received.bytes;
        self.left = self.left.map(|left| left - received.bytes);
        if self.is_chunked && self.left == Some(0) {
            self.state = State::Unframing(Before::Next);
            return Ok(Turn::Moved);
        }
        // A chunked body that ends without its last chunk is incomplete (RFC 9112 clause 8).
        if self.is_chunked && received.ended {
            return Err(Failure::Closed(TransferStage::Transfer));
        }
        // Without a length the end of the connection is the end of the file.
        let whole = self.left == Some(0) || (received.ended && self.left.is_none());
        if whole {
            self.course.transfer = self.course.lap();
            self.state = State::Storing;
            return Ok(Turn::Moved);
        }
        if received.ended {
            return Err(Failure::Short(self.promised, self.came));
        }
        connection.after(received.turn, bench)
    }

    /// Reads the framing of the answer's next chunk. The body of an answer to an upload is
    /// discarded.
    fn unframe(&mut self, before: Before, bench: &mut Bench<'_>) -> Result<Turn, Failure> {
        let connection = self.connection.as_mut().expect("it is open");
        match self.head.frame(connection, before)? {
            Looked::Nothing => connection.wait(bench, Interest::Readable),
            Looked::Part => Ok(connection.rest_until(bench, bench.now + PART_REST)),
            Looked::Ended => Err(Failure::Closed(TransferStage::Transfer)),
            Looked::Head(Frame::Chunk { bytes, .. }) => {
                self.left = Some(bytes);
                self.state =
                    if self.outgoing.is_some() { State::Dismissing } else { State::Receiving };
                Ok(Turn::Moved)
            }
            Looked::Head(Frame::Last { .. }) if self.outgoing.is_some() => self.close_or_keep(),
            Looked::Head(Frame::Last { .. }) => {
                self.course.transfer = self.course.lap();
                self.state = State::Storing;
                Ok(Turn::Moved)
            }
        }
    }

    /// Discards the body of an answer to an upload: only the status matters.
    fn dismiss(&mut self, bench: &mut Bench<'_>) -> Result<Turn, Failure> {
        if let Some(left) = self.left.filter(|left| *left > 0) {
            let connection = self.connection.as_mut().expect("it is open");
            let discarded = connection.discard(left.min(1 << 20) as usize, bench.buffer);
            return match unless_it_would_wait(discarded)? {
                None => connection.wait(bench, Interest::Readable),
                Some(0) => Err(Failure::Closed(TransferStage::Close)),
                Some(n) => {
                    self.left = Some(left - n as u64);
                    Ok(Turn::Moved)
                }
            };
        }
        if self.is_chunked {
            self.state = State::Unframing(Before::Next);
            return Ok(Turn::Moved);
        }
        self.close_or_keep()
    }

    fn store(&mut self, bench: &mut Bench<'_>) -> Result<Turn, Failure> {
        if !self.incoming.as_mut().expect("a download has one").finish()? {
            return Ok(self.connection().rest_until(bench, bench.now + PART_REST));
        }
        self.close_or_keep()
    }

    fn close_or_keep(&mut self) -> Result<Turn, Failure> {
        if self.closes {
            self.state = State::Closing;
            return Ok(Turn::Moved);
        }
        // The connection stays for the next file.
        self.course.close = self.course.lap();
        self.names.advance();
        Ok(Turn::Done)
    }

    /// The server closes first, and keeps TIME_WAIT.
    fn close(&mut self, bench: &mut Bench<'_>) -> Result<Turn, Failure> {
        let connection = self.connection.as_mut().expect("it is open");
        match unless_it_would_wait(connection.discard(1 << 16, bench.buffer))? {
            None => connection.wait(bench, Interest::Readable),
            Some(0) => {
                self.course.close = self.course.lap();
                self.drop_connection();
                self.account.count(bench.tally, Counter::Connections, 1);
                self.names.advance();
                Ok(Turn::Done)
            }
            // Nothing may follow the file on a connection that is closed.
            Some(_) => Err(Failure::Syntax("more bytes than announced")),
        }
    }

    fn drop_connection(&mut self) {
        if let Some(mut connection) = self.connection.take() {
            connection.end_sending();
            self.account.keep(&connection.socket);
        }
    }
}

impl Session for HttpSession {
    fn begin(&mut self, token: u64, bench: &mut Bench<'_>) -> Result<(), Failure> {
        (self.came, self.promised, self.left) = (0, 0, None);
        self.course = Course::begin(bench.now);
        // With `reuse` the connection of the last file serves the next.
        if self.connection.is_some() {
            self.prepare();
            return Ok(());
        }
        let socket = self.dial.open().map_err(|error| Failure::io(&error))?;
        self.outgoing.iter_mut().for_each(Outgoing::renew);
        self.connection = Some(Watched::new(socket, token));
        self.state = State::Connecting;
        Ok(())
    }

    fn go_on(&mut self, bench: &mut Bench<'_>) -> Result<Turn, Failure> {
        match self.state {
            State::Connecting => self.connect(bench),
            State::Securing => self.secure(bench),
            State::Asking(written) => self.ask(written, bench),
            State::Sending => self.send(bench),
            State::Framing(written) => self.frame(written, bench),
            State::Unframing(before) => self.unframe(before, bench),
            State::Answer => self.look(bench),
            State::Receiving => self.receive(bench),
            State::Dismissing => self.dismiss(bench),
            State::Storing => self.store(bench),
            State::Closing => self.close(bench),
        }
    }

    fn progress(&self) -> u64 {
        // A file that is being stored shows no progress: the kernel ends it, with success or not.
        if self.state == State::Storing { u64::MAX } else { self.came }
    }

    fn overdue(&self) -> Failure {
        Failure::TimedOut(match self.state {
            State::Connecting | State::Securing => TransferStage::Connect,
            State::Asking(_) | State::Answer => TransferStage::FirstByte,
            State::Sending | State::Framing(_) | State::Receiving | State::Unframing(_) => {
                TransferStage::Transfer
            }
            State::Dismissing | State::Storing | State::Closing => TransferStage::Close,
        })
    }

    fn called(&self) -> Option<SocketAddr> {
        matches!(self.state, State::Connecting).then_some(self.dial.remote)
    }

    fn abort(&mut self) {
        self.drop_connection();
    }

    fn course(&self) -> &Course {
        &self.course
    }

    fn account(&self) -> &Account {
        &self.account
    }

    fn carrier(&self) -> Option<&Socket> {
        self.connection.as_ref().map(|connection| &connection.socket)
    }

    fn report(&mut self) -> FlowReport {
        let mut modes = BTreeMap::from([("reuse".to_owned(), self.reuse.to_string())]);
        if let (Some(security), Some(cipher)) = (&self.dial.security, self.cipher.take()) {
            security.modes(cipher, &mut modes);
        }
        let local = self.carrier().and_then(|socket| socket.local_addr().ok()?.as_socket());
        FlowReport {
            local: local.map(|address| address.to_string()).unwrap_or_default(),
            remote: self.dial.remote.to_string(),
            ..self.dial.report(modes, self.incoming.as_ref(), self.outgoing.as_ref())
        }
    }
}
