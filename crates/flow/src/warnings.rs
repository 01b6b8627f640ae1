//! Warnings that a reader needs before trusting the figures, derived from the record itself.

use weir_model::plan::{CatchUp, Direction, Family, FlowSpec};
use weir_model::record::{CpuEnd, Crossing, Flow, LedgerRow, LossLedger, Receiver, Record};
use weir_model::warning::{Severity, Warning};
use weir_stats::{LinkFamily, LinkShape, LinkTransport};
use weir_wire::header::{Carries, Epoch, Header};

use crate::sizes::Sizes;
use crate::socket_drops::{SocketDrops, socket_drops};
use weir_model::record::stage;

/// Code of the warning about datagrams with a wrong checksum.
pub(crate) const CHECKSUM_ERRORS: &str = "checksum-errors";

/// A processor busier than this was the limit.
const BUSY: f64 = 0.95;
/// Below this fraction of the busiest processor's time, this program was not the one that saturated it.
const OTHERS: f64 = 0.5;
/// Fraction of a stream's bytes above which retransmissions count as a possible limit of its rate.
const LOSSY: f64 = 1e-4;
/// Steal above this fraction affects times and rates.
const STEAL: f64 = 0.02;

/// A stream that waited for its window or its send buffer longer than this fraction of its busy time was limited by them.
const WINDOW_LIMITED: f64 = 0.5;
/// Less is enough where its rate is about window / round trip.
const OFTEN_LIMITED: f64 = 0.2;
/// From this fraction of window / round trip on, a rate is about that: acknowledgements are delayed.
const AT_BOUND: f64 = 0.75;
/// A requested rate counts as reached from this fraction of it on.
const KEPT: f64 = 0.95;
/// A sender was held up if more than this fraction of its slots were late, ...
const LATE: f64 = 0.1;
/// ... and a pause exceeded its gap by this much: otherwise it is the granularity of its wake-ups.
const PAUSE_SECONDS: f64 = 1e-3;

/// Adds the warnings that its figures require to `record.warnings`, after those already `found`.
pub(crate) fn add(
    record: &mut Record,
    specs: &[FlowSpec],
    path_mtu_bytes: Option<u32>,
    one_sided: bool,
    found: Vec<Warning>,
) {
    let mut out = found;
    cpu(record, specs, &mut out);
    let drops = socket_drops(record);
    for (flow, spec) in record.flows.iter().zip(specs) {
        if flow.transport.datagrams() {
            datagrams(flow, drops(flow.direction), spec, &mut out);
        } else {
            stream(record, flow, spec, &mut out);
        }
        fell_back(flow, &mut out);
        fragmented(flow, spec, path_mtu_bytes, &mut out);
        paced(flow, spec, &mut out);
        if !one_sided {
            missing_report(flow, &mut out);
            without_send_time(flow, spec, &mut out);
        }
    }
    if one_sided {
        let text = format!(
            "the far end ({}) does not report: the figures are those of this host alone",
            record.peer
        );
        out.push(Warning::new("one-sided", Severity::Info, text));
    }
    out.extend(checksum_errors(record));
    line(record, &mut out);
    delays(record, &mut out);
    record.warnings.extend(collapse(out));
}

/// Many flows with the same warning become a few that state how many more there are.
fn collapse(warnings: Vec<Warning>) -> Vec<Warning> {
    const MAX: usize = 4;
    let mut out: Vec<Warning> = vec![];
    let mut counts: std::collections::BTreeMap<String, usize> = Default::default();
    for w in warnings {
        let n = counts.entry(w.code.clone()).or_default();
        *n += 1;
        if *n <= MAX {
            out.push(w);
        }
    }
    for (code, n) in counts.into_iter().filter(|(_, n)| *n > MAX) {
        if let Some(last) = out.iter_mut().rev().find(|w| w.code == code) {
            last.text.push_str(&format!(" (and {} more flows)", n - MAX));
        }
    }
    out
}

fn end_of(record: &Record, local: bool) -> Option<&CpuEnd> {
    let cpu = record.cpu.as_ref()?;
    if local { cpu.local.as_ref() } else { cpu.remote.as_ref() }
}

