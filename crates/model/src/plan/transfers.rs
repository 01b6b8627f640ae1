//! Transfers: connections that each carry a volume drawn from a law. They start by a law, whatever became of earlier ones
//! (open loop), or each user starts one after the other, or loads pages of several objects (closed loop).

use std::sync::LazyLock;

use super::transport::Refusal;
use super::{Connection, FlowSpec, HeaderFormat, Shape, Size, Spacing, Switch, UdpOptions};
use crate::units::{BitRate, RateLimit, SendRate};

/// Maximum volume of a transfer, bytes.
pub(super) const MAX_VOLUME: u64 = 1 << 40;
/// Maximum number of transfers of a flow at the same time.
pub const MAX_CONCURRENT: u32 = 65_536;
/// Maximum number of objects of a page.
pub(super) const MAX_OBJECTS: u64 = 1000;
/// Connections for a page unless the plan states them: as many as browsers open to a host.
const PAGE_CONNECTIONS: u32 = 6;
/// Rate of each transfer of datagrams unless the plan states one: the default of a flow of UDP.
const TRANSFER_RATE: BitRate = BitRate(1_000_000);
/// Slowest and fastest rate of a transfer of datagrams.
const TRANSFER_RATES: std::ops::RangeInclusive<BitRate> =
    BitRate(1000)..=BitRate(1_000_000_000_000);
/// Smallest datagram of a transfer, bytes: it has the whole data header.
pub const MIN_TRANSFER_DATAGRAM: u64 = 32;
/// Maximum number of connections for a page.
const MAX_PAGE_CONNECTIONS: u32 = 64;

/// Starts of many independent users (a Poisson process).
static POISSON: LazyLock<Spacing> = LazyLock::new(|| {
    // A constant text; a test reads it.
    "exponential".parse().unwrap_or_default()
});

impl Connection {
    /// The law of the intervals between packets, requests or starts of transfers.
    #[must_use]
    pub fn intervals(&self) -> &Spacing {
        let is_limited = |rate: &super::SendRate| rate.limit != RateLimit::Unlimited;
        match &self.starts {
            Some(starts) if self.shape.has_volumes() => starts,
            None if self.shape.has_volumes() && self.rate.as_ref().is_some_and(is_limited) => {
                &POISSON
            }
            _ => &self.spacing,
        }
    }

    /// Maximum number of connections of a user at the same time for the objects of a page.
    #[must_use]
    pub fn page_connections(&self) -> u32 {
        self.page_connections.unwrap_or(PAGE_CONNECTIONS)
    }

    /// Maximum number of connections at the same time of transactions with a connection each, in a closed loop.
    #[must_use]
    pub fn closed_loop_connections(&self) -> u32 {
        let each = if self.objects.is_some() { self.page_connections() } else { 1 };
        self.outstanding().saturating_mul(each)
    }

    /// Maximum volume of a transfer, bytes; `None` for another shape.
    #[must_use]
    pub fn max_volume(&self) -> Option<u64> {
        let volumes = self.volume.iter().filter(|_| self.shape.has_volumes());
        volumes.chain(&self.main_volume).map(|volume| volume.moments().max_bytes).max()
    }

    /// Whether its transfers are sent as datagrams, each from a port of its own.
    #[must_use]
    pub fn transfers_datagrams(&self) -> bool {
        self.shape.has_volumes() && self.transport.datagrams()
    }

    /// Rate at which the datagrams of a transfer are sent.
    #[must_use]
    pub fn transfer_rate(&self) -> BitRate {
        self.transfer_rate.unwrap_or(TRANSFER_RATE)
    }

