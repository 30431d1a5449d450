//! The program that creates a frame: about 70 instructions, and two more for each word of the
//! header.

use super::departures;
use super::template::{
    CHANCE_WORD, CLOCK_WORD, FIRST_FLOW_WORD, GAP_WORD, Layout, MADE_WORD, ROW_BYTES, ROW_FLOW,
    ROW_HEADER, ROW_SUM, SCHEDULED_WORD, TURN_WORD, WORD,
};
use crate::ebpf::assembler::Register::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9};
use crate::ebpf::assembler::{
    Assembler, Code, Condition, Helper, Label, Operand, Operation, Width,
};
use crate::ebpf::map::{Map, PerCpuCounters, SharedWords};
use crate::ebpf::program::Action;

/// Offsets in `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;

/// Significant bits of a lateness; the other four bits store the shift.
const LATENESS_BITS: i32 = 12;
const LATENESS_MOST: i32 = (1 << LATENESS_BITS) - 1;

const fn at(word: usize) -> i16 {
    (word * WORD) as i16
}

/// Registers: R6 is the context and later the time, R7 the frame, R8 the checksum's sum, R9 the
/// row.
pub(super) fn code(
    layout: &Layout,
    state: &SharedWords,
    devices: &Map,
    counters: &PerCpuCounters,
) -> Code {
    let mut assembler = Assembler::new();
    let fail = assembler.label();
    assembler.set(R6, Operand::Of(R1));
    choose_row(&mut assembler, layout, state);
    find_frame(&mut assembler, layout, fail);
    copy_header(&mut assembler, layout.shape.header_bytes);
    stamp(&mut assembler, layout, state, fail);
    if let Some(at) = layout.shape.random_ports_at {
        draw_ports(&mut assembler, state, at as i16);
    }
    complete_checksum(&mut assembler, layout.shape.checksum_at as i16);
    departures::expect_one(&mut assembler, counters, fail);
    assembler
        .set_map(R1, devices)
        .set(R2, Operand::Number(0))
        .set(R3, Operand::Number(Action::Aborted as i32))
        .call(Helper::RedirectMap)
        .exit()
        .place(fail)
        .set(R0, Operand::Number(Action::Aborted as i32))
        .exit();
    assembler.finish()
}

/// Counts the frame, points R9 at the current row, and advances to the next row.
fn choose_row(assembler: &mut Assembler, layout: &Layout, state: &SharedWords) {
    let n_rows = Operand::Number(layout.n_rows as i32);
    assembler
        .set_map_value(R9, state.map(), 0)
        .load(Width::Bits64, R1, R9, at(MADE_WORD))
        .compute(Operation::Add, R1, Operand::Number(1))
        .store(Width::Bits64, R9, at(MADE_WORD), R1);
    if layout.n_rows > 1 {
        let (within, stay) = (assembler.label(), assembler.label());
        assembler
            .load(Width::Bits64, R1, R9, at(TURN_WORD))
            .jump_if(Condition::Less, R1, n_rows, within)
            .set(R1, Operand::Number(0))
            .place(within)
            .set(R2, Operand::Of(R1))
            .compute(Operation::Add, R2, Operand::Number(1))
            .jump_if(Condition::Less, R2, n_rows, stay)
            .set(R2, Operand::Number(0))
            .place(stay)
            .store(Width::Bits64, R9, at(TURN_WORD), R2)
            .compute(Operation::Multiply, R1, Operand::Number((layout.row_words() * WORD) as i32))
            .compute(Operation::Add, R9, Operand::Of(R1));
    }
    assembler.compute(Operation::Add, R9, Operand::Number((layout.first_row_word() * WORD) as i32));
}

/// Sets the frame to the row's length and points R7 at it.
fn find_frame(assembler: &mut Assembler, layout: &Layout, fail: Label) {
    if !layout.one_length {
        // Pages come back with the longest length.
        assembler
            .set(R1, Operand::Of(R6))
            .load(Width::Bits64, R2, R9, at(ROW_BYTES))
            .compute(Operation::Subtract, R2, Operand::Number(layout.longest as i32))
            .call(Helper::AdjustTail)
            .jump_if(Condition::NotEqual, R0, Operand::Number(0), fail);
    }
    assembler
        .load(Width::Bits32, R7, R6, DATA)
        .load(Width::Bits32, R2, R6, DATA_END)
        .set(R3, Operand::Of(R7))
        .compute(Operation::Add, R3, Operand::Number(layout.shape.header_bytes as i32))
        .jump_if(Condition::Greater, R3, Operand::Of(R2), fail);
}

