//! Messages over a byte stream, as whole frames in both directions.

use std::io::{self, Read, Write};

use crate::transport::is_silence;
use crate::wire::{GREETING_LIMIT, Message, WireError, decode_within, encode};

/// Bytes requested from the stream at once.
const READ_BYTES: usize = 64 << 10;

/// Reason why no further message comes.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    /// The stream ended, in the middle of a frame or between two.
    #[error("the other end closed the connection")]
    Ended,
    /// The bytes are not a message.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The stream broke, or nothing came for too long.
    #[error("{}", describe(.0))]
    Io(#[from] io::Error),
}

/// Describes an error. The kernel reports a time-out as `resource temporarily unavailable`, which
/// explains nothing to a reader.
fn describe(error: &io::Error) -> String {
    if is_silence(error) {
        "nothing came from the other end for too long".into()
    } else {
        error.to_string()
    }
}

/// Reader that splits a byte stream into messages.
pub(crate) struct FrameReader {
    source: Box<dyn Read + Send>,
    pending: Vec<u8>,
    limit: usize,
    /// Length of the last message, bytes.
    length: usize,
}

impl FrameReader {
    /// Creates a reader of `source`, with the limit for strangers.
    pub(crate) fn new(source: Box<dyn Read + Send>) -> Self {
        Self { source, pending: Vec::new(), limit: GREETING_LIMIT, length: 0 }
    }

    /// Raises the limit to `limit` bytes a message, once the other end is known.
    pub(crate) fn trust(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Returns the length of the last message on the wire, bytes.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Waits for the next message.
    pub(crate) fn next(&mut self) -> Result<Message, FrameError> {
        loop {
            if let Some((message, taken)) = decode_within(&self.pending, self.limit)? {
                self.pending.drain(..taken);
                self.length = taken;
                if self.pending.is_empty() {
                    // Frees the memory of a long message, which would stay for the whole session.
                    self.pending.shrink_to(READ_BYTES);
                }
                return Ok(message);
            }
            self.fill()?;
        }
    }

    fn fill(&mut self) -> Result<(), FrameError> {
        let filled = self.pending.len();
        // Grows with the bytes that arrive, not with the size that a peer announces.
        self.pending.resize(filled + READ_BYTES, 0);
        let read = loop {
            match self.source.read(&mut self.pending[filled..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        self.pending.truncate(filled + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => Err(FrameError::Ended),
            Ok(_) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Writes `message` as one frame.
pub(crate) fn write(sink: &mut dyn Write, message: &Message) -> Result<(), FrameError> {
    sink.write_all(&encode(message)?)?;
    sink.flush()?;
    Ok(())
}
