//! All tests of this crate in one program, to link once.
// A failing helper is a failed test.
#![allow(clippy::unwrap_used)]

mod common;
mod ditg;
mod ditg_icmp;
mod ditg_log;
mod ditg_manager;
mod echo;
mod iperf2;
mod iperf2_bounce;
mod iperf2_call_back;
mod iperf2_group;
mod iperf2_isochronous;
mod iperf3;
mod mgen;
mod netperf;
mod nuttcp;
mod one_port;
mod reflected;
mod scripts;
mod stamp;
mod ttcp;