fn cpu(record: &Record, specs: &[FlowSpec], out: &mut Vec<Warning>) {
    for (local, name) in [(true, "this host"), (false, "the other host")] {
        let Some(end) = end_of(record, local) else { continue };
        if end.steal_ratio > STEAL {
            out.push(
                Warning::new(
                    "cpu-stolen",
                    Severity::Warning,
                    format!("the hypervisor took {:.1} % of {name}'s processor time: rates and times are affected", 100.0 * end.steal_ratio),
                )
                .with_value(end.steal_ratio, STEAL),
            );
        }
        let Some(busiest) = end.busiest_core_ratio.filter(|b| *b >= BUSY) else { continue };
        let unlimited = |direction: Direction| {
            // By the plan: the sender's own report is missing if it became unreachable.
            record
                .flows
                .iter()
                .zip(specs)
                .any(|(f, spec)| f.direction == direction && !spec.is_paced())
        };
        let sends = unlimited(if local { Direction::Forward } else { Direction::Reverse });
        let receives = unlimited(if local { Direction::Reverse } else { Direction::Forward });
        // Only an end that sends can have missed its slots.
        let sending = if local { Direction::Forward } else { Direction::Reverse };
        let short = record.flows.iter().any(|f| {
            f.direction == sending
                && f.sender.as_ref().and_then(|s| s.missed_slots).unwrap_or(0) > 0
        });
        // A processor that is busy is no proof that it was the limit.
        let (code, severity, what) = match (sends, receives) {
            (true, _) if is_limited_by_loss(record, sending) => (
                "sender-cpu-bound",
                Severity::Info,
                "it or the loss of segments may have limited the rate",
            ),
            (true, _) => (
                "sender-cpu-bound",
                Severity::Warning,
                "it may have limited the rate, which is then not what the path can carry",
            ),
            (_, true) => (
                "receiver-cpu-bound",
                Severity::Warning,
                "it may have limited the rate, which is then not what the path can carry",
            ),
            _ if short => (
                "sender-cpu-bound",
                Severity::Warning,
                "it may be why the sender did not keep its rate",
            ),
            _ => continue,
        };
        // A thread of this program alone cannot have filled a processor that it used less of.
        let own = end.process_user_ratio + end.process_system_ratio;
        let contributors = if own < OTHERS * busiest {
            format!(
                ", with other programs and the kernel's own work (weir itself used {:.0} %)",
                100.0 * own
            )
        } else {
            String::new()
        };
        out.push(
            Warning::new(
                code,
                severity,
                format!(
                    "a processor of {name} was {:.0} % busy{contributors}: {what}",
                    100.0 * busiest
                ),
            )
            .with_value(busiest, BUSY),
        );
    }
}

/// Whether all flows of a direction are streams that retransmitted more than [`LOSSY`] of their bytes: then
/// congestion control had reason to slow down.
fn is_limited_by_loss(record: &Record, direction: Direction) -> bool {
    let mut flows = record.flows.iter().filter(|f| f.direction == direction).peekable();
    flows.peek().is_some()
        && flows.all(|f| {
            let bytes = f.sender.as_ref().map_or(0, |s| s.bytes) as f64;
            let lost =
                f.tcp.as_ref().map_or(0.0, |t| f64::from(t.mss_bytes) * t.retransmits as f64);
            lost > LOSSY * bytes
        })
}

