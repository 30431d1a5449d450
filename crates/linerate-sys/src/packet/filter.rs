//! Classic BPF programs that accept only frames with one of a few marks at a known place (Linux
//! `Documentation/networking/filter.rst`).
//!
//! The kernel runs the program on each frame before it copies or counts the frame. A refused frame
//! costs the receiver nothing and is not a drop. Offsets count from the destination address, on
//! frames without the outer VLAN tag, which the kernel removes.

use std::os::fd::AsFd;

use socket2::{SockFilter, SockRef};

use crate::socket::describe;
use crate::{Result, SysError};

/// Opcodes: load 32 bits and load 16 bits from a constant offset.
const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const LOAD_HALF: u16 = (libc::BPF_LD | libc::BPF_H | libc::BPF_ABS) as u16;
/// Opcode: remainder of a division by a constant.
const REMAINDER: u16 = (libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K) as u16;
const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// Place and values of a mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accept {
    /// Offset of the mark, 32 bits big-endian.
    pub offset: u32,
    /// Accepted values.
    pub marks: Vec<u32>,
    /// Accepts only the marked frames whose number has one remainder.
    pub share: Option<Share>,
}

/// One socket's share of numbered frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Offset of the number, 16 bits big-endian.
    pub offset: u32,
    /// Number of sockets that share the frames.
    pub of: u32,
    /// Remainder of this socket's numbers.
    pub own: u32,
}

/// Filter program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter(Vec<Instruction>);

/// Instruction: `struct sock_filter`.
type Instruction = (u16, u8, u8, u32);

impl Filter {
    /// Accepts frames that any of `places` describes, tried in order, and keeps their first `keep`
    /// bytes. Refuses all other frames. A frame that is too short for an offset is refused at once,
    /// so list places by ascending offset.
    #[must_use]
    pub fn any_of(places: &[Accept], keep: u32) -> Self {
        let mut program = Vec::new();
        for place in places {
            let ending: &[(u16, u8, u8, u32)] = &match place.share {
                // A frame of another socket's share has no other accepted mark either.
                Some(share) => vec![
                    (LOAD_HALF, 0, 0, share.offset),
                    (REMAINDER, 0, 0, share.of),
                    (JUMP_IF_EQUAL, 1, 0, share.own),
                    (RETURN, 0, 0, 0),
                    (RETURN, 0, 0, keep),
                ],
                None => vec![(RETURN, 0, 0, keep)],
            };
            program.push((LOAD_WORD, 0, 0, place.offset));
            let n = place.marks.len();
            for (idx, mark) in place.marks.iter().enumerate() {
                let is_last = idx + 1 == n;
                let matched = (n - 1 - idx) as u8;
                program.push((
                    JUMP_IF_EQUAL,
                    matched,
                    if is_last { ending.len() as u8 } else { 0 },
                    *mark,
                ));
            }
            program.extend(ending);
        }
        program.push((RETURN, 0, 0, 0));
        Self(program)
    }

    /// Attaches the filter to `socket`.
    ///
    /// # Errors
    /// If the kernel refuses the program.
    pub fn attach(&self, socket: &impl AsFd) -> Result<()> {
        let program: Vec<SockFilter> = self
            .0
            .iter()
            .map(|(code, yes, no, value)| SockFilter::new(*code, *yes, *no, *value))
            .collect();
        SockRef::from(socket)
            .attach_filter(&program)
            .map_err(|cause| SysError::new("attach a filter to", describe(socket), cause))
    }
}

/// Makes the kernel silently drop everything that arrives at `socket`. The socket keeps its port,
/// so that no sender learns that nobody listens.
///
/// # Errors
/// If the kernel refuses the program.
pub fn deafen(socket: &impl AsFd) -> Result<()> {
    Filter(vec![(RETURN, 0, 0, 0)]).attach(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the kernel's result for `frame`.
    fn run(filter: &Filter, frame: &[u8]) -> u32 {
        let (mut at, mut accumulator) = (0, 0_u32);
        loop {
            let (code, yes, no, value) = filter.0[at];
            at += 1;
            let load = |n: usize| {
                let bytes = frame.get(value as usize..value as usize + n)?;
                Some(bytes.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)))
            };
            match code {
                LOAD_WORD | LOAD_HALF => match load(if code == LOAD_WORD { 4 } else { 2 }) {
                    Some(loaded) => accumulator = loaded,
                    None => return 0,
                },
                REMAINDER => accumulator %= value,
                JUMP_IF_EQUAL => at += usize::from(if accumulator == value { yes } else { no }),
                RETURN => return value,
                other => panic!("{other:#x} is not an opcode of these filters"),
            }
        }
    }

    fn frame(mark_at: usize, mark: u32, number: u16) -> Vec<u8> {
        let mut frame = vec![0; mark_at + 6];
        frame[mark_at..mark_at + 4].copy_from_slice(&mark.to_be_bytes());
        frame[mark_at + 4..].copy_from_slice(&number.to_be_bytes());
        frame
    }

    #[test]
    fn only_marked_frames_of_the_own_share_pass_at_either_place() {
        let place = |offset| Accept {
            offset,
            marks: vec![7, 9],
            share: Some(Share { offset: offset + 4, of: 3, own: 2 }),
        };
        let filter = Filter::any_of(&[place(42), place(46)], 96);
        for at in [42, 46] {
            for mark in [7, 9] {
                assert_eq!(run(&filter, &frame(at, mark, 5)), 96, "{at} {mark}");
                assert_eq!(run(&filter, &frame(at, mark, 4)), 0, "another's share");
            }
            assert_eq!(run(&filter, &frame(at, 8, 5)), 0, "another program's mark");
        }
        assert_eq!(run(&filter, &frame(44, 7, 5)), 0, "a mark elsewhere");
        assert_eq!(run(&filter, &[0; 20]), 0, "too short for any");
    }

    #[test]
    fn without_a_share_every_marked_frame_passes() {
        let filter = Filter::any_of(&[Accept { offset: 0, marks: vec![1], share: None }], u32::MAX);
        assert_eq!((run(&filter, &frame(0, 1, 9)), run(&filter, &frame(0, 2, 9))), (u32::MAX, 0));
    }

    #[test]
    fn a_deafened_socket_receives_nothing() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback");
        socket.set_nonblocking(true).expect("an option");
        deafen(&socket).expect("no privilege is needed");
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback");
        sender
            .send_to(b"x", socket.local_addr().expect("bound"))
            .expect("the datagram is dropped silently");
        sender.connect(socket.local_addr().expect("bound")).expect("connect");
        sender.send(b"y").expect("and no error comes back");
        assert!(socket.recv(&mut [0; 8]).is_err());
    }
}
