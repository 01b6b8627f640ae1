//! What a plan may hold: every refusal names the field, what was given and what is accepted.

use std::net::IpAddr;

use super::{
    Connection, DEFAULT_PORT, Family, MAX_FLOWS, MAX_UDP_PAYLOAD_V4, MAX_UDP_PAYLOAD_V6,
    PLAN_SCHEMA, Plan, Switch, Transport,
};
use crate::ModelError;
use crate::names::{Host, is_device};
use crate::units::{BitRate, ByteSize, RateLimit};

impl Plan {
    /// Checks everything that can be known without a socket.
    ///
    /// # Errors
    /// [`ModelError::Field`] naming the first field that can't be run.
    pub fn check(&self) -> Result<(), ModelError> {
        let refuse = |field: &str, given: String, accepted: &str| {
            Err(ModelError::Field { field: field.into(), given, accepted: accepted.into() })
        };
        if self.schema != PLAN_SCHEMA {
            return refuse("schema", self.schema.clone(), PLAN_SCHEMA);
        }
        if self.port == 0 {
            return refuse("port", "0".into(), "1 to 65535");
        }
        if self.interval.0 != 0 && !(10_000_000..=3_600_000_000_000).contains(&self.interval.0) {
            return refuse("interval", self.interval.to_string(), "0 (none) or 10ms to 1h");
        }
        if self.omit.0 > 3_600_000_000_000 {
            return refuse("omit", self.omit.to_string(), "0 to 1h");
        }
        if let Some(t) = self.loss_threshold
            && !(1_000_000..=600_000_000_000).contains(&t.0)
        {
            return refuse("loss_threshold", t.to_string(), "1ms to 10m");
        }
        if let Some(host) = &self.host {
            self.check_host(&Host::parse(host)?)?;
        }
        if let Some(device) = self.device.as_ref().filter(|device| !is_device(device)) {
            return refuse("device", format!("'{device}'"), "an interface name of 1 to 15 bytes");
        }
        if let (Some(bind), Some(family)) = (self.bind, self.family)
            && family_of(bind) != family
        {
            return refuse("bind", format!("{bind} with {family}"), "an address of that family");
        }
        if self.nominal == Some(BitRate(0)) {
            return refuse("nominal", "0".into(), "bits per second above 0");
        }
        if self.connections.is_empty() {
            return refuse("connection", "none".into(), "at least one [[connection]]");
        }
        let mut flows = 0u64;
        let mut names = std::collections::HashSet::new();
        for (i, c) in self.connections.iter().enumerate() {
            c.check(&format!("connection[{i}]"), self.family)?;
            flows += u64::from(c.count);
            if !c.name.is_empty() && !names.insert(&c.name) {
                return refuse(
                    &format!("connection[{i}].name"),
                    c.name.clone(),
                    "a name used once",
                );
            }
        }
        if flows > MAX_FLOWS {
            return refuse("connection", format!("{flows} flows"), "at most 100000 flows in all");
        }
        Ok(())
    }

    /// Checks the server's name against the family and the port.
    fn check_host(&self, host: &Host) -> Result<(), ModelError> {
        if let (Some(address), Some(family)) = (host.address(), self.family)
            && family_of(address) != family
        {
            return Err(ModelError::Field {
                field: "family".into(),
                given: format!("{family} with the host {address}"),
                accepted: format!("a host with an {} address, or a name", title_of(family)),
            });
        }
        match host.port {
            // A port that is the default can't be distinguished from an absent one.
            Some(port) if port != self.port && self.port != DEFAULT_PORT => {
                Err(ModelError::Field {
                    field: "port".into(),
                    given: format!("{}, while the host says {port}", self.port),
                    accepted: "one of them".into(),
                })
            }
            _ => Ok(()),
        }
    }
}

/// The family of an address.
fn family_of(address: IpAddr) -> Family {
    if address.is_ipv4() { Family::Ipv4 } else { Family::Ipv6 }
}

/// A family as RFCs write it.
fn title_of(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "IPv4",
        Family::Ipv6 => "IPv6",
    }
}

