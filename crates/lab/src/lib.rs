//! Network-namespace labs: set up, run inside, tear down, heal.
//!
//! A lab is a handful of hosts (`a`, `b`, …), each a network namespace without a name, joined by
//! virtual Ethernet. [`Lab::up`] makes one that lasts as long as the value; [`Registry::start`]
//! leaves one behind in a holder process, which others find through the [`Registry`] and join.
//! Either way nothing outlives the holder: namespaces die with their last descriptor, and a watchdog
//! ends the processes inside. Root needs nothing else; an ordinary user gets a user namespace.
//!
//! ```no_run
//! use weir_lab::{Lab, LabSpec, Topology};
//! let lab = Lab::up(&LabSpec { topology: Topology::Pair, ..LabSpec::default() })?;
//! let b = lab.host("b")?;
//! let status = lab.command("a", "ping")?.args(["-c1", &b.ipv4.to_string()]).status()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(not(target_os = "linux"))]
mod absent;
mod error;
mod host;
#[cfg(target_os = "linux")]
mod linux;
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "addresses of hosts"))]
mod spec;

#[cfg(not(target_os = "linux"))]
pub use absent::{JoinedLab, Lab, Registry, runtime_directory};
pub use error::{Error, ErrorClass};
pub use host::Host;
#[cfg(target_os = "linux")]
pub use linux::{
    Cable, JoinedLab, Lab, Registry, fuzz, hold, namespace_with_cables, place_of_this_program,
    runtime_directory,
};
pub use spec::{LabName, LabSpec, MAX_HOSTS, Topology, side_of};
