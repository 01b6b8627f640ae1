//! The fleet: agents on many hosts that run [jobs](weir_jobs::Job), coordinated through NATS JetStream.
//!
//! NATS does the messaging, the queues and the state; nothing here is a broker or a scheduler. An agent connects outward
//! only. What it may publish and read are its own subjects ([`permissions`]), which the server enforces.
//!
//! - The bucket [`AGENTS`] has what each agent states about its host, and when it was last seen.
//! - The stream [`JOBS`] has a subject for each resource of each agent. A job leaves it when its outcome is stored.
//! - The stream [`OUTCOMES`] has one subject for each part of an outcome, which takes one message: a second copy of an
//!   outcome is refused there.
//! - Requests to an agent (stop, start, new laws, what runs) have one reply each.
//! - [`mesh`] is the arithmetic of `weir fleet watch`.
//! - Events of running jobs pass by outside of streams: who does not listen misses them.

mod agent;
mod bus;
mod controller;
mod document;
mod error;
mod keys;
pub mod mesh;
mod names;
mod outbox;
mod parts;
mod server_configuration;

#[doc(hidden)]
pub mod fuzz;

pub use agent::{AgentOptions, Notices, run};
pub use bus::{Connection, Timing};
pub use controller::{
    Agent, Campaign, Controller, Events, HOLD_LAPSE, Log, Outcomes, Selector, StartInstant,
    StartSpread, Submitted,
};
pub use document::{AgentFacts, AgentState, InterfaceFacts, JobState, Outcome, Submission, Work};
pub use error::Error;
pub use keys::{NewKey, new_key};
pub use names::{
    AGENTS, AgentName, HOST_RESOURCE, JOBS, JobId, OUTCOMES, PROBES_RESOURCE, Permissions,
    Resource, permissions,
};
pub use server_configuration::server_configuration;
