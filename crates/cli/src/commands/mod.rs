//! One module for each command: its flags and what it does.

#[cfg(not(target_os = "linux"))]
mod absent;
#[cfg(target_os = "linux")]
pub(crate) mod calibrate;
pub(crate) mod completions;
pub(crate) mod ctl;
#[cfg(target_os = "linux")]
pub(crate) mod demo;
#[cfg(target_os = "linux")]
pub(crate) mod doctor;
pub(crate) mod experiment;
#[cfg_attr(not(target_os = "linux"), path = "exporter_absent.rs")]
pub(crate) mod exporter;
pub(crate) mod fleet;
#[cfg(target_os = "linux")]
pub(crate) mod impair;
pub(crate) mod iperf;
pub(crate) mod iperf3;
pub(crate) mod keygen;
#[cfg(target_os = "linux")]
pub(crate) mod lab;
pub(crate) mod man;
pub(crate) mod netperf;
pub(crate) mod peers;
pub(crate) mod profiles;
pub(crate) mod report;
pub(crate) mod runs;
pub(crate) mod schema;
pub(crate) mod serve;
pub(crate) mod test;
pub(crate) mod tool;
pub(crate) mod values;

#[cfg(not(target_os = "linux"))]
pub(crate) use absent::{calibrate, demo, doctor, impair, lab, not_available};
