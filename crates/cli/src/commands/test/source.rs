//! Files that a test sends: the bytes of a file (`--content file:PATH`), or the datagrams or frames of a capture
//! (`--replay`).
//!
//! Only these flags name a file: a plan or a job from elsewhere can't make this host read and send one.

use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use weir_flow::{Recording, Supply, header_bytes};
use weir_link::capture::{DatagramFilter, DatagramReader, FrameReader};
use weir_model::ModelError;
use weir_model::content::Content;
use weir_model::names::INTERFACE;
use weir_model::plan::{CatchUp, Connection, Plan, Size, Spacing};
use weir_model::record::{DataSource, DataSourceKind};
use weir_model::units::{ByteSize, RateLimit, SendRate, Span};
use weir_wire::remap::Remap;

use super::args::TestArgs;
use super::plan::by_flag;
use crate::error::CliError;

/// Maximum number of bytes of a file, and of the payloads of a capture: they are held in memory.
const MAX_BYTES: u64 = 1 << 30;
/// Maximum number of datagrams of a capture.
const MAX_PACKETS: u64 = 10_000_000;
/// Payload of a file's datagrams if no size is given: the number of datagrams follows from it, and it fits most paths.
const FILE_PAYLOAD: u64 = 1400;
/// Header of Ethernet.
const HEADER_BYTES: usize = 14;
/// Maximum length of a frame, with two tags: that of a datagram in a plan.
const MAX_FRAME_BYTES: usize = 65_500;
/// Maximum interval between two packets.
const MAX_GAP_NS: u64 = 3_600_000_000_000;

/// The speed of a replay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum ReplaySpeed {
    /// This many times the capture's own.
    Times(f64),
    /// A fixed rate.
    Rate(SendRate),
    /// As fast as possible.
    Top,
}

impl FromStr for ReplaySpeed {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let factor = |number: &str| number.parse().ok().filter(|x| (0.001..=1000.0).contains(x));
        match text {
            "original" => Some(ReplaySpeed::Times(1.0)),
            "top" => Some(ReplaySpeed::Top),
            _ => match text.strip_suffix('x') {
                Some(number) => factor(number).map(ReplaySpeed::Times),
                None => text.parse::<SendRate>().ok().map(|rate| match rate.limit {
                    RateLimit::Unlimited => ReplaySpeed::Top,
                    _ => ReplaySpeed::Rate(rate),
                }),
            },
        }
        .ok_or_else(|| {
            "expected original, a factor from 0.001x to 1000x such as 2x, a rate such as 10M or 5000pps, or top"
                .into()
        })
    }
}

impl std::fmt::Display for ReplaySpeed {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            ReplaySpeed::Times(1.0) => f.write_str("original"),
            ReplaySpeed::Times(factor) => write!(f, "{factor}x"),
            ReplaySpeed::Rate(rate) => rate.fmt(f),
            ReplaySpeed::Top => f.write_str("top"),
        }
    }
}

/// Data of a file, ready to be sent.
#[derive(Debug)]
pub(crate) struct Source {
    /// The data.
    pub(crate) supply: Arc<Supply>,
    /// For the record.
    pub(crate) described: DataSource,
    speed: ReplaySpeed,
}

impl Source {
    /// Reads the file that the flags name, if they name one.
    ///
    /// # Errors
    /// [`CliError::Io`] if it can't be read; [`CliError::Flag`] for a file that can't be sent.
    pub(crate) fn open(args: &TestArgs) -> Result<Option<Source>, CliError> {
        let file = args.traffic.content.as_ref().and_then(|content| content.path.as_deref());
        let source = match (&args.replay.replay, file.or(args.later.file.as_deref())) {
            (Some(path), _) => Source::capture(path, args)?,
            (None, Some(path)) => Source::file(path)?,
            (None, None) => return Ok(None),
        };
        if args.general.save_plan.is_some() {
            let accepted = "generated content: a plan names no file";
            let given = format!("given with {}", source.flag());
            return Err(CliError::flag("--save-plan", given, accepted));
        }
        Ok(Some(source))
    }

