//! Assembler for the eBPF instruction set (RFC 9669). Instructions are appended; jumps go to
//! labels. Pure.
//!
//! The assembler does not check if the kernel accepts a program. The verifier does that.

use super::map::Map;

/// eBPF register. `R0` holds results. `R1` to `R5` hold arguments, and a call overwrites them. `R6`
/// to `R9` keep their values across a call. `R10` points to the end of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of RFC 9669")]
pub(crate) enum Register {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// Second operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    /// The contents of a register.
    Of(Register),
    /// A number, sign-extended to 64 bits.
    Number(i32),
}

/// Width of a load or store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "bits")]
pub(crate) enum Width {
    Bits8,
    Bits16,
    Bits32,
    Bits64,
}

/// 64-bit arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub(crate) enum Operation {
    Add,
    Subtract,
    Multiply,
    And,
    ShiftLeft,
    ShiftRight,
    ExclusiveOr,
    Move,
}

/// Condition of a jump; comparisons are unsigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub(crate) enum Condition {
    Equal,
    NotEqual,
    Greater,
    Less,
}

/// Functions of the kernel (`enum bpf_func_id`, linux/bpf.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Helper {
    /// `bpf_map_lookup_elem(map, &key)`.
    MapLookup = 1,
    /// `bpf_ktime_get_ns()`: the monotonic clock.
    Monotonic = 5,
    /// `bpf_redirect_map(map, key, action if there is none)`.
    RedirectMap = 51,
    /// `bpf_xdp_adjust_tail(ctx, delta)`: pointers into the frame are lost.
    AdjustTail = 65,
}

/// Target of jumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label(usize);

/// Finished program: 64-bit instructions in the machine's byte order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Code(pub(super) Vec<[u8; INSTRUCTION_BYTES]>);

pub(super) const INSTRUCTION_BYTES: usize = 8;

/// Instruction classes and modes, RFC 9669 sections 3, 4 and 5.
const CLASS_LOAD: u8 = 0x00;
const CLASS_LOAD_REGISTER: u8 = 0x01;
const CLASS_STORE_REGISTER: u8 = 0x03;
const CLASS_ARITHMETIC_32: u8 = 0x04;
const CLASS_JUMP: u8 = 0x05;
const CLASS_ARITHMETIC_64: u8 = 0x07;
const MODE_MEMORY: u8 = 0x60;
const SOURCE_REGISTER: u8 = 0x08;
const WIDE: u8 = 0x18;
const BYTE_SWAP: u8 = 0xd0;
const TO_BIG_ENDIAN: u8 = 0x08;
const JUMP_ALWAYS: u8 = 0x00;
const CALL: u8 = 0x80;
const EXIT: u8 = 0x90;
/// Meaning of the number in a wide load, in the second register: the number itself, a map, or the
/// value of a map's first entry.
const WIDE_NUMBER: u8 = 0;
const WIDE_MAP: u8 = 1;
const WIDE_MAP_VALUE: u8 = 2;

