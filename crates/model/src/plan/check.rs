//! Validation of plans; errors name the field, the given value and the accepted values.

use std::net::IpAddr;

use super::transfers::{MAX_OBJECTS, MAX_VOLUME};
use super::{
    Connection, DataPorts, Direction, Ecn, EngineName, Family, HeaderFormat, IpOptions, MAX_FLOWS,
    PLAN_SCHEMA, Plan, Shape, Size, SourceAddresses, Spacing, Switch, TransportName,
};
use crate::ModelError;
use crate::content::Content;
use crate::law::distribution::MAX_TABLES;
use crate::names::{Host, HostKind, is_device};
use crate::one_of;
use crate::units::{BitRate, ByteSize, RateLimit, SendRate};

impl Plan {
    /// Checks everything that needs no socket.
    ///
    /// # Errors
    /// [`ModelError::Field`] for the first invalid field.
    pub fn check(&self) -> Result<(), ModelError> {
        let refuse = |field: &str, given: String, accepted: &str| {
            Err(ModelError::Field { field: field.into(), given, accepted: accepted.into() })
        };
        if self.schema != PLAN_SCHEMA {
            return refuse("schema", self.schema.clone(), PLAN_SCHEMA);
        }
        if self.port == Some(0) {
            return refuse("port", "0".into(), "1 to 65535");
        }
        if self.interval.0 != 0 && !(10_000_000..=3_600_000_000_000).contains(&self.interval.0) {
            return refuse("interval", self.interval.to_string(), "0 (none) or 10ms to 1h");
        }
        self.check_peer()?;
        if self.omit.0 > 3_600_000_000_000 {
            return refuse("omit", self.omit.to_string(), "0 to 1h");
        }
        if let Some(connection) = self.connections.iter().find(|c| c.engine == EngineName::Xdp)
            && self.omit.0 > 0
        {
            let given = format!("{} with engine {}", self.omit, connection.engine);
            return refuse("omit", given, "0: the program's counts have one beginning");
        }
        if let Some(t) = self.loss_threshold
            && !(1_000_000..=600_000_000_000).contains(&t.0)
        {
            return refuse("loss_threshold", t.to_string(), "1ms to 10m");
        }
        if let Some(rate) = self.control_rate
            && !(1_000..=1_000_000_000).contains(&rate.0)
        {
            return refuse("control_rate", rate.to_string(), "1k to 1G");
        }
        let of_test = self.host.as_deref().map(Host::parse).transpose()?;
        if let Some(host) = &of_test {
            self.check_port(host)?;
        }
        for (i, connection) in self.connections.iter().enumerate() {
            if let Some((host, _)) = self.server_of(i)? {
                self.check_host(i, connection, &host)?;
            }
        }
        if let Some(device) = self.device.as_ref().filter(|device| !is_device(device)) {
            return refuse("device", format!("'{device}'"), "an interface name of 1 to 15 bytes");
        }
        if let (Some(bind), Some(family)) = (self.bind, self.family)
            && family_of(bind.first()) != family
        {
            return refuse("bind", format!("{bind} with {family}"), "an address of that family");
        }
        // Only TCP's handshake proves that an address is the client's.
        if let Some(bind) = self.bind.filter(|bind| bind.count() > 1)
            && let Some(other) = self.connections.iter().find(|c| !c.transport.tcp_info())
        {
            let given = format!("{bind} with transport {}", other.transport.name());
            let names = TransportName::ALL.iter().filter(|name| name.tcp_info());
            let names = one_of(names.map(|name| name.label()));
            return refuse("bind", given, &format!("one address; several with transport {names}"));
        }
        if self.nominal == Some(BitRate(0)) {
            return refuse("nominal", "0".into(), "bits per second above 0");
        }
        if self.connections.is_empty() {
            return refuse("connection", "none".into(), "at least one [[connection]]");
        }
        // Before the laws are checked, for which tables are made.
        let tables = |c: &Connection| {
            let sizes = [&c.payload, &c.volume, &c.objects, &c.main_volume]
                .into_iter()
                .flatten()
                .map(Size::tables);
            let intervals = [Some(&c.spacing), c.starts.as_ref(), c.pause.as_ref()];
            sizes.sum::<usize>()
                + intervals.into_iter().flatten().map(Spacing::tables).sum::<usize>()
        };
        let tables: usize = self.connections.iter().map(tables).sum();
        if tables > MAX_TABLES {
            let accepted = "at most 32 laws gamma, student, poisson and with clamped_mean in all";
            return refuse("connection", format!("{tables} of them"), accepted);
        }
        let mut flows = 0u64;
        let mut names = std::collections::HashSet::new();
        for (i, c) in self.connections.iter().enumerate() {
            let addresses = self.bind.map_or(1, SourceAddresses::count);
            c.check(&format!("connection[{i}]"), self.family, addresses)?;
            c.check_group(&format!("connection[{i}]"), self)?;
            if self.data_ports == DataPorts::Shared
                && c.transport.name().ip()
                && !c.transport.shares_port()
                && !c.transport.multicast()
            {
                let given = format!("shared with transport {}", c.transport.name());
                return refuse("data_ports", given, "auto, dedicated or range");
            }
            if self.data_ports == DataPorts::Shared && c.transfers_datagrams() {
                let given = format!("shared with transfers over {}", c.transport.name());
                return refuse("data_ports", given, "auto, dedicated or range");
            }
            flows += u64::from(c.count);
            if !c.name.is_empty() && !names.insert(&c.name) {
                return refuse(
                    &format!("connection[{i}].name"),
                    c.name.clone(),
                    "a name used once",
                );
            }
        }
        let names = || self.connections.iter().map(|c| c.transport.name());
        let has_server = |name: &TransportName| name.has_server() || self.peer.counts_icmp();
        if let Some(alone) = names().find(|name| !has_server(name))
            && let Some(other) = names().find(|name| *name != alone)
        {
            let given = format!("{alone} along with {other}");
            let accepted = format!("{alone} alone, which has no server, or none of it");
            return refuse("connection", given, &accepted);
        }
        if flows > u64::from(MAX_FLOWS) {
            let accepted = format!("at most {MAX_FLOWS} flows in all");
            return refuse("connection", format!("{flows} flows"), &accepted);
        }
        Ok(())
    }