/// Copies eight bytes at a time, then four, then two: headers have an even number of bytes.
fn copy_header(assembler: &mut Assembler, header_bytes: usize) {
    let mut done = 0;
    for (width, bytes) in [(Width::Bits64, WORD), (Width::Bits32, 4), (Width::Bits16, 2)] {
        while header_bytes - done >= bytes {
            assembler.load(width, R1, R9, at(ROW_HEADER) + done as i16).store(
                width,
                R7,
                done as i16,
                R1,
            );
            done += bytes;
        }
    }
}

/// Writes sequence number, scheduled departure and lateness, and adds them to the sum in R8.
fn stamp(assembler: &mut Assembler, layout: &Layout, state: &SharedWords, fail: Label) {
    let known = assembler.label();
    let stamp_at = layout.shape.stamp_at as i16;
    read_clock(assembler, state);
    assembler
        .load(Width::Bits64, R8, R9, at(ROW_SUM))
        .load(Width::Bits64, R1, R9, at(ROW_FLOW))
        .jump_if(Condition::Less, R1, Operand::Number(layout.n_flows as i32), known)
        .jump(fail)
        .place(known)
        .compute(Operation::Multiply, R1, Operand::Number(WORD as i32))
        .set_map_value(R2, state.map(), (FIRST_FLOW_WORD * WORD) as i32)
        .compute(Operation::Add, R2, Operand::Of(R1))
        .load(Width::Bits64, R1, R2, 0)
        .set(R3, Operand::Of(R1))
        .compute(Operation::Add, R3, Operand::Number(1))
        .store(Width::Bits64, R2, 0, R3);
    schedule(assembler, state);
    shorten_lateness(assembler);
    assembler
        // 40 bits of number and the upper 24 bits of time; then the lower 16 bits of time and the
        // lateness.
        .compute(Operation::ShiftLeft, R1, Operand::Number(24))
        .set(R2, Operand::Of(R3))
        .compute(Operation::ShiftRight, R2, Operand::Number(16))
        .compute(Operation::And, R2, Operand::Number(0x00ff_ffff))
        .compute(Operation::Add, R1, Operand::Of(R2))
        .big_endian(Width::Bits64, R1)
        .store(Width::Bits64, R7, stamp_at, R1)
        .compute(Operation::And, R3, Operand::Number(0xffff))
        .compute(Operation::ShiftLeft, R3, Operand::Number(16))
        .compute(Operation::Add, R3, Operand::Of(R5))
        .big_endian(Width::Bits32, R3)
        .store(Width::Bits32, R7, stamp_at + 8, R3)
        // The halves are in memory order: a sum of 32-bit words folds to the sum of their 16-bit
        // words.
        .compute(Operation::Add, R8, Operand::Of(R3))
        .set(R2, Operand::Of(R1))
        .compute(Operation::ShiftRight, R2, Operand::Number(32))
        .compute(Operation::Add, R8, Operand::Of(R2))
        .set_number(R3, u64::from(u32::MAX))
        .compute(Operation::And, R1, Operand::Of(R3))
        .compute(Operation::Add, R8, Operand::Of(R1));
}

/// Sets R6 to the time. With a schedule every frame reads the clock for its own lateness. Without
/// one, eight frames in a row share a reading, since they leave together anyway. One reading per
/// frame took 6 % of the sending CPU (perf, clock samples).
fn read_clock(assembler: &mut Assembler, state: &SharedWords) {
    const SHARERS: i32 = 8;
    let (read, known) = (assembler.label(), assembler.label());
    assembler
        .set_map_value(R2, state.map(), 0)
        .load(Width::Bits64, R6, R2, at(CLOCK_WORD))
        .jump_if(Condition::Equal, R6, Operand::Number(0), read)
        .load(Width::Bits64, R3, R2, at(SCHEDULED_WORD))
        .jump_if(Condition::NotEqual, R3, Operand::Number(0), read)
        .load(Width::Bits64, R3, R2, at(MADE_WORD))
        .compute(Operation::And, R3, Operand::Number(SHARERS - 1))
        .jump_if(Condition::NotEqual, R3, Operand::Number(0), known)
        .place(read)
        .call(Helper::Monotonic)
        .set(R6, Operand::Of(R0))
        .set_map_value(R2, state.map(), 0)
        .store(Width::Bits64, R2, at(CLOCK_WORD), R6)
        .place(known);
}

