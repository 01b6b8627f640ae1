//! Queries of rtnetlink, always for the calling thread's network namespace.

use std::net::IpAddr;

use super::netlink::{Netlink, push_attribute};
use super::rtnetlink::{Route, parse_address, parse_link, parse_qdisc, parse_route};
use crate::error::{Context, Error, Result};
use crate::interface::{Egress, Interface, Qdisc};

const ROUTE_KIND_UNICAST: u8 = 1;
const ROUTE_KIND_LOCAL: u8 = 2;

fn open() -> Result<Netlink> {
    Netlink::open().context("open", "a netlink socket")
}

/// All interfaces with their addresses and counters, by index.
pub fn interfaces() -> Result<Vec<Interface>> {
    let mut netlink = open()?;
    let mut links = netlink
        .dump(libc::RTM_GETLINK, &[0; 16], |links: &mut Vec<Interface>, kind, payload| {
            if kind == libc::RTM_NEWLINK {
                links.extend(parse_link(payload));
            }
        })
        .context("list", "interfaces")?;
    let addresses = netlink
        .dump(libc::RTM_GETADDR, &[0; 8], |addresses: &mut Vec<_>, kind, payload| {
            if kind == libc::RTM_NEWADDR {
                addresses.extend(parse_address(payload));
            }
        })
        .context("list", "addresses")?;
    for (index, address) in addresses {
        if let Some(link) = links.iter_mut().find(|link| link.index == index) {
            link.addresses.push(address);
        }
    }
    links.sort_by_key(|link| link.index);
    Ok(links)
}

/// The interface called `name`, with its addresses and counters.
pub fn interface(name: &str) -> Result<Interface> {
    let found = interfaces()?.into_iter().find(|link| link.name == name);
    found.ok_or_else(|| Error::NoInterface { name: name.to_owned() })
}

/// All queueing disciplines of all interfaces, children included.
pub fn qdiscs() -> Result<Vec<Qdisc>> {
    open()?
        .dump(libc::RTM_GETQDISC, &[0; 20], |found: &mut Vec<Qdisc>, kind, payload| {
            if kind == libc::RTM_NEWQDISC {
                found.extend(parse_qdisc(payload));
            }
        })
        .context("list", "queueing disciplines")
}

/// Whether a default route of either family, in any table, leaves through the interface called `name`.
pub fn has_default_route(name: &str) -> Result<bool> {
    let index = interface(name)?.index;
    open()?
        .dump(libc::RTM_GETROUTE, &[0; 12], |found: &mut bool, kind, payload| {
            if kind == libc::RTM_NEWROUTE
                && let Some(route) = parse_route(payload)
            {
                *found |= route.destination_length == 0
                    && route.kind == ROUTE_KIND_UNICAST
                    && route.interfaces.contains(&index);
            }
        })
        .context("list routes for", name)
}

/// The route of a packet to `destination` out of this host (`RTM_GETROUTE`). Nothing is sent.
pub fn egress_interface(destination: IpAddr) -> Result<Egress> {
    let (family, octets) = match destination {
        IpAddr::V4(a) => (libc::AF_INET, a.octets().to_vec()),
        IpAddr::V6(a) => (libc::AF_INET6, a.octets().to_vec()),
    };
    let object = destination.to_string();
    let mut body = vec![0_u8; 12];
    body[0] = family as u8;
    body[1] = octets.len() as u8 * 8;
    push_attribute(&mut body, libc::RTA_DST, &octets);
    let mut route: Option<Route> = None;
    open()?
        .get(libc::RTM_GETROUTE, &body, |kind, payload| {
            if kind == libc::RTM_NEWROUTE && route.is_none() {
                route = parse_route(payload);
            }
        })
        .context("find route to", &object)?;
    let malformed =
        |reason| Error::Malformed { operation: "find route to", object: object.clone(), reason };
    let route = route.ok_or_else(|| malformed("the kernel gave no route"))?;
    let index = *route.interfaces.first().ok_or_else(|| malformed("the route has no interface"))?;
    let link = interfaces()?.into_iter().find(|link| link.index == index);
    let link = link.ok_or_else(|| malformed("the route's interface is gone"))?;
    Ok(Egress {
        interface_index: index,
        mtu_bytes: route.mtu_bytes.filter(|&mtu| mtu > 0).unwrap_or(link.mtu_bytes),
        interface: link.name,
        source: route.source,
        gateway: route.gateway,
        local: route.kind == ROUTE_KIND_LOCAL,
    })
}
