//! Fuzz bodies, one per parser of outside bytes: functions that take any bytes and check invariants.

pub use crate::ditg::{fuzz_ditg, fuzz_ditg_script};
pub use crate::iperf2::fuzz_iperf2;
pub use crate::iperf3::fuzz_iperf3;
pub use crate::mgen::fuzz_mgen;
pub use crate::netperf::fuzz_netperf;
pub use crate::nuttcp::fuzz_nuttcp;
pub use crate::scripts::{fuzz_mgen_script, fuzz_rude_script};
pub use crate::stamp::fuzz_stamp;
