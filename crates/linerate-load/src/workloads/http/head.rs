//! Heads of messages: parsed in the receive queue and taken out when complete, so that no byte of a
//! file is copied with them.

use std::io;

use super::chunks::{self, Before, Frame};
use super::range::{Asked, first_of_content};
use crate::workloads::rendezvous::would_wait;
use crate::workloads::transfer::{Failure, Watched, unless_it_would_wait};

/// Longest accepted head; RFC 9112 clause 3 requires at least 8000 octets for the first line.
const HEAD_BYTES: usize = 8192;
const HEADERS: usize = 64;
/// First peek at the framing of a chunk: its size, mostly without an extension.
const FRAME_BYTES: usize = 32;

/// Buffer of one head.
#[derive(Debug)]
pub(super) struct HeadBuffer(Box<[u8]>);

/// Outcome of a peek.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Looked<T> {
    /// Nothing has arrived.
    Nothing,
    /// A part has arrived.
    Part,
    /// The connection has ended.
    Ended,
    /// It is complete and has been taken.
    Head(T),
}

/// Fields of either kind of head that matter here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    /// Bytes of the body, if given.
    pub(super) length: Option<u64>,
    /// The connection ends with the message.
    pub(super) closes: bool,
    /// The client waits for a go-ahead before it sends the body.
    pub(super) expects: bool,
    /// Transfer coding of the body.
    pub(super) coding: Coding,
    /// The length is given twice, or in a way that two readers may understand differently (RFC 9112
    /// clause 6.3).
    pub(super) is_ambiguous: bool,
    /// Requested range.
    pub(super) range: Option<Asked>,
    /// The range is wanted only if the file is unchanged.
    pub(super) is_conditional: bool,
    /// First byte of the file in an answer with a part of it.
    pub(super) first: Option<u64>,
}

/// Transfer coding of a body (RFC 9112 clause 6.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Coding {
    /// None.
    #[default]
    None,
    /// Chunks and nothing else.
    Chunked,
    /// An unsupported coding.
    Unknown,
}

/// An answer's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) fields: Fields,
}

/// Method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Get,
    Head,
    Put,
    Other,
}

/// A request's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request<T> {
    pub(super) method: Method,
    /// Meaning of the target.
    pub(super) target: T,
    /// The client supports HTTP/1.1, and so chunks.
    pub(super) is_current: bool,
    pub(super) fields: Fields,
}

impl HeadBuffer {
    pub(super) fn new() -> Self {
        Self(vec![0; HEAD_BYTES].into_boxed_slice())
    }

    /// Peeks for an answer.
    pub(super) fn answer(&mut self, connection: &mut Watched) -> Result<Looked<Answer>, Failure> {
        self.look(connection, |bytes| {
            let mut headers = [httparse::EMPTY_HEADER; HEADERS];
            let mut answer = httparse::Response::new(&mut headers);
            // An incomplete head stays in the receive queue, and is peeked at again.
            let httparse::Status::Complete(length) = answer.parse(bytes)? else { return Ok(None) };
            let status = answer.code.unwrap_or(0);
            // HTTP/1.0 closes by default, later versions stay open (RFC 9112 clause 9.3).
            let closes = answer.version == Some(0);
            Ok(Some((length, Answer { status, fields: fields(answer.headers, closes) })))
        })
    }

    /// Peeks for a request; `meant` returns the meaning of its target.
    pub(super) fn request<T>(
        &mut self,
        connection: &mut Watched,
        meant: impl FnOnce(&str) -> T,
    ) -> Result<Looked<Request<T>>, Failure> {
        self.look(connection, |bytes| {
            let mut headers = [httparse::EMPTY_HEADER; HEADERS];
            let mut request = httparse::Request::new(&mut headers);
            let httparse::Status::Complete(length) = request.parse(bytes)? else { return Ok(None) };
            let method = match request.method {
                Some("GET") => Method::Get,
                Some("HEAD") => Method::Head,
                Some("PUT" | "POST") => Method::Put,
                _ => Method::Other,
            };
            let target = meant(request.path.unwrap_or(""));
            let is_current = request.version != Some(0);
            let fields = fields(request.headers, !is_current);
            Ok(Some((length, Request { method, target, is_current, fields })))
        })
    }

