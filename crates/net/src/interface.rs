//! The interfaces of the calling thread's network namespace: properties, offloads and counters; and the route of a
//! packet to a given address.

use std::net::IpAddr;

pub use crate::sys::ethtool::{
    driver, driver_statistics, offloads, set_offload, speed_bits_per_second,
};
pub use crate::sys::interface::{
    CounterReader, egress_interface, hardware, has_default_route, interface, interfaces,
    neighbour_mac, qdiscs, sends_xdp_frames,
};

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// The address.
    pub address: IpAddr,
    /// Length of the network prefix, bits.
    pub prefix_length: u8,
}

/// An interface (`RTM_GETLINK`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// The kernel's number, unique in the namespace.
    pub index: u32,
    /// Name.
    pub name: String,
    /// Kind of a virtual interface: `veth`, `bridge`, `tun`; `None` for hardware and loopback.
    pub kind: Option<String>,
    /// Switched on by the administrator (`IFF_UP`).
    pub up: bool,
    /// Has carrier and is able to pass packets (`IFF_LOWER_UP`).
    pub carrier: bool,
    /// Loopback (`IFF_LOOPBACK`).
    pub loopback: bool,
    /// Number of the bridge or bond that it is a member of.
    pub master: Option<u32>,
    /// Index of the interface below it (`IFLA_LINK`), through which a VLAN or a macvlan sends. `None` for an
    /// interface without one, for the end of a pair (veth), and if the other is in another namespace.
    pub lower: Option<u32>,
    /// Largest IP packet, bytes.
    pub mtu_bytes: u32,
    /// Hardware address, when it has one of six bytes.
    pub mac: Option<[u8; 6]>,
    /// Root queueing discipline: `fq_codel`, `mq`, `noqueue`.
    pub qdisc: Option<String>,
    /// Transmit queues.
    pub tx_queues: u32,
    /// Receive queues.
    pub rx_queues: u32,
    /// Maximum number of segments in one super-packet handed to the driver.
    pub gso_max_segments: Option<u32>,
    /// Largest super-packet handed to the driver, bytes.
    pub gso_max_bytes: Option<u32>,
    /// Counters.
    pub counters: InterfaceCounters,
    /// Addresses of both families.
    pub addresses: Vec<InterfaceAddress>,
}

/// Counters of an interface since its creation (`IFLA_STATS64`, `struct rtnl_link_stats64`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "the kernel's own names, defined in its networking/statistics document"
)]
pub struct InterfaceCounters {
    pub rx_packets: u64,
    pub tx_packets: u64,
    pub rx_bytes: u64,
    pub tx_bytes: u64,
    pub rx_errors: u64,
    pub tx_errors: u64,
    pub rx_dropped: u64,
    pub tx_dropped: u64,
    pub multicast: u64,
    pub collisions: u64,
    pub rx_length_errors: u64,
    pub rx_over_errors: u64,
    pub rx_crc_errors: u64,
    pub rx_frame_errors: u64,
    pub rx_fifo_errors: u64,
    pub rx_missed_errors: u64,
    pub tx_aborted_errors: u64,
    pub tx_carrier_errors: u64,
    pub tx_fifo_errors: u64,
}

/// A queueing discipline on an interface (`RTM_GETQDISC`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Qdisc {
    /// Index of the interface.
    pub interface_index: u32,
    /// Kind: `fq`, `fq_codel`, `pfifo_fast`, `mq`, `noqueue`, `tbf`.
    pub kind: String,
    /// Handle: major number in the upper 16 bits.
    pub handle: u32,
    /// Handle of the parent class; [`Qdisc::ROOT`] at the root.
    pub parent: u32,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Packets sent; a super-packet counts as its segments where the driver reports them.
    pub sent_packets: u64,
    /// Packets dropped.
    pub drops: u32,
    /// Times the rate limit delayed packets.
    pub overlimits: u32,
    /// Packets put back because the driver was busy.
    pub requeues: u32,
    /// Packets waiting.
    pub queued_packets: u32,
    /// Bytes waiting.
    pub queued_bytes: u32,
}

impl Qdisc {
    /// The parent of a root discipline (`TC_H_ROOT`).
    pub const ROOT: u32 = 0xffff_ffff;
    /// The parent of `ingress` and `clsact` (`TC_H_INGRESS`), which hold filters and no queue.
    pub const FILTERS: u32 = 0xffff_fff1;

    /// Whether it is the root of its interface's egress.
    pub fn is_root(&self) -> bool {
        self.parent == Self::ROOT
    }

    /// Whether it only holds filters (`ingress`, `clsact`).
    pub fn is_filters(&self) -> bool {
        self.parent == Self::FILTERS
    }
}

/// The driver behind an interface (`ETHTOOL_GDRVINFO`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Driver {
    /// Name.
    pub name: String,
    /// Version, often the kernel's.
    pub version: String,
    /// Firmware version, if reported.
    pub firmware: String,
    /// Position on the bus, if reported.
    pub bus: String,
}

/// The hardware of an interface as its bus describes it; absent parts are unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hardware {
    /// Name of the card, if the system has a list of names, and its ids: `82574L Gigabit Network Connection (8086:10d3)`.
    pub card: Option<String>,
    /// Kind of the bus, address, and speed and lanes of the link: `pci 0000:03:00.0, 2.5 GT/s PCIe x1`.
    pub bus: Option<String>,
}

/// One feature of an interface (`ETHTOOL_GFEATURES`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offload {
    /// The kernel's name: `tx-udp-segmentation`, `rx-gro`, `tx-tcp-segmentation`, `rx-udp-gro-forwarding`.
    pub name: String,
    /// In effect.
    pub active: bool,
    /// Requested.
    pub requested: bool,
    /// Can be changed.
    pub changeable: bool,
}

/// The route of a packet out of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Egress {
    /// Index of the interface.
    pub interface_index: u32,
    /// Its name.
    pub interface: String,
    /// Source address the kernel would choose.
    pub source: Option<IpAddr>,
    /// Next router, when the destination is not on the link.
    pub gateway: Option<IpAddr>,
    /// Largest IP packet on the path as known here, bytes: that of the route if it has one, else of the interface.
    pub mtu_bytes: u32,
    /// The destination is this host itself.
    pub local: bool,
}
