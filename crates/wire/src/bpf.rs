//! Programs of classic BPF, run on frames (McCanne and Jacobson, "The BSD Packet Filter", 1993).
//!
//! A program has an accumulator, an index register and 16 scratch words, all 0 at its start. Jumps lead forward only, so that
//! it executes each instruction at most once. A load beyond the frame, or a division by an index of 0, ends it with 0.
//!
//! ```
//! use weir_wire::bpf::{Instruction, Program};
//! let is_ipv4 = Program::new(&[
//!     Instruction { code: 0x28, jt: 0, jf: 0, k: 12 },
//!     Instruction { code: 0x15, jt: 0, jf: 1, k: 0x0800 },
//!     Instruction { code: 0x06, jt: 0, jf: 0, k: 65_535 },
//!     Instruction { code: 0x06, jt: 0, jf: 0, k: 0 },
//! ])?;
//! let mut frame = [0; 60];
//! assert_eq!(is_ipv4.run(&frame), 0);
//! frame[12] = 8;
//! assert_eq!(is_ipv4.run(&frame), 65_535);
//! # Ok::<(), weir_wire::bpf::ProgramError>(())
//! ```

pub use weir_model::impairment::BpfInstruction as Instruction;

/// Maximum number of instructions, as in the Linux kernel.
pub const MAX_INSTRUCTIONS: usize = 4096;
const SCRATCH_WORDS: usize = 16;

/// Why instructions are not a program; `at` is the number of the instruction, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// None, or more than [`MAX_INSTRUCTIONS`].
    #[error("{0} instructions, expected 1 to {MAX_INSTRUCTIONS}")]
    Length(usize),
    /// An unknown opcode.
    #[error("instruction {at} has the unknown opcode {code:#06x}")]
    Opcode {
        /// The instruction.
        at: usize,
        /// Its opcode.
        code: u16,
    },
    /// A jump out of the program.
    #[error("instruction {at} jumps out of the program")]
    Jump {
        /// The instruction.
        at: usize,
    },
    /// A jump backwards, of which libpcap makes loops for `protochain`.
    #[error("instruction {at} jumps backwards, as for protochain: loops are not supported")]
    Loop {
        /// The instruction.
        at: usize,
    },
    /// A scratch word that does not exist.
    #[error("instruction {at} uses scratch word {word}, expected 0 to 15")]
    Scratch {
        /// The instruction.
        at: usize,
        /// The word.
        word: u32,
    },
    /// A division by the constant 0.
    #[error("instruction {at} divides by 0")]
    DivisionByZero {
        /// The instruction.
        at: usize,
    },
    /// A load of what a live capture knows of a packet, such as its direction, and a frame does not have.
    #[error("instruction {at} needs the metadata of a live capture, which a frame does not have")]
    Metadata {
        /// The instruction.
        at: usize,
    },
    /// The last instruction is not a return.
    #[error("the last instruction is not a return")]
    NoReturn,
}

/// A constant, or the index register.
#[derive(Clone, Copy, Debug)]
enum Operand {
    Constant(u32),
    Index,
}

#[derive(Clone, Copy, Debug)]
enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Or,
    And,
    Xor,
    ShiftLeft,
    ShiftRight,
}

#[derive(Clone, Copy, Debug)]
enum Comparison {
    Equal,
    Greater,
    GreaterOrEqual,
    AnyBit,
}

/// A decoded instruction; scratch words are below 16.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Loads 1, 2 or 4 bytes at an offset, or at an offset from the index register.
    Load(u8, u32),
    LoadIndexed(u8, u32),
    LoadLength,
    LoadConstant(u32),
    LoadScratch(u8),
    IndexConstant(u32),
    IndexScratch(u8),
    IndexLength,
    /// Four times the low nibble of a byte: the length of an IPv4 header.
    IndexHeaderLength(u32),
    Store(u8),
    StoreIndex(u8),
    Compute(Arithmetic, Operand),
    Negate,
    Skip(u32),
    Branch(Comparison, Operand, u8, u8),
    Return(u32),
    ReturnAccumulator,
    AccumulatorToIndex,
    IndexToAccumulator,
}

