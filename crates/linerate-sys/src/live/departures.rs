//! Counts how many redirected frames a driver accepted, where the kernel learns it. The tracepoint
//! `xdp_devmap_xmit` reports frames that were handed to the driver, and `xdp_redirect_err` reports
//! frames that could not be handed over.
//!
//! The tracepoints see every redirected frame of the machine. Order identifies ours: nothing
//! interrupts the generator's batch on its CPU. The generator increments a counter of pending
//! frames for each redirect, and the tracepoints decrement it until it is zero at the end of the
//! batch. A redirect of another program finds the counter at zero.

use std::os::fd::OwnedFd;

use crate::Result;
use crate::ebpf::assembler::Register::{R0, R1, R2, R6, R7, R8, R9, R10};
use crate::ebpf::assembler::{
    Assembler, Code, Condition, Helper, Label, Operand, Operation, Width,
};
use crate::ebpf::map::PerCpuCounters;
use crate::ebpf::program::{Kind, Program, Tracepoint};

/// Counters per CPU.
const PENDING: usize = 0;
const SENT: usize = 1;
const DROPPED: usize = 2;
const N_COUNTERS: usize = 3;

/// Offsets of the tracepoint's arguments, eight bytes each: from, to, sent, drops, error
/// (include/trace/events/xdp.h).
const ARGUMENT_SENT: i16 = 16;
const ARGUMENT_DROPS: i16 = 24;

const fn at(counter: usize) -> i16 {
    (counter * 8) as i16
}

/// Programs at the tracepoints and their counters.
#[derive(Debug)]
pub(super) struct Departures {
    counters: PerCpuCounters,
    tracepoints: [OwnedFd; 2],
}

impl Departures {
    pub(super) fn watch() -> Result<Self> {
        let counters = PerCpuCounters::new("lr_departures", N_COUNTERS)?;
        let handed = Program::load(Kind::RawTracepoint, "lr_handed", &handed(&counters))?;
        let refused = Program::load(Kind::RawTracepoint, "lr_refused", &refused(&counters))?;
        let tracepoints = [
            Tracepoint::attach(&handed, c"xdp_devmap_xmit")?,
            Tracepoint::attach(&refused, c"xdp_redirect_err")?,
        ];
        Ok(Self { counters, tracepoints: tracepoints.map(OwnedFd::from) })
    }

    /// Returns the map of counters and the links that keep the programs attached.
    pub(super) fn into_parts(self) -> (OwnedFd, [OwnedFd; 2]) {
        (self.counters.into(), self.tracepoints)
    }

    /// Uses the parts that [`Self::watch`] has created, perhaps in another process.
    pub(super) fn of(counters: OwnedFd, tracepoints: [OwnedFd; 2]) -> Result<Self> {
        Ok(Self { counters: PerCpuCounters::of(counters, N_COUNTERS)?, tracepoints })
    }

    pub(super) fn counters(&self) -> &PerCpuCounters {
        &self.counters
    }

    /// Returns the number of frames that the driver accepted and refused so far.
    pub(super) fn read(&mut self) -> Result<(u64, u64)> {
        let totals = self.counters.totals::<N_COUNTERS>()?;
        Ok((totals[SENT], totals[DROPPED]))
    }
}

/// Program at `xdp_devmap_xmit`: the kernel handed frames to a driver, which accepted some of them.
fn handed(counters: &PerCpuCounters) -> Code {
    let mut assembler = Assembler::new();
    assembler.load(Width::Bits64, R6, R1, ARGUMENT_SENT).load(
        Width::Bits64,
        R7,
        R1,
        ARGUMENT_DROPS,
    );
    settle(assembler, counters)
}

/// Program at `xdp_redirect_err`: one frame could not be handed over.
fn refused(counters: &PerCpuCounters) -> Code {
    let mut assembler = Assembler::new();
    assembler.set(R6, Operand::Number(0)).set(R7, Operand::Number(1));
    settle(assembler, counters)
}

/// Subtracts R6 sent and R7 dropped frames from the pending frames, if that many are pending.
fn settle(mut assembler: Assembler, counters: &PerCpuCounters) -> Code {
    let done = assembler.label();
    look_up(&mut assembler, counters, done);
    assembler
        .load(Width::Bits64, R8, R0, at(PENDING))
        .set(R9, Operand::Of(R6))
        .compute(Operation::Add, R9, Operand::Of(R7))
        .jump_if(Condition::Less, R8, Operand::Of(R9), done)
        .compute(Operation::Subtract, R8, Operand::Of(R9))
        .store(Width::Bits64, R0, at(PENDING), R8);
    for (counter, count) in [(SENT, R6), (DROPPED, R7)] {
        assembler
            .load(Width::Bits64, R1, R0, at(counter))
            .compute(Operation::Add, R1, Operand::Of(count))
            .store(Width::Bits64, R0, at(counter), R1);
    }
    assembler.place(done).set(R0, Operand::Number(0)).exit();
    assembler.finish()
}

/// Instructions of the generator: one more frame is pending on this CPU. Continues at `fail` if
/// there are no counters.
pub(super) fn expect_one(assembler: &mut Assembler, counters: &PerCpuCounters, fail: Label) {
    look_up(assembler, counters, fail);
    assembler
        .load(Width::Bits64, R1, R0, at(PENDING))
        .compute(Operation::Add, R1, Operand::Number(1))
        .store(Width::Bits64, R0, at(PENDING), R1);
}

/// Points R0 at this CPU's counters.
fn look_up(assembler: &mut Assembler, counters: &PerCpuCounters, absent: Label) {
    const KEY: i16 = -8;
    assembler
        .set(R1, Operand::Number(0))
        .store(Width::Bits64, R10, KEY, R1)
        .set(R2, Operand::Of(R10))
        .compute(Operation::Add, R2, Operand::Number(KEY.into()))
        .set_map(R1, counters.map())
        .call(Helper::MapLookup)
        .jump_if(Condition::Equal, R0, Operand::Number(0), absent);
}