    /// The first field that is invalid for transfers of datagrams, or for others.
    fn refused_by_datagrams(&self) -> Option<Refusal> {
        let name = self.transport.name();
        if !self.transport.datagrams() {
            let rate = self.transfer_rate?;
            let accepted = "with transport udp; the transport decides how fast others are";
            return Some((
                "transfer_rate",
                format!("{rate} with transport {name}"),
                accepted.into(),
            ));
        }
        if self.direction != super::Direction::Forward {
            let given = format!("{} with transport {name}", self.direction);
            let accepted = "forward: transfers over UDP are sent by the client";
            return Some(("direction", given, accepted.into()));
        }
        if let Some(rate) = self.transfer_rate.filter(|rate| !TRANSFER_RATES.contains(rate)) {
            return Some(("transfer_rate", rate.to_string(), "1k to 1T".into()));
        }
        if let Some(payload) = self.payload.as_ref().filter(|payload| !payload.is_constant()) {
            let accepted = "one size, that of all datagrams of a transfer but its last one";
            return Some(("payload", payload.to_string(), accepted.into()));
        }
        let switched_on = |udp: &UdpOptions| {
            let switches = [("gso", udp.gso), ("gro", udp.gro)];
            switches.into_iter().find(|(_, switch)| *switch == Switch::On)
        };
        if let Some((field, _)) = self.transport.udp_options().and_then(switched_on) {
            let accepted =
                "auto or off with shape transfers: each datagram is sent and received alone";
            return Some((field, "on".into(), accepted.into()));
        }
        let bytes = self.max_payload()?;
        (bytes < MIN_TRANSFER_DATAGRAM).then(|| {
            let accepted = format!("{MIN_TRANSFER_DATAGRAM} bytes or more with shape transfers");
            ("payload", bytes.to_string(), accepted)
        })
    }

    /// The first field that is invalid for transfers, or for another shape that has none: field, given value, accepted values.
    pub(super) fn refused_by_transfers(&self) -> Option<Refusal> {
        let shape = self.shape;
        let text = |law: &Option<Spacing>| law.as_ref().map(ToString::to_string);
        let own = [
            ("volume", self.volume.as_ref().map(ToString::to_string)),
            ("starts", text(&self.starts)),
            ("pause", text(&self.pause)),
            ("max_concurrent", self.max_concurrent.map(|n| n.to_string())),
            ("transfer_rate", self.transfer_rate.map(|rate| rate.to_string())),
            ("objects", self.objects.as_ref().map(ToString::to_string)),
            ("main_volume", self.main_volume.as_ref().map(ToString::to_string)),
            ("page_connections", self.page_connections.map(|n| n.to_string())),
        ];
        if !shape.has_volumes() {
            let given = own.into_iter().find_map(|(field, value)| Some((field, value?)));
            return given.map(|(field, value)| {
                (field, format!("{value} with shape {shape}"), "with shape transfers".into())
            });
        }
        if self.volume.is_none() {
            let accepted =
                "bytes, or a law of sizes, such as 100K or exponential(mean=100K, max=1G)";
            return Some(("volume", "missing with shape transfers".into(), accepted.into()));
        }
        if self.spacing != Spacing::default() {
            let accepted = "absent: `starts` is the law of the starts of transfers";
            return Some((
                "spacing",
                format!("{} with shape {shape}", self.spacing),
                accepted.into(),
            ));
        }
        if let Some(pause) = &self.pause {
            if self.starts.is_some() || self.send_rate().limit != RateLimit::Unlimited {
                let accepted = "absent with `rate` or `starts`: these say when transfers start";
                return Some(("pause", pause.to_string(), accepted.into()));
            }
            if pause.moments().mean_ns.is_none() {
                let accepted = "a law with its mean, such as 1s or exponential(mean=30s)";
                return Some(("pause", pause.to_string(), accepted.into()));
            }
        }
        if let Some(refusal) = self.refused_by_datagrams().or_else(|| self.refused_by_pages()) {
            return Some(refusal);
        }
        let most = self.max_concurrent?;
        if !(1..=MAX_CONCURRENT).contains(&most) {
            return Some(("max_concurrent", most.to_string(), format!("1 to {MAX_CONCURRENT}")));
        }
        (self.send_rate().limit == RateLimit::Unlimited).then(|| {
            let accepted =
                "with `rate` or `starts`; without them `outstanding` is the number of users";
            ("max_concurrent", most.to_string(), accepted.into())
        })
    }
}

