//! Lines of the control connection (RFC 959 clause 4.2): replies of one or many lines, commands,
//! and addresses in replies.

use std::io::{self, Write as _};

use crate::workloads::transfer::{Failure, TransferStage, Watched, unless_it_would_wait};

/// Longest accepted line or reply.
const LINE_BYTES: usize = 4096;
/// Digits of a reply's code.
const CODE_DIGITS: usize = 3;

/// Received lines.
#[derive(Debug)]
pub(super) struct Lines {
    bytes: Box<[u8]>,
    filled: usize,
    /// Bytes handed out already.
    used: usize,
}

/// Lines to send, with nothing allocated after the start.
#[derive(Debug)]
pub(super) struct Words {
    text: Vec<u8>,
    written: usize,
}

impl Lines {
    pub(super) fn new() -> Self {
        Self { bytes: vec![0; LINE_BYTES].into_boxed_slice(), filled: 0, used: 0 }
    }

    pub(super) fn clear(&mut self) {
        (self.filled, self.used) = (0, 0);
    }

    /// Returns true if all received bytes have been handed out. Bytes received in the clear must
    /// not be taken for bytes received over TLS.
    pub(super) fn is_empty(&self) -> bool {
        self.used == self.filled
    }

    /// Reads received bytes; returns true if there were any.
    pub(super) fn read(
        &mut self,
        control: &mut Watched,
        stage: TransferStage,
    ) -> Result<bool, Failure> {
        self.bytes.copy_within(self.used..self.filled, 0);
        self.filled -= std::mem::take(&mut self.used);
        if self.filled == self.bytes.len() {
            return Err(Failure::Syntax("a line of more than 4096 bytes"));
        }
        match unless_it_would_wait(control.receive(&mut self.bytes[self.filled..]))? {
            None => Ok(false),
            Some(0) => Err(Failure::Closed(stage)),
            Some(n) => {
                self.filled += n;
                Ok(true)
            }
        }
    }

    /// Returns the next complete line, without its end.
    pub(super) fn line(&mut self) -> Option<&[u8]> {
        let rest = &self.bytes[self.used..self.filled];
        let length = rest.iter().position(|byte| *byte == b'\n')?;
        let line = self.used..self.used + length;
        self.used += length + 1;
        let line = &self.bytes[line];
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }

    /// Returns the next complete reply. Lines before its last begin with `code-` or with anything
    /// else.
    pub(super) fn reply(&mut self) -> Result<Option<Reply>, Failure> {
        let start = self.used;
        let mut awaited = None;
        loop {
            let Some(line) = self.line() else {
                // Incomplete: parsed again when more bytes have arrived.
                self.used = start;
                return Ok(None);
            };
            let code = line.get(..CODE_DIGITS).filter(|code| code.iter().all(u8::is_ascii_digit));
            let code = code.and_then(|code| std::str::from_utf8(code).ok()?.parse::<u16>().ok());
            let (goes_on, length) = (line.get(CODE_DIGITS) == Some(&b'-'), line.len());
            match (awaited, code) {
                (None, Some(code)) if goes_on => awaited = Some(code),
                (None, None) => return Err(Failure::Syntax("no reply of FTP")),
                (Some(first), code) if code != Some(first) || goes_on => {}
                (_, Some(code)) => return Ok(Some(Reply { code, end: self.used, length })),
                (Some(_), None) => {}
            }
        }
    }

    /// Returns the last line of `reply`, as long as nothing more has been read.
    pub(super) fn text(&self, reply: Reply) -> &[u8] {
        let line = &self.bytes[..reply.end];
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        &line[line.len() - reply.length..]
    }
}

/// Reply: its code, and the place of its last line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) code: u16,
    end: usize,
    length: usize,
}

impl Words {
    /// Creates a buffer for the longest line.
    pub(super) fn new() -> Self {
        Self { text: Vec::with_capacity(LINE_BYTES), written: 0 }
    }

    /// Sets the next line, if everything before is sent.
    pub(super) fn set(&mut self, text: std::fmt::Arguments<'_>) {
        self.text.clear();
        self.written = 0;
        // The text fits the reserved bytes, or they grow: a path may have any length.
        let _ = self.text.write_fmt(text);
    }

