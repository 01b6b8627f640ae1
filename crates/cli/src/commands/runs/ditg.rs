//! A run's packet log in the form of D-ITG's, for ITGDec.
//!
//! A packet log has times of monotonic clocks. D-ITG's has times of day: those of arrivals follow from the start of the run, and
//! those of sending from the relation of the two clocks.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;

use jiff::Timestamp;
use weir_model::plan::Direction;
use weir_model::record::{Flow, Record};
use weir_wire::ditg_log::Entry;
use weir_wire::header::ditg::DAY_NS;
use weir_wire::packets::{PacketLogReader, Record as Packet, RecordKind};

/// Why a run's packets can't be written in this form.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoPackets {
    /// The packet log can't be read.
    #[error("read {0}: {1}")]
    Log(String, io::Error),
    /// It has no form there.
    #[error("D-ITG's log has no form for it: {0}")]
    Form(String),
    /// The output.
    #[error("write: {0}")]
    Output(#[from] io::Error),
}

fn form<T>(reason: impl Into<String>) -> Result<T, NoPackets> {
    Err(NoPackets::Form(reason.into()))
}

/// Where and when the packets of a flow were sent and received.
struct Origin {
    source: SocketAddr,
    destination: SocketAddr,
    is_forward: bool,
    /// When its first packet arrived, s since the start of the run, and how many arrived.
    first_seconds: f64,
    packets: u64,
}

impl Origin {
    fn of(flow: &Flow) -> Result<Origin, NoPackets> {
        let Some(receiver) = flow.receiver.as_ref().filter(|_| flow.transport.datagrams()) else {
            return form(format!("flow {} has no received datagrams", flow.id));
        };
        let (source, destination) = match (flow.source.parse(), flow.destination.parse()) {
            (Ok(source), Ok(destination)) => (source, destination),
            _ => return form(format!("flow {} is not between addresses of IP", flow.id)),
        };
        Ok(Origin {
            source,
            destination,
            is_forward: flow.direction == Direction::Forward,
            first_seconds: receiver.start_seconds.unwrap_or(0.0),
            packets: receiver.packets,
        })
    }
}

/// Calls `each` with the packets of a log that arrived and have a number.
fn packets(
    log: &Path,
    mut each: impl FnMut(&Packet) -> Result<(), NoPackets>,
) -> Result<(), NoPackets> {
    let failed = |error: io::Error| NoPackets::Log(log.display().to_string(), error);
    let file = BufReader::new(File::open(log).map_err(failed)?);
    let mut reader = PacketLogReader::new(file).map_err(|e| failed(io::Error::other(e)))?;
    while let Some(packet) = reader.read().map_err(|e| failed(io::Error::other(e)))? {
        if [RecordKind::ARRIVED, RecordKind::LATE, RecordKind::DUPLICATE].contains(&packet.kind) {
            each(&packet)?;
        }
    }
    Ok(())
}

/// Writes the packets of a run, which its packet log has.
///
/// # Errors
/// [`NoPackets`]; nothing is written before the log is known to be the run's.
pub(super) fn write(record: &Record, log: &Path, out: &mut dyn Write) -> Result<(), NoPackets> {
    let Some(clock) = &record.clock else {
        return form("the clocks of the two ends are not related");
    };
    let Ok(started) = record.started_at.parse::<Timestamp>() else {
        return form(format!("its start is {:?}", record.started_at));
    };
    let origin = |flow: &Flow| Origin::of(flow).map(|origin| (flow.id, origin));
    let origins: BTreeMap<u32, Origin> =
        record.flows.iter().map(origin).collect::<Result<_, _>>()?;
    let start_ns = checked(&origins, log)?;
    let day_ns = started.as_nanosecond().rem_euclid(i128::from(DAY_NS)) as i64;
    packets(log, |packet| {
        let Some(origin) = origins.get(&packet.flow) else { return Ok(()) };
        let (Some(sent), Some(received)) = (packet.time1_ns, packet.time2_ns) else {
            return form("its packets have no times");
        };
        let since = received as i64 - start_ns;
        let ahead_ns = clock.offset_seconds * 1e9 + clock.skew_ratio * since as f64;
        // The sender's clock, as the receiver's shows it.
        let ahead_ns = if origin.is_forward { ahead_ns } else { -ahead_ns };
        let sent = (sent as i64).wrapping_add(ahead_ns.round() as i64) - start_ns;
        let of_day = |ns: i64| ns.wrapping_add(day_ns).rem_euclid(DAY_NS as i64) as u64;
        let entry = Entry {
            flow: packet.flow,
            number: packet.sequence.wrapping_add(1) as u32,
            source: (origin.source.ip(), origin.source.port()),
            destination: (origin.destination.ip(), origin.destination.port()),
            sent_ns: of_day(sent),
            received_ns: of_day(since),
            size_bytes: packet.size_bytes,
        };
        Ok(out.write_all(&entry.to_bytes())?)
    })
}