impl Step {
    fn decode(at: usize, instruction: Instruction, after: usize) -> Result<Self, ProgramError> {
        let Instruction { code, jt, jf, k } = instruction;
        let scratch = || match u8::try_from(k) {
            Ok(word) if usize::from(word) < SCRATCH_WORDS => Ok(word),
            _ => Err(ProgramError::Scratch { at, word: k }),
        };
        // Linux reads metadata at negative offsets.
        let offset = || match i32::try_from(k) {
            Ok(_) => Ok(k),
            Err(_) => Err(ProgramError::Metadata { at }),
        };
        let operand = if code & 0x08 == 0 { Operand::Constant(k) } else { Operand::Index };
        let divisor = || match operand {
            Operand::Constant(0) => Err(ProgramError::DivisionByZero { at }),
            _ => Ok(operand),
        };
        let inside = |offset: usize| {
            if offset < after { Ok(()) } else { Err(ProgramError::Jump { at }) }
        };
        let branch = |comparison| {
            inside(jt.max(jf).into())?;
            Ok(Step::Branch(comparison, operand, jt, jf))
        };
        Ok(match code {
            0x20 => Step::Load(4, offset()?),
            0x28 => Step::Load(2, offset()?),
            0x30 => Step::Load(1, offset()?),
            0x40 => Step::LoadIndexed(4, k),
            0x48 => Step::LoadIndexed(2, k),
            0x50 => Step::LoadIndexed(1, k),
            0x80 => Step::LoadLength,
            0x00 => Step::LoadConstant(k),
            0x60 => Step::LoadScratch(scratch()?),
            0x01 => Step::IndexConstant(k),
            0x61 => Step::IndexScratch(scratch()?),
            0x81 => Step::IndexLength,
            0xb1 => Step::IndexHeaderLength(offset()?),
            0x02 => Step::Store(scratch()?),
            0x03 => Step::StoreIndex(scratch()?),
            0x04 | 0x0c => Step::Compute(Arithmetic::Add, operand),
            0x14 | 0x1c => Step::Compute(Arithmetic::Subtract, operand),
            0x24 | 0x2c => Step::Compute(Arithmetic::Multiply, operand),
            0x34 | 0x3c => Step::Compute(Arithmetic::Divide, divisor()?),
            0x44 | 0x4c => Step::Compute(Arithmetic::Or, operand),
            0x54 | 0x5c => Step::Compute(Arithmetic::And, operand),
            0x64 | 0x6c => Step::Compute(Arithmetic::ShiftLeft, operand),
            0x74 | 0x7c => Step::Compute(Arithmetic::ShiftRight, operand),
            0x84 => Step::Negate,
            0x94 | 0x9c => Step::Compute(Arithmetic::Modulo, divisor()?),
            0xa4 | 0xac => Step::Compute(Arithmetic::Xor, operand),
            0x05 if i32::try_from(k).is_err() => return Err(ProgramError::Loop { at }),
            0x05 => {
                inside(usize::try_from(k).unwrap_or(usize::MAX))?;
                Step::Skip(k)
            }
            0x15 | 0x1d => branch(Comparison::Equal)?,
            0x25 | 0x2d => branch(Comparison::Greater)?,
            0x35 | 0x3d => branch(Comparison::GreaterOrEqual)?,
            0x45 | 0x4d => branch(Comparison::AnyBit)?,
            0x06 => Step::Return(k),
            0x16 => Step::ReturnAccumulator,
            0x07 => Step::AccumulatorToIndex,
            0x87 => Step::IndexToAccumulator,
            _ => return Err(ProgramError::Opcode { at, code }),
        })
    }
}

/// A checked program.
#[derive(Clone, Debug)]
pub struct Program {
    steps: Box<[Step]>,
}