/// Sets R3 to the scheduled departure and R4 to the lateness, which is zero without a schedule.
fn schedule(assembler: &mut Assembler, state: &SharedWords) {
    let (scheduled, done) = (assembler.label(), assembler.label());
    assembler
        .set_map_value(R2, state.map(), 0)
        .load(Width::Bits64, R3, R2, at(SCHEDULED_WORD))
        .set(R4, Operand::Number(0))
        .jump_if(Condition::NotEqual, R3, Operand::Number(0), scheduled)
        .set(R3, Operand::Of(R6))
        .jump(done)
        .place(scheduled)
        .load(Width::Bits64, R5, R2, at(GAP_WORD))
        .compute(Operation::Add, R5, Operand::Of(R3))
        .store(Width::Bits64, R2, at(SCHEDULED_WORD), R5)
        .jump_if(Condition::Less, R6, Operand::Of(R3), done)
        .set(R4, Operand::Of(R6))
        .compute(Operation::Subtract, R4, Operand::Of(R3))
        .place(done);
}

/// Sets R5 to R4 as 12 bits and, above them, the right shift: at most 15.
fn shorten_lateness(assembler: &mut Assembler) {
    assembler.set(R5, Operand::Number(0));
    for shift in [8, 4, 2, 1] {
        let small = assembler.label();
        assembler
            // A value that fits 12 bits after one shift less does not need this step.
            .jump_if(Condition::Less, R4, Operand::Number(1 << (LATENESS_BITS + shift - 1)), small)
            .compute(Operation::ShiftRight, R4, Operand::Number(shift))
            .compute(Operation::Add, R5, Operand::Number(shift << LATENESS_BITS))
            .place(small);
    }
    let fits = assembler.label();
    assembler
        .jump_if(Condition::Less, R4, Operand::Number(LATENESS_MOST), fits)
        .set(R4, Operand::Number(LATENESS_MOST))
        .place(fits)
        .compute(Operation::Add, R5, Operand::Of(R4));
}

/// Writes a source and a destination port from 1024 to 65535 (RFC 4814 clause 4.3) and adds them to
/// the sum in R8. Both come from the upper half of a 64-bit linear congruential generator.
fn draw_ports(assembler: &mut Assembler, state: &SharedWords, ports_at: i16) {
    /// Knuth's MMIX generator.
    const FACTOR: u64 = 6_364_136_223_846_793_005;
    const INCREMENT: u64 = 1_442_695_040_888_963_407;
    const FIRST: i32 = 1024;
    const N_PORTS: i32 = 65_536 - FIRST;
    assembler.set_map_value(R2, state.map(), 0).load(Width::Bits64, R1, R2, at(CHANCE_WORD));
    for port_at in [ports_at, ports_at + 2] {
        assembler
            .set_number(R3, FACTOR)
            .compute(Operation::Multiply, R1, Operand::Of(R3))
            .set_number(R3, INCREMENT)
            .compute(Operation::Add, R1, Operand::Of(R3))
            .set(R4, Operand::Of(R1))
            .compute(Operation::ShiftRight, R4, Operand::Number(32))
            .compute(Operation::Multiply, R4, Operand::Number(N_PORTS))
            .compute(Operation::ShiftRight, R4, Operand::Number(32))
            .compute(Operation::Add, R4, Operand::Number(FIRST))
            .big_endian(Width::Bits16, R4)
            .store(Width::Bits16, R7, port_at, R4)
            .compute(Operation::Add, R8, Operand::Of(R4));
    }
    assembler.store(Width::Bits64, R2, at(CHANCE_WORD), R1);
}

/// Folds R8 to 16 bits and writes its complement.
fn complete_checksum(assembler: &mut Assembler, checksum_at: i16) {
    // From 64 bits to 33, then to 17 with carries, and once more for those carries.
    for bits in [32, 16, 16, 16] {
        let mask = if bits == 32 { u64::from(u32::MAX) } else { u64::from(u16::MAX) };
        assembler
            .set(R4, Operand::Of(R8))
            .compute(Operation::ShiftRight, R4, Operand::Number(bits))
            .set_number(R5, mask)
            .compute(Operation::And, R8, Operand::Of(R5))
            .compute(Operation::Add, R8, Operand::Of(R4));
    }
    let store = assembler.label();
    assembler
        .compute(Operation::ExclusiveOr, R8, Operand::Number(0xffff))
        // Zero means "no checksum" in UDP (RFC 768). The other zero of one's complement is valid
        // for every transport.
        .jump_if(Condition::NotEqual, R8, Operand::Number(0), store)
        .set(R8, Operand::Number(0xffff))
        .place(store)
        .store(Width::Bits16, R7, checksum_at, R8);
}
