//! Chooses and opens an interface's link.

use weir_net::interface;

use crate::error::{Error, Result};
use crate::link::{Link, Mode};
use crate::options::{LinkChoice, LinkOptions};
use crate::settings::VLAN_FEATURES;
use crate::sys::Device;
use crate::{bpf, packet, xdp};

/// Facts on which the choice of a link depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Facts {
    receive_stamps_wanted: bool,
    mtu_bytes: u32,
    /// A virtual interface such as veth or tap: the sender is this host and may send super-packets.
    is_virtual: bool,
    tags: Tags,
}

/// Where VLAN tags are when AF_XDP receives a frame. It receives the bytes only: a tag in metadata is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tags {
    /// In the frame.
    Inside,
    /// In metadata if the sender left it there. The other end of a veth does so for its VLAN interfaces
    /// unless its own offloads are off; it may be in any namespace and cannot be queried.
    AsSent,
    /// In metadata: this offload strips tags and cannot be disabled.
    Beside(&'static str),
}

fn tags(interface: &str, kind: Option<&str>) -> Result<Tags> {
    if kind == Some("veth") {
        // Its own offloads do not affect tags that the other end leaves in metadata.
        return Ok(Tags::AsSent);
    }
    let features = interface::offloads(interface)?;
    let beside = VLAN_FEATURES
        .into_iter()
        .find(|name| features.iter().any(|feature| feature.active && feature.name == *name));
    Ok(beside.map_or(Tags::Inside, Tags::Beside))
}

/// AF_XDP modes to try in order (if none, use the packet socket), and the reason.
fn preference(facts: Facts, bpf_refused: Option<String>) -> (&'static [Mode], String) {
    if facts.receive_stamps_wanted {
        return (&[], "delay and rate need the kernel's receive stamps, which AF_XDP lacks".into());
    }
    if facts.mtu_bytes > xdp::MAX_MTU_BYTES {
        let most = xdp::MAX_MTU_BYTES;
        return (
            &[],
            format!(
                "AF_XDP supports an MTU of at most {most} bytes, this one is {}",
                facts.mtu_bytes
            ),
        );
    }
    match facts.tags {
        Tags::Inside => {}
        Tags::AsSent => {
            return (
                &[],
                "the other end of a veth may pass VLAN tags as metadata, which AF_XDP loses".into(),
            );
        }
        Tags::Beside(feature) => {
            return (&[], format!("AF_XDP would lose VLAN tags: {feature} cannot be disabled"));
        }
    }
    if let Some(refusal) = bpf_refused {
        return (&[], format!("AF_XDP needs BPF, which is refused: {refusal}"));
    }
    if facts.is_virtual {
        // Only a program in the driver keeps the far end from sending super-packets, which AF_XDP does not
        // support.
        return (&[Mode::XdpZeroCopy, Mode::XdpNative], "no law needs receive stamps".into());
    }
    (&[Mode::XdpZeroCopy, Mode::XdpNative, Mode::XdpGeneric], "no law needs receive stamps".into())
}

/// Opens a link on `interface` of the calling thread's network namespace. Threads in other namespaces may
/// use it.
///
/// Disable unwanted offloads first ([`crate::disable_offloads`]). With [`LinkChoice::Auto`] the description
/// contains the reason for the choice, which is never a link that may lose VLAN tags. AF_XDP requested by
/// name is refused where an offload strips tags; on a veth, whose other end may leave tags in metadata, the
/// description has a note.
///
/// # Errors
/// The interface does not exist, does not carry Ethernet frames or is down; or a system call failed.
pub fn open(interface: &str, choice: LinkChoice, options: &LinkOptions) -> Result<Link> {
    let mut links = open_several(interface, choice, options, 1)?;
    links.pop().ok_or_else(|| Error::refused("open a link on", interface, "no link was opened"))
}