    /// Appends to the line.
    pub(super) fn add(&mut self, write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) {
        // A write to memory cannot fail.
        let _ = write(&mut self.text);
    }

    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.written = 0;
    }

    pub(super) fn is_said(&self) -> bool {
        self.written == self.text.len()
    }

    /// Sends as much as fits; returns true once all is sent.
    pub(super) fn say(&mut self, control: &mut Watched) -> Result<bool, Failure> {
        while !self.is_said() {
            match control.send(&self.text[self.written..]) {
                Ok(n) => self.written += n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(Failure::io(&error)),
            }
        }
        control.flush().map_err(|error| Failure::io(&error))
    }
}

/// Returns the port of `229 Entering Extended Passive Mode (|||6446|)` (RFC 2428 clause 3).
pub(super) fn extended_port(line: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(line).ok()?;
    let inner = text.split_once('(')?.1.split_once(')')?.0;
    let mark = inner.chars().next()?;
    let mut parts = inner.split(mark);
    let (empty, port) = (parts.by_ref().take(3).all(str::is_empty), parts.next()?);
    port.parse().ok().filter(|_| empty)
}

/// Returns the port of `227 Entering Passive Mode (h1,h2,h3,h4,p1,p2)` (RFC 959 clause 4.1.2), with
/// or without brackets. The address is ignored: behind a translation it is wrong, and a server must
/// not be able to direct us to a third host (RFC 2577 clause 2).
pub(super) fn passive_port(line: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(line.get(CODE_DIGITS..)?).ok()?;
    let digits = text.find(|c: char| c.is_ascii_digit())?;
    let mut numbers = text[digits..].split(',').map(|number| {
        let end = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
        number[..end].parse::<u8>().ok()
    });
    let mut next = || numbers.next().flatten();
    let _address = [next()?, next()?, next()?, next()?];
    Some(u16::from_be_bytes([next()?, next()?])).filter(|port| *port > 0)
}

/// Returns the number of `213 1048576` (RFC 3659 clause 4).
pub(super) fn size(line: &[u8]) -> Option<u64> {
    std::str::from_utf8(line.get(CODE_DIGITS..)?).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replies(text: &str) -> Vec<(u16, String)> {
        let mut lines = Lines::new();
        lines.bytes[..text.len()].copy_from_slice(text.as_bytes());
        lines.filled = text.len();
        let mut all = Vec::new();
        while let Some(reply) = lines.reply().expect("well formed") {
            all.push((reply.code, String::from_utf8_lossy(lines.text(reply)).into_owned()));
        }
        all
    }

    #[test]
    fn replies_of_many_lines_end_with_their_code_and_a_blank() {
        let text = "220-Welcome\r\n 220 not yet\r\n221 nor this\r\n220 Ready\r\n331 Name\n230-half";
        assert_eq!(replies(text), [(220, "220 Ready".into()), (331, "331 Name".into())]);
        let mut lines = Lines::new();
        lines.bytes[..9].copy_from_slice(b"HTTP/1.1\n");
        lines.filled = 9;
        assert_eq!(lines.reply(), Err(Failure::Syntax("no reply of FTP")));
    }

    #[test]
    fn addresses_and_sizes_are_found_or_refused() {
        assert_eq!(extended_port(b"229 Entering Extended Passive Mode (|||6446|)"), Some(6446));
        assert_eq!(extended_port(b"229 (|1|10.0.0.1|6446|)"), None);
        assert_eq!(extended_port(b"229 ok"), None);
        assert_eq!(passive_port(b"227 Entering Passive Mode (127,0,0,1,18,52)."), Some(0x1234));
        assert_eq!(passive_port(b"227 =198,18,0,9,18,52"), Some(0x1234));
        assert_eq!(passive_port(b"227 (127,0,0,256,18,52)"), None);
        assert_eq!(passive_port(b"227 (127,0,0,1,18)"), None);
        assert_eq!(passive_port(b"227 (127,0,0,1,0,0)"), None);
        assert_eq!((size(b"213 1048576"), size(b"213 many")), (Some(1_048_576), None));
    }
}