/// Program under construction.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    instructions: Vec<[u8; INSTRUCTION_BYTES]>,
    /// Position of each label; `None` until it is placed.
    places: Vec<Option<usize>>,
    /// Jumps that still lack their distance.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    /// Returns an empty program.
    #[must_use]
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Returns a label that is not placed yet.
    pub(crate) fn label(&mut self) -> Label {
        self.places.push(None);
        Label(self.places.len() - 1)
    }

    /// Places `label` before the next instruction.
    ///
    /// # Panics
    /// If it was placed before.
    pub(crate) fn place(&mut self, label: Label) -> &mut Self {
        let before = self.places[label.0].replace(self.instructions.len());
        assert!(before.is_none(), "label {} is placed twice", label.0);
        self
    }

    /// Sets `destination` to `destination` `operation` `operand`.
    pub(crate) fn compute(
        &mut self,
        operation: Operation,
        destination: Register,
        operand: Operand,
    ) -> &mut Self {
        let code = match operation {
            Operation::Add => 0x00,
            Operation::Subtract => 0x10,
            Operation::Multiply => 0x20,
            Operation::And => 0x50,
            Operation::ShiftLeft => 0x60,
            Operation::ShiftRight => 0x70,
            Operation::ExclusiveOr => 0xa0,
            Operation::Move => 0xb0,
        };
        self.operate(CLASS_ARITHMETIC_64 | code, destination, operand, 0)
    }

    /// Sets `destination` to `operand`.
    pub(crate) fn set(&mut self, destination: Register, operand: Operand) -> &mut Self {
        self.compute(Operation::Move, destination, operand)
    }

    /// Loads from `offset` bytes after the address in `base`; narrower values are zero-extended.
    pub(crate) fn load(
        &mut self,
        width: Width,
        destination: Register,
        base: Register,
        offset: i16,
    ) -> &mut Self {
        self.push(
            CLASS_LOAD_REGISTER | MODE_MEMORY | width.code(),
            destination,
            base as u8,
            offset,
            0,
        )
    }

    /// Stores the low bits of `source`.
    pub(crate) fn store(
        &mut self,
        width: Width,
        base: Register,
        offset: i16,
        source: Register,
    ) -> &mut Self {
        self.push(CLASS_STORE_REGISTER | MODE_MEMORY | width.code(), base, source as u8, offset, 0)
    }

    /// Converts the low bits of `register` to big-endian and clears the other bits.
    pub(crate) fn big_endian(&mut self, width: Width, register: Register) -> &mut Self {
        self.push(CLASS_ARITHMETIC_32 | BYTE_SWAP | TO_BIG_ENDIAN, register, 0, 0, width.bits())
    }

    /// Sets `destination` to all 64 bits of `number`.
    pub(crate) fn set_number(&mut self, destination: Register, number: u64) -> &mut Self {
        self.wide(destination, WIDE_NUMBER, number as u32 as i32, (number >> 32) as u32 as i32)
    }

    /// Sets `destination` to a pointer to `map`, for helpers.
    pub(crate) fn set_map(&mut self, destination: Register, map: &Map) -> &mut Self {
        self.wide(destination, WIDE_MAP, map.number(), 0)
    }

    /// Sets `destination` to a pointer `offset` bytes into the first value of `map`, an array.
    pub(crate) fn set_map_value(
        &mut self,
        destination: Register,
        map: &Map,
        offset: i32,
    ) -> &mut Self {
        self.wide(destination, WIDE_MAP_VALUE, map.number(), offset)
    }

    /// Continues at `label`.
    pub(crate) fn jump(&mut self, label: Label) -> &mut Self {
        self.jumps.push((self.instructions.len(), label));
        self.push(CLASS_JUMP | JUMP_ALWAYS, Register::R0, 0, 0, 0)
    }

    /// Continues at `label` if `register` `condition` `operand`.
    pub(crate) fn jump_if(
        &mut self,
        condition: Condition,
        register: Register,
        operand: Operand,
        label: Label,
    ) -> &mut Self {
        let code = match condition {
            Condition::Equal => 0x10,
            Condition::Greater => 0x20,
            Condition::NotEqual => 0x50,
            Condition::Less => 0xa0,
        };
        self.jumps.push((self.instructions.len(), label));
        self.operate(CLASS_JUMP | code, register, operand, 0)
    }

    /// Calls a kernel function.
    pub(crate) fn call(&mut self, helper: Helper) -> &mut Self {
        self.push(CLASS_JUMP | CALL, Register::R0, 0, 0, helper as i32)
    }

    /// Ends the program; the result is in `R0`.
    pub(crate) fn exit(&mut self) -> &mut Self {
        self.push(CLASS_JUMP | EXIT, Register::R0, 0, 0, 0)
    }

    /// Resolves every jump and returns the program.
    ///
    /// # Panics
    /// If a label was used but never placed, or is more than 32,767 instructions away.
    #[must_use]
    pub(crate) fn finish(mut self) -> Code {
        for (from, label) in std::mem::take(&mut self.jumps) {
            let to = self.places[label.0].expect("every label that is jumped to is placed");
            // Distances count from the instruction after the jump.
            let distance = to as i64 - (from as i64 + 1);
            let distance = i16::try_from(distance)
                .expect("programs here are far shorter than 32,767 instructions");
            self.instructions[from][2..4].copy_from_slice(&distance.to_ne_bytes());
        }
        Code(self.instructions)
    }

    fn operate(
        &mut self,
        code: u8,
        register: Register,
        operand: Operand,
        offset: i16,
    ) -> &mut Self {
        match operand {
            Operand::Of(source) => {
                self.push(code | SOURCE_REGISTER, register, source as u8, offset, 0)
            }
            Operand::Number(number) => self.push(code, register, 0, offset, number),
        }
    }

    /// Appends the two instructions that load 64 bits.
    fn wide(&mut self, destination: Register, kind: u8, low: i32, high: i32) -> &mut Self {
        self.push(CLASS_LOAD | WIDE, destination, kind, 0, low);
        self.push(0, Register::R0, 0, 0, high)
    }

    fn push(
        &mut self,
        code: u8,
        destination: Register,
        source: u8,
        offset: i16,
        number: i32,
    ) -> &mut Self {
        // The two registers share a byte. The order of its halves follows the machine's bit fields.
        let registers = if cfg!(target_endian = "little") {
            destination as u8 | source << 4
        } else {
            (destination as u8) << 4 | source
        };
        let mut instruction = [0; INSTRUCTION_BYTES];
        instruction[0] = code;
        instruction[1] = registers;
        instruction[2..4].copy_from_slice(&offset.to_ne_bytes());
        instruction[4..8].copy_from_slice(&number.to_ne_bytes());
        self.instructions.push(instruction);
        self
    }
}