impl Program {
    /// Checks instructions.
    ///
    /// # Errors
    /// [`ProgramError`]: the first that is not accepted.
    pub fn new(instructions: &[Instruction]) -> Result<Self, ProgramError> {
        if !(1..=MAX_INSTRUCTIONS).contains(&instructions.len()) {
            return Err(ProgramError::Length(instructions.len()));
        }
        let decoded = instructions
            .iter()
            .enumerate()
            .map(|(at, instruction)| Step::decode(at, *instruction, instructions.len() - at - 1));
        let steps: Box<[Step]> = decoded.collect::<Result<_, _>>()?;
        match steps.last() {
            Some(Step::Return(_) | Step::ReturnAccumulator) => Ok(Self { steps }),
            _ => Err(ProgramError::NoReturn),
        }
    }

    /// Runs on an Ethernet frame, and returns what the program returns: for a filter, 0 if the frame does not match.
    #[must_use]
    pub fn run(&self, frame: &[u8]) -> u32 {
        self.returned(frame).unwrap_or(0)
    }

    /// `None` if a load or a division failed.
    fn returned(&self, frame: &[u8]) -> Option<u32> {
        let length = frame.len() as u32;
        let (mut accumulator, mut index) = (0u32, 0u32);
        let mut scratch = [0u32; SCRATCH_WORDS];
        // Decoding has checked the words.
        let word = |number: u8| usize::from(number) % SCRATCH_WORDS;
        let mut at = 0;
        loop {
            let step = self.steps.get(at)?;
            at += 1;
            let operand = |operand: Operand| match operand {
                Operand::Constant(k) => k,
                Operand::Index => index,
            };
            match *step {
                Step::Load(width, k) => accumulator = load(frame, k.into(), width)?,
                Step::LoadIndexed(width, k) => {
                    accumulator = load(frame, u64::from(index) + u64::from(k), width)?;
                }
                Step::LoadLength => accumulator = length,
                Step::LoadConstant(k) => accumulator = k,
                Step::LoadScratch(number) => accumulator = scratch[word(number)],
                Step::IndexConstant(k) => index = k,
                Step::IndexScratch(number) => index = scratch[word(number)],
                Step::IndexLength => index = length,
                Step::IndexHeaderLength(k) => index = (load(frame, k.into(), 1)? & 0xf) << 2,
                Step::Store(number) => scratch[word(number)] = accumulator,
                Step::StoreIndex(number) => scratch[word(number)] = index,
                Step::Compute(arithmetic, with) => {
                    accumulator = compute(arithmetic, accumulator, operand(with))?;
                }
                Step::Negate => accumulator = accumulator.wrapping_neg(),
                Step::Skip(k) => at += k as usize,
                Step::Branch(comparison, with, jt, jf) => {
                    let with = operand(with);
                    let is_true = match comparison {
                        Comparison::Equal => accumulator == with,
                        Comparison::Greater => accumulator > with,
                        Comparison::GreaterOrEqual => accumulator >= with,
                        Comparison::AnyBit => accumulator & with != 0,
                    };
                    at += usize::from(if is_true { jt } else { jf });
                }
                Step::Return(k) => return Some(k),
                Step::ReturnAccumulator => return Some(accumulator),
                Step::AccumulatorToIndex => index = accumulator,
                Step::IndexToAccumulator => accumulator = index,
            }
        }
    }
}

/// A number in network byte order; `None` unless all of it is in the frame.
#[inline]
fn load(frame: &[u8], offset: u64, width: u8) -> Option<u32> {
    let rest = frame.get(usize::try_from(offset).ok()?..)?;
    Some(match width {
        4 => u32::from_be_bytes(*rest.first_chunk()?),
        2 => u16::from_be_bytes(*rest.first_chunk()?).into(),
        _ => (*rest.first()?).into(),
    })
}

