//! Why an interface must not be used for emulation: what else uses it.

use std::net::IpAddr;

#[cfg(target_os = "linux")]
use weir_model::impairment::Prefix;
use weir_model::names;
use weir_net::interface::{self, Interface};

use crate::error::{EmulatorError, Refusal};

/// The interface of an end of an emulator.
pub(crate) fn device(end: &str) -> &str {
    names::tap(end).unwrap_or(end)
}

/// Why `a` or `b` should be refused now: pairs of the interface and its reasons. What uses a TAP device is what its emulator
/// is for, and it may not exist yet.
///
/// # Errors
/// An unknown interface; errors of the system.
pub fn refusals(a: &str, b: &str) -> Result<Vec<(String, Vec<Refusal>)>, EmulatorError> {
    let all = interface::interfaces()?;
    let peer = session_peer();
    let session = peer.and_then(|ip| Some((ip, interface::egress_interface(ip).ok()?)));
    let mut out = Vec::new();
    let needed = |of: &Interface| -> Result<Vec<Refusal>, EmulatorError> {
        let mut reasons = Vec::new();
        if interface::has_default_route(&of.name)? {
            reasons.push(Refusal::DefaultRoute);
        }
        if let Some((ip, egress)) = &session
            && egress.interface_index == of.index
        {
            reasons.push(Refusal::OwnSession(ip.to_string()));
        }
        Ok(reasons)
    };
    let same = device(a) == device(b);
    for name in [a, b] {
        let mut reasons = Vec::new();
        if same {
            reasons.push(Refusal::SameTwice);
        }
        if let Some(tap) = names::tap(name) {
            let is_down = all.iter().any(|found| found.name == tap && !found.up);
            reasons.extend(is_down.then_some(Refusal::Down));
        } else {
            let this = interface::interface(name)?;
            reasons.extend(judged(&this, &all));
            reasons.extend(needed(&this)?);
            for upper in uppers(&this, &all) {
                let why = addresses(upper).into_iter().chain(needed(upper)?);
                reasons.extend(why.map(|why| Refusal::Upper(upper.name.clone(), Box::new(why))));
            }
        }
        if !reasons.is_empty() {
            out.push((name.to_owned(), reasons));
        }
        if a == b {
            break;
        }
    }
    Ok(out)
}

/// Refuses an interface for these reasons; with `force`, only for those that can't be forced.
pub(crate) fn permit(
    interface: String,
    mut refusals: Vec<Refusal>,
    force: bool,
) -> Result<(), EmulatorError> {
    refusals.retain(|reason| !force || !reason.may_be_forced());
    match refusals.is_empty() {
        true => Ok(()),
        false => Err(EmulatorError::Refused { interface, refusals }),
    }
}

/// Why packets of `this` to and from `prefixes` should not be impaired.
#[cfg(target_os = "linux")]
pub(crate) fn local_refusals(
    this: &Interface,
    prefixes: &[Prefix],
) -> Result<Vec<Refusal>, EmulatorError> {
    let mut reasons = judged(this, &interface::interfaces()?);
    reasons.retain(|reason| !matches!(reason, Refusal::Addresses(_)));
    if let Some(peer) = session_peer()
        // Without a route the peer may still arrive there.
        && interface::egress_interface(peer).map_or(true, |e| e.interface_index == this.index)
    {
        reasons.extend(session_prefix(peer, prefixes));
    }
    Ok(reasons)
}

/// The first of `prefixes` that contains the session's peer.
#[cfg(target_os = "linux")]
fn session_prefix(peer: IpAddr, prefixes: &[Prefix]) -> Option<Refusal> {
    let peer = peer.to_canonical();
    let address = match peer {
        IpAddr::V4(v4) => u128::from(v4.to_ipv6_mapped()),
        IpAddr::V6(v6) => u128::from(v6),
    };
    let has_peer = |(low, high): (u128, u128)| (low..=high).contains(&address);
    let prefix = prefixes.iter().find(|p| p.mapped_ranges().into_iter().any(has_peer))?;
    Some(Refusal::SessionPrefix(peer.to_string(), prefix.to_string()))
}

