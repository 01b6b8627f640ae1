//! Queries of rtnetlink, always for the calling thread's network namespace.

use std::fs;
use std::net::IpAddr;
use std::path::Path;

use super::netlink::{Attributes, Netlink, push_attribute, u16_at, u64_at};
use super::rtnetlink::{
    Route, STATS_LINK_64, parse_address, parse_link, parse_neighbour, parse_qdisc, parse_route,
    parse_statistics,
};
use crate::error::{Context, Error, Result};
use crate::interface::{Egress, Hardware, Interface, InterfaceCounters, Qdisc};

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

/// Reads the counters of one interface again and again, at some microseconds each.
#[derive(Debug)]
pub struct CounterReader {
    netlink: Netlink,
    interface: u32,
}

impl CounterReader {
    /// Opens the counters of an interface of the calling thread's network namespace.
    ///
    /// # Errors
    /// The kernel's refusal of a socket.
    pub fn open(interface: u32) -> Result<Self> {
        Ok(CounterReader { netlink: open()?, interface })
    }

    /// The counters now.
    ///
    /// # Errors
    /// The interface is gone.
    pub fn read(&mut self) -> Result<InterfaceCounters> {
        // linux/rtnetlink.h
        const RTM_NEWSTATS: u16 = 92;
        const RTM_GETSTATS: u16 = 94;
        const OPERATION: &str = "read the counters of interface";
        // struct if_stats_msg: the interface, and which statistics.
        let mut body = [0; 12];
        body[4..8].copy_from_slice(&self.interface.to_ne_bytes());
        body[8..].copy_from_slice(&(1_u32 << (STATS_LINK_64 - 1)).to_ne_bytes());
        let object = || self.interface.to_string();
        let mut found = None;
        let each = |kind, payload: &[u8]| {
            if kind == RTM_NEWSTATS {
                found = parse_statistics(payload);
            }
        };
        self.netlink.get_one(RTM_GETSTATS, &body, each).context(OPERATION, object())?;
        let reason = "an answer without counters";
        found.ok_or_else(|| Error::Malformed { operation: OPERATION, object: object(), reason })
    }
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

/// The MAC address of a neighbour on an interface, as ARP or neighbour discovery has resolved it (`RTM_GETNEIGH`). `None` if it
/// has not, or the address is not one of six bytes. Nothing is sent.
pub fn neighbour_mac(interface: u32, address: IpAddr) -> Result<Option<[u8; 6]>> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    // struct ndmsg.
    let mut body = [0_u8; 12];
    body[0] = family as u8;
    open()?
        .dump(libc::RTM_GETNEIGH, &body, |found: &mut Option<[u8; 6]>, kind, payload| {
            if kind == libc::RTM_NEWNEIGH
                && let Some(neighbour) = parse_neighbour(payload)
                && (neighbour.interface, neighbour.address) == (interface, address)
            {
                *found = Some(neighbour.mac);
            }
        })
        .context("look up the neighbour", address.to_string())
}

/// Whether the driver of an interface sends frames of XDP programs, in its present state (generic netlink, family `netdev`).
/// `None`: the kernel does not report it (before Linux 6.3).
pub fn sends_xdp_frames(interface: u32) -> Result<Option<bool>> {
    // linux/genetlink.h and linux/netdev.h.
    const CONTROL: u16 = 16;
    const GET_FAMILY: u8 = 3;
    const FAMILY_ID: u16 = 1;
    const FAMILY_NAME: u16 = 2;
    const GET_DEVICE: u8 = 1;
    const DEVICE_INDEX: u16 = 1;
    const DEVICE_XDP_FEATURES: u16 = 3;
    const TRANSMITS: u64 = 1 << 2;
    const OPERATION: &str = "read the XDP features of interface";

    let object = interface.to_string();
    let mut netlink = Netlink::generic().context(OPERATION, &object)?;
    // struct genlmsghdr.
    let mut body = vec![GET_FAMILY, 1, 0, 0];
    push_attribute(&mut body, FAMILY_NAME, b"netdev\0");
    let mut family = None;
    let found = netlink.get(CONTROL, &body, |_, payload| {
        let mut attributes = Attributes(payload.get(4..).unwrap_or_default());
        family = attributes.find(|(kind, _)| *kind == FAMILY_ID).and_then(|(_, id)| u16_at(id, 0));
    });
    match (found, family) {
        (Err(error), _) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        (Err(error), _) => Err(error).context(OPERATION, &object),
        (Ok(()), None) => Ok(None),
        (Ok(()), Some(family)) => {
            let mut body = vec![GET_DEVICE, 1, 0, 0];
            push_attribute(&mut body, DEVICE_INDEX, &interface.to_ne_bytes());
            let mut features = None;
            let get = netlink.get(family, &body, |_, payload| {
                let mut attributes = Attributes(payload.get(4..).unwrap_or_default());
                let of_xdp = attributes.find(|(kind, _)| *kind == DEVICE_XDP_FEATURES);
                features = of_xdp.and_then(|(_, bits)| u64_at(bits, 0));
            });
            get.context(OPERATION, &object)?;
            Ok(features.map(|bits| bits & TRANSMITS != 0))
        }
    }
}

/// Lists of the names of PCI devices, as distributions install them.
const PCI_IDS: [&str; 2] = ["/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids"];