/// Datagrams that the kernel of a receiving host dropped for a wrong checksum: by the ledger, where there is one.
pub(crate) fn checksum_errors(record: &Record) -> Vec<Warning> {
    let by_counters = || {
        let drops = socket_drops(record);
        let received = |direction: Direction| {
            record.flows.iter().any(|f| f.transport.datagrams() && f.direction == direction)
        };
        let ends = [(Direction::Forward, "remote"), (Direction::Reverse, "local")];
        let ends = ends.into_iter().filter(|(direction, _)| received(*direction));
        let ends = ends.take(if record.is_one_namespace() { 1 } else { 2 });
        ends.map(|(direction, side)| (drops(direction).damaged().packets, false, side)).collect()
    };
    let by_ledger = |ledger: &LossLedger| {
        let rows = ledger.rows.iter().filter(|row| row.stage == stage::DAMAGED);
        let side =
            |row: &LedgerRow| if row.side.as_deref() == Some("local") { "local" } else { "remote" };
        let placed = ledger.rows.iter().filter(|row| row.kind == "exact").map(|row| row.packets);
        let placed = i64::try_from(placed.fold(0, u64::saturating_add)).unwrap_or(i64::MAX);
        // Of this test's datagrams, at most those that nothing else explains.
        let left = u64::try_from(ledger.missing_packets.saturating_sub(placed)).unwrap_or(0);
        let most = |row: &LedgerRow| match row.kind == "exact" {
            true => row.packets,
            false => row.packets.min(left),
        };
        rows.map(|row| (most(row), row.kind == "exact", side(row))).collect()
    };
    let found: Vec<_> = record.loss_ledger.as_ref().map_or_else(by_counters, by_ledger);
    let warning = |(packets, is_exact, side)| {
        let host = if side == "local" { "this host" } else { "the other host" };
        let text = if is_exact {
            format!(
                "{host} dropped {packets} UDP datagrams with a wrong checksum: they were damaged on the path"
            )
        } else {
            format!(
                "up to {packets} UDP datagrams of this test were damaged on the path: {host} dropped them, or datagrams of other programs, for a wrong checksum"
            )
        };
        Warning::new(CHECKSUM_ERRORS, Severity::Warning, text).with_value(packets as f64, 0.0)
    };
    found.into_iter().filter(|(packets, ..)| *packets > 0).map(warning).collect()
}

/// A stream that another transport carried.
fn fell_back(f: &Flow, out: &mut Vec<Warning>) {
    let Some(carrier) = f.carried_by else { return };
    let text = format!(
        "{} fell back to {}: the peer or the path does not support it; the figures are those of {}",
        f.transport.title(),
        carrier.title(),
        carrier.title()
    );
    out.push(Warning::new("transport-fallback", Severity::Warning, text).for_flow(f.id));
}

/// Number of sizes of a law that are looked at.
const MAX_SIZES: u64 = 100_000;

/// Datagrams that don't fit into a packet of the path.
fn fragmented(f: &Flow, spec: &FlowSpec, path_mtu_bytes: Option<u32>, out: &mut Vec<Warning>) {
    let datagrams = f.transport.headers().filter(|_| f.transport.datagrams() && f.transport.ip());
    let (Some(mtu), Some(headers)) = (path_mtu_bytes, datagrams) else { return };
    let family = if f.family == Some(Family::Ipv6) { LinkFamily::Ipv6 } else { LinkFamily::Ipv4 };
    let shape = LinkShape {
        mtu_bytes: mtu,
        ..LinkShape::new(LinkTransport::datagrams(headers.bytes), family)
    };
    let fragments = |bytes: u64| shape.packet(bytes).frames;
    let sizes = Sizes::of(spec);
    let (what, packets) = if sizes.is_constant() {
        let packets = fragments(spec.max_payload());
        (format!("each datagram of {} bytes is sent as {packets}", spec.max_payload()), packets)
    } else if fragments(spec.max_payload()) > 1 {
        let sent = f.sender.as_ref().map_or(MAX_SIZES, |s| s.packets.min(MAX_SIZES));
        let drawn = (0..sent).map(|number| fragments(sizes.at(number) as u64));
        let (mut most, mut count) = (1, 0_u32);
        for packets in drawn.filter(|packets| *packets > 1) {
            most = most.max(packets);
            count += 1;
        }
        let fraction = match 100.0 * f64::from(count) / sent.max(1) as f64 {
            percentage if percentage < 0.01 => "less than 0.01".to_owned(),
            percentage => format!("{percentage:.2}"),
        };
        let pieces = if most > 2 { format!("2 to {most}") } else { "2".into() };
        (format!("{fraction} % of the datagrams are sent as {pieces}"), most)
    } else {
        return;
    };
    if packets > 1 {
        let text = format!(
            "{what} IP fragments (path MTU {mtu} bytes): one lost fragment loses the datagram"
        );
        let warning = Warning::new("fragmented", Severity::Info, text);
        out.push(warning.with_value(packets as f64, 1.0).for_flow(f.id));
    }
}

/// What the header of a flow carries, and the payload that it has to fit into, bytes: the smallest one.
fn header(spec: &FlowSpec) -> (Carries, u64) {
    let payload = spec.size.moments().min_bytes;
    let size = usize::try_from(payload).unwrap_or(usize::MAX);
    (Header::new(spec.connection.header, size).carries(), payload)
}

