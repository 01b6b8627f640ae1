//! Arithmetic of a watch: figures of pairs over time, changes of them, and the order of bursts. It has no clock and does no I/O.

mod changes;
mod rounds;
mod sum;
mod windows;

pub use changes::{Change, ChangeDetector};
pub use rounds::rounds;
pub use sum::PairSum;
pub use windows::Windows;