    /// The flag that named the file.
    fn flag(&self) -> &'static str {
        match self.described.kind {
            DataSourceKind::File => "--content",
            DataSourceKind::Capture => "--replay",
        }
    }

    fn file(path: &Path) -> Result<Source, CliError> {
        let mut bytes = vec![];
        let read =
            File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes));
        read.map_err(CliError::io("--content: read", path))?;
        let len = bytes.len() as u64;
        let refused = |what: &str| {
            CliError::flag(
                "--content",
                format!("file:{}, {what}", path.display()),
                "a file of 1 byte to 1G",
            )
        };
        if len > MAX_BYTES {
            return Err(refused("a longer file"));
        }
        let supply = Supply::of_bytes(bytes).ok_or_else(|| refused("an empty file"))?;
        let described = DataSource {
            kind: DataSourceKind::File,
            name: path.display().to_string(),
            bytes: len,
            ..DataSource::default()
        };
        Ok(Source { supply: Arc::new(supply), described, speed: ReplaySpeed::Top })
    }

    fn capture(path: &Path, args: &TestArgs) -> Result<Source, CliError> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(CliError::io("--replay: read", path))?;
        let input = BufReader::with_capacity(256 << 10, file);
        let read = match args.host.iter().find_map(|host| host.strip_prefix(INTERFACE)) {
            None => datagrams(input, &name, args)?,
            Some(interface) => frames(input, &name, interface, args)?,
        };
        let Read { recording, counts, failed } = read;
        match failed {
            Some(weir_link::Error::System { source, .. }) => {
                return Err(CliError::io("--replay: read", path)(source));
            }
            Some(other) => {
                return Err(refused(other.to_string(), "a complete capture, pcap or pcapng"));
            }
            None => {}
        }
        let speed = args.replay.replay_speed.unwrap_or(ReplaySpeed::Times(1.0));
        let (duration_ns, stepped_back) = (recording.duration_ns(), recording.steps_back());
        let factor = match speed {
            ReplaySpeed::Times(factor) => Some(factor),
            ReplaySpeed::Rate(_) | ReplaySpeed::Top => None,
        };
        let left_out: Vec<_> = counts.left_out.into_iter().filter(|(_, n)| *n > 0).collect();
        let Some(supply) = recording.at_speed(factor) else {
            let given = format!("{name}: nothing to send; {}", list(&left_out));
            return Err(refused(
                given,
                "a capture with UDP datagrams, or with frames for an interface, that the filters choose",
            ));
        };
        if let Some(gaps) = supply.gaps().filter(|gaps| gaps.max > MAX_GAP_NS) {
            let given = format!("{name}: a pause of {}", Span(gaps.max));
            return Err(refused(given, "pauses up to 1h, if necessary by a higher --replay-speed"));
        }
        let some = |count: u64| (count > 0).then_some(count);
        let described = DataSource {
            kind: DataSourceKind::Capture,
            name,
            bytes: counts.bytes,
            packets: Some(counts.packets),
            seconds: Some(duration_ns as f64 / 1e9),
            speed: Some(speed.to_string()),
            lengthened_packets: some(counts.lengthened),
            truncated_packets: some(counts.truncated),
            stepped_back_packets: some(stepped_back),
            left_out_packets: left_out.into_iter().map(|(what, n)| (what.into(), n)).collect(),
        };
        Ok(Source { supply: Arc::new(supply), described, speed })
    }

    /// Fits the connections of the flags to the data, and checks the plan again.
    ///
    /// # Errors
    /// [`CliError::Flag`] for a flag that does not fit.
    pub(crate) fn fit(&self, plan: &mut Plan, args: &TestArgs) -> Result<(), CliError> {
        for connection in &mut plan.connections {
            let is_capture = self.described.kind == DataSourceKind::Capture;
            if is_capture && !connection.transport.datagrams() {
                let given = format!("{} with --replay", connection.transport.name());
                return Err(CliError::flag(
                    "--transport",
                    given,
                    "a transport of datagrams, such as udp",
                ));
            }
            connection.content = Content::File;
            match self.described.kind {
                DataSourceKind::File => self.fit_file(connection),
                DataSourceKind::Capture => {
                    self.fit_capture(connection, args).map_err(|error| by_flag(error, args))?;
                }
            }
        }
        plan.check().map_err(|error| by_flag(error, args))
    }

    /// Without another end, a connection ends when the file was sent once.
    fn fit_file(&self, connection: &mut Connection) {
        let is_once = connection.duration.is_none()
            && connection.bytes.is_none()
            && connection.packets.is_none();
        if !connection.transport.datagrams() {
            connection.bytes =
                connection.bytes.or(is_once.then_some(ByteSize(self.supply.bytes())));
            return;
        }
        let payload = connection.payload.get_or_insert_with(|| ByteSize(FILE_PAYLOAD).into());
        let part =
            payload.moments().max_bytes.saturating_sub(header_bytes(connection.header) as u64);
        if is_once {
            connection.packets = Some(self.supply.bytes().div_ceil(part.max(1)));
        }
    }

    fn fit_capture(&self, connection: &mut Connection, args: &TestArgs) -> Result<(), ModelError> {
        let Some((sizes, packets)) = self.supply.sizes().zip(self.supply.packets()) else {
            return Ok(());
        };
        connection.payload = Some(match sizes.min == sizes.max {
            true => ByteSize(sizes.max).into(),
            false => format!(
                "recorded(min={}, max={}, mean={:.1}, deviation={:.1})",
                sizes.min, sizes.max, sizes.mean, sizes.deviation
            )
            .parse::<Size>()?,
        });
        match (self.supply.gaps(), self.speed) {
            (Some(gaps), _) => {
                let text = format!(
                    "recorded(mean={}ns, min={}ns, max={}ns, deviation={}ns)",
                    gaps.mean.round(),
                    gaps.min,
                    gaps.max,
                    gaps.deviation.round()
                );
                connection.spacing = text.parse::<Spacing>()?;
                if args.rate.catch_up.is_none() {
                    // Each packet is sent as soon as it is due, as in the capture.
                    connection.catch_up = CatchUp::Burst(u32::MAX);
                }
            }
            (None, ReplaySpeed::Rate(rate)) => connection.rate = Some(rate),
            (None, _) => connection.rate = Some(SendRate::UNLIMITED),
        }
        if args.traffic.time.is_none() {
            let rounds = args.replay.replay_rounds.unwrap_or(1);
            connection.packets = Some(packets.saturating_mul(rounds));
        }
        Ok(())
    }

    /// One line that says what will be sent.
    pub(crate) fn text(&self) -> String {
        weir_report::data_source(&self.described)
    }
}

