//! Codec of messages: `length (u32, big endian) , JSON`.
//!
//! Pure functions over bytes. A length above the limit is refused before anything is allocated, so
//! that four hostile bytes cost four bytes. Not seen here: the identity of the sender, and whether
//! the message is valid in the present state.

use linerate_model::{Lines, SampleBlock, printable_json};

use super::{Message, printable};

/// Longest message between paired ends, bytes.
pub const MESSAGE_LIMIT: usize = 16 << 20;
/// Longest message from a conductor, bytes: the jobs of a trial, or the offers of their other ends.
pub(crate) const ORDER_LIMIT: usize = 4 << 20;
/// Longest message from a stranger, bytes: a greeting without facts, or a refusal.
pub const GREETING_LIMIT: usize = 16 << 10;
/// Bytes of the length in front of each message.
const LENGTH_BYTES: usize = 4;
/// Most characters that are quoted of a text that is not a message.
const QUOTED: usize = 60;
/// Longest piece of a message that can be split, bytes.
const PIECE: usize = 4 << 20;

/// Error for bytes that are not a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The length in front exceeds the limit: mostly a stranger with another protocol.
    #[error("a frame claims {length} bytes, more than the {limit} allowed{hint}")]
    TooLong {
        /// Claimed length, bytes.
        length: usize,
        /// Largest length allowed, bytes.
        limit: usize,
        /// Protocol that the bytes resemble.
        hint: &'static str,
    },
    /// The other end sent plain text: a web browser, or a login message in front of the agent's
    /// messages.
    #[error("it sent text instead of a control message: \"{beginning}\"{hint}")]
    Text {
        /// First line of the text, shortened.
        beginning: String,
        /// Probable origin of the text.
        hint: &'static str,
    },
    /// The frame's content is not a message of this version.
    #[error("a frame of {length} bytes is not a control message: {cause}")]
    NotAMessage {
        /// Its length, bytes.
        length: usize,
        /// The decoder's error.
        cause: String,
    },
}

/// Encodes `message` as a frame.
///
/// # Errors
/// If it is longer than [`MESSAGE_LIMIT`].
pub fn encode(message: &Message) -> Result<Vec<u8>, WireError> {
    // Room for the length, which is known only after encoding.
    let mut frame = vec![0; LENGTH_BYTES];
    serde_json::to_writer(&mut frame, message)
        .map_err(|error| WireError::NotAMessage { length: 0, cause: error.to_string() })?;
    let length = frame.len() - LENGTH_BYTES;
    if length > MESSAGE_LIMIT {
        return Err(WireError::TooLong { length, limit: MESSAGE_LIMIT, hint: "" });
        // Checked below the limit, so it fits 32 bits.
    }
    frame[..LENGTH_BYTES].copy_from_slice(&(length as u32).to_be_bytes());
    Ok(frame)
}

/// Decodes the first message in `bytes`, and returns it with its length. `None` if the message is
/// incomplete.
///
/// # Errors
/// If the bytes can never become a message.
pub fn decode(bytes: &[u8]) -> Result<Option<(Message, usize)>, WireError> {
    decode_within(bytes, MESSAGE_LIMIT)
}

