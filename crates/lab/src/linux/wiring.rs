//! Creates namespaces, cables and addresses from a specification.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use weir_net::namespace::{LinkControl, NamespaceOptions, NamespaceParts, NetNamespace, create};

use super::netlink::{LinkParameters, Route};
use crate::error::Error;
use crate::host::Host;
use crate::spec::{IPV4_PREFIX_BITS, IPV6_PREFIX_BITS, LabSpec, Topology, host_ipv4, host_ipv6};

/// Interface of every host.
pub(crate) const HOST_INTERFACE: &str = "eth0";
const BRIDGE: &str = "br0";
/// Bridges of the sides of a middle with more than two hosts.
const SIDES: [&str; 2] = ["br-a", "br-b"];
/// Interfaces of a middle.
const LEGS: [&str; 2] = ["to-a", "to-b"];
const DEFAULT_MTU_BYTES: u32 = 1500;

/// A namespace of the lab: a host, the middle or the switch.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) namespace: NetNamespace,
    /// Present for a host.
    pub(crate) host: Option<Host>,
    route: Route,
    control: LinkControl,
    /// Its ends of virtual cables.
    links: Vec<String>,
}

impl Node {
    fn new(name: String, host: Option<Host>, parts: NamespaceParts) -> Self {
        let NamespaceParts { namespace, route, control } = parts;
        Self { name, namespace, host, route: Route::new(route), control, links: Vec::new() }
    }
}

/// Creates and joins the namespaces. Hosts come first, in order; then the inner ones, if any. After an error, dropping
/// the values removes what was created.
pub(crate) fn wire(spec: &LabSpec) -> Result<Vec<Node>, Error> {
    let hosts = spec.hosts();
    let inner = spec.topology.inner();
    let mut options = vec![NamespaceOptions { ipv6: true }; hosts];
    // Frames are only forwarded: no address, no neighbour discovery of its own.
    options.extend(inner.iter().map(|_| NamespaceOptions { ipv6: false }));
    let names = spec.host_names().chain(inner.iter().map(|name| (*name).to_owned()));
    let mut nodes = Vec::with_capacity(options.len());
    for (index, (name, parts)) in names.zip(create(&options)?).enumerate() {
        let host = (index < hosts).then(|| Host {
            name: name.clone(),
            ipv4: host_ipv4(index),
            ipv6: host_ipv6(index),
            interface: HOST_INTERFACE.to_owned(),
        });
        nodes.push(Node::new(name, host, parts));
    }
    let parameters = LinkParameters {
        mtu_bytes: spec.mtu_bytes.unwrap_or(DEFAULT_MTU_BYTES),
        transmit_queue_packets: spec.transmit_queue_packets,
    };
    match inner {
        [] => cable(&mut nodes, 0, HOST_INTERFACE, 1, HOST_INTERFACE, parameters)?,
        _ => {
            // The last one is the switch, if there is one.
            let centre = hosts + inner.len() - 1;
            for host in 0..hosts {
                let leg = format!("to-{}", nodes[host].name);
                cable(&mut nodes, host, HOST_INTERFACE, centre, &leg, parameters)?;
            }
        }
    }
    match spec.topology {
        Topology::Switch(_) => {
            let legs = nodes[hosts].links.clone();
            bridge(&mut nodes[hosts], BRIDGE, &legs)?;
        }
        Topology::Middle(3..) => {
            let (middle, switch) = (hosts, hosts + 1);
            for (side, (name, leg)) in SIDES.into_iter().zip(LEGS).enumerate() {
                let mut legs: Vec<String> =
                    nodes[switch].links[..hosts].iter().skip(side).step_by(2).cloned().collect();
                let uplink = format!("{name}-m");
                cable(&mut nodes, middle, leg, switch, &uplink, parameters)?;
                legs.push(uplink);
                bridge(&mut nodes[switch], name, &legs)?;
            }
        }
        Topology::Pair | Topology::Middle(_) => {}
    }
    for node in &mut nodes {
        configure(node, spec.no_offload)?;
    }
    for node in &mut nodes {
        for link in &node.links {
            await_up(&mut node.route, link)?;
        }
    }
    if !spec.sysctls.is_empty() {
        for node in nodes.iter().filter(|node| node.host.is_some()) {
            set_sysctls(&node.namespace, spec)?;
        }
    }
    Ok(nodes)
}

/// Changes the kernel settings of a host.
fn set_sysctls(namespace: &NetNamespace, spec: &LabSpec) -> Result<(), Error> {
    namespace.set_sysctls(&spec.sysctls).map_err(|error| match spec.sysctls.get(&error.object) {
        Some(value) => match error.source.kind() {
            ErrorKind::NotFound | ErrorKind::InvalidInput => Error::Invalid {
                field: "sysctls",
                given: format!("{}={value}", error.object),
                accepted: "a setting that network namespaces have, with a value of its range"
                    .to_owned(),
            },
            _ => Error::Sysctl { name: error.object, source: error.source },
        },
        None => error.into(),
    })
}

/// Joins links of a node by a bridge.
fn bridge(node: &mut Node, name: &str, links: &[String]) -> Result<(), Error> {
    node.route.create_bridge(name)?;
    for link in links {
        node.route.set_master(link, name)?;
    }
    node.route.set_up(name)
}

fn cable(
    nodes: &mut [Node],
    here: usize,
    name: &str,
    there: usize,
    peer: &str,
    parameters: LinkParameters,
) -> Result<(), Error> {
    let far = nodes[there].namespace.clone();
    nodes[here].route.create_veth(name, peer, far.net_fd().as_fd(), parameters)?;
    nodes[here].links.push(name.to_owned());
    nodes[there].links.push(peer.to_owned());
    Ok(())
}

fn configure(node: &mut Node, no_offload: bool) -> Result<(), Error> {
    node.route.set_up("lo")?;
    for link in &node.links {
        if no_offload {
            cut_offloads(&node.control, link)?;
        }
        node.route.set_up(link)?;
        if let Some(host) = &node.host {
            node.route.add_address(link, IpAddr::V4(host.ipv4), IPV4_PREFIX_BITS)?;
            node.route.add_address(link, IpAddr::V6(host.ipv6), IPV6_PREFIX_BITS)?;
        }
    }
    Ok(())
}

/// Disables coalescing of incoming packets and segmentation of outgoing ones.
fn cut_offloads(control: &LinkControl, link: &str) -> Result<(), Error> {
    let names = control.feature_names(link)?;
    // The TCP ones differ between kernels: -tcp, -tcp6, -tcp-ecn, -tcp-mangleid, …
    let merges = |name: &str| {
        matches!(name, "rx-gro" | "tx-generic-segmentation" | "tx-udp-segmentation")
            || (name.starts_with("tx-tcp") && name.ends_with("-segmentation"))
    };
    let off: Vec<_> = names.iter().filter(|n| merges(n)).map(|n| (n.as_str(), false)).collect();
    Ok(control.set_features(link, &off)?)
}

/// The kernel announces a new link's carrier by a work queue; packets sent before that are lost.
pub(super) fn await_up(route: &mut Route, link: &str) -> Result<(), Error> {
    let deadline = Instant::now() + Duration::from_secs(5);
    while !route.link(link)?.is_up {
        if Instant::now() > deadline {
            let source = std::io::Error::from(std::io::ErrorKind::TimedOut);
            return Err(Error::Netlink { operation: "bring up", object: link.to_owned(), source });
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