    /// Checks the host of a connection against its transport and the family.
    fn check_host(&self, i: usize, c: &Connection, host: &Host) -> Result<(), ModelError> {
        let transport = c.transport.name();
        if transport.host_kind() != host.kind() {
            let with = TransportName::ALL.iter().filter(|name| name.host_kind() == host.kind());
            return Err(ModelError::Field {
                field: format!("connection[{i}].transport"),
                given: format!("{transport} with the host {}", host.name),
                accepted: format!("{} there", one_of(with.map(|name| name.label()))),
            });
        }
        let of_ip = [
            ("family", self.family.map(|family| family.to_string())),
            ("bind", self.bind.map(|bind| bind.to_string())),
            ("device", self.device.clone()),
        ];
        if let Some((field, Some(given))) = of_ip.into_iter().find(|(_, v)| v.is_some())
            && host.kind() != HostKind::Network
        {
            return Err(ModelError::Field {
                field: field.into(),
                given: format!("{given} with the host {}", host.name),
                accepted: "a host with an IP address".into(),
            });
        }
        if let (Some(address), Some(family)) = (host.address(), self.family)
            && family_of(address) != family
        {
            return Err(ModelError::Field {
                field: "family".into(),
                given: format!("{family} with the host {address}"),
                accepted: format!("a host with an {} address, or a name", title_of(family)),
            });
        }
        Ok(())
    }

