//! Heads of messages: looked at where they lie in the receive queue, and taken out when whole, so that not a byte of a file is
//! copied with them.

use std::io;

use crate::workloads::rendezvous::would_wait;
use crate::workloads::transfer::{Failure, Watched};

/// The longest head understood; RFC 9112 clause 3 asks for 8000 octets of the first line at least.
const HEAD_BYTES: usize = 8192;
const HEADERS: usize = 64;

/// Memory for one.
#[derive(Debug)]
pub(super) struct HeadBuffer(Box<[u8]>);

/// What is known after a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Looked<T> {
    /// Nothing has come.
    Nothing,
    /// Part of it has.
    Part,
    /// The connection has ended.
    Ended,
    /// It was whole and has been taken.
    Head(T),
}

/// What matters of either kind of head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    /// Bytes of the body, if told.
    pub(super) length: Option<u64>,
    /// The connection ends with the message.
    pub(super) closes: bool,
    /// The client waits for a go-ahead before it sends the body.
    pub(super) expects: bool,
    /// The body comes in chunks or another coding.
    pub(super) is_coded: bool,
}

/// An answer's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) fields: Fields,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Get,
    Put,
    Other,
}

/// A request's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) method: Method,
    /// Whether the path is the one expected.
    pub(super) is_ours: bool,
    pub(super) fields: Fields,
}

impl HeadBuffer {
    pub(super) fn new() -> Self {
        Self(vec![0; HEAD_BYTES].into_boxed_slice())
    }

    /// Looks for an answer.
    pub(super) fn answer(&mut self, connection: &mut Watched) -> Result<Looked<Answer>, Failure> {
        self.look(connection, |bytes| {
            let mut headers = [httparse::EMPTY_HEADER; HEADERS];
            let mut answer = httparse::Response::new(&mut headers);
            let httparse::Status::Complete(length) = answer.parse(bytes)? else { return Ok(None) };
            let status = answer.code.unwrap_or(0);
            let closes = answer.version == Some(0);
            Ok(Some((length, Answer { status, fields: fields(answer.headers, closes) })))
        })
    }

    /// Looks for a request; `path` is the one expected, if one is.
    pub(super) fn request(&mut self, connection: &mut Watched, path: Option<&str>) -> Result<Looked<Request>, Failure> {
        self.look(connection, |bytes| {
            let mut headers = [httparse::EMPTY_HEADER; HEADERS];
            let mut request = httparse::Request::new(&mut headers);
            let httparse::Status::Complete(length) = request.parse(bytes)? else { return Ok(None) };
            let method = match request.method {
                Some("GET") => Method::Get,
                Some("PUT" | "POST") => Method::Put,
                _ => Method::Other,
            };
            let is_ours = path.is_none_or(|path| request.path == Some(path));
            let closes = request.version == Some(0);
            Ok(Some((length, Request { method, is_ours, fields: fields(request.headers, closes) })))
        })
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
            // Between messages nobody need take leave, not of TLS either.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Looked::Ended),
            Err(error) => return Err(Failure::io(&error)),
        };
        match parse(&self.0[..n]) {
            Ok(Some((length, head))) => {
                take(connection, &mut self.0[..length])?;
                Ok(Looked::Head(head))
            }
            Ok(None) if n == self.0.len() => Err(Failure::Syntax("a head of more than 8 KiB")),
            Ok(None) => Ok(Looked::Part),
            Err(_) => Err(Failure::Syntax("no head of HTTP/1")),
        }
    }
}

/// Takes what was looked at.
fn take(connection: &mut Watched, mut bytes: &mut [u8]) -> Result<(), Failure> {
    while !bytes.is_empty() {
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
    for header in headers {
        let text = std::str::from_utf8(header.value).unwrap_or("").trim();
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        if is("content-length") {
            fields.length = text.parse().ok();
        } else if is("connection") {
            fields.closes =
                text.eq_ignore_ascii_case("close") || (fields.closes && !text.eq_ignore_ascii_case("keep-alive"));
        } else if is("expect") {
            fields.expects = text.eq_ignore_ascii_case("100-continue");
        } else if is("transfer-encoding") {
            fields.is_coded = !text.eq_ignore_ascii_case("identity");
        }
    }
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
        (near, Watched::new(far))
    }

    /// Looks until something has come.
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
        assert_eq!(until(|| buffer.answer(&mut far), |looked| *looked == Looked::Nothing), Looked::Ended);
    }

    #[test]
    fn only_the_expected_path_is_ours() {
        let (mut near, mut far) = pair();
        let mut buffer = HeadBuffer::new();
        near.write_all(b"PUT /abc HTTP/1.0\r\nContent-Length: 7\r\nExpect: 100-continue\r\n\r\n").expect("fits");
        let looked = until(|| buffer.request(&mut far, Some("/abd")), |looked| *looked == Looked::Nothing);
        let fields = Fields { length: Some(7), closes: true, expects: true, is_coded: false };
        assert_eq!(looked, Looked::Head(Request { method: Method::Put, is_ours: false, fields }));
    }
}
