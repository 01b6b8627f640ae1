//! Parsers of flag values that are not plain units. Each error says what is accepted.

use std::fmt::Display;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::ops::{RangeBounds, RangeInclusive};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use weir_model::ModelError;
use weir_model::content::Content;
use weir_model::impairment::{
    DeliveryTrace, Laws, MAX_SERIES_BYTES, MAX_TRACE_BYTES, Prefix, Timeline,
};
use weir_model::names::is_device;
use weir_model::plan::{
    DataPorts, HeaderFormat, Shape, Size, SourceAddresses, Spacing, Switch, TransportName,
    VoiceCodec,
};
use weir_model::threads;
use weir_model::units::{BitRate, Span};

use crate::engine::Scheduling;
use crate::error::CliError;
use crate::time;

/// A transport by its name; help and completions list the names.
pub(crate) fn transport() -> impl TypedValueParser<Value = TransportName> {
    PossibleValuesParser::new(TransportName::ALL.iter().map(|name| name.label()))
        .try_map(|text| text.parse::<TransportName>())
}

/// A header format by its name.
pub(crate) fn header() -> impl TypedValueParser<Value = HeaderFormat> {
    PossibleValuesParser::new(HeaderFormat::ALL.iter().map(|format| format.label()))
        .try_map(|text| text.parse::<HeaderFormat>())
}

/// A shape of traffic by its name.
pub(crate) fn shape() -> impl TypedValueParser<Value = Shape> {
    PossibleValuesParser::new(Shape::ALL.iter().map(|shape| shape.label()))
        .try_map(|text| text.parse::<Shape>())
}

/// A voice codec by its name.
pub(crate) fn codec() -> impl TypedValueParser<Value = VoiceCodec> {
    PossibleValuesParser::new(VoiceCodec::ALL.iter().map(|codec| codec.label()))
        .try_map(|text| text.parse::<VoiceCodec>())
}

/// Maximum size of a file of values, bytes.
const MAX_VALUES_FILE: u64 = 1 << 20;

/// A law of payload sizes, or `@FILE` with their values.
pub(crate) fn size(text: &str) -> Result<Size, ModelError> {
    law(text, "payload")
}

/// A law of intervals, or `@FILE` with their values.
pub(crate) fn spacing(text: &str) -> Result<Spacing, ModelError> {
    law(text, "spacing")
}

/// A law, or `@FILE`.
fn law<L: FromStr<Err = ModelError>>(text: &str, field: &str) -> Result<L, ModelError> {
    let parsed = |text: &str| text.parse::<L>().map_err(|error| without_field(error, field));
    match text.strip_prefix('@') {
        None => parsed(text),
        Some(path) => parsed(&values_of(path, field)?),
    }
}

/// Laws of the emulator in one line, in which `@FILE` is a law with the values of a file, and `trace @FILE` a trace of mahimahi.
pub(crate) fn laws(text: &str) -> Result<Laws, ModelError> {
    let (mut laws, mut rest) = (String::new(), text);
    while let Some((before, behind)) = rest.split_once('@') {
        let end = behind.find(|c: char| c.is_whitespace() || matches!(c, ',' | ')'));
        let (path, next) = behind.split_at(end.unwrap_or(behind.len()));
        rest = next;
        match before.trim_end().strip_suffix("trace") {
            Some(before) => {
                laws += before;
                laws += &delivery_trace(path)?.to_string();
            }
            None => {
                laws += before;
                laws += &values_of(path, "laws")?;
            }
        }
    }
    (laws + rest).parse()
}

/// A timeline from a CSV file.
pub(crate) fn series(path: &str) -> Result<Timeline, ModelError> {
    let text = text_of(path, MAX_SERIES_BYTES as u64).map_err(|given| ModelError::Field {
        field: "timeline".into(),
        given,
        accepted: "a CSV file, at most 4M".into(),
    })?;
    Timeline::from_csv(&text)
}

/// A trace of delivery opportunities from a file in mahimahi's format.
pub(crate) fn delivery_trace(path: &str) -> Result<DeliveryTrace, ModelError> {
    let refused = |given: String, accepted: String| ModelError::Field {
        field: "trace".into(),
        given,
        accepted,
    };
    let text = text_of(path, MAX_TRACE_BYTES as u64).map_err(|given| {
        refused(
            given,
            "a file with the millisecond of a delivery opportunity in each line, at most 4M".into(),
        )
    })?;
    DeliveryTrace::from_lines(&text).map_err(|error| match error {
        ModelError::Field { field, given, accepted } => {
            refused(format!("{path}, {field}: {given}"), accepted)
        }
        other => other,
    })
}