/// Checks that a log has the packets of these flows; returns the start of the run by the receiver's clock, ns.
fn checked(origins: &BTreeMap<u32, Origin>, log: &Path) -> Result<i64, NoPackets> {
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    let mut start_ns = None;
    packets(log, |packet| {
        let known = origins.get(&packet.flow);
        let Some(origin) = known.filter(|o| o.is_forward == (packet.direction == 0)) else {
            return form(format!(
                "the packet log has flow {}, which is not the run's",
                packet.flow
            ));
        };
        if packet.kind == RecordKind::ARRIVED {
            *counts.entry(packet.flow).or_default() += 1;
        }
        if let Some(at) = packet.time2_ns {
            let first = (origin.first_seconds * 1e9).round() as i64;
            start_ns.get_or_insert(at as i64 - first);
        }
        Ok(())
    })?;
    for (id, origin) in origins {
        let logged = counts.get(id).copied().unwrap_or(0);
        if logged != origin.packets {
            let received = origin.packets;
            return form(format!(
                "the packet log has {logged} packets of flow {id}, and the run {received}"
            ));
        }
    }
    start_ns.map_or_else(|| form("no packet arrived"), Ok)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::record::{ClockRelation, Receiver};
    use weir_wire::packets::PacketLogWriter;

    const MS: u64 = 1_000_000;

    /// A run of one flow of 3 packets, of which the receiver's clock is 5 s ahead, and its log.
    fn run(dir: &Path, skip: u64) -> (Record, std::path::PathBuf) {
        let receiver = Receiver { packets: 3, start_seconds: Some(0.25), ..Receiver::default() };
        let flow = Flow {
            id: 1,
            transport: weir_model::plan::TransportName::Udp,
            source: "192.0.2.1:4000".into(),
            destination: "192.0.2.2:9347".into(),
            receiver: Some(receiver),
            ..Flow::default()
        };
        let clock = ClockRelation { offset_seconds: 5.0, ..ClockRelation::default() };
        let record = Record {
            started_at: "2026-11-21T23:59:59.500Z".into(),
            clock: Some(clock),
            flows: vec![flow],
            ..Record::default()
        };
        let path = dir.join("packets");
        let mut log = PacketLogWriter::new(File::create(&path).unwrap(), "{}").unwrap();
        for n in (0..4).filter(|n| *n != 2 && *n != skip) {
            let sent = 70_000 * MS + n * 100 * MS;
            let packet = Packet {
                sequence: n,
                time1_ns: Some(sent),
                time2_ns: Some(sent + 5_000 * MS + 20 * MS),
                flow: 1,
                size_bytes: 160,
                copy: 0,
                kind: RecordKind::ARRIVED,
                direction: 0,
                flags: 0,
            };
            log.write(&packet).unwrap();
        }
        log.finish().unwrap();
        (record, path)
    }

    #[test]
    fn packets_have_the_times_of_the_day_of_the_run() {
        let dir = tempfile::tempdir().unwrap();
        let (record, log) = run(dir.path(), 9);
        let mut out = vec![];
        write(&record, &log, &mut out).unwrap();
        // The first arrived 250 ms after the start, before midnight, and the last one after it.
        let entry = |number, sent_ns, received_ns| Entry {
            flow: 1,
            number,
            source: ("192.0.2.1".parse().unwrap(), 4000),
            destination: ("192.0.2.2".parse().unwrap(), 9347),
            sent_ns,
            received_ns,
            size_bytes: 160,
        };
        let expected = [
            entry(1, DAY_NS - 270 * MS, DAY_NS - 250 * MS),
            entry(2, DAY_NS - 170 * MS, DAY_NS - 150 * MS),
            entry(4, 30 * MS, 50 * MS),
        ];
        assert_eq!(out, expected.map(|entry| entry.to_bytes()).concat());
    }

    #[test]
    fn itgdec_reads_the_figures_of_the_run() {
        let dir = tempfile::tempdir().unwrap();
        let (record, log) = run(dir.path(), 9);
        let record = Record { started_at: "2026-11-21T12:00:00Z".into(), ..record };
        let path = dir.path().join("recv.log");
        write(&record, &log, &mut File::create(&path).unwrap()).unwrap();
        let Ok(output) = std::process::Command::new("ITGDec").arg(&path).output() else {
            assert!(std::env::var_os("CI").is_none());
            println!("SKIPPED itgdec_reads_the_figures_of_the_run: no ITGDec");
            return;
        };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let figure = |name: &str| -> f64 {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap();
            let value = line.split('=').nth(1).unwrap().split_whitespace().next();
            value.unwrap().parse().unwrap()
        };
        assert_eq!((figure("Total packets"), figure("Bytes received")), (3.0, 480.0));
        assert_eq!(figure("Packets dropped"), 1.0);
        for (name, expected) in
            [("Total time", 0.3), ("Minimum delay", 0.02), ("Maximum delay", 0.02)]
        {
            assert!((figure(name) - expected).abs() < 2e-6, "{name}: {text}");
        }
    }

    #[test]
    fn a_log_of_another_run_and_a_run_without_packets_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (record, log) = run(dir.path(), 1);
        let refused = |record: &Record, log: &Path| {
            let mut out = vec![];
            let error = write(record, log, &mut out).unwrap_err();
            assert!(out.is_empty());
            matches!(error, NoPackets::Form(_))
        };
        assert!(refused(&record, &log), "a packet is missing");
        let (record, log) = run(dir.path(), 9);
        let other = |change: fn(&mut Flow)| {
            let mut record = record.clone();
            change(&mut record.flows[0]);
            record
        };
        assert!(refused(&other(|flow| flow.id = 2), &log));
        assert!(refused(&other(|flow| flow.direction = Direction::Reverse), &log));
        assert!(refused(&other(|flow| flow.receiver = None), &log));
        assert!(refused(&Record { clock: None, ..record.clone() }, &log));
        let missing = dir.path().join("missing");
        let error = write(&record, &missing, &mut vec![]).unwrap_err();
        assert!(matches!(error, NoPackets::Log(..)));
    }
}