    /// Peeks for the framing of the next chunk of a body.
    pub(super) fn frame(
        &mut self,
        connection: &mut Watched,
        before: Before,
    ) -> Result<Looked<Frame>, Failure> {
        // Most frames are short. Only a long extension makes a second peek necessary.
        for most in [FRAME_BYTES, HEAD_BYTES] {
            let n = match unless_it_would_wait(connection.peek(&mut self.0[..most]))? {
                None => return Ok(Looked::Nothing),
                Some(0) => return Ok(Looked::Ended),
                Some(n) => n,
            };
            match chunks::frame(&self.0[..n], before).map_err(Failure::Syntax)? {
                Some(frame) => {
                    let (Frame::Chunk { taken, .. } | Frame::Last { taken }) = frame;
                    take(connection, &mut self.0[..taken])?;
                    return Ok(Looked::Head(frame));
                }
                None if n < most => return Ok(Looked::Part),
                None => {}
            }
        }
        Err(Failure::Syntax("8 KiB and no end of what frames a chunk"))
    }

    fn look<T>(
        &mut self,
        connection: &mut Watched,
        parse: impl FnOnce(&[u8]) -> Result<Option<(usize, T)>, httparse::Error>,
    ) -> Result<Looked<T>, Failure> {
        let n = match connection.peek(&mut self.0) {
            Ok(0) => return Ok(Looked::Ended),
            Ok(n) => n,
            Err(error) if would_wait(&error) => return Ok(Looked::Nothing),
            // Between messages a connection may end without a close alert, also with TLS.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Looked::Ended),
            Err(error) => return Err(Failure::io(&error)),
        };
        match parse(&self.0[..n]) {
            Ok(Some((length, head))) => {
                take(connection, &mut self.0[..length])?;
                Ok(Looked::Head(head))
            }
            // A full buffer without an end will never have one.
            Ok(None) if n == self.0.len() => Err(Failure::Syntax("a head of more than 8 KiB")),
            Ok(None) => Ok(Looked::Part),
            Err(_) => Err(Failure::Syntax("no head of HTTP/1")),
        }
    }
}

/// Takes the bytes that were peeked at.
fn take(connection: &mut Watched, mut bytes: &mut [u8]) -> Result<(), Failure> {
    while !bytes.is_empty() {
        // Taken with the same length as peeked, so nothing beyond the head is lost.
        match connection.receive(bytes) {
            Ok(n) if n > 0 => bytes = &mut bytes[n..],
            Ok(_) => return Err(Failure::Syntax("a head that vanished")),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Failure::io(&error)),
        }
    }
    Ok(())
}

