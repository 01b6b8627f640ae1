//! The emulator without I/O: decides on the disposition of each packet of one direction and its time.
//!
//! Nothing here reads a clock, opens a socket or changes a packet's bytes. The input is metadata and time,
//! the output dispositions in the order in which packets have to leave. The main types:
//!
//! * [`Engine`]: one direction of an impairment ([`weir_model::impairment::Impairment`]);
//! * [`Prepared`]: a configuration prepared on another thread, for [`Hops::put_into_force`] while packets
//!   are forwarded;
//! * [`Meta`]: a packet as the engine sees it: its owner's handle, the fields that filters match on and a [`Role`];
//! * [`Disposition`]: the [`Verdict`] on a packet and its time of departure;
//! * [`Edit`]: a change of content, which the owner of the bytes applies;
//! * [`Counters`]: the packet counters of a flow.
//!
//! ```
//! use weir_impair::{Engine, Meta, Verdict};
//! use weir_laws::Direction;
//! use weir_model::impairment::Impairment;
//!
//! let impairment = Impairment::of_both("delay 20ms".parse()?);
//! let mut engine = Engine::new(&impairment, Direction::Forward)?;
//! let mut dispositions = Vec::new();
//! engine.step(1_000, &[Meta::opaque(7, 1_000, 60)], &mut dispositions);
//! assert!(dispositions.is_empty());
//! assert_eq!(engine.next_deadline_ns(), Some(20_001_000));
//! engine.step(20_001_000, &[], &mut dispositions);
//! assert_eq!((dispositions[0].handle, dispositions[0].verdict), (7, Verdict::Forwarded));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod classify;
mod counters;
mod disposition;
mod edit;
mod engine;
mod error;
#[doc(hidden)]
pub mod fuzz;
mod hops;
mod key;
mod pool;
mod prepared;
mod queue;
mod role;
mod share;
mod stages;
mod timeline;
mod trigger;
mod wheel;

pub use counters::{Counters, Exempt, Peaks};
pub use disposition::{
    Disposition, FLAG_CONTROL, FLAG_DELAYED, FLAG_EXEMPT, FLAG_MARKED, FLAG_MODIFIED,
    FLAG_REORDERED, Fragment, Meta, Verdict,
};
pub use edit::Edit;
pub use engine::{Engine, FlowStatus, HELD_OVERHEAD_BYTES};
pub use error::ImpairError;
pub use hops::Hops;
pub use prepared::{Names, Prepared, Retired};
pub use queue::ETHERNET_HEADER;
pub use role::Role;
pub use share::Share;
pub use timeline::TimelineStatus;
pub use trigger::TriggerStatus;