/// Decodes as [`decode`] does, with a limit of `limit` bytes a message.
///
/// # Errors
/// If the bytes can never become a message.
pub fn decode_within(bytes: &[u8], limit: usize) -> Result<Option<(Message, usize)>, WireError> {
    // Not an error: the rest may still be on its way.
    let Some((prefix, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let length = u32::from_be_bytes(*prefix) as usize;
    if length > limit {
        return Err(stranger(bytes, length, limit));
    }
    let Some(content) = rest.get(..length) else { return Ok(None) };
    // Control characters are escaped here because every message of every peer passes: no terminal
    // obeys a peer's text, nor does one that shows a ledger or a report.
    let message = serde_json::from_slice(&printable_json(content, Lines::One))
        .map_err(|error| WireError::NotAMessage { length, cause: printable(&error.to_string()) })?;
    Ok(Some((message, LENGTH_BYTES + length)))
}

/// Returns the length of the frame that `bytes` begin with, as far as it is known.
pub(crate) fn announced(bytes: &[u8]) -> usize {
    let length = bytes
        .first_chunk::<LENGTH_BYTES>()
        .map_or(0, |prefix| u32::from_be_bytes(*prefix) as usize);
    LENGTH_BYTES.saturating_add(length)
}

/// Returns the error for bytes that claim a frame of `length` bytes, more than `limit`.
fn stranger(bytes: &[u8], length: usize, limit: usize) -> WireError {
    let too_long = |hint| WireError::TooLong { length, limit, hint };
    match bytes {
        // TLS record: handshake (22), legacy version 3.x (RFC 8446 clause 5.1).
        [22, 3, ..] => too_long(": it looks like TLS, but this end has no paired key"),
        // TLS record: alert (21).
        [21, 3, ..] => too_long(": it looks like a TLS alert, so the other end refused"),
        bytes
            if bytes
                .iter()
                .take(LENGTH_BYTES)
                .all(|byte| matches!(byte, b'\t'..=b'\r' | b' '..=b'~')) =>
        {
            WireError::Text { beginning: beginning(bytes), hint: text_hint(bytes) }
        }
        _ => too_long(""),
    }
}

/// Returns the probable origin of a text.
fn text_hint(text: &[u8]) -> &'static str {
    match text {
        [b'G', b'E', b'T', b' ', ..]
        | [b'P', b'O', b'S', b'T', ..]
        | [b'H', b'E', b'A', b'D', ..] => " (it is HTTP)",
        [b'S', b'S', b'H', b'-', ..] => " (it is SSH)",
        _ => {
            " (a command that starts an agent must print nothing itself: check the start-up files \
                of its shell)"
        }
    }
}

/// Returns the first line of `text` that is not empty, shortened and escaped.
fn beginning(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    line.chars().take(QUOTED).flat_map(char::escape_debug).collect()
}

/// Splits a long message into several of the same kind: intervals, flows and readings by time.
/// Other messages are returned whole.
#[must_use]
pub fn pieces(message: Message) -> Vec<Message> {
    // A message that cannot be encoded whole must be split in any case.
    let long = encode(&message).map_or(true, |frame| frame.len() > PIECE);
    if !long {
        return vec![message];
    }
    match halves(message) {
        Ok((first, second)) => [pieces(first), pieces(second)].concat(),
        Err(whole) => vec![*whole],
    }
}

fn halves(message: Message) -> Result<(Message, Message), Box<Message>> {
    match message {
        Message::Intervals { trial, job, side, mut intervals } if intervals.len() > 1 => {
            let rest = intervals.split_off(intervals.len() / 2);
            Ok((
                Message::Intervals { trial, job, side, intervals },
                Message::Intervals { trial, job, side, intervals: rest },
            ))
        }
        Message::FlowsEnded { trial, job, side, mut flows } if flows.len() > 1 => {
            let rest = flows.split_off(flows.len() / 2);
            Ok((
                Message::FlowsEnded { trial, job, side, flows },
                Message::FlowsEnded { trial, job, side, flows: rest },
            ))
        }
        Message::Samples { trial, mut block } if block.times.len() > 1 => {
            // Halves again until each piece is short enough.
            let middle = block.times.len() / 2;
            let rest = SampleBlock {
                series: block.series.clone(),
                times: block.times.split_off(middle),
                columns: block.columns.iter_mut().map(|column| column.split_off(middle)).collect(),
                // Sent once, with the first piece.
                unavailable: Vec::new(),
                cost_ns: 0,
            };
            Ok((
                Message::Samples { trial, block },
                Message::Samples { trial, block: Box::new(rest) },
            ))
        }
        whole => Err(Box::new(whole)),
    }
}