impl Code {}

impl Width {
    const fn code(self) -> u8 {
        match self {
            Self::Bits32 => 0x00,
            Self::Bits16 => 0x08,
            Self::Bits8 => 0x10,
            Self::Bits64 => 0x18,
        }
    }

    const fn bits(self) -> i32 {
        match self {
            Self::Bits8 => 8,
            Self::Bits16 => 16,
            Self::Bits32 => 32,
            Self::Bits64 => 64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Register::{R0, R1, R2, R7};
    use super::*;

    /// As `llvm-objdump` prints the same program for a little-endian machine.
    #[cfg(target_endian = "little")]
    #[test]
    fn instructions_are_the_bytes_of_the_standard() {
        let mut assembler = Assembler::new();
        let pass = assembler.label();
        assembler
            .load(Width::Bits32, R7, R1, 4)
            .compute(Operation::Add, R2, Operand::Number(14))
            .jump_if(Condition::Greater, R2, Operand::Of(R7), pass)
            .big_endian(Width::Bits16, R2)
            .store(Width::Bits64, R1, -8, R2)
            .place(pass)
            .set(R0, Operand::Number(2))
            .call(Helper::Monotonic)
            .exit();
        let expected: [[u8; 8]; 8] = [
            [0x61, 0x17, 0x04, 0x00, 0x00, 0x00, 0x00, 0x00],
            [0x07, 0x02, 0x00, 0x00, 0x0e, 0x00, 0x00, 0x00],
            [0x2d, 0x72, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00],
            [0xdc, 0x02, 0x00, 0x00, 0x10, 0x00, 0x00, 0x00],
            [0x7b, 0x21, 0xf8, 0xff, 0x00, 0x00, 0x00, 0x00],
            [0xb7, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00],
            [0x85, 0x00, 0x00, 0x00, 0x05, 0x00, 0x00, 0x00],
            [0x95, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00],
        ];
        assert_eq!(assembler.finish().0, expected);
    }

    #[test]
    fn jumps_go_forward_and_back() {
        let mut assembler = Assembler::new();
        let (again, done) = (assembler.label(), assembler.label());
        assembler
            .place(again)
            .jump_if(Condition::Equal, R1, Operand::Number(0), done)
            .jump(again)
            .place(done)
            .exit();
        let code = assembler.finish();
        let distance = |index: usize| i16::from_ne_bytes([code.0[index][2], code.0[index][3]]);
        assert_eq!((distance(0), distance(1), code.0.len()), (1, -2, 3));
    }

    #[test]
    #[should_panic(expected = "placed")]
    fn a_jump_to_nowhere_is_a_mistake_of_ours() {
        let mut assembler = Assembler::new();
        let nowhere = assembler.label();
        assembler.jump(nowhere);
        let _code = assembler.finish();
    }
}