/// Datagrams whose header has no send time of a known clock.
fn without_send_time(f: &Flow, spec: &FlowSpec, out: &mut Vec<Warning>) {
    if !f.transport.datagrams() {
        return;
    }
    let (carries, payload) = header(spec);
    let format = spec.connection.header;
    let (cause, absent) = match carries.time.map(|time| time.epoch) {
        Some(Epoch::Monotonic) => return,
        Some(Epoch::Realtime) => {
            (format!("header {format} has a send time of the sender's realtime clock"), "")
        }
        Some(Epoch::Midnight) => {
            (format!("header {format} has a time of day of the sender's clock"), "")
        }
        Some(Epoch::Undefined) => {
            (format!("header {format} has a send time of an unknown clock"), "")
        }
        None if format.numbered() => {
            (format!("payloads of {payload} bytes have no room for a send time"), "jitter, ")
        }
        None => (format!("header {format} has no send time"), "jitter, "),
    };
    let text = format!("{cause}: {absent}one-way delay, PDV and IPDV are absent");
    out.push(Warning::new("header-limited", Severity::Info, text).for_flow(f.id));
}

/// The reason why a flow's sequence numbers are ambiguous.
fn ambiguity(f: &Flow, r: &Receiver, spec: &FlowSpec) -> String {
    let (carries, payload) = header(spec);
    let format = spec.connection.header;
    let is_contradicted = f.sender.as_ref().is_some_and(|s| {
        r.lost_packets.is_some_and(|lost| r.packets.saturating_add(lost) > s.packets)
    });
    let is_contradicted = is_contradicted || !carries.tag && r.duplicate_packets.is_none();
    match carries.sequence_bits {
        0 if !format.numbered() => format!("header {format} has no sequence number"),
        0 => format!("payloads of {payload} bytes carry no sequence number"),
        bits @ ..64 => format!(
            "payloads of {payload} bytes carry a sequence number of {bits} bits, and more datagrams may have been missing than these can distinguish"
        ),
        _ if is_contradicted => "higher sequence numbers arrived than the sender counts".into(),
        _ if r.late_packets.is_some_and(|late| late > 0) => {
            "datagrams arrived so late that they may also be copies".into()
        }
        _ => "more datagrams were missing than the receiver tracks, and some were given up before the loss threshold".into(),
    }
}

