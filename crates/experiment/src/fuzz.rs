//! Fuzz bodies of this crate's readers of outside bytes.

pub use crate::doctor::fuzz_doctor_text;