    /// Checks the transports against the protocol of the server, of which a test has one.
    fn check_peer(&self) -> Result<(), ModelError> {
        for (index, connection) in self.connections.iter().enumerate() {
            let (shape, name) = (connection.shape, connection.transport.name());
            if name.echoes() && shape != Shape::Rr && !self.peer.counts_icmp() {
                return Err(ModelError::Field {
                    field: format!("connection[{index}].shape"),
                    given: format!("{shape} with transport {name}"),
                    accepted: "rr: each request is answered by a reply".into(),
                });
            }
        }
        let transports = self.peer.transports();
        if transports.is_empty() {
            return Ok(());
        }
        for (index, connection) in self.connections.iter().enumerate() {
            let refuse = |field: &str, given: String, accepted: String| {
                let field = format!("connection[{index}].{field}");
                Err(ModelError::Field { field, given, accepted })
            };
            let name = connection.transport.name();
            if !transports.contains(&name) {
                let accepted = crate::one_of(transports.iter().map(|name| name.label()));
                return refuse("transport", format!("{name} with peer {}", self.peer), accepted);
            }
            if self.peer.has_several_servers() {
                continue;
            }
            if let Some(host) = &connection.host {
                let given = format!("{host} with peer {}", self.peer);
                return refuse("host", given, "absent: one server, the test's".into());
            }
            if let Some(port) = connection.port.filter(|_| !self.peer.has_data_ports()) {
                let given = format!("{port} with peer {}", self.peer);
                return refuse("port", given, "absent: one server, the test's".into());
            }
        }
        Ok(())
    }

    /// Checks the port of the test's host against the test's port.
    fn check_port(&self, host: &Host) -> Result<(), ModelError> {
        match (host.port, self.port) {
            (Some(port), Some(own)) if port != own => Err(ModelError::Field {
                field: "port".into(),
                given: format!("{own}, while the host says {port}"),
                accepted: "one of them".into(),
            }),
            _ => Ok(()),
        }
    }
}

/// The family of an address.
pub(super) fn family_of(address: IpAddr) -> Family {
    if address.is_ipv4() { Family::Ipv4 } else { Family::Ipv6 }
}

/// The name of a family in RFCs.
pub(super) fn title_of(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "IPv4",
        Family::Ipv6 => "IPv6",
    }
}

impl Connection {
    /// Whether a running sender of this connection, which was checked, may change its rate to `rate`.
    ///
    /// # Errors
    /// [`ModelError::Field`] with the field `rate`: the plan would be refused with this rate, or delays from the scheduled
    /// send time would not exist for a part of the test.
    pub fn check_rate(&self, rate: SendRate) -> Result<(), ModelError> {
        let is_unlimited = rate.limit == RateLimit::Unlimited;
        let was_unlimited = self.send_rate().limit == RateLimit::Unlimited;
        if self.transport.datagrams() && is_unlimited && !was_unlimited {
            return Err(ModelError::Field {
                field: "rate".into(),
                given: rate.to_string(),
                accepted: "a rate above 0: delays from the scheduled send time need one".into(),
            });
        }
        if self.shape.has_transactions() && is_unlimited != was_unlimited {
            return Err(ModelError::Field {
                field: "rate".into(),
                given: format!("{rate} with shape {}", self.shape),
                accepted: match was_unlimited {
                    true => "no rate: each request waits for a response".into(),
                    false => "a rate above 0: requests have scheduled times".into(),
                },
            });
        }
        let family = Some(Family::Ipv6);
        Connection { rate: Some(rate), rate_schedule: None, ..self.clone() }
            .check("connection", family, 1)
            .map_err(|e| match e {
                ModelError::Field { given, accepted, .. } => {
                    ModelError::Field { field: "rate".into(), given, accepted }
                }
                other => other,
            })
    }

