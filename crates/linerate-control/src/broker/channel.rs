//! Messages with descriptors over a pair of Unix sockets: length, JSON, and the descriptors beside
//! the first byte.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::cmsg_space;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{MESSAGE_LIMIT, MOST_DESCRIPTORS};

/// Bytes of a message's length, big endian.
const LENGTH_BYTES: usize = 4;

/// Sends `message` with `descriptors`.
///
/// # Errors
/// If the other end is gone.
pub(super) fn send(
    mut stream: &UnixStream,
    message: &impl Serialize,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let text = serde_json::to_vec(message)?;
    let length = u32::try_from(text.len()).ok().filter(|length| *length as usize <= MESSAGE_LIMIT);
    let length = length.ok_or_else(|| io::Error::other("the message is too long"))?.to_be_bytes();
    // Descriptors travel beside the first bytes only, so one fixed buffer is enough.
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other("too many descriptors"));
    }
    let sent =
        sendmsg(stream.as_fd(), &[IoSlice::new(&length)], &mut control, SendFlags::NOSIGNAL)?;
    stream.write_all(&length[sent..])?;
    stream.write_all(&text)
}

/// Receives a message and its descriptors. `None` at the end of the stream.
///
/// # Errors
/// If the bytes are not a message.
pub(super) fn receive<T: DeserializeOwned>(
    mut stream: &UnixStream,
) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut length = [0; LENGTH_BYTES];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    // Close-on-exec at once: another thread may start a program meanwhile.
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = loop {
        match recvmsg(stream.as_fd(), &mut [IoSliceMut::new(&mut length)], &mut control, flags) {
            Err(rustix::io::Errno::INTR) => {}
            received => break received?.bytes,
        }
    };
    if received == 0 {
        return Ok(None);
    }
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    stream.read_exact(&mut length[received..])?;
    let length = u32::from_be_bytes(length) as usize;
    // Checked before anything is allocated.
    if length > MESSAGE_LIMIT {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a message of {length} bytes is too long"),
        ));
    }
    let mut text = Vec::new();
    if stream.take(length as u64).read_to_end(&mut text)? < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some((serde_json::from_slice(&text)?, descriptors)))
}
