//! The subset that the standard library can carry on any system: no batches by one call, no offloads, no kernel stamps.
#![cfg_attr(target_os = "linux", allow(dead_code, unused_imports, unreachable_pub, missing_docs))]

pub(crate) mod batch;
pub(crate) mod clock;
pub(crate) mod thread;
pub(crate) mod udp;

pub(crate) use batch as recv_batch;
pub(crate) use batch as send_batch;