impl Connection {
    /// Checks one connection; `at` is its path in the document.
    fn check(&self, at: &str, family: Option<Family>) -> Result<(), ModelError> {
        let refuse = |field: &str, given: String, accepted: &str| {
            Err(ModelError::Field {
                field: format!("{at}.{field}"),
                given,
                accepted: accepted.into(),
            })
        };
        if self.name.len() > 64 || self.name.chars().any(char::is_control) {
            return refuse("name", format!("{:?}", self.name), "up to 64 printable characters");
        }
        if !(1..=100_000).contains(&self.count) {
            return refuse("count", self.count.to_string(), "1 to 100000");
        }
        if let Some(p) = self.payload {
            match self.transport {
                Transport::Udp => {
                    let most = if family == Some(Family::Ipv6) {
                        MAX_UDP_PAYLOAD_V6
                    } else {
                        MAX_UDP_PAYLOAD_V4
                    };
                    if p.0 > most {
                        return refuse(
                            "payload",
                            p.0.to_string(),
                            &format!("0 to {most} bytes for UDP"),
                        );
                    }
                    if p.0 == 0 && self.rate.is_some_and(|r| matches!(r.limit, RateLimit::Bits(_)))
                    {
                        return refuse(
                            "rate",
                            "bit/s with an empty payload".into(),
                            "packets per second (50000pps) or 0",
                        );
                    }
                }
                Transport::Tcp if !(1..=16 << 20).contains(&p.0) => {
                    return refuse("payload", p.0.to_string(), "1 to 16M bytes for a write");
                }
                Transport::Tcp => {}
            }
        }
        if let Some(m) = self.mss
            && !(88..=32_767).contains(&m)
        {
            return refuse("mss", m.to_string(), "88 to 32767");
        }
        for (field, is_set, transport) in self.of_one_transport() {
            if is_set && self.transport != transport {
                let accepted = format!("{transport} only");
                return refuse(field, format!("set for {}", self.transport), &accepted);
            }
        }
        if let Some(w) = self.window
            && !(1024..=1 << 30).contains(&w.0)
        {
            return refuse("window", w.to_string(), "1K to 1G");
        }
        if let Some(label) = self.flow_label {
            if label >= 1 << 20 {
                return refuse("flow_label", label.to_string(), "0 to 1048575");
            }
            if family != Some(Family::Ipv6) {
                let family = family.map_or("no family".into(), |family| family.to_string());
                let accepted = "family = \"ipv6\" (-6): IPv4 has no flow labels";
                return refuse("flow_label", format!("{label} with {family}"), accepted);
            }
        }
        if self.ttl == Some(0) {
            return refuse("ttl", "0".into(), "1 to 255");
        }
        if let Some(d) = self.duration
            && d.0 > 7 * 86_400 * 1_000_000_000
        {
            return refuse("duration", d.to_string(), "up to 7 days");
        }
        if self.start_after.0 > 7 * 86_400 * 1_000_000_000 {
            return refuse("start_after", self.start_after.to_string(), "up to 7 days");
        }
        if self.packets == Some(0) {
            return refuse("packets", "0".into(), "at least 1");
        }
        if self.bytes == Some(ByteSize(0)) {
            return refuse("bytes", "0".into(), "at least 1");
        }
        let limits = [
            ("duration", self.duration.is_some()),
            ("bytes", self.bytes.is_some()),
            ("packets", self.packets.is_some()),
        ];
        let mut set = limits.iter().filter(|(_, is_set)| *is_set);
        if let (Some((first, _)), Some((second, _))) = (set.next(), set.next()) {
            let accepted = "one of duration (-t), bytes (-n) and packets (-k)";
            return refuse(second, format!("set in addition to {first}"), accepted);
        }
        if self.bytes.is_some() && self.payload == Some(ByteSize(0)) {
            return refuse("bytes", "set with an empty payload".into(), "packets or duration");
        }
        if let Some(c) = &self.congestion
            && (c.is_empty()
                || c.len() > 15
                || !c.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'))
        {
            return refuse("congestion", c.clone(), "a kernel name such as cubic, reno, bbr");
        }
        if self.verify && self.discard {
            return refuse(
                "verify",
                "true".into(),
                "a receiver that reads what it verifies: without discard (--skip-rx-copy)",
            );
        }
        if self.client_port == Some(0) {
            return refuse("client_port", "0".into(), "1 to 65535");
        }
        if let Some(first) = self.client_port
            && u32::from(first) + self.count > 65_536
        {
            let given = format!("{first} for {} flows", self.count);
            return refuse(
                "client_port",
                given,
                "a port from which each flow has one, up to 65535",
            );
        }
        Ok(())
    }

    /// The options that only one transport has: field, whether it is set, transport.
    fn of_one_transport(&self) -> [(&'static str, bool, Transport); 7] {
        let (tcp, udp) = (Transport::Tcp, Transport::Udp);
        [
            ("mss", self.mss.is_some(), tcp),
            ("no_delay", self.no_delay, tcp),
            ("congestion", self.congestion.is_some(), tcp),
            ("zero_copy", self.zero_copy, tcp),
            ("discard", self.discard, tcp),
            ("gso", self.gso == Switch::On, udp),
            ("gro", self.gro == Switch::On, udp),
        ]
    }
}