/// The text of a file of limited size; an error is what was given.
fn text_of(path: &str, max: u64) -> Result<String, String> {
    let read = || -> std::io::Result<String> {
        let mut text = String::new();
        std::fs::File::open(path)?.take(max + 1).read_to_string(&mut text)?;
        Ok(text)
    };
    match read() {
        Ok(text) if text.len() as u64 > max => Err(format!("{path}, a larger file")),
        Ok(text) => Ok(text),
        Err(error) => Err(format!("{path}: {error}")),
    }
}

/// The law of the values in a file, which are between white space. They are read here, so that a server never opens a file by name.
fn values_of(path: &str, field: &str) -> Result<String, ModelError> {
    let refused = |given: String| ModelError::Field {
        field: field.into(),
        given,
        accepted: "@FILE with up to 10000 values between white space, at most 1M".into(),
    };
    let values = text_of(path, MAX_VALUES_FILE).map_err(|given| refused(format!("@{given}")))?;
    let values: Vec<&str> = values.split_whitespace().collect();
    Ok(format!("values({})", values.join(", ")))
}

/// The error of a law without the field that holds the law, in whose place the flag is named.
fn without_field(error: ModelError, holder: &str) -> ModelError {
    match error {
        ModelError::Field { field, given, accepted } => {
            let own = field.strip_prefix(holder).and_then(|rest| rest.strip_prefix('.'));
            ModelError::Field { field: own.unwrap_or(&field).to_owned(), given, accepted }
        }
        other => other,
    }
}

/// The content of payloads, or the file that has it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ContentSource {
    pub(crate) content: Content,
    pub(crate) path: Option<PathBuf>,
}

impl FromStr for ContentSource {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        match text.strip_prefix("file:").filter(|path| !path.is_empty()) {
            Some(path) => Ok(ContentSource { content: Content::File, path: Some(path.into()) }),
            None if text == "file" => Err(ModelError::Field {
                field: "content".into(),
                given: text.into(),
                accepted: "file:PATH".into(),
            }),
            None => Ok(ContentSource { content: text.parse()?, path: None }),
        }
    }
}

/// A port, or a range of ports: `PORT` or `FIRST-LAST`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ports(pub(crate) RangeInclusive<u16>);

impl FromStr for Ports {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let both = if text.contains('-') { text.to_owned() } else { format!("{text}-{text}") };
        let range = ports(&both).map(Ports);
        range.map_err(|_| "expected PORT or FIRST-LAST with ports 1 to 65535".into())
    }
}

/// An address or prefix and what replaces it: `FROM=TO`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AddressPair(pub(crate) Prefix, pub(crate) Prefix);

impl FromStr for AddressPair {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let pair = text.split_once('=').and_then(|(from, to)| {
            let (from, to): (Prefix, Prefix) = (from.parse().ok()?, to.parse().ok()?);
            let is_alike =
                from.length == to.length && from.address.is_ipv4() == to.address.is_ipv4();
            is_alike.then_some(AddressPair(from, to))
        });
        pair.ok_or_else(|| {
            "expected FROM=TO with two addresses, or two prefixes of one length, such as 10.1.0.0/16=192.168.0.0/16"
                .into()
        })
    }
}

/// A port and what replaces it: `FROM=TO`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PortPair(pub(crate) u16, pub(crate) u16);

impl FromStr for PortPair {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let pair = text
            .split_once('=')
            .and_then(|(from, to)| Some(PortPair(from.parse().ok()?, to.parse().ok()?)));
        pair.ok_or_else(|| "expected FROM=TO with ports 0 to 65535, such as 80=8080".into())
    }
}

/// A MAC address: `02:00:00:00:00:01`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mac(pub(crate) [u8; 6]);

impl FromStr for Mac {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let bytes = text.split([':', '-']).map(|part| {
            let is_byte = part.len() == 2;
            u8::from_str_radix(part, 16).ok().filter(|_| is_byte)
        });
        let bytes: Option<Vec<u8>> = bytes.collect();
        let mac = bytes.and_then(|bytes| bytes.try_into().ok()).map(Mac);
        mac.ok_or_else(|| "expected six bytes such as 02:00:00:00:00:01".into())
    }
}

