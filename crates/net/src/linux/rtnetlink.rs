//! Messages of rtnetlink as the types of [`crate::interface`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::netlink::{Attributes, text, u16_at, u32_at, u64_at};
use crate::interface::{Interface, InterfaceAddress, InterfaceCounters, Qdisc};

/// `IFLA_STATS_LINK_64`.
pub(crate) const STATS_LINK_64: u16 = 1;

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(|o| Ipv4Addr::from(o).into()),
        16 => <[u8; 16]>::try_from(bytes).ok().map(|o| Ipv6Addr::from(o).into()),
        _ => None,
    }
}

/// `RTM_NEWLINK`: `struct ifinfomsg` and attributes.
pub(crate) fn parse_link(payload: &[u8]) -> Option<Interface> {
    let flags = u32_at(payload, 8)?;
    let has = |flag: i32| flags & flag as u32 != 0;
    let mut link = Interface {
        index: u32_at(payload, 4)?,
        up: has(libc::IFF_UP),
        carrier: has(libc::IFF_LOWER_UP),
        loopback: has(libc::IFF_LOOPBACK),
        ..Interface::default()
    };
    let mut is_elsewhere = false;
    for (kind, data) in Attributes(payload.get(16..)?) {
        match kind {
            libc::IFLA_LINK => link.lower = u32_at(data, 0),
            libc::IFLA_LINK_NETNSID => is_elsewhere = true,
            libc::IFLA_IFNAME => link.name = text(data),
            libc::IFLA_MASTER => link.master = u32_at(data, 0),
            libc::IFLA_MTU => link.mtu_bytes = u32_at(data, 0)?,
            libc::IFLA_ADDRESS => link.mac = data.try_into().ok(),
            libc::IFLA_QDISC => link.qdisc = Some(text(data)),
            libc::IFLA_NUM_TX_QUEUES => link.tx_queues = u32_at(data, 0)?,
            libc::IFLA_NUM_RX_QUEUES => link.rx_queues = u32_at(data, 0)?,
            libc::IFLA_GSO_MAX_SEGS => link.gso_max_segments = u32_at(data, 0),
            libc::IFLA_GSO_MAX_SIZE => link.gso_max_bytes = u32_at(data, 0),
            libc::IFLA_STATS64 => link.counters = parse_counters(data),
            libc::IFLA_LINKINFO => {
                link.kind = Attributes(data)
                    .find(|(k, _)| *k == libc::IFLA_INFO_KIND)
                    .map(|(_, d)| text(d));
            }
            _ => {}
        }
    }
    // The index may belong to another namespace, or to the far end of a pair, which is not below this end.
    let is_pair = matches!(link.kind.as_deref(), Some("veth" | "netkit" | "vxcan"));
    link.lower =
        link.lower.filter(|&lower| !is_elsewhere && !is_pair && lower != 0 && lower != link.index);
    (!link.name.is_empty()).then_some(link)
}

/// `struct rtnl_link_stats64`; what an older kernel leaves out is zero.
fn parse_counters(data: &[u8]) -> InterfaceCounters {
    let at = |i: usize| u64_at(data, i * 8).unwrap_or(0);
    InterfaceCounters {
        rx_packets: at(0),
        tx_packets: at(1),
        rx_bytes: at(2),
        tx_bytes: at(3),
        rx_errors: at(4),
        tx_errors: at(5),
        rx_dropped: at(6),
        tx_dropped: at(7),
        multicast: at(8),
        collisions: at(9),
        rx_length_errors: at(10),
        rx_over_errors: at(11),
        rx_crc_errors: at(12),
        rx_frame_errors: at(13),
        rx_fifo_errors: at(14),
        rx_missed_errors: at(15),
        tx_aborted_errors: at(16),
        tx_carrier_errors: at(17),
        tx_fifo_errors: at(18),
    }
}

/// `RTM_NEWSTATS`: `struct if_stats_msg` and attributes.
pub(crate) fn parse_statistics(payload: &[u8]) -> Option<InterfaceCounters> {
    let mut attributes = Attributes(payload.get(12..)?);
    attributes.find(|(kind, _)| *kind == STATS_LINK_64).map(|(_, data)| parse_counters(data))
}

/// `RTM_NEWADDR`: `struct ifaddrmsg` and attributes; the interface's index with the address.
pub(crate) fn parse_address(payload: &[u8]) -> Option<(u32, InterfaceAddress)> {
    let prefix_length = *payload.get(1)?;
    let index = u32_at(payload, 4)?;
    let (mut address, mut local) = (None, None);
    for (kind, data) in Attributes(payload.get(8..)?) {
        match kind {
            libc::IFA_ADDRESS => address = ip(data),
            // On point-to-point links IFA_ADDRESS is the peer's.
            libc::IFA_LOCAL => local = ip(data),
            _ => {}
        }
    }
    Some((index, InterfaceAddress { address: local.or(address)?, prefix_length }))
}

