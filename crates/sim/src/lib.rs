//! A test and the emulator under one virtual clock: sender, path and receiver without a network.
//!
//! The parts are those of a real run: `weir_flow` sends and receives, `weir_impair` decides dispositions, frames are real
//! bytes that a host's stack would accept or drop. Only the hosts are missing, and with them the errors
//! that hosts cause: a packet leaves the sender exactly in its slot and the emulator exactly at its
//! deadline. The same simulation has the same outcome, bit for bit, on any machine.
//!
//! The types you meet:
//! - [`Simulation`]: a plan, an impairment and the delay of the path around it; [`Simulation::run`] returns
//! - [`Outcome`]: the record of the run, the emulator's packet trace, the receivers' packet log and the emulator's counters.
//! - [`predict`]: the emulator's decisions for packets that arrive at given times.
//!
//! ```
//! use weir_model::{impairment::Impairment, plan::{Connection, Plan, Transport}};
//! use weir_sim::Simulation;
//! let plan = Plan {
//!     connections: vec![Connection {
//!         transport: Transport::udp(),
//!         rate: Some("1000pps".parse()?),
//!         packets: Some(500),
//!         ..Connection::default()
//!     }],
//!     ..Plan::default()
//! };
//! let impairment = Impairment::of_both("delay 20ms, loss every 10".parse()?);
//! let outcome = Simulation { plan, impairment, before_ns: 0, after_ns: 0 }.run()?;
//! let receiver = outcome.record.flows[0].receiver.as_ref().unwrap();
//! assert_eq!(receiver.lost_packets, Some(50));
//! assert_eq!(receiver.one_way_delay.as_ref().unwrap().max_seconds, 0.02);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod frame;
mod outcome;
mod predict;
mod simulation;

pub use error::SimError;
pub use outcome::{FlowCounters, Outcome};
pub use predict::{Ingress, predict};
pub use simulation::Simulation;
