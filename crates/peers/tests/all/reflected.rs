//! Tests of protocols without a control connection: a server of this crate, and a client.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use weir_model::plan::{Connection, Family, PeerName, Plan};
use weir_model::record::Record;
use weir_traffic::{ClientConfig, Failure, Limits, ServerEvent, Stop, StopReason};

use crate::common::Serving;

pub(crate) fn plan(peer: PeerName, to: SocketAddr, connections: Vec<Connection>) -> Plan {
    let family = if to.is_ipv6() { Family::Ipv6 } else { Family::Ipv4 };
    Plan { peer, port: Some(to.port()), family: Some(family), connections, ..Plan::default() }
}

pub(crate) fn run(plan: Plan, to: SocketAddr) -> Result<Record, Failure> {
    let config = ClientConfig::new(plan, to.ip().to_string());
    weir_peers::run(config, Stop::new(), &mut |_| {})
}

/// A server of a protocol.
pub(crate) fn serving(peer: PeerName, bind: IpAddr) -> Serving {
    Serving::start(peer.label(), &bind.to_string(), Limits::default())
}

/// Stops a server; returns the events that it reported.
pub(crate) fn end(server: Serving) -> Vec<ServerEvent> {
    server.stop.request(StopReason::Terminated);
    server.events.iter().collect()
}

/// Requests, replies, and requests above the limit.
pub(crate) fn totals(events: &[ServerEvent]) -> (u64, u64, u64) {
    let found = events.iter().find_map(|event| match event {
        ServerEvent::Reflected { requests, replies, limited, .. } => {
            Some((*requests, *replies, *limited))
        }
        _ => None,
    });
    found.unwrap()
}

pub(crate) fn loopback(is_v6: bool) -> IpAddr {
    if is_v6 { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() }
}
