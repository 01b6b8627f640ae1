//! What is made of runs: whether this host can measure, how well, and the demo.
//!
//! The types you meet:
//! - [`doctor`]: [`doctor::examine`] gathers [`doctor::Facts`] and returns a [`doctor::Diagnosis`] of
//!   [`doctor::Finding`]s, each with its evidence, its effect on a measurement and the command that changes it.
//! - [`calibrate`]: [`calibrate::calibrate`] measures this host's noise floor, a [`calibrate::Calibration`] that is
//!   kept and printed beside results.
//! - [`triangulation`]: an emulator's packet trace and a receiver's log, joined packet by packet.
//! - [`Error`]: what kept a measurement from being made.
//!
//! ```
//! use weir_experiment::doctor::{Facts, Fact, Severity, check};
//! let facts = Facts { rmem_max: Fact::read("net.core.rmem_max", 212_992), ..Facts::default() };
//! let findings = check(&facts);
//! assert_eq!(findings[0].severity, Severity::Warning);
//! assert!(findings[0].change.as_deref().is_some_and(|command| command.starts_with("sysctl -w net.core.rmem_max=")));
//! ```
pub mod calibrate;
#[cfg(target_os = "linux")]
pub mod demo;
pub mod doctor;
mod error;
#[doc(hidden)]
pub mod fuzz;
pub mod scenario;
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "for the demo"))]
pub mod triangulation;

pub use error::Error;