fn datagrams(f: &Flow, drops: SocketDrops, spec: &FlowSpec, out: &mut Vec<Warning>) {
    let refused = f.sender.as_ref().and_then(|s| s.refused_sends);
    if let Some(refused) = refused {
        out.push(
            Warning::new(
                "port-unreachable",
                Severity::Warning,
                format!("the receiver's host reported {refused} times that nothing listens on the port (ICMP port unreachable): datagrams sent then did not arrive"),
            )
            .with_value(refused as f64, 0.0)
            .for_flow(f.id),
        );
    }
    let Some(r) = &f.receiver else { return };
    let overflow = drops.overflow(r.socket_dropped_packets.unwrap_or(0));
    if overflow.packets > 0 {
        let buffer = r.buffer_bytes.unwrap_or(0);
        let most = if overflow.exact { "" } else { "up to " };
        let dropped = overflow.packets;
        out.push(
            Warning::new(
                "socket-overflow",
                Severity::Warning,
                format!(
                    "the receiver's socket buffer ({buffer} bytes) overflowed: the receiving host dropped {most}{dropped} {}, not the path; the receiver could not keep up, or net.core.rmem_max is too small",
                    if r.crossing == Some(Crossing::Coalesced) { "buffers (each may hold many datagrams)" } else { "datagrams" },
                ),
            )
            .with_value(dropped as f64, 0.0)
            .for_flow(f.id),
        );
    }
    let full = f.sender.as_ref().and_then(|s| s.sleeps);
    if let Some(full) = full.filter(|full| *full > 0 && f.transport.backpressure()) {
        let what = f.transport.title();
        out.push(
            Warning::new(
                "backpressure",
                Severity::Info,
                format!("the receiver's queue was full {full} times and the sender waited: {what} sockets lose nothing, the rate is the receiver's"),
            )
            .with_value(full as f64, 0.0)
            .for_flow(f.id),
        );
    }
    if let Some(user) = r.user_timed_messages.filter(|n| *n > 0) {
        out.push(
            Warning::new(
                "user-timed",
                Severity::Warning,
                format!("{user} messages arrived without a kernel receive stamp and were timed when they were read: their jitter and delay include the receiver's own wait for the processor"),
            )
            .with_value(user as f64, 0.0)
            .for_flow(f.id),
        );
    }
    if let Some(omitted) = r.delay_variation.as_ref().and_then(|v| v.ipdv_omitted_ratio()) {
        out.push(
            Warning::new(
                "ipdv-censored",
                Severity::Warning,
                format!("{:.2} % of the pairs of consecutive packets are missing from IPDV, because they were reordered by more than the receiver stores: its mean and percentile are lower bounds", 100.0 * omitted),
            )
            .with_value(omitted, 0.0)
            .for_flow(f.id),
        );
    }
    if r.crossing == Some(Crossing::Coalesced) {
        out.push(
            Warning::new(
                "coalesced",
                Severity::Info,
                "datagrams reached the receiver coalesced into super-packets: packet rates are not comparable to per-packet rates, and times are of batches; `gso` and `gro` off measure per-packet",
            )
            .for_flow(f.id),
        );
    }
    if r.ambiguous == Some(true) {
        // A flow that is only counted reports none of these.
        let consequence = if r.duplicate_packets.is_none() {
            "the datagrams are only counted: losses are sent minus received, and loss periods, duplicates and reordering are unknown"
        } else {
            "loss periods, duplicates and reordering may be wrong; totals agree with the sender's count"
        };
        let text = format!("{}: {consequence}", ambiguity(f, r, spec));
        out.push(Warning::new("ambiguous-sequence", Severity::Info, text).for_flow(f.id));
    }
    if r.packets == 0
        && r.reported_until_seconds.is_none()
        && f.sender.as_ref().is_some_and(|s| s.packets > 0)
    {
        let text = match &r.membership {
            Some(member) => format!("no datagram to {} arrived: look for a TTL (`ttl`) that does not reach the receiver, a switch or router that does not forward the group, and a firewall", member.group),
            None => "no datagram arrived, although the session's hello did: look for a firewall or an MTU on the path".into(),
        };
        out.push(Warning::new("nothing-arrived", Severity::Error, text).for_flow(f.id));
    }
    if r.membership.as_ref().is_some_and(|member| member.left_seconds.is_some())
        && r.lost_packets.is_none()
        && r.reported_until_seconds.is_none()
    {
        let text = "the loss is unknown, since it is unknown which packet was the last one sent before the receiver left the group: no packet arrived right before leaving, none was seen right after it, and the sender did not keep to a constant rate";
        out.push(Warning::new("membership-end-unknown", Severity::Warning, text).for_flow(f.id));
    }
    if let (Some(got), Some(asked)) = (r.buffer_bytes, spec.connection.window)
        && got < asked.0
    {
        let limit = match &r.membership {
            Some(_) => "net.core.rmem_max, or the server's limit of memberships in all",
            None => "net.core.rmem_max",
        };
        out.push(
            Warning::new(
                "buffer-small",
                Severity::Warning,
                format!(
                    "the receive buffer is {got} bytes, less than the {asked} requested ({limit})"
                ),
            )
            .with_value(got as f64, asked.0 as f64)
            .for_flow(f.id),
        );
    }
}