/// A range of ports: `FIRST-LAST`.
pub(crate) fn ports(text: &str) -> Result<RangeInclusive<u16>, String> {
    let port = |text: &str| text.parse::<u16>().ok().filter(|p| *p > 0);
    text.split_once('-')
        .and_then(|(first, last)| port(first).zip(port(last)))
        .filter(|(first, last)| first <= last)
        .map(|(first, last)| first..=last)
        .ok_or_else(|| "expected FIRST-LAST with ports 1 to 65535".into())
}

/// `auto`, `shared`, `dedicated` or `range`.
pub(crate) fn data_ports(text: &str) -> Result<DataPorts, String> {
    match text {
        "auto" => Ok(DataPorts::Auto),
        "shared" => Ok(DataPorts::Shared),
        "dedicated" => Ok(DataPorts::Dedicated),
        "range" => Ok(DataPorts::Range),
        _ => Err("expected auto, shared, dedicated or range".into()),
    }
}

/// `auto`, `on` or `off`.
pub(crate) fn switch(text: &str) -> Result<Switch, String> {
    match text {
        "auto" => Ok(Switch::Auto),
        "on" => Ok(Switch::On),
        "off" => Ok(Switch::Off),
        _ => Err("expected auto, on or off".into()),
    }
}

/// The TOS byte as iperf3 reads it: decimal, `0x` hexadecimal, a leading 0 for octal.
pub(crate) fn tos(text: &str) -> Result<u8, String> {
    let lower = text.trim().to_ascii_lowercase();
    let parsed = if let Some(hex) = lower.strip_prefix("0x") {
        u8::from_str_radix(hex, 16)
    } else if lower.len() > 1 && lower.starts_with('0') {
        u8::from_str_radix(&lower, 8)
    } else {
        lower.parse()
    };
    parsed.map_err(|_| {
        "expected the whole byte, 0 to 255: decimal, 0x hexadecimal or 0 octal".to_string()
    })
}

/// A multicast group or a broadcast address, with the port that was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupAddress {
    pub(crate) address: IpAddr,
    pub(crate) port: Option<u16>,
}

/// `ADDRESS` or `ADDRESS:PORT`.
pub(crate) fn group_address(text: &str) -> Result<GroupAddress, String> {
    if let Ok(both) = text.parse::<SocketAddr>() {
        return Ok(GroupAddress { address: both.ip(), port: Some(both.port()) });
    }
    let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse().map_err(|_| {
        "expected an address such as 239.1.1.1, 239.1.1.1:5000, ff15::1 or [ff15::1]:5000"
            .to_string()
    })?;
    Ok(GroupAddress { address, port: None })
}

/// A checksum coverage: bytes from the header on, or 0 for the whole datagram.
pub(crate) fn coverage(text: &str) -> Result<u16, String> {
    match text {
        "full" => Ok(0),
        _ => text.parse().ok().filter(|bytes| *bytes >= 8).ok_or_else(|| {
            "expected full, or bytes from the header of 8 bytes on, 8 to 65535".to_string()
        }),
    }
}

/// A congestion control by the kernel's name.
pub(crate) fn congestion(text: &str) -> Result<String, String> {
    match text.parse::<f64>() {
        Err(_) => Ok(text.into()),
        Ok(_) => Err("expected a name of the kernel, such as cubic, reno or bbr".into()),
    }
}

/// A number of packets; `K`, `M` and `G` are powers of 1000, as for rates and unlike sizes.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    text.parse::<BitRate>()
        .ok()
        .filter(|n| n.0 >= 1 && !text.contains("b"))
        .map(|n| n.0)
        .ok_or_else(|| "expected a whole number from 1, such as 5000, 10K or 1M".into())
}

/// A time in a range of ns.
fn span(text: &str, range: impl RangeBounds<u64>, expected: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|e: weir_model::ModelError| e.to_string())?;
    range.contains(&span.0).then_some(span).ok_or_else(|| expected.into())
}