/// `None` for a division by 0.
#[inline]
fn compute(arithmetic: Arithmetic, a: u32, b: u32) -> Option<u32> {
    Some(match arithmetic {
        Arithmetic::Add => a.wrapping_add(b),
        Arithmetic::Subtract => a.wrapping_sub(b),
        Arithmetic::Multiply => a.wrapping_mul(b),
        Arithmetic::Divide => a.checked_div(b)?,
        Arithmetic::Modulo => a.checked_rem(b)?,
        Arithmetic::Or => a | b,
        Arithmetic::And => a & b,
        Arithmetic::Xor => a ^ b,
        Arithmetic::ShiftLeft => a.checked_shl(b).unwrap_or(0),
        Arithmetic::ShiftRight => a.checked_shr(b).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FRAME: [u8; 10] = [0x45, 1, 2, 3, 0xff, 0, 0x10, 0x32, 0x54, 0x76];

    fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> Instruction {
        Instruction { code, jt, jf, k }
    }

    /// What a program of instructions without jumps leaves in the accumulator.
    fn result(steps: &[(u16, u32)]) -> u32 {
        let steps = steps.iter().chain(&[(0x16, 0)]);
        let steps: Vec<_> = steps.map(|(code, k)| instruction(*code, 0, 0, *k)).collect();
        Program::new(&steps).unwrap().run(&FRAME)
    }

    #[test]
    fn loads_are_in_network_byte_order_and_inside_the_frame() {
        for (steps, expected) in [
            (&[(0x20, 1)][..], 0x0102_03ff),
            (&[(0x28, 6)], 0x1032),
            (&[(0x30, 9)], 0x76),
            (&[(0x20, 6)], 0x1032_5476),
            (&[(0x80, 0)], 10),
            (&[(0x81, 0), (0x87, 0)], 10),
            (&[(0x01, 4), (0x40, 2)], 0x1032_5476),
            (&[(0x01, 4), (0x48, 4)], 0x5476),
            (&[(0x01, 9), (0x50, 0)], 0x76),
            (&[(0xb1, 0), (0x87, 0)], 20),
            (&[(0x00, 7), (0x02, 15), (0x00, 1), (0x60, 15)], 7),
            (&[(0x01, 8), (0x03, 0), (0x01, 1), (0x61, 0), (0x87, 0)], 8),
            (&[(0x60, 3)], 0),
            (&[(0x00, 6), (0x07, 0), (0x50, 0)], 0x10),
        ] {
            assert_eq!(result(steps), expected, "{steps:x?}");
        }
        // Each would return 1 if it did not end with the load.
        for load in [
            &[(0x20, 7)][..],
            &[(0x28, 9)],
            &[(0x30, 10)],
            &[(0xb1, 10)],
            &[(0x01, 10), (0x50, 0)],
            &[(0x01, u32::MAX), (0x50, 1)],
            &[(0x01, 7), (0x40, 0)],
        ] {
            assert_eq!(result(&[load, &[(0x00, 1)]].concat()), 0, "{load:x?}");
        }
    }

    #[test]
    fn arithmetic_is_of_32_bits() {
        for (code, a, b, expected) in [
            (0x04, u32::MAX, 2, 1),
            (0x14, 1, 2, u32::MAX),
            (0x24, 1 << 31, 3, 1 << 31),
            (0x34, 7, 2, 3),
            (0x44, 5, 2, 7),
            (0x54, 7, 2, 2),
            (0x64, 3, 31, 1 << 31),
            (0x64, 3, 32, 0),
            (0x74, 1 << 31, 31, 1),
            (0x74, 1 << 31, 33, 0),
            (0x94, 7, 4, 3),
            (0xa4, 7, 2, 5),
        ] {
            assert_eq!(result(&[(0x00, a), (code, b)]), expected, "{code:#x} {b}");
            let by_index = [(0x01, b), (0x00, a), (code | 8, 0)];
            assert_eq!(result(&by_index), expected, "{code:#x} index {b}");
        }
        assert_eq!(result(&[(0x00, 1), (0x84, 0)]), u32::MAX);
        for code in [0x3c, 0x9c] {
            assert_eq!(result(&[(0x00, 5), (code, 0), (0x00, 1)]), 0, "{code:#x}");
        }
    }

    #[test]
    fn branches_compare_and_skip() {
        for (code, a, b, expected) in [
            (0x15, 5, 5, true),
            (0x15, 5, 4, false),
            (0x25, 5, 4, true),
            (0x25, 5, 5, false),
            (0x35, 5, 5, true),
            (0x35, 4, 5, false),
            (0x25, u32::MAX, 1, true),
            (0x45, 6, 2, true),
            (0x45, 6, 9, false),
        ] {
            for by_index in [0, 8] {
                let program = [
                    instruction(0x01, 0, 0, b),
                    instruction(0x00, 0, 0, a),
                    instruction(code | by_index, 1, 2, b),
                    instruction(0x06, 0, 0, 77),
                    instruction(0x06, 0, 0, 1),
                    instruction(0x06, 0, 0, 2),
                ];
                let returned = Program::new(&program).unwrap().run(&FRAME);
                assert_eq!(returned, if expected { 1 } else { 2 }, "{code:#x} {a} {b}");
            }
        }
        let skip = [instruction(0x05, 0, 0, 1), instruction(6, 0, 0, 9), instruction(6, 0, 0, 3)];
        assert_eq!(Program::new(&skip).unwrap().run(&FRAME), 3);
    }

    #[test]
    fn what_could_fail_while_it_runs_is_refused_before() {
        let end = instruction(6, 0, 0, 1);
        for (first, error) in [
            (instruction(0xffff, 0, 0, 0), ProgramError::Opcode { at: 0, code: 0xffff }),
            (instruction(0x08, 0, 0, 0), ProgramError::Opcode { at: 0, code: 8 }),
            (instruction(0x15, 1, 0, 0), ProgramError::Jump { at: 0 }),
            (instruction(0x1d, 0, 255, 0), ProgramError::Jump { at: 0 }),
            (instruction(0x05, 0, 0, u32::MAX), ProgramError::Loop { at: 0 }),
            (instruction(0x05, 0, 0, i32::MAX as u32), ProgramError::Jump { at: 0 }),
            (instruction(0x05, 0, 0, 1), ProgramError::Jump { at: 0 }),
            (instruction(0x60, 0, 0, 16), ProgramError::Scratch { at: 0, word: 16 }),
            (instruction(0x03, 0, 0, 256), ProgramError::Scratch { at: 0, word: 256 }),
            (instruction(0x34, 0, 0, 0), ProgramError::DivisionByZero { at: 0 }),
            (instruction(0x94, 0, 0, 0), ProgramError::DivisionByZero { at: 0 }),
            // Direction of a packet in a live capture.
            (instruction(0x28, 0, 0, 0xffff_f004), ProgramError::Metadata { at: 0 }),
        ] {
            assert_eq!(Program::new(&[first, end]).unwrap_err(), error);
        }
        assert_eq!(Program::new(&[]).unwrap_err(), ProgramError::Length(0));
        assert_eq!(Program::new(&[end; 4097]).unwrap_err(), ProgramError::Length(4097));
        assert!(Program::new(&[end; 4096]).is_ok());
        let open = [end, instruction(0, 0, 0, 1)];
        assert_eq!(Program::new(&open).unwrap_err(), ProgramError::NoReturn);
    }

    proptest! {
        /// A program that does not look at the frame returns the same for all frames, and one that only looks at its first bytes
        /// the same for all longer ones.
        #[test]
        fn only_loaded_bytes_matter(
            k in 0u32..20, frame in prop::collection::vec(any::<u8>(), 24..64), tail in any::<u8>(),
        ) {
            let program = Program::new(&[instruction(0x20, 0, 0, k), instruction(0x16, 0, 0, 0)]).unwrap();
            let mut longer = frame.clone();
            longer.push(tail);
            let at = k as usize;
            let expected = u32::from_be_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
            prop_assert_eq!(program.run(&frame), expected);
            prop_assert_eq!(program.run(&longer), expected);
            prop_assert_eq!(program.run(&frame[..at + 3]), 0);
        }
    }
}