    /// Checks one connection; `at` is its path in the document, `addresses` how many local addresses it uses in turn.
    fn check(&self, at: &str, family: Option<Family>, addresses: u32) -> Result<(), ModelError> {
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
        if !(1..=MAX_FLOWS).contains(&self.count) {
            return refuse("count", self.count.to_string(), &format!("1 to {MAX_FLOWS}"));
        }
        if let Some(payload) = &self.payload {
            let (least, most) = self.transport.payload_bytes(family);
            let of = if self.transport.datagrams() { self.transport.title() } else { "a write" };
            payload.check(&format!("{at}.payload"), of, least, most)?;
            if self.max_payload() == Some(0)
                && self.rate.is_some_and(|r| matches!(r.limit, RateLimit::Bits(_)))
            {
                return refuse(
                    "rate",
                    "bit/s with an empty payload".into(),
                    "packets per second (50000pps) or 0",
                );
            }
            let gso = self.transport.udp_options().map(|udp| udp.gso);
            if gso == Some(Switch::On) && !payload.is_constant() {
                let accepted = "auto or off: datagrams of one message have the same size";
                return refuse("gso", format!("on with payload {payload}"), accepted);
            }
        }
        if let Some(profile) = &self.profile {
            let accepted =
                "a connection read from a document, where it becomes those of the profile";
            return refuse("profile", profile.to_string(), accepted);
        }
        if let Some(volume) = &self.volume {
            volume.check_volume(&format!("{at}.volume"), MAX_VOLUME)?;
        }
        if let Some(volume) = &self.main_volume {
            volume.check_volume(&format!("{at}.main_volume"), MAX_VOLUME)?;
        }
        if let Some(objects) = &self.objects {
            objects.check_count(&format!("{at}.objects"), MAX_OBJECTS)?;
        }
        if let Some(pause) = &self.pause {
            pause.check(&format!("{at}.pause"))?;
        }
        let intervals = self.intervals();
        let has_starts = self.starts.is_some() && self.shape.has_volumes();
        let of_intervals = if has_starts { "starts" } else { "spacing" };
        self.spacing.check(&format!("{at}.spacing"))?;
        intervals.check(&format!("{at}.{of_intervals}"))?;
        if let (Some(rate), Some(_)) = (self.rate, intervals.packets_per_second()) {
            let given = format!("{rate} with `{of_intervals}` {intervals}");
            return refuse("rate", given, "one of them, since this law has its own mean");
        }
        if (!intervals.is_constant() || has_starts)
            && self.send_rate().limit == RateLimit::Unlimited
        {
            let given = format!("{intervals} at an unlimited rate");
            return refuse(of_intervals, given, "a `rate`, or a law with its mean");
        }
        if let Some(schedule) = &self.rate_schedule {
            if intervals.packets_per_second().is_some() {
                let given = format!("{schedule} with {of_intervals} {intervals}");
                return refuse("rate_schedule", given, "intervals that follow from the rate");
            }
            let in_bits = |rate: SendRate| matches!(rate.limit, RateLimit::Bits(_));
            if self.max_payload() == Some(0) && schedule.reached(self.send_rate()).any(in_bits) {
                let accepted = "packets per second, such as 5s:500pps";
                return refuse("rate_schedule", "bit/s with an empty payload".into(), accepted);
            }
            if let Some((given, accepted)) = schedule.refused(self.send_rate()) {
                return refuse("rate_schedule", given, &accepted);
            }
        }
        if let Some((field, given, accepted)) = self.refused_by_content() {
            return refuse(field, given, accepted);
        }
        let smallest = self.payload.as_ref().map(|size| ByteSize(size.moments().min_bytes));
        if let Some((field, given, accepted)) =
            self.header.refused(&self.transport, smallest, self.verify)
        {
            return refuse(field, given, &accepted);
        }
        if self.content == crate::content::Content::File && self.header.has_trailer() {
            let given = format!("{} with content file", self.header);
            return refuse(
                "header",
                given,
                "a header without a checksum, which would replace data",
            );
        }
        if let Some((field, given, accepted)) = self.refused_by_engine() {
            return refuse(field, given, &accepted);
        }
        let (_, most) = self.transport.payload_bytes(family);
        if let Some((field, given, accepted)) = self.refused_by_shape(most) {
            return refuse(field, given, &accepted);
        }
        if let Some((field, given, accepted)) = self.refused_by_file() {
            return refuse(field, given, accepted);
        }
        if let Some((field, given, accepted)) = self.refused_by_echo() {
            return refuse(field, given, &accepted);
        }
        if let Some((field, given, accepted)) = self.refused_by_mtu(family.unwrap_or(Family::Ipv4))
        {
            return refuse(field, given, &accepted);
        }
        if let Some((field, given, accepted)) = self.misplaced_option() {
            return refuse(&field, given, &accepted);
        }
        if let Some((field, given, accepted)) = self.voice_refused() {
            return refuse(field, given, &accepted);
        }
        if let Err((field, given, accepted)) = self.transport.check() {
            return refuse(field, given, &accepted);
        }
        if let Some(w) = self.window
            && !(1024..=1 << 30).contains(&w.0)
        {
            return refuse("window", w.to_string(), "1K to 1G");
        }
        if let Some((field, given, accepted)) =
            self.transport.ip().and_then(|ip| ip.refused(family, self.count.div_ceil(addresses)))
        {
            return refuse(field, given, &accepted);
        }
        if let (Some(tos), Some(udp)) =
            (self.transport.ip().and_then(|ip| ip.tos), self.transport.udp_options())
            && udp.ecn != Ecn::Off
            && tos & 3 != 0
        {
            let accepted = "with a `tos` whose ECN bits (the lower two) are 0";
            return refuse("ecn", format!("{} with tos {tos}", udp.ecn), accepted);
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
            let accepted = "one of `duration`, `bytes` and `packets`";
            return refuse(second, format!("set in addition to `{first}`"), accepted);
        }
        if self.bytes.is_some() && self.max_payload() == Some(0) {
            return refuse("bytes", "set with an empty payload".into(), "packets or duration");
        }
        if let Some(align) = self.transport.stream().filter(|s| s.zero_copy).and_then(|s| s.align) {
            let accepted = "without `zero_copy`, which sends from a file";
            return refuse("align", format!("{align} with zero_copy"), accepted);
        }
        if self.verify && self.transport.stream().is_some_and(|s| s.discard) {
            return refuse(
                "verify",
                "true".into(),
                "a receiver that reads what it verifies: without `discard`",
            );
        }
        Ok(())
    }
}