/// A timeout of connecting, 1 ms to 10 min.
pub(crate) fn connect_timeout(text: &str) -> Result<Span, String> {
    let expected = "expected 1ms to 10m; a bare number is seconds, so write milliseconds as 3000ms";
    span(text, 1_000_000..=600_000_000_000, expected)
}

/// The interval of a table that is printed again and again, 100 ms to 1 h.
pub(crate) fn watch_interval(text: &str) -> Result<Span, String> {
    span(text, 100_000_000..=3_600_000_000_000, "expected 100ms to 1h")
}

/// A time above zero.
pub(crate) fn positive(text: &str) -> Result<Span, String> {
    span(text, 1.., "expected a time above 0")
}

/// The sending time of a test. The plan has the same limit, but this error quotes the value as the user wrote it.
pub(crate) fn test_time(text: &str) -> Result<Span, String> {
    let span = text.parse::<Span>().ok().filter(|span| span.0 <= 7 * 86_400 * 1_000_000_000);
    span.ok_or_else(|| {
        "expected a time up to 7d (7 days), with its unit (ns, us, ms, s, m, h, d) or in seconds, such as 10, 2.5s, 90m or 1d; 0 is until stopped"
            .to_string()
    })
}

/// A whole number within a range.
pub(crate) fn whole<N>(
    range: RangeInclusive<N>,
) -> impl Fn(&str) -> Result<N, String> + Clone + Send + Sync + 'static
where
    N: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |text: &str| {
        let number = text.parse::<N>().ok().filter(|n| range.contains(n));
        number
            .ok_or_else(|| format!("expected a whole number, {} to {}", range.start(), range.end()))
    }
}

/// An address of this host.
pub(crate) fn address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| {
        "expected an IPv4 or IPv6 address of this host, such as 192.0.2.1 or 2001:db8::1"
            .to_string()
    })
}

/// `ADDRESS:PORT`, `ADDRESS` or `:PORT`; `address` and `port` are the defaults.
pub(crate) fn listen_address(text: &str, address: IpAddr, port: u16) -> Result<SocketAddr, String> {
    if let Ok(both) = text.parse() {
        return Ok(both);
    }
    if let Ok(address) = text.trim_matches(['[', ']']).parse() {
        return Ok(SocketAddr::new(address, port));
    }
    if let Some(Ok(port)) = text.strip_prefix(':').map(str::parse) {
        return Ok(SocketAddr::new(address, port));
    }
    Err("expected ADDRESS:PORT, ADDRESS or :PORT".into())
}

/// The address of `--prometheus`.
pub(crate) fn exporter_address(text: &str) -> Result<SocketAddr, String> {
    listen_address(text, std::net::Ipv4Addr::LOCALHOST.into(), 9350)
}

/// A strftime format for `--timestamps`.
pub(crate) fn time_format(text: &str) -> Result<time::Format, String> {
    text.parse()
}

/// `ADDRESS[%INTERFACE]`, or `%INTERFACE` alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bind {
    pub(crate) address: Option<SourceAddresses>,
    pub(crate) interface: Option<String>,
}

impl FromStr for Bind {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (address, interface) = match text.split_once('%') {
            Some((a, i)) => (a, Some(i)),
            None => (text, None),
        };
        let inner = address.strip_prefix('[').and_then(|a| a.strip_suffix(']')).unwrap_or(address);
        let parsed = match inner {
            "" if interface.is_some() => None,
            _ => Some(inner.parse().map_err(
                |_| "expected an address of this host, such as 192.0.2.1, fe80::1%eth0 or %eth0, or several: 192.0.2.1-192.0.2.20 or 192.0.2.0/28",
            )?),
        };
        if interface.is_some_and(|i| !is_device(i)) {
            return Err("expected an interface name of 1 to 15 characters after %".into());
        }
        Ok(Bind { address: parsed, interface: interface.map(Into::into) })
    }
}

/// `PORT[-LAST]`: local ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClientPorts {
    pub(crate) first: u16,
    pub(crate) last: Option<u16>,
}

/// Local ports, from 1.
pub(crate) fn client_ports(text: &str) -> Result<ClientPorts, String> {
    let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0);
    let parsed = match text.split_once('-') {
        None => port(text).map(|first| ClientPorts { first, last: None }),
        Some((first, last)) => port(first)
            .zip(port(last))
            .filter(|(first, last)| first <= last)
            .map(|(first, last)| ClientPorts { first, last: Some(last) }),
    };
    parsed.ok_or_else(|| "expected a port from 1 to 65535, or a range such as 5000-5999".into())
}