/// `RTM_NEWQDISC`: `struct tcmsg` and attributes.
pub(crate) fn parse_qdisc(payload: &[u8]) -> Option<Qdisc> {
    let mut qdisc = Qdisc {
        interface_index: u32_at(payload, 4)?,
        handle: u32_at(payload, 8)?,
        parent: u32_at(payload, 12)?,
        ..Qdisc::default()
    };
    let mut packets64 = None;
    for (kind, data) in Attributes(payload.get(20..)?) {
        match kind {
            libc::TCA_KIND => qdisc.kind = text(data),
            libc::TCA_STATS2 => {
                for (kind, data) in Attributes(data) {
                    match kind {
                        // TCA_STATS_BASIC: struct gnet_stats_basic.
                        1 => {
                            qdisc.sent_bytes = u64_at(data, 0)?;
                            qdisc.sent_packets = u64::from(u32_at(data, 8)?);
                        }
                        // TCA_STATS_QUEUE: struct gnet_stats_queue.
                        3 => {
                            qdisc.queued_packets = u32_at(data, 0)?;
                            qdisc.queued_bytes = u32_at(data, 4)?;
                            qdisc.drops = u32_at(data, 8)?;
                            qdisc.requeues = u32_at(data, 12)?;
                            qdisc.overlimits = u32_at(data, 16)?;
                        }
                        // TCA_STATS_PKT64, present once the 32 bits above are not enough.
                        8 => packets64 = u64_at(data, 0),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    if let Some(packets) = packets64 {
        qdisc.sent_packets = packets;
    }
    (!qdisc.kind.is_empty()).then_some(qdisc)
}

/// A neighbour whose MAC address is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Neighbour {
    pub(crate) interface: u32,
    pub(crate) address: IpAddr,
    pub(crate) mac: [u8; 6],
}

/// `RTM_NEWNEIGH`: `struct ndmsg` and attributes.
pub(crate) fn parse_neighbour(payload: &[u8]) -> Option<Neighbour> {
    // NUD_REACHABLE, STALE, DELAY, PROBE, NOARP and PERMANENT of linux/neighbour.h: not INCOMPLETE and FAILED.
    const KNOWN: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x40 | 0x80;
    const NDA_DST: u16 = 1;
    const NDA_LLADDR: u16 = 2;
    let interface = u32_at(payload, 4)?;
    if u16_at(payload, 8)? & KNOWN == 0 {
        return None;
    }
    let (mut address, mut mac) = (None, None);
    for (kind, data) in Attributes(payload.get(12..)?) {
        match kind {
            NDA_DST => address = ip(data),
            NDA_LLADDR => mac = data.try_into().ok(),
            _ => {}
        }
    }
    Some(Neighbour { interface, address: address?, mac: mac? })
}

/// A route (`RTM_NEWROUTE`), as far as it is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) destination_length: u8,
    /// Kind: 1 unicast, 2 local.
    pub(crate) kind: u8,
    /// Outgoing interfaces; several with multipath.
    pub(crate) interfaces: Vec<u32>,
    pub(crate) source: Option<IpAddr>,
    pub(crate) gateway: Option<IpAddr>,
    pub(crate) mtu_bytes: Option<u32>,
}

/// `RTM_NEWROUTE`: `struct rtmsg` and attributes.
pub(crate) fn parse_route(payload: &[u8]) -> Option<Route> {
    let mut route =
        Route { destination_length: *payload.get(1)?, kind: *payload.get(7)?, ..Route::default() };
    for (kind, data) in Attributes(payload.get(12..)?) {
        match kind {
            libc::RTA_OIF => route.interfaces.push(u32_at(data, 0)?),
            libc::RTA_PREFSRC => route.source = ip(data),
            libc::RTA_GATEWAY => route.gateway = ip(data),
            // RTAX_MTU is metric 2.
            libc::RTA_METRICS => {
                route.mtu_bytes =
                    Attributes(data).find(|(k, _)| *k == 2).and_then(|(_, d)| u32_at(d, 0));
            }
            libc::RTA_MULTIPATH => {
                // struct rtnexthop: length, flags, hops, interface; at least 8 bytes each.
                let mut rest = data;
                while let (Some(len), Some(index)) = (u16_at(rest, 0), u32_at(rest, 4)) {
                    route.interfaces.push(index);
                    let len = usize::from(len).max(8).next_multiple_of(4);
                    rest = rest.get(len..).unwrap_or(&[]);
                }
            }
            _ => {}
        }
    }
    Some(route)
}

/// Feeds one payload to every parser: none panics, none makes more of it than it holds.
pub(crate) fn fuzz_payload(data: &[u8]) {
    if let Some(link) = parse_link(data) {
        assert!(!link.name.is_empty() && link.name.len() <= 3 * 255);
    }
    let _ = parse_address(data);
    let _ = parse_neighbour(data);
    let _ = parse_statistics(data);
    if let Some(qdisc) = parse_qdisc(data) {
        assert!(!qdisc.kind.is_empty());
    }
    if let Some(route) = parse_route(data) {
        assert!(route.interfaces.len() <= data.len() / 8);
    }
}
