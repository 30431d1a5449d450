//! Arbitrary bytes on an HTTP connection, at either end: heads and bodies in chunks are read
//! without a panic, and never more than there is.

use super::chunks::{Before, Frame};
use super::head::{HeadBuffer, Looked};
use crate::fuzz_driver::{class, fuzz};
use crate::workloads::ftp::heard;
use crate::workloads::transfer::{percent, resolve};

const WORDS: [&str; 24] = [
    "\r\n",
    "\r\n\r\n",
    "\n",
    "Content-Length: ",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: gzip, chunked\r\n",
    "Connection: close\r\n",
    "Range: bytes=",
    "Content-Range: bytes ",
    "If-Range: x\r\n",
    "Expect: 100-continue\r\n",
    "HTTP/1.1 ",
    "HTTP/1.0 ",
    "GET /",
    "PUT /",
    "HEAD ",
    "../",
    "%2e%2e/",
    "%00",
    ";a=b",
    "ffffffffffffffff",
    "0\r\n\r\n",
    "-",
    ",",
];

/// The bytes after a head are read as a body in chunks.
fn body(
    buffer: &mut HeadBuffer,
    connection: &mut crate::workloads::transfer::Watched,
    most: usize,
) -> String {
    let (mut before, mut said, mut scratch) = (Before::First, String::new(), [0; 4096]);
    for _ in 0..64 {
        match buffer.frame(connection, before) {
            Ok(Looked::Head(Frame::Chunk { taken, bytes })) => {
                assert!(taken <= most);
                said.push('c');
                let mut left = usize::try_from(bytes).unwrap_or(usize::MAX).min(most);
                while left > 0 {
                    let n = left.min(scratch.len());
                    match connection.receive(&mut scratch[..n]) {
                        Ok(n) if n > 0 => left -= n,
                        _ => return said + "e",
                    }
                }
                before = Before::Next;
            }
            Ok(Looked::Head(Frame::Last { taken })) => {
                assert!(taken <= most);
                return said + "l";
            }
            Ok(other) => return format!("{said}{other:?}"),
            Err(failure) => return format!("{said}{failure:?}"),
        }
    }
    said
}

#[test]
fn fuzz_http_answers() {
    let corpus: Vec<Vec<u8>> = [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nabcde",
        "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 4-9/10\r\nContent-Length: \
            6\r\n\r\nefghij",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: \
            chunked\r\n\r\n4\r\nWiki\r\n5;a=\"b\"\r\npedia\r\n0\r\nExpires: never\r\n\r\n",
        "HTTP/1.0 404 Not FoundPath\r\nServer: x\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into();
    fuzz("http_answers", corpus, &WORDS, |bytes| {
        let (mut connection, _near) = heard(bytes);
        let mut buffer = HeadBuffer::new();
        let head = buffer.answer(&mut connection);
        class(&(format!("{head:?}"), body(&mut buffer, &mut connection, bytes.len())))
    });
}

#[test]
fn fuzz_http_requests() {
    let corpus: Vec<Vec<u8>> = [
        "GET /a/b%20c?x=y HTTP/1.1\r\nHost: h\r\nRange: bytes=4-9\r\nIf-Range: \"x\"\r\n\r\n",
        "PUT /../up HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nTransfer-Encoding: \
            chunked\r\n\r\n4\r\nWiki\r\n0\r\n\r\n",
        "HEAD http://h/abs HTTP/1.0\r\nConnection: keep-alive\r\nRange: bytes=-5\r\n\r\n",
        "POST * HTTP/1.1\r\nContent-Length: 18446744073709551615\r\nContent-Length: 5\r\n\r\nabcde",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into();
    fuzz("http_requests", corpus, &WORDS, |bytes| {
        let (mut connection, _near) = heard(bytes);
        let mut buffer = HeadBuffer::new();
        let head = buffer.request(&mut connection, |target| {
            let mut resolved = Vec::with_capacity(1024);
            let decoded = percent::decode(target.as_bytes());
            let is_known = decoded.as_ref().is_ok_and(|path| resolve(b"", path, &mut resolved));
            assert!(
                !resolved.split(|byte| *byte == b'/').any(|part| part == b".."),
                "{}",
                resolved.escape_ascii()
            );
            (is_known, decoded.is_ok())
        });
        if let Ok(Looked::Head(request)) = &head {
            let part = request.fields.range.and_then(|range| range.within(1 << 40));
            assert!(part.is_none_or(|part| part.start < part.end && part.end <= 1 << 40));
        }
        class(&(format!("{head:?}"), body(&mut buffer, &mut connection, bytes.len())))
    });
}