/// A scheduling class for sending threads.
pub(crate) fn scheduling(text: &str) -> Result<Scheduling, String> {
    text.parse().map_err(str::to_string)
}

/// The time that a sending thread spins.
pub(crate) fn spin(text: &str) -> Result<Duration, String> {
    let span = threads::spin(text).map(|span| Duration::from_nanos(span.0));
    span.ok_or_else(|| format!("expected {}", threads::SPIN_FORM))
}

/// The parsed thread settings of a job.
pub(crate) struct OwnThreads {
    /// The CPUs that the threads run on; absent: all that the process may run on.
    pub(crate) cpus: Option<Vec<usize>>,
    /// Scheduling of threads that send paced datagrams.
    pub(crate) scheduling: Scheduling,
    /// The time that they spin before a datagram is due; absent: by measured wake-up times.
    pub(crate) spin: Option<Duration>,
}

/// Parses the thread settings of a job that passed [`threads::Threads::check`].
///
/// # Errors
/// CPUs that this process may not run on.
pub(crate) fn own_threads(threads: &threads::Threads) -> Result<OwnThreads, CliError> {
    let cpus = threads.affinity.as_deref().and_then(threads::cpus).map(Cpus);
    cpus.as_ref().map_or(Ok(()), Cpus::check)?;
    let scheduling = threads.scheduling.as_deref().and_then(|class| class.parse().ok());
    Ok(OwnThreads {
        cpus: cpus.map(|cpus| cpus.0),
        scheduling: scheduling.unwrap_or_default(),
        spin: threads.spin.map(|spin| Duration::from_nanos(spin.0)),
    })
}

/// CPUs by number: `0`, `0,2`, `1-3`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cpus(pub(crate) Vec<usize>);

impl FromStr for Cpus {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let Some(node) = text.strip_prefix("node:") else {
            let cpus = threads::cpus(text).map(Cpus);
            return cpus.ok_or_else(|| format!("expected {} or node:N", threads::CPUS_FORM));
        };
        let node = node.parse().map_err(|_| "expected node:N, a NUMA node such as node:0")?;
        let list = weir_net::thread::node_cpus(node);
        let cpus = list.ok().and_then(|list| threads::cpus(&list).map(Cpus));
        cpus.ok_or_else(|| {
            "expected a NUMA node of this host that has CPUs (`lscpu` lists them)".to_owned()
        })
    }
}

impl std::fmt::Display for Cpus {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(usize::to_string).collect();
        f.write_str(&numbers.join(","))
    }
}

impl Cpus {
    /// Refuses processors that this process may not run on.
    pub(crate) fn check(&self) -> Result<(), CliError> {
        // If the allowed CPUs are unknown, pinning is tried.
        let Ok(allowed) = weir_net::thread::allowed_cpus() else { return Ok(()) };
        self.check_among(&allowed)
    }

    fn check_among(&self, allowed: &[usize]) -> Result<(), CliError> {
        let Some(absent) = self.0.iter().find(|c| !allowed.contains(c)) else { return Ok(()) };
        let allowed: Vec<String> = allowed.iter().map(usize::to_string).collect();
        Err(CliError::flag(
            "-A/--affinity",
            format!("CPU {absent}"),
            &format!("those this process may run on: {}", allowed.join(", ")),
        ))
    }
}

/// A nominal rate: a stated rate, or the interface's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nominal {
    Auto,
    Stated(BitRate),
}

impl Nominal {
    /// The rate, unless it is the interface's.
    pub(crate) fn stated(self) -> Option<BitRate> {
        match self {
            Nominal::Auto => None,
            Nominal::Stated(rate) => Some(rate),
        }
    }
}

impl FromStr for Nominal {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Nominal::Auto);
        }
        text.parse::<BitRate>()
            .ok()
            .filter(|r| r.0 > 0)
            .map(Nominal::Stated)
            .ok_or_else(|| "expected auto, or bits per second above 0 such as 100M or 2.5G".into())
    }
}

/// A label of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) key: String,
    pub(crate) value: String,
}

impl FromStr for Label {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() => {
                Ok(Label { key: key.trim().into(), value: value.into() })
            }
            _ => Err("expected KEY=VALUE".into()),
        }
    }
}