/// Interfaces whose packets cross this one: those on top of it (a VLAN, a macvlan), its bridge or bond, and those on
/// top of these.
fn uppers<'a>(this: &Interface, all: &'a [Interface]) -> Vec<&'a Interface> {
    let mut found: Vec<&Interface> = Vec::new();
    let mut below = vec![(this.index, this.master)];
    while let Some((index, master)) = below.pop() {
        for upper in all {
            let is_above = upper.lower == Some(index) || master == Some(upper.index);
            // Each once, for any kind of link.
            if is_above && upper.index != this.index && found.iter().all(|f| f.index != upper.index)
            {
                found.push(upper);
                below.push((upper.index, upper.master));
            }
        }
    }
    found.sort_by_key(|upper| upper.index);
    found
}

/// Addresses for which an interface is refused.
fn addresses(this: &Interface) -> Option<Refusal> {
    // Every interface that is up has a link-local IPv6 address.
    let addresses: Vec<String> = this
        .addresses
        .iter()
        .filter(|a| !matches!(a.address, IpAddr::V6(v6) if v6.is_unicast_link_local()))
        .map(|a| format!("{}/{}", a.address, a.prefix_length))
        .collect();
    (!addresses.is_empty()).then_some(Refusal::Addresses(addresses))
}

/// Reasons in the interface's own properties.
fn judged(this: &Interface, all: &[Interface]) -> Vec<Refusal> {
    let mut reasons = Vec::new();
    if this.loopback || this.mac.is_none() {
        reasons.push(Refusal::NotEthernet);
    }
    if !this.up {
        reasons.push(Refusal::Down);
    }
    if let Some(master) = this.master {
        let name = all.iter().find(|other| other.index == master).map(|other| &other.name);
        let name = name.map_or_else(|| format!("interface {master}"), |name| format!("{name:?}"));
        reasons.push(Refusal::Member(name.replace('"', "")));
    }
    reasons.extend(addresses(this));
    reasons
}

/// The remote address of the SSH session that this program runs in: from its environment or, since sudo clears that,
/// from an ancestor's.
fn session_peer() -> Option<IpAddr> {
    let own = std::env::var("SSH_CONNECTION").ok();
    if let Some(ip) = own.as_deref().and_then(first_address) {
        return Some(ip);
    }
    let mut pid = std::process::id();
    for _ in 0..32 {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
        pid = parent.trim().parse().ok().filter(|&pid| pid > 0)?;
        let Ok(environment) = std::fs::read(format!("/proc/{pid}/environ")) else { continue };
        let found = environment
            .split(|&byte| byte == 0)
            .filter_map(|entry| std::str::from_utf8(entry).ok()?.strip_prefix("SSH_CONNECTION="))
            .find_map(first_address);
        if found.is_some() {
            return found;
        }
    }
    None
}