fn fields(headers: &[httparse::Header<'_>], closes: bool) -> Fields {
    let mut fields = Fields { closes, ..Fields::default() };
    let is_old = closes;
    for header in headers {
        let text = std::str::from_utf8(header.value).unwrap_or("").trim();
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        if is("content-length") {
            // A sign or a list would be read differently by other servers.
            let length = Some(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
            let length = length.and_then(|text| text.parse().ok());
            fields.is_ambiguous |=
                // Two equal lengths mean the same; two different ones are an attack or an error.
                length.is_none() || fields.length.is_some_and(|before| Some(before) != length);
            fields.length = length;
        } else if is("connection") {
            let has =
                |word: &str| text.split(',').any(|part| part.trim().eq_ignore_ascii_case(word));
            // The last word counts only where the version's default is to close.
            fields.closes = has("close") || (fields.closes && !has("keep-alive"));
        } else if is("expect") {
            fields.expects = text.eq_ignore_ascii_case("100-continue");
        } else if is("transfer-encoding") && !text.eq_ignore_ascii_case("identity") {
            // Several codings in a row are not supported.
            let is_chunked = text.eq_ignore_ascii_case("chunked") && fields.coding == Coding::None;
            fields.coding = if is_chunked { Coding::Chunked } else { Coding::Unknown };
        } else if is("range") {
            fields.range = Asked::parse(text);
        } else if is("if-range") {
            fields.is_conditional = true;
        } else if is("content-range") {
            fields.first = first_of_content(text);
        }
    }
    // A sender of both may want two readers to disagree; HTTP/1.0 has no chunks.
    fields.is_ambiguous |= fields.coding != Coding::None && (fields.length.is_some() || is_old);
    fields
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use socket2::Socket;

    use super::*;

    fn pair() -> (TcpStream, Watched) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("connect");
        let far = Socket::from(listener.accept().expect("accept").0);
        far.set_nonblocking(true).expect("possible");
        (near, Watched::new(far, 0))
    }

    /// Peeks until bytes have arrived.
    fn until<T>(
        mut look: impl FnMut() -> Result<Looked<T>, Failure>,
        is_waiting: impl Fn(&Looked<T>) -> bool,
    ) -> Looked<T> {
        loop {
            let looked = look().expect("well formed");
            if !is_waiting(&looked) {
                return looked;
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_head_is_taken_whole_and_the_body_stays() {
        let (mut near, mut far) = pair();
        let mut buffer = HeadBuffer::new();
        near.write_all(b"HTTP/1.1 200 OK\r\nContent-").expect("fits");
        until(|| buffer.answer(&mut far), |looked| *looked == Looked::Nothing);
        assert_eq!(buffer.answer(&mut far), Ok(Looked::Part));
        near.write_all(b"length: 5\r\nConnection: close\r\n\r\nabcde").expect("fits");
        let answer = until(|| buffer.answer(&mut far), |looked| matches!(looked, Looked::Part));
        let fields = Fields { length: Some(5), closes: true, ..Fields::default() };
        assert_eq!(answer, Looked::Head(Answer { status: 200, fields }));
        let mut body = [0; 8];
        assert_eq!(far.receive(&mut body).expect("it is there"), 5);
        assert_eq!(&body[..5], b"abcde");
    }

    #[test]
    fn nonsense_is_refused_and_an_end_is_one() {
        let (mut near, mut far) = pair();
        let mut buffer = HeadBuffer::new();
        near.write_all(b"220 (vsFTPd 3.0.3)\r\n").expect("fits");
        let refused = loop {
            match buffer.answer(&mut far) {
                Ok(Looked::Nothing) => std::thread::yield_now(),
                other => break other,
            }
        };
        assert_eq!(refused, Err(Failure::Syntax("no head of HTTP/1")));
        let (near, mut far) = pair();
        drop(near);
        assert_eq!(
            until(|| buffer.answer(&mut far), |looked| *looked == Looked::Nothing),
            Looked::Ended
        );
    }

    #[test]
    fn a_request_has_method_and_path() {
        let (mut near, mut far) = pair();
        let mut buffer = HeadBuffer::new();
        near.write_all(b"PUT /abc HTTP/1.0\r\nContent-Length: 7\r\nExpect: 100-continue\r\n\r\n")
            .expect("fits");
        let looked = until(
            || buffer.request(&mut far, |path| path == "/abd"),
            |looked| *looked == Looked::Nothing,
        );
        let fields = Fields { length: Some(7), closes: true, expects: true, ..Fields::default() };
        let request = Request { method: Method::Put, target: false, is_current: false, fields };
        assert_eq!(looked, Looked::Head(request));
        // Methods are case-sensitive (RFC 9110 clause 9.1).
        for (line, method) in
            [("HEAD", Method::Head), ("GET", Method::Get), ("head", Method::Other)]
        {
            near.write_all(format!("{line} /abc HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())
                .expect("fits");
            let looked = until(
                || buffer.request(&mut far, |path| path == "/abc"),
                |looked| *looked == Looked::Nothing,
            );
            let request =
                Request { method, target: true, is_current: true, fields: Fields::default() };
            assert_eq!(looked, Looked::Head(request), "{line}");
        }
    }

    #[test]
    fn two_lengths_are_ambiguous_and_codings_are_known_or_not() {
        let of = |name, value: &'static str| httparse::Header { name, value: value.as_bytes() };
        let [five, six] = ["5", "6"].map(|value| of("Content-Length", value));
        let chunked = of("transfer-encoding", "Chunked");
        assert!(!fields(&[five, five], false).is_ambiguous);
        for headers in [
            &[five, six][..],
            &[of("Content-Length", "+5")],
            &[of("Content-Length", "5, 5")],
            &[five, chunked],
            &[chunked, five],
        ] {
            assert!(fields(headers, false).is_ambiguous, "{headers:?}");
        }
        assert!(fields(&[chunked], true).is_ambiguous, "HTTP/1.0 has no chunks");
        assert_eq!(fields(&[chunked], false).coding, Coding::Chunked);
        for coding in ["gzip, chunked", "gzip", "chunked, chunked", ""] {
            assert_eq!(
                fields(&[of("Transfer-Encoding", coding)], false).coding,
                Coding::Unknown,
                "{coding}"
            );
        }
        assert_eq!(fields(&[chunked, chunked], false).coding, Coding::Unknown);
        assert!(fields(&[of("Connection", "TE, close")], false).closes);
    }
}