impl FlowSpec {
    /// The datagrams of a flow of transfers, as a flow that is not paced as a whole: those of each transfer are. Sizes are
    /// known to the sender only, since the last datagram of a transfer is as long as its volume needs. Datagrams are neither
    /// segmented nor coalesced: messages of the transfer go between them. `None` for other flows.
    #[must_use]
    pub fn datagrams_of_transfers(&self) -> Option<FlowSpec> {
        if !self.connection.transfers_datagrams() {
            return None;
        }
        let mut connection = Connection {
            shape: Shape::Stream,
            volume: None,
            starts: None,
            spacing: Spacing::default(),
            rate_schedule: None,
            packets: None,
            header: HeaderFormat::default(),
            ..self.connection.clone()
        };
        if let Some(udp) = connection.transport.udp_options_mut() {
            (udp.gso, udp.gro) = (Switch::Off, Switch::Off);
        }
        let size = Size::known_to_sender(MIN_TRANSFER_DATAGRAM, self.max_payload());
        Some(FlowSpec { size, rate: SendRate::UNLIMITED, connection, ..self.clone() })
    }
}

impl Connection {
    /// The first field that is invalid for pages, or for transfers that are not objects of pages.
    fn refused_by_pages(&self) -> Option<Refusal> {
        let Some(objects) = &self.objects else {
            let accepted = || "with `objects`, the number of objects of a page".to_string();
            let main =
                self.main_volume.as_ref().map(|law| ("main_volume", law.to_string(), accepted()));
            let connections =
                || Some(("page_connections", self.page_connections?.to_string(), accepted()));
            return main.or_else(connections);
        };
        if self.starts.is_some() || self.send_rate().limit != RateLimit::Unlimited {
            let accepted = "without `rate` and `starts`: users load pages, one after the other";
            return Some(("objects", objects.to_string(), accepted.into()));
        }
        if let Some(packets) = self.packets {
            let accepted = "`duration`: the last page would be incomplete";
            return Some(("packets", format!("{packets} with `objects`"), accepted.into()));
        }
        let connections = self.page_connections();
        (!(1..=MAX_PAGE_CONNECTIONS).contains(&connections)).then(|| {
            ("page_connections", connections.to_string(), format!("1 to {MAX_PAGE_CONNECTIONS}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::plan::{Plan, Spacing};

    fn refused(fields: &str) -> Option<String> {
        let text = format!("schema = \"weir.plan/1\"\nhost = \"h\"\n[[connection]]\n{fields}\n");
        Plan::parse(&text).err().map(|e| e.to_string())
    }

    #[test]
    fn starts_at_a_rate_are_a_poisson_process() {
        let law = |fields: &str| {
            let text = format!(
                "schema = \"weir.plan/1\"\nhost = \"h\"\n[[connection]]\nshape = \"transfers\"\nvolume = \"1K\"\n{fields}\n"
            );
            let plan = Plan::parse(&text).unwrap();
            let connection = &plan.connections[0];
            (connection.intervals().clone(), connection.send_rate())
        };
        let exponential: Spacing = "exponential".parse().unwrap();
        assert!(!exponential.is_constant());
        assert_eq!(law("rate = \"50pps\"").0, exponential);
        assert!(law("rate = \"50pps\"\nstarts = \"constant\"").0.is_constant());
        // A law with a mean is the rate.
        assert_eq!(law("starts = \"exponential(mean=20ms)\"").1, "50pps".parse().unwrap());
        assert_eq!(law("").1, super::super::SendRate::UNLIMITED);
    }

    #[test]
    fn fields_that_contradict_each_other_are_refused_by_name() {
        let transfers = |fields: &str| refused(&format!("shape = \"transfers\"\n{fields}"));
        for good in [
            "volume = \"pareto(shape=1.2, scale=10K, max=1T)\"\nrate = \"100pps\"\nmax_concurrent = 5",
            "volume = \"1T\"\nstarts = \"1ms..3ms\"\ndirection = \"reverse\"",
            "volume = \"1K\"\npause = \"exponential(mean=1s)\"\noutstanding = 20",
            "volume = \"1K\"\nobjects = 1",
            "volume = \"1K\"\ntransport = \"udp\"\nrate = \"10pps\"\ntransfer_rate = \"10M\"\npayload = 1000",
            "volume = \"1K\"\ntransport = \"udp\"\nobjects = 5\noutstanding = 3\nclient_port = 4000\nclient_port_last = 5000",
            "volume = \"1K\"\nobjects = \"exponential(mean=20, min=1, max=1000)\"\nmain_volume = \"1..1M\"\npage_connections = 64",
        ] {
            assert_eq!(transfers(good), None, "{good}");
        }
        for (bad, field) in [
            ("", "volume"),
            ("volume = 0", "volume"),
            ("volume = \"2T\"", "volume"),
            // Would end at the largest datagram.
            ("volume = \"exponential(mean=100K)\"", "volume"),
            ("volume = \"mixture(pareto(shape=1.2, scale=10K):1, 1K:1)\"", "volume"),
            ("volume = 1\nspacing = \"exponential(mean=1s)\"", "spacing"),
            ("volume = 1\npause = \"exponential\"", "pause"),
            ("volume = 1\npause = \"1s\"\nrate = \"10pps\"", "pause"),
            ("volume = 1\npause = \"1s\"\nrate = \"10pps\"\nrate_schedule = \"5s:20pps\"", "pause"),
            ("volume = 1\nstarts = \"exponential\"", "starts"),
            ("volume = 1\nstarts = \"1s\"\nrate = \"10pps\"", "rate"),
            ("volume = 1\nrate = \"10M\"", "rate"),
            ("volume = 1\nmax_concurrent = 4", "max_concurrent"),
            ("volume = 1\nrate = \"10pps\"\nmax_concurrent = 0", "max_concurrent"),
            ("volume = 1\nmain_volume = 5", "main_volume"),
            ("volume = 1\npage_connections = 5", "page_connections"),
            ("volume = 1\nobjects = 0", "objects"),
            ("volume = 1\nobjects = 1001", "objects"),
            ("volume = 1\nobjects = \"0..5\"", "objects"),
            // Would have at least 32 objects.
            ("volume = 1\nobjects = \"exponential(mean=20, max=200)\"", "objects"),
            ("volume = 1\nobjects = \"mixture(exponential(mean=20, max=200):1, 1:1)\"", "objects"),
            ("volume = 1\nobjects = 5\nrate = \"10pps\"", "objects"),
            ("volume = 1\nobjects = 5\nstarts = \"10ms\"", "objects"),
            ("volume = 1\nobjects = 5\npackets = 7", "packets"),
            ("volume = 1\nobjects = 5\npage_connections = 0", "page_connections"),
            ("volume = 1\nobjects = 5\npage_connections = 65", "page_connections"),
            ("volume = 1\nobjects = 5\nmain_volume = \"exponential(mean=100K)\"", "main_volume"),
            ("volume = 1\npayload = 100", "payload"),
            ("volume = 1\nbytes = 100", "bytes"),
            ("volume = 1\ntransport = \"udp-lite\"", "shape"),
            ("volume = 1\ntransfer_rate = \"1M\"", "transfer_rate"),
            ("volume = 1\ntransport = \"udp\"\ntransfer_rate = \"999\"", "transfer_rate"),
            ("volume = 1\ntransport = \"udp\"\ntransfer_rate = \"2T\"", "transfer_rate"),
            ("volume = 1\ntransport = \"udp\"\ngro = \"on\"", "gro"),
            ("volume = 1\ntransport = \"udp\"\ndirection = \"reverse\"", "direction"),
            ("volume = 1\ntransport = \"udp\"\npayload = \"100..200\"", "payload"),
            ("volume = 1\ntransport = \"udp\"\npayload = 31", "payload"),
            ("volume = 1\ntransport = \"udp\"\nverify = true", "verify"),
            ("volume = 1\ntransport = \"udp\"\nheader = \"rtp\"", "header"),
            ("volume = 1\ntransport = \"udp\"\ngso = \"on\"", "gso"),
            ("volume = 1\ntransport = \"udp\"\nengine = \"xdp\"", "shape"),
            ("volume = 1\ntransport = \"udp\"\nclient_port = 4000", "client_port"),
        ] {
            let error = transfers(bad).unwrap_or_else(|| panic!("accepted: {bad}"));
            assert!(error.contains(&format!("].{field}")), "{bad}: {error}");
        }
        assert!(refused("volume = 1").unwrap().contains("].volume"));
    }
}