impl Connection {
    /// Checks what only datagrams to several receivers must meet.
    fn check_group(&self, at: &str, plan: &Plan) -> Result<(), ModelError> {
        let refuse = |field: &str, given: String, accepted: &str| {
            Err(ModelError::Field {
                field: format!("{at}.{field}"),
                given,
                accepted: accepted.into(),
            })
        };
        if self.transport.multicast() && self.direction != Direction::Forward {
            let given = format!("{} with transport {}", self.direction, self.transport.name());
            return refuse("direction", given, "forward: a group has one sender, the client");
        }
        let Some(options) = self.transport.group() else { return Ok(()) };
        if let (Some(group), Some(family)) = (options.group, plan.wanted_family())
            && family_of(group) != family
        {
            return refuse("group", format!("{group} with {family}"), "a group of that family");
        }
        let joins = [("join_after", options.join_after), ("leave_after", options.leave_after)];
        let Some((field, Some(at))) = joins.into_iter().find(|(_, at)| at.is_some()) else {
            return Ok(());
        };
        let limit = self.time_limit().filter(|_| self.autostart);
        for (field, at) in joins {
            if let (Some(at), Some(duration)) = (at, limit)
                && at.0 >= duration.0.saturating_add(plan.omit.0).saturating_add(self.start_after.0)
            {
                let accepted = "a time before the sender ends";
                return refuse(field, format!("{at} with duration {duration}"), accepted);
            }
        }
        // A member that joins late knows the number of its first packet only from the packet.
        let is_narrow = self.payload.as_ref().is_some_and(|size| size.moments().min_bytes < 32);
        if is_narrow || self.header != HeaderFormat::default() {
            let given = match is_narrow {
                true => format!("{at} with payloads below 32 bytes"),
                false => format!("{at} with header {}", self.header),
            };
            let accepted =
                "datagrams with full sequence numbers: header native, payload from 32 bytes";
            return refuse(field, given, accepted);
        }
        Ok(())
    }
}

