//! Sockets, offloads, timestamps, clocks, namespaces, host facts; one interface per platform.
pub mod namespace;
pub mod watchdog;
