//! Agents and controllers with a real server of NATS.
#![allow(clippy::unwrap_used)]

mod agent;
mod bench;
mod campaign;
mod clock;
mod cluster;
mod confinement;
mod disk;
mod killed;
mod partition;
mod process;
mod proxy;
mod server;
mod tls;