/// Opens `count` links on one interface, for as many threads: what arrives is divided among them, so that packets of one
/// connection arrive at one of them, in order. Otherwise as [`open`].
///
/// # Errors
/// As [`open`]; for AF_XDP also an interface with fewer queues.
///
/// # Panics
/// `count` is 0.
pub fn open_several(
    interface: &str,
    choice: LinkChoice,
    options: &LinkOptions,
    count: u32,
) -> Result<Vec<Link>> {
    assert!(count > 0, "no link is no link");
    let found = interface::interface(interface)?;
    let refused = |reason: &str| Err(Error::refused("open a link on", interface, reason));
    if found.mac.is_none() || found.loopback {
        return refused("it does not carry Ethernet frames");
    }
    if !found.up {
        return refused("it is down: bring it up first");
    }
    let device = Device { name: found.name.clone(), index: found.index };
    let receive_stamps_wanted = match choice {
        LinkChoice::Mode(Mode::Packet) => {
            return packet::open(&device, found.mtu_bytes, options, count);
        }
        LinkChoice::Mode(mode) => {
            let tags = tags(interface, found.kind.as_deref())?;
            if let Tags::Beside(feature) = tags {
                return refused(&format!(
                    "{feature} is on and AF_XDP would lose VLAN tags: use the packet socket"
                ));
            }
            let mut links = xdp::open(&device, found.mtu_bytes, mode, options, count)?;
            if tags == Tags::AsSent {
                let note = "VLAN tags that the other end of the veth passes as metadata are lost: \
                    disable tx-vlan-hw-insert and tx-vlan-stag-hw-insert there";
                links.iter_mut().for_each(|link| link.description.notes.push(note.to_owned()));
            }
            return Ok(links);
        }
        LinkChoice::Auto { receive_stamps } => receive_stamps,
    };
    let facts = Facts {
        receive_stamps_wanted,
        mtu_bytes: found.mtu_bytes,
        is_virtual: found.kind.is_some(),
        tags: tags(interface, found.kind.as_deref())?,
    };
    let permitted = bpf::SocketMap::new(1).err().map(|e| e.to_string());
    let (modes, reason) = preference(facts, permitted);
    let mut failures = Vec::new();
    let mut opened = None;
    for &mode in modes {
        match xdp::open(&device, found.mtu_bytes, mode, options, count) {
            Ok(links) => {
                opened = Some(links);
                break;
            }
            Err(error) => failures.push(format!("{mode}: {error}")),
        }
    }
    let mut links = match opened {
        Some(links) => links,
        None => packet::open(&device, found.mtu_bytes, options, count)?,
    };
    let reason = with_failures(&reason, &failures);
    links.iter_mut().for_each(|link| link.description.reason = Some(reason.clone()));
    Ok(links)
}

fn with_failures(reason: &str, failures: &[String]) -> String {
    if failures.is_empty() {
        reason.to_owned()
    } else {
        format!("{reason}; unavailable: {}", failures.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_offloads_are_not_taken_for_tags_inside() {
        assert!(tags("absent0", None).is_err());
        assert_eq!(tags("absent0", Some("veth")).unwrap(), Tags::AsSent);
    }

    #[test]
    fn each_reason_for_the_packet_socket() {
        let tags = Tags::Inside;
        let facts =
            Facts { receive_stamps_wanted: false, mtu_bytes: 1500, is_virtual: false, tags };
        let (modes, _) = preference(facts, None);
        assert_eq!(modes, [Mode::XdpZeroCopy, Mode::XdpNative, Mode::XdpGeneric]);
        let (modes, _) = preference(Facts { is_virtual: true, ..facts }, None);
        assert!(!modes.contains(&Mode::XdpGeneric) && modes.contains(&Mode::XdpNative));
        for (facts, refusal, word) in [
            (Facts { receive_stamps_wanted: true, ..facts }, None, "stamps"),
            (Facts { mtu_bytes: 3507, ..facts }, None, "3507"),
            (facts, Some("Operation not permitted".to_owned()), "not permitted"),
            (Facts { tags: Tags::AsSent, is_virtual: true, ..facts }, None, "veth"),
            (Facts { tags: Tags::Beside(VLAN_FEATURES[1]), ..facts }, None, "stag"),
        ] {
            let (modes, reason) = preference(facts, refusal);
            assert!(modes.is_empty() && reason.contains(word), "{reason}");
        }
        assert!(!preference(Facts { mtu_bytes: 3506, ..facts }, None).0.is_empty());
    }
}
