//! Program that diverts our frames from what an interface receives, and passes everything else on.

use std::os::fd::{AsFd, AsRawFd};

use super::attachment::{Attachment, Placement};
use super::socket::XdpSocket;
use crate::ebpf::assembler::{
    Assembler, Code, Condition, Helper, Label, Operand, Operation, Register, Width,
};
use crate::ebpf::map::Map;
use crate::ebpf::program::{Action, Kind, Program};
use crate::privilege::{AttachedFilter, helped};
use crate::{Result, SysError};

/// Condition on a frame: up to eight bytes at `offset` from the start of the Ethernet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    /// Offset of the first byte.
    pub offset: u16,
    /// Value in wire order; one, two, four or eight bytes are compared.
    pub value: [u8; 8],
    /// Number of compared bytes: 1, 2, 4 or 8.
    pub n_bytes: u8,
    /// Compared bits, in the same order.
    pub mask: [u8; 8],
}

impl Match {
    /// Requires all bits of `value` at `offset`.
    ///
    /// # Panics
    /// If `value` has another length than 1, 2, 4 or 8.
    #[must_use]
    pub fn exactly(offset: u16, value: &[u8]) -> Self {
        Self::masked(offset, value, &[0xff; 8][..value.len()])
    }

    /// Requires the bits of `value` at `offset` that are set in `mask`.
    ///
    /// # Panics
    /// If `value` has another length than 1, 2, 4 or 8, or another length than `mask`.
    #[must_use]
    pub fn masked(offset: u16, value: &[u8], mask: &[u8]) -> Self {
        assert!(
            matches!(value.len(), 1 | 2 | 4 | 8) && value.len() == mask.len(),
            "1, 2, 4 or 8 bytes and their mask"
        );
        let (mut wide_value, mut wide_mask) = ([0; 8], [0; 8]);
        wide_value[..value.len()].copy_from_slice(value);
        wide_mask[..mask.len()].copy_from_slice(mask);
        Self { offset, value: wide_value, n_bytes: value.len() as u8, mask: wide_mask }
    }

    /// Returns the number of bytes of a frame that the condition needs.
    fn end(&self) -> u16 {
        self.offset + u16::from(self.n_bytes)
    }

    fn width(&self) -> Width {
        match self.n_bytes {
            1 => Width::Bits8,
            2 => Width::Bits16,
            4 => Width::Bits32,
            _ => Width::Bits64,
        }
    }

    /// Returns the bytes as a load in the machine's byte order yields them.
    fn loaded(&self, bytes: [u8; 8]) -> u64 {
        match self.n_bytes {
            1 => u64::from(bytes[0]),
            2 => u64::from(u16::from_ne_bytes([bytes[0], bytes[1]])),
            4 => u64::from(u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])),
            _ => u64::from_ne_bytes(bytes),
        }
    }
}

/// Program at an interface that hands frames to sockets.
#[derive(Debug)]
pub struct Filter {
    attachment: Attachment,
    program: Program,
    sockets: Map,
    device: String,
}

/// Largest number of receive queues of a device.
const MOST_QUEUES: u32 = 1024;

impl Filter {
    /// Attaches a program to `device` that diverts the frames for which all matches of any of
    /// `alternatives` hold. Until a queue has a socket, its frames go to the stack. `placement`
    /// `None` selects the best one. With `multi_buffer`, frames may be longer than one buffer.
    ///
    /// # Errors
    /// As `Attachment::at`, and if the verifier rejects the program.
    ///
    /// # Panics
    /// If an alternative is empty: a program that diverts everything would disconnect everybody who
    /// uses that interface.
    pub fn attach(
        device: &str,
        alternatives: &[&[Match]],
        placement: Option<Placement>,
        multi_buffer: bool,
    ) -> Result<Self> {
        let attached = Self::attach_here(device, alternatives, placement, multi_buffer);
        let error = match attached {
            Err(error) if error.is_refused() => error,
            attached => return attached,
        };
        // The kernel's error names the missing privilege if there is no helper.
        let Some(helped) =
            helped(|helper| helper.attach_filter(device, alternatives, placement, multi_buffer))
        else {
            return Err(error);
        };
        let AttachedFilter { placement, link, program, sockets } =
            helped.map_err(|cause| SysError::new("attach XDP program to", device, cause))?;
        Ok(Self {
            attachment: Attachment::from_parts(link, placement),
            program: Program::from(program),
            sockets: Map::of_sockets(sockets),
            device: device.to_owned(),
        })
    }