/// `--start-at`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartAt {
    /// This time from now.
    In(Span),
    /// This host's CLOCK_MONOTONIC, ns.
    Monotonic(u64),
    /// Milliseconds since 1970, UTC.
    Unix(i64),
}

impl StartAt {
    /// The start time on CLOCK_MONOTONIC, ns; `now` is the time since 1970.
    pub(crate) fn monotonic_ns(self, now: Duration) -> u64 {
        let monotonic = weir_net::clock::Clock::System.monotonic_ns();
        match self {
            StartAt::In(span) => monotonic.saturating_add(span.0),
            StartAt::Monotonic(ns) => ns,
            StartAt::Unix(ms) => {
                let ahead = i128::from(ms) * 1_000_000 - now.as_nanos() as i128;
                u64::try_from(i128::from(monotonic) + ahead).unwrap_or(0)
            }
        }
    }
}

impl FromStr for StartAt {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let found = if let Some(span) = text.strip_prefix('+') {
            span.parse().ok().map(StartAt::In)
        } else if let Some(ns) = text.strip_prefix("monotonic:") {
            ns.parse().ok().map(StartAt::Monotonic)
        } else {
            weir_runs::unix_ms_of(text).map(StartAt::Unix)
        };
        found.ok_or_else(|| "an RFC 3339 time, +TIME such as +5s, or monotonic:NS".into())
    }
}

/// A percentage above 0, with or without its sign.
pub(crate) fn percentage(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim();
    let value = number.parse().ok().filter(|p: &f64| *p > 0.0 && *p <= 100.0);
    value.ok_or_else(|| "expected a percentage above 0 to 100, such as 2.5%".into())
}

/// The confidence of intervals.
pub(crate) fn confidence(text: &str) -> Result<f64, String> {
    let value = percentage(text).ok().filter(|p| (50.0..100.0).contains(p));
    value.ok_or_else(|| "expected a percentage from 50 to below 100, such as 95%".into())
}