/// The hardware of an interface from `/sys`; nothing of it is known for a virtual interface.
pub fn hardware(interface: &Interface) -> Hardware {
    let class = Path::new("/sys/class/net").join(&interface.name);
    // `/sys` may show the interfaces of another network namespace.
    let mac = field(&class, "address").unwrap_or_default();
    let own = interface.mac.map(|mac| mac.map(|byte| format!("{byte:02x}")).join(":"));
    let is_same = field(&class, "ifindex") == Some(interface.index.to_string());
    match fs::canonicalize(class.join("device")) {
        Ok(device) if is_same && own == Some(mac) => {
            let list = PCI_IDS.iter().find_map(|path| fs::read_to_string(path).ok());
            hardware_of(&device, &list.unwrap_or_default())
        }
        _ => Hardware::default(),
    }
}

fn field(directory: &Path, name: &str) -> Option<String> {
    let text = fs::read_to_string(directory.join(name)).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The hardware of a device. The card may be above it: a virtio device is the child of a PCI device, and an interface of a
/// USB device that of the device.
fn hardware_of(device: &Path, pci_ids: &str) -> Hardware {
    for directory in device.ancestors() {
        let of = |name: &str| field(directory, name);
        let address = directory.file_name().map(|name| name.to_string_lossy().into_owned());
        let address = address.unwrap_or_default();
        let subsystem = fs::read_link(directory.join("subsystem")).ok();
        let subsystem = subsystem.as_deref().and_then(Path::file_name);
        if subsystem.is_some_and(|name| name == "pci")
            && let Some((vendor, device)) = of("vendor").zip(of("device"))
        {
            let id = |text: &str| text.trim_start_matches("0x").to_owned();
            let (vendor, device) = (id(&vendor), id(&device));
            let ids = format!("{vendor}:{device}");
            let name = pci_name(pci_ids, &vendor, &device);
            let link = of("current_link_speed").zip(of("current_link_width"));
            let link = link.filter(|(_, lanes)| lanes != "0");
            let link = link.map_or(String::new(), |(speed, lanes)| format!(", {speed} x{lanes}"));
            return Hardware {
                card: Some(name.map_or(ids.clone(), |name| format!("{name} ({ids})"))),
                bus: Some(format!("pci {address}{link}")),
            };
        }
        if let Some((vendor, product)) = of("idVendor").zip(of("idProduct")) {
            let ids = format!("{vendor}:{product}");
            let speed = of("speed").map_or(String::new(), |speed| format!(", {speed} Mbit/s"));
            return Hardware {
                card: Some(of("product").map_or(ids.clone(), |name| format!("{name} ({ids})"))),
                bus: Some(format!("usb {address}{speed}")),
            };
        }
    }
    Hardware::default()
}

/// The name of a PCI device in a list of lines `VENDOR  NAME`, each followed by lines `<tab>DEVICE  NAME`.
fn pci_name(list: &str, vendor: &str, device: &str) -> Option<String> {
    fn after<'a>(line: &'a str, id: &str) -> Option<&'a str> {
        line.strip_prefix(id)?.strip_prefix("  ").map(str::trim_end)
    }
    let mut lines = list.lines().skip_while(|line| after(line, vendor).is_none());
    lines.next()?;
    lines
        .take_while(|line| line.starts_with(['\t', '#']))
        .find_map(|line| after(line.strip_prefix('\t')?, device))
        .map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "# a list\n1af4  Red Hat, Inc.\n\t1000  Virtio network device\n\t\t1af4 0001  sub\n\t1041  Virtio 1.0 network device\n8086  Intel Corporation\n\t10d3  82574L Gigabit Network Connection\n";

    #[test]
    fn a_device_has_the_name_of_its_vendors_list() {
        let name = |vendor, device| pci_name(LIST, vendor, device);
        assert_eq!(name("8086", "10d3").as_deref(), Some("82574L Gigabit Network Connection"));
        assert_eq!(name("1af4", "1041").as_deref(), Some("Virtio 1.0 network device"));
        assert_eq!(
            [name("1af4", "10d3"), name("8086", "1000"), name("10ec", "10d3")],
            [None, None, None]
        );
    }

    /// A virtio card is described by the PCI device above it.
    #[test]
    fn the_card_is_the_device_on_the_bus() {
        let root = tempfile::tempdir().unwrap();
        let card = root.path().join("0000:00:03.0");
        let own = card.join("virtio2");
        fs::create_dir_all(&own).unwrap();
        let write =
            |name: &str, text: &str| fs::write(card.join(name), format!("{text}\n")).unwrap();
        write("vendor", "0x1af4");
        write("device", "0x1000");
        assert_eq!(hardware_of(&own, LIST), Hardware::default(), "on no known bus");
        std::os::unix::fs::symlink("/sys/bus/pci", card.join("subsystem")).unwrap();
        let found = hardware_of(&own, LIST);
        assert_eq!(found.card.as_deref(), Some("Virtio network device (1af4:1000)"));
        assert_eq!(found.bus.as_deref(), Some("pci 0000:00:03.0"));
        write("current_link_speed", "8.0 GT/s PCIe");
        write("current_link_width", "4");
        let found = hardware_of(&own, "");
        assert_eq!(found.card.as_deref(), Some("1af4:1000"));
        assert_eq!(found.bus.as_deref(), Some("pci 0000:00:03.0, 8.0 GT/s PCIe x4"));
    }

    #[test]
    fn the_interfaces_of_this_host_have_their_cards() {
        for interface in interfaces().unwrap() {
            let device = Path::new("/sys/class/net").join(&interface.name).join("device");
            let device = fs::canonicalize(device).unwrap_or_default();
            let is_pci = device.to_string_lossy().starts_with("/sys/devices/pci");
            let found = hardware(&interface);
            assert_eq!((found.card.is_some(), found.bus.is_some()), (is_pci, is_pci), "{found:?}");
        }
    }
}
