//! The demo's rows with the emulator in the middle: what was asked of the path, what the emulator realised and what
//! the receiver measured.
//!
//! [`cases()`] is the list, as data. [`simulate`] runs a case on the virtual clock; real hosts give the same
//! [`Evidence`]. [`judge()`] is the same for both.

mod cases;
mod conditions;
mod evidence;
mod hosts;
mod judge;
mod ledger;

pub use cases::{Claim, FlowClaim, PathCase, SEED, cases};
pub use conditions::{Conditions, Floor};
pub use evidence::{Evidence, simulate};
pub use hosts::{Measured, PathRow, on_hosts};
pub use judge::{Agreement, Judgement, Line, Tolerance, Value, judge};