    /// Does the same as [`Filter::attach`] with the privileges of this process.
    ///
    /// # Errors
    /// As [`Filter::attach`].
    pub fn attach_here(
        device: &str,
        alternatives: &[&[Match]],
        placement: Option<Placement>,
        multi_buffer: bool,
    ) -> Result<Self> {
        let sockets = Map::xdp_sockets("lr_sockets", MOST_QUEUES)?;
        let kind = if multi_buffer { Kind::XdpMultiBuffer } else { Kind::Xdp };
        let program = Program::load(kind, "lr_filter", &code(alternatives, &sockets))?;
        let attachment = match placement {
            Some(placement) => Attachment::at(&program, device, placement)?,
            None => Attachment::at_best(&program, device)?,
        };
        Ok(Self { attachment, program, sockets, device: device.to_owned() })
    }

    /// Diverts matching frames of the socket's queue to `socket` from now on.
    ///
    /// # Errors
    /// If the socket is bound to another device.
    pub fn direct(&self, socket: &XdpSocket) -> Result<()> {
        self.sockets.set(socket.queue(), socket.as_fd().as_raw_fd() as u32).map_err(|error| {
            let object = format!("queue {} of {}", socket.queue(), self.device);
            SysError::new("direct frames to the XDP socket of", object, error.cause)
        })
    }

    /// Returns the descriptors that keep it attached, for another process.
    #[must_use]
    pub fn into_parts(self) -> AttachedFilter {
        let placement = self.placement();
        let (link, program, sockets) =
            (self.attachment.into(), self.program.into(), self.sockets.into());
        AttachedFilter { placement, link, program, sockets }
    }

    /// Returns the place where it runs.
    #[must_use]
    pub fn placement(&self) -> Placement {
        self.attachment.placement()
    }

    /// Returns true if it would divert `frame`, of at least 14 bytes, on queue 0 with a socket.
    ///
    /// # Errors
    /// If the kernel refuses the test.
    pub fn takes(&self, frame: &[u8]) -> Result<bool> {
        /// `XDP_REDIRECT`.
        const REDIRECTED: u32 = 4;
        Ok(self.program.judge(frame)? == REDIRECTED)
    }
}

fn code(alternatives: &[&[Match]], sockets: &Map) -> Code {
    use Register::{R0, R1, R2, R3};
    /// Offsets in `struct xdp_md`: start and end of the frame, and the receive queue.
    const DATA: i16 = 0;
    const DATA_END: i16 = 4;
    const QUEUE: i16 = 16;
    let mut assembler = Assembler::new();
    let ours = assembler.label();
    assembler.load(Width::Bits32, R2, R1, DATA).load(Width::Bits32, R3, R1, DATA_END);
    for matches in alternatives {
        try_one(&mut assembler, matches, ours);
    }
    assembler
        .set(R0, Operand::Number(Action::Pass as i32))
        .exit()
        .place(ours)
        .load(Width::Bits32, R2, R1, QUEUE)
        .set_map(R1, sockets)
        // Verdict for a frame whose queue has no socket.
        .set(R3, Operand::Number(Action::Pass as i32))
        .call(Helper::RedirectMap)
        .exit();
    assembler.finish()
}

/// Continues at `ours` if all of `matches` hold for the frame from R2 to R3.
fn try_one(assembler: &mut Assembler, matches: &[Match], ours: Label) {
    use Register::{R2, R3, R4, R5};
    assert!(
        !matches.is_empty(),
        "a filter that diverts every frame disconnects the users of the interface"
    );
    let needed = matches.iter().map(Match::end).max().unwrap_or(0);
    let not_this = assembler.label();
    assembler
        .set(R4, Operand::Of(R2))
        .compute(Operation::Add, R4, Operand::Number(needed.into()))
        .jump_if(Condition::Greater, R4, Operand::Of(R3), not_this);
    for one in matches {
        let (value, mask) = (one.loaded(one.value), one.loaded(one.mask));
        assembler.load(one.width(), R4, R2, one.offset as i16);
        if one.mask[..usize::from(one.n_bytes)].iter().any(|byte| *byte != 0xff) {
            assembler.set_number(R5, mask).compute(Operation::And, R4, Operand::Of(R5));
        }
        assembler.set_number(R5, value & mask).jump_if(
            Condition::NotEqual,
            R4,
            Operand::Of(R5),
            not_this,
        );
    }
    assembler.jump(ours).place(not_this);
}
