//! Messages over a byte stream: whole frames out, whole frames in.

use std::io::{self, Read, Write};

use crate::transport::is_silence;
use crate::wire::{GREETING_LIMIT, Message, WireError, decode_within, encode};

/// Bytes asked of the stream at once.
const READ_BYTES: usize = 64 << 10;

/// Why no further message comes.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    /// The stream ended, in the middle of a frame or between two.
    #[error("the other end closed the connection")]
    Ended,
    /// What came is no message.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The stream broke or was silent for too long.
    #[error("{}", describe(.0))]
    Io(#[from] io::Error),
}

/// A time-out is reported by the kernel as `resource temporarily unavailable`, which tells nobody
/// anything.
fn describe(error: &io::Error) -> String {
    if is_silence(error) {
        "the other end was silent for too long".into()
    } else {
        error.to_string()
    }
}

/// Cuts a byte stream into messages.
pub(crate) struct FrameReader {
    source: Box<dyn Read + Send>,
    pending: Vec<u8>,
    limit: usize,
    /// Bytes of the last message.
    length: usize,
}

impl FrameReader {
    /// Reads from `source`, with the limit for strangers.
    pub(crate) fn new(source: Box<dyn Read + Send>) -> Self {
        Self { source, pending: Vec::new(), limit: GREETING_LIMIT, length: 0 }
    }

    /// The other end is known: messages may be `limit` bytes long.
    pub(crate) fn trust(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Bytes of the last message on the wire.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// The next message.
    pub(crate) fn next(&mut self) -> Result<Message, FrameError> {
        loop {
            if let Some((message, taken)) = decode_within(&self.pending, self.limit)? {
                self.pending.drain(..taken);
                self.length = taken;
                if self.pending.is_empty() {
                    // Do not keep the memory of the longest message ever seen.
                    self.pending.shrink_to(READ_BYTES);
                }
                return Ok(message);
            }
            self.fill()?;
        }
    }

    fn fill(&mut self) -> Result<(), FrameError> {
        let filled = self.pending.len();
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