/// Maximum number of repetitions of a point, the same as in a scenario.
pub(crate) const MAX_RUNS: u32 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_laws_come_from_a_file() {
        let path = std::env::temp_dir().join(format!("weir-values-{}", std::process::id()));
        let at = format!("@{}", path.display());
        std::fs::write(&path, "64 1400\n1K\n").unwrap();
        assert_eq!(size(&at).unwrap().to_string(), "values(64, 1400, 1K)");
        assert!(matches!(spacing(&at), Err(ModelError::Field { field, .. }) if field == "values"));
        std::fs::write(&path, "64 ".repeat(10_001)).unwrap();
        assert!(matches!(size(&at), Err(ModelError::Field { field, .. }) if field == "values"));
        std::fs::write(&path, vec![b'6'; 2 << 20]).unwrap();
        assert!(matches!(size(&at), Err(ModelError::Field { field, .. }) if field == "payload"));
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(size(&at), Err(ModelError::Field { field, .. }) if field == "payload"));
    }

    #[test]
    fn laws_of_the_emulator_take_values_from_files() {
        let path = std::env::temp_dir().join(format!("weir-delays-{}", std::process::id()));
        let at = format!("@{}", path.display());
        std::fs::write(&path, "1ms 20ms\n5ms\n").unwrap();
        for (given, meant) in [
            (format!("delay {at} allow, loss 1%"), "loss 1%, delay values(1ms, 20ms, 5ms) allow"),
            (
                format!("loss outage(interval={at}, duration=1s)"),
                "loss outage(duration=1s, interval=values(1ms, 20ms, 5ms))",
            ),
        ] {
            assert_eq!(laws(&given).unwrap().to_string(), meant, "{given}");
        }
        std::fs::remove_file(&path).unwrap();
        let refused = laws(&format!("delay {at}"));
        assert!(matches!(&refused, Err(ModelError::Field { field, .. }) if field == "laws"));
    }

    #[test]
    fn laws_of_the_emulator_take_traces_from_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("up");
        let at = format!("@{}", path.display());
        std::fs::write(&path, "1\n1\n4\n").unwrap();
        for (given, meant) in [
            (format!("rate trace {at}"), "rate trace(1x2 4)"),
            (
                format!("loss 1%, rate  trace {at} once queue 9packets delay 2ms"),
                "loss 1%, rate trace(1x2 4) once queue 9packets, delay 2ms",
            ),
        ] {
            assert_eq!(laws(&given).unwrap().to_string(), meant, "{given}");
        }
        std::fs::write(&path, "1\nx\n").unwrap();
        let Err(ModelError::Field { field, given, .. }) = laws(&format!("rate trace {at}")) else {
            panic!("an invalid line")
        };
        assert_eq!(field, "trace");
        assert!(given.contains("line 2: x"), "{given}");
    }

    #[test]
    fn tos_is_the_whole_byte_in_three_bases() {
        assert_eq!(tos("0x10"), Ok(16));
        assert_eq!(tos("020"), Ok(16));
        assert_eq!(tos("16"), Ok(16));
        assert_eq!(tos("0"), Ok(0));
        for bad in ["256", "0x100", "08", "", "ef", "-1"] {
            assert!(tos(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn refusals_say_what_is_accepted_in_words() {
        let port = whole(1_u16..=65_535);
        assert_eq!((port("80"), port("65535")), (Ok(80), Ok(65_535)));
        for bad in ["0", "65536", "80x", "", "-1", "4.5"] {
            assert!(port(bad).is_err(), "{bad}");
        }
        assert!(address("host").is_err());
        assert_eq!(test_time("7d"), Ok(Span::from_seconds(7 * 86_400)));
        assert!(test_time("8d").is_err() && test_time("8w").is_err());
    }

    #[test]
    fn processors_that_are_not_ours_are_refused_by_number() {
        let cpus: Cpus = "0-1,7".parse().unwrap();
        assert!(cpus.check_among(&[0, 1, 7]).is_ok());
        let refused = cpus.check_among(&[0, 1]).unwrap_err().refusal();
        assert_eq!(refused.field.as_deref(), Some("--affinity"));
        assert_eq!(refused.given.as_deref(), Some("CPU 7"));
    }

    #[test]
    fn counts_are_thousands() {
        assert_eq!(count("10K"), Ok(10_000));
        assert_eq!(count("5000"), Ok(5000));
        for bad in ["0", "", "x", "10bps", "-1"] {
            assert!(count(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn binds() {
        let b: Bind = "fe80::1%eth0".parse().unwrap();
        assert_eq!(
            (b.address.unwrap().to_string(), b.interface.unwrap()),
            ("fe80::1".into(), "eth0".into())
        );
        let b: Bind = "%eth0".parse().unwrap();
        assert_eq!((b.address, b.interface.as_deref()), (None, Some("eth0")));
        assert!("[2001:db8::1]".parse::<Bind>().unwrap().address.is_some());
        for bad in ["", "eth0", "1.2.3", "1.2.3.4%", "1.2.3.4%a/b"] {
            assert!(bad.parse::<Bind>().is_err(), "{bad}");
        }
    }

    #[test]
    fn cpu_lists() {
        assert_eq!("3,0-1,1".parse::<Cpus>().unwrap().0, [0, 1, 3]);
        if let Ok(list) = weir_net::thread::node_cpus(0) {
            assert_eq!("node:0".parse::<Cpus>().unwrap(), list.parse::<Cpus>().unwrap());
        }
        for bad in ["node:", "node:x", "node:-1", "node:4000000000"] {
            assert!(bad.parse::<Cpus>().is_err(), "{bad}");
        }
        for bad in ["", "a", "3-1", "0,,1", "99999999999", "0-99999999"] {
            assert!(bad.parse::<Cpus>().is_err(), "{bad}");
        }
    }

    #[test]
    fn nominal_and_labels() {
        assert_eq!("auto".parse(), Ok(Nominal::Auto));
        assert_eq!("100M".parse(), Ok(Nominal::Stated(BitRate(100_000_000))));
        assert!("0".parse::<Nominal>().is_err());
        assert_eq!("a=b=c".parse(), Ok(Label { key: "a".into(), value: "b=c".into() }));
        assert!("=b".parse::<Label>().is_err());
        assert!("b".parse::<Label>().is_err());
    }

    #[test]
    fn connecting_in_iperf3_milliseconds_is_caught() {
        assert!(connect_timeout("3000").is_err());
        assert_eq!(connect_timeout("3000ms"), Ok(Span::from_seconds(3)));
    }
}
