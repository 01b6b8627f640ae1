//! The emulator without I/O: it decides what happens to each packet of one direction, and when.
//!
//! Nothing here reads a clock, opens a socket or touches a packet's bytes: metadata and time come in,
//! dispositions come out, in the order in which packets have to leave. The types you meet:
//!
//! * [`Engine`]: one direction of an impairment ([`weir_model::impairment::Impairment`]);
//! * [`Prepared`]: a configuration made ready elsewhere, for [`Engine::put_into_force`] while packets pass;
//! * [`Meta`]: a packet as the engine sees it, a handle of its owner's, the fields of a [`Key`] and a [`Role`];
//! * [`Disposition`]: what became of a packet ([`Verdict`]) and when it is to leave;
//! * [`Edit`]: a change of content, which the owner of the bytes applies;
//! * [`Counters`]: what a flow has seen.
//!
//! ```
//! use weir_impair::{Engine, Meta, Verdict};
//! use weir_laws::Direction;
//! use weir_model::impairment::Impairment;
//!
//! let asked = Impairment::of_both("delay 20ms".parse()?);
//! let mut engine = Engine::new(&asked, Direction::Forward)?;
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
mod key;
mod pool;
mod prepared;
mod queue;
mod role;
mod stages;
mod wheel;

pub use counters::{Counters, Exempt};
pub use disposition::{
    Disposition, FLAG_CONTROL, FLAG_DELAYED, FLAG_EXEMPT, FLAG_MODIFIED, FLAG_REORDERED, Meta,
    Verdict,
};
pub use edit::Edit;
pub use engine::{Engine, FlowStatus, HELD_OVERHEAD_BYTES};
pub use error::ImpairError;
pub use key::{Key, Layers};
pub use prepared::{Names, Prepared, Retired};
pub use role::Role;