fn refused(given: String, accepted: &str) -> CliError {
    CliError::flag("--replay", given, accepted)
}

/// What was read of a capture.
#[derive(Default)]
struct Read {
    recording: Recording,
    counts: Counts,
    /// Why reading ended early.
    failed: Option<weir_link::Error>,
}

#[derive(Default)]
struct Counts {
    packets: u64,
    bytes: u64,
    lengthened: u64,
    truncated: u64,
    /// Packets that are not sent, by what they are.
    left_out: Vec<(&'static str, u64)>,
}

impl Read {
    /// Adds a packet, `number` of the capture.
    fn push(
        &mut self,
        time_ns: u64,
        bytes: &[u8],
        least: usize,
        (name, number): (&str, u64),
    ) -> Result<(), CliError> {
        self.counts.lengthened += u64::from(bytes.len() < least);
        self.counts.bytes += bytes.len() as u64;
        self.recording.push(time_ns, bytes, least);
        if self.recording.packets() > MAX_PACKETS || self.recording.bytes() > MAX_BYTES {
            let accepted = "up to 10 million packets with 1G in all; --replay-port and --replay-address choose some";
            return Err(refused(format!("{name}, packet {number}"), accepted));
        }
        Ok(())
    }
}

fn filter(args: &TestArgs) -> DatagramFilter {
    DatagramFilter {
        ports: args.replay.replay_port.as_ref().map(|ports| ports.0.clone()),
        address: args.replay.replay_address,
    }
}

/// The payloads of a capture's UDP datagrams.
fn datagrams(input: impl std::io::Read, name: &str, args: &TestArgs) -> Result<Read, CliError> {
    let remap = remap(args);
    if !remap.is_empty() {
        let given = "given with a HOST that is not an interface";
        let accepted = "HOST interface:NAME: datagrams have the addresses and ports of the test";
        return Err(CliError::flag(named_remap(args), given, accepted));
    }
    let mut read = Read::default();
    let mut reader = match DatagramReader::new(input, name, filter(args)) {
        Ok(reader) => reader,
        Err(error) => return Ok(Read { failed: Some(error), ..read }),
    };
    // An empty datagram can't be counted among others.
    let least = header_bytes(args.rate.header.unwrap_or_default()).max(1);
    loop {
        let number = reader.counts().packets + 1;
        match reader.next_datagram() {
            Ok(Some(datagram)) => {
                read.push(datagram.time_ns, datagram.payload, least, (name, number))?;
            }
            Ok(None) => break,
            Err(error) => return Ok(Read { failed: Some(error), ..read }),
        }
    }
    let c = reader.counts();
    (read.counts.packets, read.counts.truncated) = (c.datagrams, c.truncated);
    read.counts.left_out = vec![
        ("tcp", c.tcp),
        ("fragments", c.fragments),
        ("not-ip", c.not_ip),
        ("other-protocols", c.other_protocol),
        ("invalid", c.invalid),
        ("not-chosen", c.unmatched),
    ];
    Ok(read)
}

/// The frames of a capture that an interface can send.
fn frames(
    input: impl std::io::Read,
    name: &str,
    interface: &str,
    args: &TestArgs,
) -> Result<Read, CliError> {
    let found = weir_net::interface::interface(interface);
    let found = found.map_err(|error| {
        let accepted = "an interface of this host (ip link)";
        CliError::flag("HOST", format!("{INTERFACE}{interface} ({error})"), accepted)
    })?;
    let remap = remap(args);
    let most = found.mtu_bytes as usize + HEADER_BYTES;
    let mut read = Read::default();
    let mut reader = match FrameReader::new(input, name, filter(args), most.min(MAX_FRAME_BYTES)) {
        Ok(reader) => reader,
        Err(error) => return Ok(Read { failed: Some(error), ..read }),
    };
    let mut bytes = vec![];
    loop {
        let number = reader.counts().frames + 1;
        match reader.next_frame() {
            Ok(Some(frame)) => {
                bytes.clear();
                bytes.extend_from_slice(frame.bytes);
                remap.apply(&mut bytes, frame.is_whole);
                read.push(frame.time_ns, &bytes, 0, (name, number))?;
            }
            Ok(None) => break,
            Err(error) => return Ok(Read { failed: Some(error), ..read }),
        }
    }
    let c = reader.counts();
    (read.counts.packets, read.counts.truncated) = (c.wanted, c.truncated);
    read.counts.left_out =
        vec![("too-long", c.too_long), ("invalid", c.invalid), ("not-chosen", c.unmatched)];
    Ok(read)
}

/// The replacements that the flags state.
fn remap(args: &TestArgs) -> Remap {
    let replay = &args.replay;
    Remap {
        source_mac: replay.source_mac.map(|mac| mac.0),
        destination_mac: replay.destination_mac.map(|mac| mac.0),
        addresses: replay.map_address.iter().map(|pair| (pair.0, pair.1)).collect(),
        ports: replay.map_port.iter().map(|pair| (pair.0, pair.1)).collect(),
        new_checksums: replay.fix_checksums,
    }
}

/// The first flag that states one.
fn named_remap(args: &TestArgs) -> &'static str {
    let replay = &args.replay;
    match () {
        () if !replay.map_address.is_empty() => "--map-address",
        () if !replay.map_port.is_empty() => "--map-port",
        () if replay.source_mac.is_some() => "--source-mac",
        () if replay.destination_mac.is_some() => "--destination-mac",
        () => "--fix-checksums",
    }
}

fn list(left_out: &[(&'static str, u64)]) -> String {
    let all: Vec<String> = left_out.iter().map(|(what, n)| format!("{n} {what}")).collect();
    match all.is_empty() {
        true => "it has no packets".into(),
        false => format!("left out: {}", all.join(", ")),
    }
}