fn stream(record: &Record, f: &Flow, spec: &FlowSpec, out: &mut Vec<Warning>) {
    if let Some(missing) = f.receiver.as_ref().and_then(|r| r.undelivered_bytes).filter(|m| *m > 0)
    {
        out.push(
            Warning::new(
                "not-drained",
                Severity::Warning,
                format!("{missing} bytes that the sender had written had not arrived when the receiver stopped waiting: they are not in the receiver's figures"),
            )
            .with_value(missing as f64, 0.0)
            .for_flow(f.id),
        );
    }
    let Some(tcp) = &f.tcp else { return };
    let Some(window) = spec.connection.window else { return };
    let received = f.receiver.as_ref().and_then(|r| r.bits_per_second);
    let carried = received.or_else(|| f.sender.as_ref()?.bits_per_second);
    let nominal = record.link_usage.as_ref().map(|l| l.nominal_bits_per_second as f64);
    let asked = spec.bits_per_second();
    if carried.zip(asked).is_some_and(|(carried, asked)| carried >= KEPT * asked) {
        return;
    }
    let receiver = tcp.receive_window_limited_ratio.unwrap_or(0.0);
    let sender = tcp.send_buffer_limited_ratio.unwrap_or(0.0);
    let waiting = receiver + sender;
    let rtt = tcp.min_rtt_seconds.or(tcp.rtt_seconds).filter(|rtt| *rtt > 0.0);
    // The kernel's window differs from the requested one; for the sender's buffer only the latter is known.
    let in_force = tcp.send_window_bytes.or(tcp.receive_window_bytes).filter(|_| receiver > 0.0);
    let bytes = in_force.unwrap_or(window.0);
    let bound = rtt.map(|rtt| 8.0 * bytes as f64 / rtt);
    let is_at_bound =
        carried.zip(bound).is_some_and(|(carried, bound)| carried >= AT_BOUND * bound);
    if waiting <= WINDOW_LIMITED && !(is_at_bound && waiting > OFTEN_LIMITED) {
        return;
    }
    let mut text = format!(
        "a window of {window} limited the stream: it waited for the receive window {:.0} % and for the send buffer {:.0} % of its busy time",
        100.0 * receiver,
        100.0 * sender
    );
    if let (Some(bound), Some(rtt)) = (bound, rtt) {
        text.push_str(&format!(
            "; {bytes} bytes / round trip is {:.2} Mbit/s at {:.3} ms",
            bound / 1e6,
            1e3 * rtt
        ));
        if let Some(wanted) = asked.or(nominal).filter(|wanted| *wanted > bound) {
            let needed = wanted * rtt / 8.0;
            text.push_str(&format!(
                ", and {:.2} Mbit/s need a window of {needed:.0} bytes",
                wanted / 1e6
            ));
        }
    }
    let warning = Warning::new("window-limited", Severity::Warning, text).for_flow(f.id);
    out.push(warning.with_value(waiting, WINDOW_LIMITED));
}

fn paced(f: &Flow, spec: &FlowSpec, out: &mut Vec<Warning>) {
    let Some(s) = &f.sender else { return };
    let pause = s.spacing.as_ref().map_or(0.0, |spacing| spacing.max_seconds);
    let asked = spec.packets_per_second().filter(|rate| *rate > 0.0).map(f64::recip);
    let is_timed = spec.connection.packets.is_none() && spec.connection.bytes.is_none();
    let seconds = s.seconds;
    if let Some(gap) = asked
        && (f.transport.datagrams() && is_timed && s.packets == 1 && gap > seconds)
    {
        let rate = spec.rate;
        out.push(
            Warning::new(
                "rate-below-one-packet",
                Severity::Warning,
                format!("at {rate} there is a packet every {gap:.1} s, which is longer than the test: only one was sent, and its rate is not the one asked for (units: 100k, 100M, 100pps)"),
            )
            .with_value(gap, seconds)
            .for_flow(f.id),
        );
    }
    if let (Some(slots), Some(late)) = (s.intended_slots, s.late_slots)
        && f.transport.datagrams()
        && late as f64 > LATE * slots as f64
        && pause > PAUSE_SECONDS
    {
        let fraction = late as f64 / slots as f64;
        out.push(
            Warning::new(
                "late-slots",
                Severity::Warning,
                format!("{late} of {slots} sending slots ({:.1} %) were served more than one period late, after pauses of up to {:.1} ms: the sending host delayed the sender; delays from the scheduled send time include it", 100.0 * fraction, 1e3 * pause),
            )
            .with_value(fraction, LATE)
            .for_flow(f.id),
        );
    }
    if let (Some(datagrams), Some(late)) = (s.intended_slots, s.late_slots)
        && spec.connection.transfers_datagrams()
        && late as f64 > LATE * datagrams as f64
    {
        let fraction = late as f64 / datagrams as f64;
        let text = format!(
            "{late} of {datagrams} datagrams of transfers ({:.1} %) were sent more than one interval of their transfer late: the sending host delayed them, and completion times include it",
            100.0 * fraction
        );
        let warning = Warning::new("late-transfers", Severity::Warning, text);
        out.push(warning.with_value(fraction, LATE).for_flow(f.id));
    }
    let (Some(slots), Some(missed)) = (s.intended_slots, s.missed_slots) else { return };
    if missed > 0 {
        let fraction = missed as f64 / slots.max(1) as f64;
        // Where its window is full, a stream waits: that is no limit of the host.
        let is_stream = !f.transport.datagrams();
        let policy = match spec.connection.catch_up {
            CatchUp::None => {
                "the catch-up policy is none; spread:P% and burst:N make up for late slots"
            }
            CatchUp::Burst(_) => {
                "the backlog exceeded what burst:N makes up, or 100 ms, or sending ended before it was made up"
            }
            _ if is_stream => {
                "the path, the receiver or a window accepted less for more than 100 ms, or sending ended before it was made up"
            }
            _ => "the backlog exceeded 100 ms, or sending ended before it was made up",
        };
        out.push(
            Warning::new(
                "missed-slots",
                if fraction > 0.001 && !is_stream { Severity::Warning } else { Severity::Info },
                format!("{missed} of {slots} sending slots were skipped ({:.3} %): {policy}; the sent rate is lower than requested by that fraction", 100.0 * fraction),
            )
            .with_value(missed as f64, 0.0)
            .for_flow(f.id),
        );
    }
    let kernel_pacing = spec.connection.transport.ip().and_then(|ip| ip.kernel_pacing);
    if kernel_pacing.is_some() && f.transport.pacing_needs_fq() {
        out.push(
            Warning::new(
                "kernel-pacing",
                Severity::Info,
                "SO_MAX_PACING_RATE paces UDP only under the fq qdisc at the egress interface",
            )
            .for_flow(f.id),
        );
    }
}

