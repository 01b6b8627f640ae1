//! Checks whether this host can measure: permissions, settings and load.
//!
//! Two separate steps: [`gather()`] reads [`Facts`] from the kernel, or finds them by trying; [`check`] judges them. It is
//! pure, so that each judgement is tested with made-up facts. A fact that can't be
//! read is itself a finding, never a failure.

mod checks;
mod facts;
mod finding;
mod gather;
mod ruleset;
mod text;

pub use checks::check;
pub use facts::{
    BusyProcess, ClockDaemons, CpuSample, Fact, Facts, InterfaceFacts, Lateness, PortUse,
};
pub use finding::{Diagnosis, Finding, Group, Severity};
pub(crate) use gather::cpu_sample;
pub use gather::{Options, gather};
pub use ruleset::{Blocked, Ruleset};
pub use text::fuzz_doctor_text;

/// Gathers the facts of this host, in the calling thread's network namespace, and checks them. Takes about a second.
///
/// # Errors
/// [`crate::Error::NoInterface`] when [`Options::interface`] does not exist; nothing else fails.
pub fn examine(options: &Options) -> Result<Diagnosis, crate::Error> {
    Ok(Diagnosis::new(check(&gather(options)?)))
}
