//! Answers of the server: head and body for each request.

use std::io::Write;

use linerate_model::Counter;

use super::{Follows, HttpGuest};
use crate::workloads::http::chunks::Before;
use crate::workloads::http::head::{Coding, Fields, Method, Request};
use crate::workloads::transfer::{Bench, Failure, Form, FoundPath, Part, Tree, percent, resolve};

/// Meaning of a request's target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Known(FoundPath),
    /// It does not prove the session.
    Stranger,
    /// It cannot be decoded.
    Malformed,
}

impl HttpGuest {
    /// Prepares the head of the answer to `request`; returns what follows it.
    pub(super) fn asked(
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
                Ok(self.refuse("404 Not FoundPath", ""))
            }
            (_, Method::Put) if is_upload => self.take_in(fields),
            (_, Method::Get | Method::Head) if is_upload => {
                Ok(self.refuse("405 Method Not Allowed", "Allow: PUT, POST\r\n"))
            }
            (Target::Known(found), Method::Get | Method::Head) => {
                // The body of such a request is not read: it would be taken for the next request.
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

    /// Answers with `status` and closes, because the rest of the request is not read.
    fn refuse(&mut self, status: &str, more: &str) -> Follows {
        self.closes = true;
        // The text fits the reserved bytes.
        let _ = write!(
            self.words,
            "HTTP/1.1 {status}\r\n{more}Content-Length: 0\r\nConnection: close\r\n\r\n"
        );
        Follows::Next
    }

    fn miss(&mut self, is_head: bool) -> Follows {
        let close = self.close_line();
        let length = if is_head { "" } else { "Content-Length: 0\r\n" };
        let _ = write!(self.words, "HTTP/1.1 404 Not FoundPath\r\n{length}{close}\r\n");
        Follows::Next
    }

    pub(super) fn close_line(&self) -> &'static str {
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
        // The server has no validators of a file's state, so it ignores the range of a conditional
        // request (RFC 9110 clause 13.1.5).
        let range = fields.range.filter(|_| !is_head && !fields.is_conditional);
        let part = match range.map(|range| range.within(size)) {
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
        let status = if range.is_some() { "206 Partial Content" } else { "200 OK" };
        let _ = write!(
            self.words,
            "HTTP/1.1 {status}\r\nContent-Type: application/octet-stream\r\nAccept-Ranges: \
                bytes\r\nLast-Modified: {}\r\n{close}",
            self.tree.modified(file).http()
        );
        if range.is_some() {
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
}

/// Returns the meaning of `text`, the target of a request; `path` is the expected one, if any.
pub(super) fn target(
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
    // The target of a request to a proxy also has scheme and host (RFC 9112 clause 3.2.2).
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
