//! Agents and controllers with a real server of NATS.
#![allow(clippy::unwrap_used)]

mod agent;
mod campaign;
mod confinement;
mod server;