/// Warns of an end without a final report. A flow of datagrams has both ends once one of them has started; a flow
/// that has neither has not started.
fn missing_report(f: &Flow, out: &mut Vec<Warning>) {
    let receiver = f.receiver.as_ref().map(|r| r.reported_until_seconds);
    let sender = f.sender.as_ref().map(|s| s.reported_until_seconds);
    let began = f.transport.datagrams() && (receiver.is_some() || sender.is_some());
    for (end, did, reported) in [("receiver", "received", receiver), ("sender", "sent", sender)] {
        let text = match reported {
            Some(Some(until)) => format!(
                "the {end} sent no final report: its figures are those reported until {until:.2} s; later ones are unknown"
            ),
            None if began => format!(
                "the {end} sent no final report and no figures of this flow: what it {did} is unknown, and so is the loss"
            ),
            _ => continue,
        };
        out.push(Warning::new("end-lost", Severity::Warning, text).for_flow(f.id));
    }
}

fn line(record: &Record, out: &mut Vec<Warning>) {
    let Some(usage) = &record.link_usage else { return };
    // IEEE 802.3 allows a transmitter 100 ppm.
    let bound = 1.0 + 100e-6;
    if usage.wire_ratio > bound {
        out.push(
            Warning::new(
                "above-line-rate",
                Severity::Error,
                format!("{:.2} % of the nominal rate on the wire: more than a line of {} bit/s can carry; the nominal rate is not that of the path, or a figure is wrong", 100.0 * usage.wire_ratio, usage.nominal_bits_per_second),
            )
            .with_value(usage.wire_ratio, bound),
        );
    }
}

fn delays(record: &Record, out: &mut Vec<Warning>) {
    for f in &record.flows {
        let Some(d) = f.receiver.as_ref().and_then(|r| r.one_way_delay.as_ref()) else { continue };
        let error = d.error_seconds.unwrap_or(0.0);
        let by = match record.clock.as_ref().and_then(|c| c.source.as_deref()) {
            None | Some("probes") => "no better than half the round trip".to_string(),
            Some(service) => format!("no better than {service} bounds them"),
        };
        if d.negative_samples.is_some() && -d.min_seconds > error {
            out.push(Warning::new("clock-relation", Severity::Error, format!("one-way delays below zero by more than the stated error: the clocks' relation did not hold (minimum {:.6} s, error {error:.6} s)", d.min_seconds)).with_value(d.min_seconds, -error).for_flow(f.id));
        } else if error > d.mean_seconds.abs() && d.count > 0 {
            out.push(Warning::new("delay-error", Severity::Info, format!("the error bound of one-way delay ({:.0} µs) is larger than the delay itself: the hosts' clocks are related {by}", 1e6 * error)).with_value(error, d.mean_seconds).for_flow(f.id));
        }
    }
}