impl Connection {
    /// The first value that is invalid with data that the client reads from a file.
    fn refused_by_content(&self) -> Option<(&'static str, String, &'static str)> {
        let is_file = self.content == Content::File;
        let size = self.payload.as_ref();
        if let Some(size) = size.filter(|size| size.is_recorded() && !is_file) {
            let accepted = "a law that both ends know, or content file (`weir test --replay`)";
            return Some(("payload", format!("{size} with content {}", self.content), accepted));
        }
        if self.spacing.is_recorded() && !is_file {
            let given = format!("{} with content {}", self.spacing, self.content);
            let accepted = "a law of its own, or content file (`weir test --replay`)";
            return Some(("spacing", given, accepted));
        }
        if self.transport.replays_frames() && !is_file {
            let given = format!("{} with transport {}", self.content, self.transport.name());
            return Some((
                "content",
                given,
                "file: the frames of a capture (`weir test --replay`)",
            ));
        }
        if !is_file {
            return None;
        }
        let with_file = |given: &str| format!("{given} with content file");
        if self.direction != Direction::Forward {
            let accepted = "forward: the client reads the file";
            return Some(("direction", with_file(&self.direction.to_string()), accepted));
        }
        if self.shape.has_transactions() {
            let accepted = "stream: requests and responses have generated content";
            return Some(("shape", with_file(&self.shape.to_string()), accepted));
        }
        if self.verify {
            let accepted = "false: the receiver does not know the file";
            return Some(("verify", with_file("true"), accepted));
        }
        if self.transport.stream().is_some_and(|stream| stream.zero_copy) {
            return Some(("zero_copy", with_file("true"), "false"));
        }
        if self.transport.datagrams()
            && let Some(size) = size.filter(|size| !size.is_constant() && !size.is_recorded())
        {
            let accepted = "one size: a file is cut into equal parts";
            return Some(("payload", with_file(&size.to_string()), accepted));
        }
        None
    }
}

impl Connection {
    /// The first value that is invalid where the server stores what it receives.
    fn refused_by_file(&self) -> Option<(&'static str, String, &'static str)> {
        let stream = self.transport.stream().filter(|stream| stream.to_file)?;
        let given = |value: &str| format!("{value} with to_file");
        if self.direction != Direction::Forward {
            let accepted = "forward: the server stores what it receives";
            return Some(("direction", given(&self.direction.to_string()), accepted));
        }
        if stream.discard {
            return Some(("discard", given("true"), "false: the server reads what it stores"));
        }
        let echo = self.echo?;
        Some(("echo", given(&echo.to_string()), "absent: the server stores or sends back"))
    }
}

impl IpOptions {
    /// The first value that is invalid for flows over `family` that need `count` ports.
    fn refused(
        &self,
        family: Option<Family>,
        count: u32,
    ) -> Option<(&'static str, String, String)> {
        if let Some(label) = self.flow_label {
            if label >= 1 << 20 {
                return Some(("flow_label", label.to_string(), "0 to 1048575".into()));
            }
            if family != Some(Family::Ipv6) {
                let family = family.map_or("no family".into(), |family| family.to_string());
                let accepted = "family = \"ipv6\": IPv4 has no flow labels";
                return Some(("flow_label", format!("{label} with {family}"), accepted.into()));
            }
        }
        if self.ttl == Some(0) {
            return Some(("ttl", "0".into(), "1 to 255".into()));
        }
        if let Some(priority) = self.priority.filter(|priority| *priority > 15) {
            return Some(("priority", priority.to_string(), "0 to 15".into()));
        }
        if let Some(last) = self.client_port_last {
            let first = self.client_port.unwrap_or(0);
            if first == 0 || last < first {
                let given = format!("{last} with client_port {first}");
                let accepted = "a port from `client_port` on, up to 65535";
                return Some(("client_port_last", given, accepted.into()));
            }
            if u32::from(last - first) + 1 < count {
                let given =
                    format!("{last} with client_port {first} for {count} flows of each address");
                return Some(("client_port_last", given, "a port for each flow".into()));
            }
        }
        let first = self.client_port?;
        if first == 0 {
            return Some(("client_port", "0".into(), "1 to 65535".into()));
        }
        let accepted = "a port from which each flow has one, up to 65535";
        (u32::from(first) + count > 65_536)
            .then(|| ("client_port", format!("{first} for {count} flows"), accepted.into()))
    }
}
