//! Facts of the host and of its interfaces: those that the standard library knows; the rest is not available.

use std::net::IpAddr;

use super::{native, unsupported};
use crate::capability::{Capabilities, UserNamespaces};
use crate::counters::{CpuUsage, ProtocolCounters, Softnet};
use crate::error::Result;
use crate::host::Host;
use crate::interface::{Driver, Egress, Hardware, Interface, InterfaceCounters, Offload, Qdisc};

/// Name, system, architecture and processors.
pub fn host() -> Result<Host> {
    let cores = std::thread::available_parallelism().map_or(0, |n| n.get() as u32);
    Ok(Host {
        hostname: native::hostname(),
        os: std::env::consts::OS.into(),
        architecture: std::env::consts::ARCH.into(),
        cpu_cores: cores,
        ..Host::default()
    })
}

/// Not available.
pub fn capabilities() -> Result<Capabilities> {
    unsupported("read", "capabilities")
}

/// Not available.
pub fn keep(_kept: &Capabilities) -> Result<()> {
    unsupported("give up", "capabilities")
}

/// Not available.
pub fn try_namespace() -> Result<bool> {
    unsupported("create", "a network namespace")
}

/// Not available.
pub fn user_namespaces() -> UserNamespaces {
    UserNamespaces::Forbidden("this system has none".into())
}

/// Not available.
pub fn sysctl(_name: &str) -> Option<String> {
    None
}

/// Not available.
pub fn softnet() -> Result<Vec<Softnet>> {
    unsupported("read", "counters of receive processing")
}

/// Not available.
pub fn protocol_counters() -> Result<ProtocolCounters> {
    unsupported("read", "protocol counters")
}

/// Not available.
pub fn cpu_times() -> Result<CpuUsage> {
    unsupported("read", "CPU times of the machine")
}

/// Not available.
pub fn interfaces() -> Result<Vec<Interface>> {
    unsupported("list", "interfaces")
}

/// Not available.
pub fn interface(name: &str) -> Result<Interface> {
    unsupported("look up interface", name)
}

/// Not available.
pub fn open_sender(interface: &Interface, _: usize) -> Result<crate::udp::UdpSocket> {
    unsupported("send frames on", &interface.name)
}

/// The counters of an interface, of which there are none.
#[derive(Debug)]
pub enum CounterReader {}

impl CounterReader {
    /// Not available.
    pub fn open(interface: u32) -> Result<Self> {
        unsupported("read the counters of interface", &interface.to_string())
    }

    /// Not available.
    pub fn read(&mut self) -> Result<InterfaceCounters> {
        match *self {}
    }
}

/// Not available.
pub fn qdiscs() -> Result<Vec<Qdisc>> {
    unsupported("list", "queueing disciplines")
}

/// Not available.
pub fn has_default_route(name: &str) -> Result<bool> {
    unsupported("read routes of", name)
}

/// Not available.
pub fn egress_interface(destination: IpAddr) -> Result<Egress> {
    unsupported("look up the route to", &destination.to_string())
}

/// Not available.
pub fn neighbour_mac(_: u32, address: IpAddr) -> Result<Option<[u8; 6]>> {
    unsupported("look up the neighbour", &address.to_string())
}

/// Not available.
pub fn sends_xdp_frames(interface: u32) -> Result<Option<bool>> {
    unsupported("read the XDP features of interface", &interface.to_string())
}

/// Not available.
pub fn hardware(_interface: &Interface) -> Hardware {
    Hardware::default()
}

/// Not available.
pub fn driver(interface: &str) -> Result<Driver> {
    unsupported("read the driver of", interface)
}

/// Not available.
pub fn speed_bits_per_second(interface: &str) -> Result<Option<u64>> {
    unsupported("read the speed of", interface)
}

/// Not available.
pub fn offloads(interface: &str) -> Result<Vec<Offload>> {
    unsupported("list offloads of", interface)
}

/// Not available.
pub fn driver_statistics(interface: &str) -> Result<Vec<(String, u64)>> {
    unsupported("read the statistics of", interface)
}

/// Not available.
pub fn set_offload(interface: &str, _name: &str, _on: bool) -> Result<()> {
    unsupported("set an offload of", interface)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_has_a_name_and_processors() {
        let host = host().unwrap();
        assert!(!host.hostname.is_empty() && host.cpu_cores > 0);
        assert_eq!(host.hostname, crate::host::host().unwrap().hostname);
    }
}
