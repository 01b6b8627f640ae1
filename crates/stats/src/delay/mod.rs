//! One-way delay and its variation.

mod day;
mod ipdv;
mod summary;
mod unwrap;

pub use day::DayUnwrapper;
pub use ipdv::Ipdv;
pub use summary::DelaySummary;
pub use unwrap::Time32Unwrapper;
