//! One-way delay and its variation.

mod ipdv;
mod summary;
mod unwrap;

pub use ipdv::Ipdv;
pub use summary::DelaySummary;
pub use unwrap::Time32Unwrapper;
