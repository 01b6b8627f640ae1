//! The agents of a mesh, and their pairs.

use std::net::IpAddr;

use weir_fleet::{Agent, AgentName};
use weir_model::Refusal;
use weir_model::nearest;
use weir_model::watch::{AgentState, Mesh};

use super::PairNames;
use crate::error::CliError;
use crate::stamp;

/// An agent of the mesh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) state: AgentState,
    /// Where others reach it.
    pub(super) address: Option<IpAddr>,
    /// Why it can't be measured.
    pub(super) reason: Option<String>,
}

impl Member {
    pub(super) fn of(agent: &Agent, label: &str) -> Member {
        let address = address_of(agent, label);
        let (state, reason) = match (&address, agent.is_here()) {
            (_, false) => (AgentState::Gone, None),
            _ if agent.facts.version != stamp::VERSION => {
                let reason = format!("version {}, not {}", agent.facts.version, stamp::VERSION);
                (AgentState::Unusable, Some(reason))
            }
            (Err(reason), true) => (AgentState::Unusable, Some(reason.clone())),
            (Ok(_), true) => (AgentState::Connected, None),
        };
        Member { state, address: address.ok(), reason }
    }

    pub(super) fn is_usable(&self) -> bool {
        self.state == AgentState::Connected
    }
}

/// The address of an agent's label, else the first global one of its interfaces.
fn address_of(agent: &Agent, label: &str) -> Result<IpAddr, String> {
    if let Some(stated) = agent.facts.labels.get(label) {
        return stated.parse().map_err(|_| format!("label {label}={stated} is not an IP address"));
    }
    let addresses = agent.facts.interfaces.iter().flat_map(|interface| &interface.addresses);
    let mut addresses = addresses.filter_map(|address| address.split('/').next()?.parse().ok());
    addresses.find(is_global).ok_or_else(|| {
        format!("no global address on its interfaces; state one with the label {label}=ADDRESS")
    })
}

fn is_global(address: &IpAddr) -> bool {
    let is_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    !is_local && !address.is_loopback() && !address.is_unspecified() && !address.is_multicast()
}

/// The pairs of a mesh with these members, sorted by name: those that it lists, those of its hub, or all.
///
/// # Errors
/// A name that is no member.
pub(super) fn pairs_of(mesh: &Mesh, members: &[&AgentName]) -> Result<Vec<PairNames>, CliError> {
    let member = |field: &str, name: &str| {
        let found = members.iter().find(|member| member.as_str() == name);
        found.map(|name| (*name).clone()).ok_or_else(|| {
            let names: Vec<&str> = members.iter().map(|name| name.as_str()).collect();
            let near = nearest(name, names.iter().copied()).map(str::to_owned);
            let accepted = format!("an agent of the mesh: {}", names.join(", "));
            let refusal = Refusal::of_field("agent", field, name, accepted);
            CliError::Refused(Box::new(Refusal { nearest: near, ..refusal }))
        })
    };
    if let Some(hub) = &mesh.hub {
        let hub = member("hub", hub)?;
        let others = members.iter().filter(|name| ***name != hub);
        return Ok(others.map(|name| (hub.clone(), (*name).clone())).collect());
    }
    if !mesh.pairs.is_empty() {
        let pair = |(at, (from, to)): (usize, &(String, String))| {
            let field = format!("pairs[{at}]");
            Ok((member(&field, from)?, member(&field, to)?))
        };
        return mesh.pairs.iter().enumerate().map(pair).collect();
    }
    let from = |at: usize| members[at + 1..].iter().map(move |to| (at, (*to).clone()));
    let pairs = (0..members.len()).flat_map(from);
    Ok(pairs.map(|(at, to)| (members[at].clone(), to)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use weir_fleet::{AgentFacts, InterfaceFacts};

    fn agent(label: Option<&str>, addresses: &[&str]) -> Agent {
        let labels = label.map(|address| ("address".to_owned(), address.to_owned()));
        let interface = InterfaceFacts {
            name: "eth0".into(),
            addresses: addresses.iter().map(|address| (*address).to_owned()).collect(),
        };
        Agent {
            name: "a".parse().unwrap(),
            facts: AgentFacts {
                version: stamp::VERSION.into(),
                labels: labels.into_iter().collect(),
                interfaces: vec![interface],
                ..AgentFacts::default()
            },
            seen: Some(Duration::ZERO),
            has_stopped: false,
        }
    }

    #[test]
    fn the_address_is_that_of_the_label_or_the_first_global_one() {
        for (label, addresses, expected) in [
            (Some("192.0.2.7"), &["198.51.100.1/24"][..], Some("192.0.2.7")),
            (None, &["fe80::1/64", "169.254.1.1/16", "198.51.100.1/24"], Some("198.51.100.1")),
            (None, &["2001:db8::1/64"], Some("2001:db8::1")),
            (Some("host"), &["198.51.100.1/24"], None),
            (None, &["fe80::1/64", "x"], None),
        ] {
            let member = Member::of(&agent(label, addresses), "address");
            let address = member.address.map(|address| address.to_string());
            assert_eq!(address.as_deref(), expected, "{label:?} {addresses:?}");
            assert_eq!(member.is_usable(), expected.is_some());
            assert_eq!(member.reason.is_some(), expected.is_none());
        }
        let mut gone = agent(Some("192.0.2.7"), &[]);
        gone.has_stopped = true;
        assert_eq!(Member::of(&gone, "address").state, AgentState::Gone);
        let mut other = agent(Some("192.0.2.7"), &[]);
        other.facts.version = "0".into();
        assert_eq!(Member::of(&other, "address").state, AgentState::Unusable);
    }

    #[test]
    fn pairs_are_all_or_those_of_a_hub_or_listed_ones() {
        let names: Vec<AgentName> = ["a", "b", "c"].map(|name| name.parse().unwrap()).into();
        let names: Vec<&AgentName> = names.iter().collect();
        let pairs = |text: &str| {
            let text = format!("schema = \"weir.mesh/1\"\nname = \"m\"\n{text}");
            let pairs = pairs_of(&Mesh::parse(&text).unwrap(), &names);
            let text = |(from, to): PairNames| format!("{from}{to}");
            pairs.map(|pairs| pairs.into_iter().map(text).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(pairs("").unwrap(), "ab ac bc");
        assert_eq!(pairs("hub = \"b\"").unwrap(), "ba bc");
        assert_eq!(pairs("pairs = [[\"c\", \"a\"]]").unwrap(), "ca");
        for (text, field) in [("hub = \"x\"", "hub"), ("pairs = [[\"a\", \"x\"]]", "pairs[0]")] {
            let Err(CliError::Refused(refusal)) = pairs(text) else { panic!("{text}") };
            assert_eq!(
                (refusal.field.as_deref(), refusal.given.as_deref()),
                (Some(field), Some("x"))
            );
        }
    }
}
