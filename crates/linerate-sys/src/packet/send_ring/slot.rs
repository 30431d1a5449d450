//! Slot of a TPACKET_V2 send ring (linux/if_packet.h, Documentation/networking/packet_mmap.rst),
//! and the reasons for which a call stops. Pure.
//!
//! A slot begins with a `struct tpacket2_hdr`; the frame follows. Numbers are in host byte order.

use std::io;

/// Offset of `tp_len` in `struct tpacket2_hdr`: bytes of the frame.
pub(super) const LENGTH_AT: usize = 4;
/// Offset of the frame, after the header (`TPACKET2_HDRLEN - sizeof(struct sockaddr_ll)`).
pub(super) const FRAME_AT: usize = 32;

/// Owner of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// Never used, returned, or withdrawn.
    Ours,
    /// To be sent with the next call.
    Requested,
    /// The kernel accepted it: a queue or driver still reads it.
    Taken,
    /// The kernel cannot send the frame in this form.
    WrongFormat,
}

impl Status {
    /// Offset of `tp_status` in `struct tpacket2_hdr`.
    pub(super) const AT: usize = 0;
    /// `TP_STATUS_AVAILABLE`.
    pub(super) const AVAILABLE: u32 = 0;
    /// `TP_STATUS_SEND_REQUEST`.
    pub(super) const REQUESTED: u32 = 1;
    /// `TP_STATUS_SENDING`.
    const SENDING: u32 = 2;
    /// `TP_STATUS_WRONG_FORMAT`.
    const WRONG_FORMAT: u32 = 4;

    /// Converts a status word. Its higher bits describe time stamps and not the owner.
    #[inline]
    pub(super) fn of(word: u32) -> Self {
        match word & (Self::REQUESTED | Self::SENDING | Self::WRONG_FORMAT) {
            Self::AVAILABLE => Self::Ours,
            Self::REQUESTED => Self::Requested,
            wrong if wrong & Self::WRONG_FORMAT != 0 => Self::WrongFormat,
            _ => Self::Taken,
        }
    }
}

/// Reason for which a call did not accept all frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// A queue or driver refused a frame and dropped it.
    Refused,
    /// No room: frames under way fill the ring, or the socket's buffer.
    NoRoom,
    /// The kernel cannot send this frame here: it is too short for a header, or too long for the
    /// device.
    WrongFormat,
    /// Another error of the kernel, an `errno`.
    Failed(i32),
}

impl Stopped {
    /// Determines the reason from the call's result and the status of the first slot that was not
    /// accepted.
    pub(super) fn why(answer: &io::Result<usize>, first_left: Status) -> Self {
        match (first_left, answer) {
            (Status::WrongFormat, _) => Self::WrongFormat,
            // The kernel returns a number if it found no room for the next frame.
            (_, Ok(_)) => Self::NoRoom,
            (_, Err(error)) => match error.raw_os_error() {
                Some(libc::ENOBUFS) => Self::Refused,
                Some(libc::EAGAIN) => Self::NoRoom,
                other => Self::Failed(other.unwrap_or_default()),
            },
        }
    }
}

/// Returns the size of slots for frames of up to `frame_bytes`: a power of two, so that slots fill
/// blocks completely.
pub(super) fn slot_bytes(frame_bytes: usize) -> usize {
    (FRAME_AT + frame_bytes).next_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_low_bits_define_the_owner_of_a_slot() {
        const STAMPED: u32 = 1 << 29;
        for (word, whose) in [
            (0, Status::Ours),
            (STAMPED, Status::Ours),
            (1, Status::Requested),
            (2, Status::Taken),
            (STAMPED | 2, Status::Taken),
            (4, Status::WrongFormat),
            (5, Status::WrongFormat),
        ] {
            assert_eq!(Status::of(word), whose, "{word:#x}");
        }
    }

    #[test]
    fn the_slot_decides_before_the_result_why_a_call_stopped() {
        let failed = |errno| Err(io::Error::from_raw_os_error(errno));
        for (answer, left, why) in [
            (failed(libc::EMSGSIZE), Status::WrongFormat, Stopped::WrongFormat),
            (failed(libc::ENOBUFS), Status::Requested, Stopped::Refused),
            (failed(libc::EAGAIN), Status::Requested, Stopped::NoRoom),
            (failed(libc::ENETDOWN), Status::Requested, Stopped::Failed(libc::ENETDOWN)),
            (Ok(120), Status::Requested, Stopped::NoRoom),
        ] {
            assert_eq!(Stopped::why(&answer, left), why, "{answer:?} {left:?}");
        }
    }

    #[test]
    fn slots_are_powers_of_two_that_hold_header_and_frame() {
        assert_eq!([60, 96, 97, 1514, 9014].map(slot_bytes), [128, 128, 256, 2048, 16_384]);
    }
}
