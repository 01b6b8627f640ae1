//! Systems other than Linux, by the standard library and socket2: no batches by one call, no offloads, no kernel stamps.
//! What differs between them is in `windows` and `unix`. The tests of this crate compile and run it on Linux too.
#![cfg_attr(target_os = "linux", allow(dead_code, unused_imports, unreachable_pub, missing_docs))]

pub(crate) mod batch;
pub(crate) mod clock;
pub(crate) mod ethernet;
pub(crate) mod host;
pub(crate) mod memfile;
pub mod passing;
pub(crate) mod poll;
pub(crate) mod process;
pub(crate) mod tcp;
pub(crate) mod thread;
pub(crate) mod udp;
#[cfg(unix)]
mod unix;
pub(crate) mod watch;
#[cfg(windows)]
mod windows;

pub(crate) use batch as recv_batch;
pub(crate) use batch as send_batch;
pub(crate) use host as capability;
pub(crate) use host as counters;
pub(crate) use host as ethtool;
pub(crate) use host as frame;
pub(crate) use host as interface;
#[cfg(unix)]
use unix as native;
#[cfg(windows)]
use windows as native;

fn unsupported<T>(operation: &'static str, object: &str) -> crate::Result<T> {
    Err(crate::Error::Unsupported { operation, object: object.to_owned() })
}