/// The client's address of `SSH_CONNECTION` (`client port server port`).
fn first_address(text: &str) -> Option<IpAddr> {
    let word = text.split_whitespace().next()?;
    word.split('%').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_net::interface::InterfaceAddress;

    #[test]
    fn each_reason_is_seen() {
        let good = Interface {
            index: 7,
            name: "eth7".into(),
            up: true,
            mac: Some([2; 6]),
            ..Interface::default()
        };
        let bridge = Interface { index: 9, name: "br0".into(), ..good.clone() };
        let all = [good.clone(), bridge];
        assert_eq!(judged(&good, &all), []);
        let address = |text: &str, prefix_length| InterfaceAddress {
            address: text.parse().unwrap(),
            prefix_length,
        };
        let local = Interface { addresses: vec![address("fe80::1", 64)], ..good.clone() };
        assert_eq!(judged(&local, &all), []);
        let bad = Interface {
            up: false,
            mac: None,
            master: Some(9),
            addresses: vec![address("192.0.2.1", 24), address("fe80::1", 64)],
            ..good
        };
        assert_eq!(
            judged(&bad, &all),
            [
                Refusal::NotEthernet,
                Refusal::Down,
                Refusal::Member("br0".into()),
                Refusal::Addresses(vec!["192.0.2.1/24".into()]),
            ]
        );
    }

    #[test]
    fn what_works_through_an_interface_is_found_through_all_layers() {
        let made = |index: u32, lower: Option<u32>, master: Option<u32>| Interface {
            index,
            name: format!("i{index}"),
            lower,
            master,
            ..Interface::default()
        };
        let all = [
            made(1, None, None),
            made(2, None, Some(3)),
            made(3, None, None),
            // A VLAN on the bond, a macvlan on that, and an unrelated one.
            made(4, Some(3), None),
            made(5, Some(4), None),
            made(6, Some(1), None),
        ];
        let names = |index: usize| -> Vec<&str> {
            uppers(&all[index], &all).iter().map(|upper| upper.name.as_str()).collect()
        };
        assert_eq!(names(1), ["i3", "i4", "i5"]);
        assert_eq!(names(3), ["i5"]);
        assert_eq!(names(0), ["i6"]);
        assert!(names(4).is_empty());
        // Invalid loops end too.
        let round = [made(1, Some(2), None), made(2, Some(1), Some(1))];
        assert_eq!(uppers(&round[0], &round).len(), 1);
        let with_address = Interface {
            addresses: vec![InterfaceAddress {
                address: "192.0.2.1".parse().unwrap(),
                prefix_length: 24,
            }],
            ..made(7, None, None)
        };
        let why = Refusal::Upper("i7".into(), Box::new(addresses(&with_address).unwrap()));
        assert_eq!(why.code(), "has-addresses");
        assert!(why.to_string().contains("i7"), "{why}");
        assert!(why.may_be_forced());
    }

    #[test]
    fn a_prefix_with_the_peer_of_the_session_is_refused() {
        let of = |peer: &str, prefixes: &[&str]| {
            let prefixes: Vec<Prefix> = prefixes.iter().map(|p| p.parse().unwrap()).collect();
            session_prefix(peer.parse().unwrap(), &prefixes)
        };
        let named = |peer: &str, prefix: &str| {
            let refusal = Refusal::SessionPrefix(peer.into(), prefix.into());
            assert!(refusal.may_be_forced());
            Some(refusal)
        };
        let two = ["198.51.100.0/24", "203.0.113.0/25"];
        assert_eq!(of("203.0.113.7", &two), named("203.0.113.7", "203.0.113.0/25"));
        assert_eq!(of("::ffff:203.0.113.7", &two), named("203.0.113.7", "203.0.113.0/25"));
        assert_eq!(of("203.0.113.128", &two), None);
        assert_eq!(of("192.0.2.1", &["0.0.0.0/0"]), named("192.0.2.1", "0.0.0.0/0"));
        assert_eq!(of("2001:db8::1", &["0.0.0.0/0"]), None);
        assert_eq!(of("2001:db8::1", &["2001:db8::/32"]), named("2001:db8::1", "2001:db8::/32"));
        assert_eq!(of("2001:db9::1", &["2001:db8::/32"]), None);
    }

    #[test]
    fn a_tap_device_is_refused_for_itself_alone_and_hides_no_reason_of_the_other_end() {
        let of = |a: &str, b: &str| refusals(a, b).unwrap();
        let loopback = of("tap:none0", "lo").pop().unwrap();
        assert!(loopback.0 == "lo" && loopback.1.contains(&Refusal::NotEthernet), "{loopback:?}");
        assert_eq!(of("tap:none0", "tap:none1"), []);
        let same = ("tap:none0".to_owned(), vec![Refusal::SameTwice]);
        assert_eq!(of("tap:none0", "tap:none0"), [same]);
    }

    #[test]
    fn the_peer_of_a_session() {
        assert_eq!(first_address("192.0.2.7 51000 192.0.2.1 22"), "192.0.2.7".parse().ok());
        assert_eq!(first_address("fe80::1%eth0 51000 fe80::2 22"), "fe80::1".parse().ok());
        assert_eq!(first_address(""), None);
    }
}
