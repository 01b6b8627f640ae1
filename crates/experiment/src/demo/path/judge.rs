//! Judging a row: counts against the law's own interval and exactly against each other, times against the prediction
//! within the calibrated noise floor. Pure: evidence in, lines with verdicts out.

use std::collections::BTreeSet;

use weir_model::counted;
use weir_model::impairment::{CountInterval, Delay, Impairment, Laws, OTHER};
use weir_model::plan::Direction;
use weir_model::record::{self, Receiver};
use weir_wire::packets::{self, FLAG_REORDERED, Judged, RecordKind};

use super::cases::{Claim, FlowClaim, PathCase};
use super::conditions::{Conditions, LATE_NS, LATE_RATIO};
use super::evidence::{Evidence, Prediction};
use crate::demo::{Verdict, excused};
use crate::triangulation::{Triangulation, moments, quantile};

/// Half-width, in standard deviations, of the interval that a normal variable leaves with probability 10⁻⁹.
const DEVIATIONS: f64 = 6.109_410_2;
/// Whole nanoseconds are compared with means.
const ROUNDING_NS: f64 = 0.5;

/// The value of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// Packets; a mean has a fraction.
    Packets(f64),
    /// Bytes.
    Bytes(u64),
    /// A time in seconds.
    Seconds(f64),
    /// Payload rate.
    BitsPerSecond(f64),
}

/// The tolerance of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tolerance {
    /// By nothing.
    Exact,
    /// The realised count lies within these bounds, inclusive; the measured one equals it.
    Between(u64, u64),
    /// Realised and measured differ by at most this, in the line's unit.
    PlusMinus(Value),
}

/// One figure: asked, realised, measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Flow of the test.
    pub flow: u32,
    /// What is compared.
    pub figure: &'static str,
    /// By the laws.
    pub asked: Value,
    /// From the emulator's packet trace.
    pub realised: Option<Value>,
    /// By the receiver.
    pub measured: Option<Value>,
    /// The tolerance.
    pub tolerance: Tolerance,
    /// Whether it holds.
    pub verdict: Verdict,
}

/// Packet by packet, over all flows of a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Agreement {
    /// Sent.
    pub sent: u64,
    /// Packets on whose disposition emulator and receiver agree.
    pub matched: u64,
    /// Sent less received less all accounted losses.
    pub remainder: i64,
    /// Dispositions (copies included) that match the prediction from seed and arrivals.
    pub predicted: u64,
    /// Dispositions that do not.
    pub unpredicted: u64,
    /// Dropped by the emulator without a law.
    pub unplanned: u64,
}

/// The judgement of a row.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// The figures.
    pub lines: Vec<Line>,
    /// Packet by packet.
    pub agreement: Agreement,
    /// Measured delay less the emulator's, of each packet, ns, ascending: the error of tool and hosts.
    pub residual_ns: Vec<i64>,
    /// Departure later than asked, of each packet, ns, ascending: the emulator's lateness.
    pub lateness_ns: Vec<i64>,
    /// The overall verdict: failed before undecided before passed.
    pub verdict: Verdict,
    /// A count, a byte or a disposition is wrong: no load of the host explains that.
    pub is_fault: bool,
}

impl Judgement {
    /// Whether repeating the row may change its verdict: it is undecided, or only times failed, which load may have
    /// shifted unseen.
    #[must_use]
    pub(crate) fn is_open(&self) -> bool {
        match self.verdict {
            Verdict::Passed => false,
            Verdict::Undecided(_) => true,
            Verdict::Failed(_) => !self.is_fault,
        }
    }

    /// The part that a record stores.
    #[must_use]
    pub(crate) fn triangulation(&self) -> record::Triangulation {
        let a = &self.agreement;
        let at = |q| quantile(&self.residual_ns, q).map(|ns| ns as f64 / 1e9);
        let residual = || {
            Some(record::Residual {
                count: self.residual_ns.len() as u64,
                min_seconds: at(0.0)?,
                p50_seconds: at(0.5)?,
                p99_seconds: at(0.99)?,
                max_seconds: at(1.0)?,
            })
        };
        record::Triangulation {
            matched_packets: a.matched,
            disagreeing_packets: a.sent.saturating_sub(a.matched),
            predicted_dispositions: a.predicted,
            unpredicted_dispositions: a.unpredicted,
            residual: residual(),
        }
    }
}

/// Judges a row.
#[must_use]
pub fn judge(case: &PathCase, evidence: &Evidence, conditions: &Conditions) -> Judgement {
    let mut out = Judgement {
        lines: vec![],
        agreement: Agreement::default(),
        residual_ns: vec![],
        lateness_ns: vec![],
        verdict: Verdict::Passed,
        is_fault: false,
    };
    let mut verdicts = vec![];
    let mut joined = BTreeSet::new();
    for claim in &case.claims {
        if claim.claim == Claim::EveryByte {
            out.lines.push(every_byte(claim, case, evidence));
            verdicts.push(stream_dispositions(
                claim,
                case,
                evidence,
                conditions,
                &mut out.agreement,
            ));
            continue;
        }
        let Some(flow) = FlowEvidence::of(claim, case, evidence) else {
            verdicts.push(Verdict::Failed(format!("flow {} did not report", claim.flow)));
            continue;
        };
        if joined.insert(claim.flow) {
            verdicts.push(flow.agree(conditions, &mut out.agreement));
            out.residual_ns.extend(&flow.joined.residual_ns);
            out.lateness_ns.extend(&flow.joined.lateness_ns);
        }
        flow.lines(&flow.conditions(conditions), &mut out.lines);
    }
    out.residual_ns.sort_unstable();
    out.lateness_ns.sort_unstable();
    if let Some(ledger) = &evidence.record.loss_ledger
        && ledger.remainder_packets != 0
    {
        let (rest, missing) = (ledger.remainder_packets, ledger.missing_packets);
        verdicts.push(Verdict::Failed(format!(
            "{rest} of {missing} missing packets are not in the loss ledger"
        )));
    }
    let of_time = |line: &&Line| matches!(line.asked, Value::Seconds(_) | Value::BitsPerSecond(_));
    let (times, counts): (Vec<&Line>, Vec<&Line>) = out.lines.iter().partition(of_time);
    verdicts.extend(counts.into_iter().map(|line| line.verdict.clone()));
    out.is_fault = verdicts.iter().any(|verdict| matches!(verdict, Verdict::Failed(_)));
    verdicts.extend(times.into_iter().map(|line| line.verdict.clone()));
    out.verdict = worst(verdicts);
    out
}

/// Failed before undecided before passed; the first of equals.
fn worst(verdicts: Vec<Verdict>) -> Verdict {
    let rank = |verdict: &Verdict| match verdict {
        Verdict::Failed(_) => 0,
        Verdict::Undecided(_) => 1,
        Verdict::Passed => 2,
    };
    verdicts.into_iter().min_by_key(rank).unwrap_or(Verdict::Passed)
}

/// A count with a known law: realised within the law's interval, measured exactly as realised. A difference of at
/// most `host_lost` packets, which the host's own counters report as lost, is undecided.
#[must_use]
pub(crate) fn count_line(
    flow: u32,
    figure: &'static str,
    law: &CountInterval,
    realised: u64,
    measured: Option<u64>,
    host_lost: u64,
) -> Line {
    let verdict = if measured != Some(realised) {
        let is_by_host = measured.is_some_and(|m| m.abs_diff(realised) <= host_lost);
        let measured = measured.map_or_else(|| "nothing".into(), |m| m.to_string());
        let reason = format!("{figure}: {realised} realised, {measured} measured");
        if is_by_host {
            Verdict::Undecided(format!("{reason}, and the host lost up to {host_lost} packets"))
        } else {
            Verdict::Failed(reason)
        }
    } else if !law.holds(realised) {
        let (low, high) = (law.low, law.high);
        Verdict::Failed(format!("{figure}: {realised}, the law gives {low} to {high}"))
    } else {
        Verdict::Passed
    };
    Line {
        flow,
        figure,
        asked: Value::Packets(law.mean),
        realised: Some(Value::Packets(realised as f64)),
        measured: measured.map(|m| Value::Packets(m as f64)),
        tolerance: if law.low == law.high {
            Tolerance::Exact
        } else {
            Tolerance::Between(law.low, law.high)
        },
        verdict,
    }
}

/// A figure with a known error of hosts: realised and measured must be within `tolerance` of what was asked. Outside
/// it the line is undecided if the host was limited. All in the unit of `unit`.
#[must_use]
pub(crate) fn time_line(
    flow: u32,
    figure: &'static str,
    unit: fn(f64) -> Value,
    [asked, realised, measured]: [Option<f64>; 3],
    tolerance: f64,
    host_limited: Option<&str>,
) -> Line {
    // NaN is within no tolerance.
    let is_near = |value: Option<f64>| match (value, asked) {
        (Some(value), Some(asked)) => (value - asked).abs() <= tolerance,
        _ => false,
    };
    let verdict = match (is_near(realised), is_near(measured), host_limited) {
        (true, true, _) => Verdict::Passed,
        (_, _, Some(what)) => Verdict::Undecided(format!("{figure} is wrong, and {what}")),
        (false, _, None) => {
            Verdict::Failed(format!("{figure}: the emulator did not realise the requested value"))
        }
        (true, false, None) => {
            Verdict::Failed(format!("{figure}: the measured value is not the requested one"))
        }
    };
    Line {
        flow,
        figure,
        asked: unit(asked.unwrap_or(f64::NAN)),
        realised: realised.map(unit),
        measured: measured.map(unit),
        tolerance: Tolerance::PlusMinus(unit(tolerance)),
        verdict,
    }
}

fn every_byte(claim: &FlowClaim, case: &PathCase, evidence: &Evidence) -> Line {
    let found = evidence.record.flows.iter().find(|f| f.id == claim.flow);
    let sent = found.and_then(|f| f.sender.as_ref()).map(|s| s.bytes);
    let received = found.and_then(|f| f.receiver.as_ref()).map(|r| r.bytes);
    let limit = case.plan.connections.first().and_then(|c| c.bytes).map(|b| b.0);
    let asked = limit.or(sent).unwrap_or(0);
    let verdict = match received {
        Some(bytes) if bytes == asked && sent == received && bytes > 0 => Verdict::Passed,
        Some(bytes) => Verdict::Failed(format!("{asked} bytes asked, {bytes} received")),
        None => Verdict::Failed("the receiver did not report".into()),
    };
    Line {
        flow: claim.flow,
        figure: "bytes",
        asked: Value::Bytes(asked),
        realised: None,
        measured: received.map(Value::Bytes),
        tolerance: Tolerance::Exact,
        verdict,
    }
}

/// The packets of a stream can't be joined, but each frame that crossed has its disposition, in both directions.
fn stream_dispositions(
    claim: &FlowClaim,
    case: &PathCase,
    evidence: &Evidence,
    conditions: &Conditions,
    sum: &mut Agreement,
) -> Verdict {
    let mut times = 0;
    for direction in [Direction::Forward, Direction::Reverse] {
        match evidence.prediction(&case.impairment, claim.emulator_flow, claim.flow, direction) {
            Err(reason) => return Verdict::Failed(format!("no prediction: {reason}")),
            Ok(p) => {
                sum.predicted += p.matched;
                sum.unpredicted += p.differing;
                times += p.differing_times;
            }
        }
    }
    match sum.unpredicted {
        0 => Verdict::Passed,
        differing => unpredicted(claim.flow, differing, times, conditions),
    }
}

/// The verdict on dispositions that differ from the prediction. A packet that the host delivered to the emulator
/// after its time can't be released in its turn: under load, other departure times are no fault, other dispositions
/// are.
fn unpredicted(flow: u32, differing: u64, times: u64, conditions: &Conditions) -> Verdict {
    let reason = format!(
        "flow {flow}: {differing} dispositions differ from the prediction by seed and arrivals"
    );
    let host_limited = conditions.host_limited.as_deref().filter(|_| times == differing);
    excused(reason, host_limited)
}

/// The evidence on one flow.
struct FlowEvidence<'a> {
    claim: &'a FlowClaim,
    laws: Laws,
    joined: Triangulation,
    prediction: Result<Prediction, String>,
    payload_bytes: u64,
    sent: u64,
    receiver: &'a Receiver,
    /// Departures and arrivals of the flow's packets, with the frame's size.
    departures: Vec<(u64, u32)>,
    arrivals: Vec<u64>,
    /// Packets that the emulator forwarded after a later one.
    reordered: u64,
    /// Damaged packets without a readable number.
    nameless: u64,
    damaged_are_dropped: bool,
    /// Packets that the hosts lost.
    host_dropped: u64,
}

fn laws_of(impairment: &Impairment, flow: &str, direction: Direction) -> Laws {
    if flow == OTHER {
        return impairment.other.laws(direction);
    }
    let found = impairment.flows.iter().find(|f| f.name == flow);
    found.map(|f| f.laws(direction)).unwrap_or_default()
}

impl<'a> FlowEvidence<'a> {
    fn of(claim: &'a FlowClaim, case: &PathCase, evidence: &'a Evidence) -> Option<Self> {
        let found = evidence.record.flows.iter().find(|f| f.id == claim.flow)?;
        let laws = laws_of(&case.impairment, claim.emulator_flow, found.direction);
        let side = u8::from(found.direction == Direction::Reverse);
        let is_forwarded = |(record, judged): &&(packets::Record, Judged)| {
            record.direction == side
                && record.kind == RecordKind::FORWARDED
                && judged.native_sequence.is_some()
                && judged.native_flow == claim.flow
        };
        let forwarded =
            || evidence.packet_trace.iter().filter(is_forwarded).map(|(record, _)| record);
        let mut departures: Vec<(u64, u32)> =
            forwarded().filter_map(|record| Some((record.time2_ns?, record.size_bytes))).collect();
        departures.sort_unstable();
        let ours = |record: &&packets::Record| record.flow == claim.flow;
        let mut arrivals: Vec<u64> =
            evidence.received.iter().filter(ours).filter_map(|r| r.time2_ns).collect();
        arrivals.sort_unstable();
        let is_nameless =
            |r: &&packets::Record| matches!(r.kind, RecordKind::CORRUPTED | RecordKind::TRUNCATED);
        Some(FlowEvidence {
            claim,
            joined: evidence.triangulation(claim.flow, &case.impairment)?,
            prediction: evidence.prediction(
                &case.impairment,
                claim.emulator_flow,
                claim.flow,
                found.direction,
            ),
            payload_bytes: found.payload_bytes,
            sent: found.sender.as_ref()?.packets,
            receiver: found.receiver.as_ref()?,
            departures,
            arrivals,
            reordered: forwarded().filter(|r| r.flags & FLAG_REORDERED != 0).count() as u64,
            nameless: evidence.received.iter().filter(ours).filter(is_nameless).count() as u64,
            damaged_are_dropped: laws
                .content
                .as_ref()
                .is_some_and(|c| c.checksum != weir_model::impairment::Checksum::Repair),
            host_dropped: evidence.host_dropped(claim.flow, found.direction),
            laws,
        })
    }

    /// Exact conservation, and the agreement of laws, emulator and receiver on each packet.
    fn agree(&self, conditions: &Conditions, sum: &mut Agreement) -> Verdict {
        let t = &self.joined;
        let missing = self.sent as i64 - self.receiver.packets as i64;
        let damaged = if self.damaged_are_dropped { t.modified } else { self.nameless };
        let late = self.receiver.late_packets.unwrap_or(0);
        let placed = t.lost + t.queue_dropped + t.unplanned + damaged + late;
        let remainder = missing - placed as i64;
        sum.sent += self.sent;
        sum.matched += t.matched;
        sum.remainder += remainder;
        sum.unplanned += t.unplanned;
        let flow = self.claim.flow;
        if let Some(lost) = self.lost_by_host() {
            return Verdict::Undecided(format!(
                "flow {flow}: the host was too slow for {lost} packets, by its own counters"
            ));
        }
        if t.matched != self.sent || t.disagreeing > 0 {
            let example = t.examples.first().map(|e| format!(": {e}")).unwrap_or_default();
            let matched = t.matched;
            return Verdict::Failed(format!(
                "flow {flow}: emulator and receiver agree on {matched} of {} packets{example}",
                self.sent
            ));
        }
        if remainder != 0 {
            return Verdict::Failed(format!(
                "flow {flow}: {remainder} packets are unaccounted for"
            ));
        }
        if t.unplanned > 0 {
            let n = t.unplanned;
            let reason = format!("flow {flow}: {n} packets dropped unplanned");
            return excused(reason, conditions.host_limited.as_deref());
        }
        match &self.prediction {
            Err(reason) => Verdict::Failed(format!("flow {flow}: no prediction: {reason}")),
            Ok(p) => {
                sum.predicted += p.matched;
                sum.unpredicted += p.differing;
                if p.packets < self.sent {
                    let packets = p.packets;
                    return Verdict::Failed(format!(
                        "flow {flow}: the emulator saw {packets} of {} packets",
                        self.sent
                    ));
                }
                match p.differing {
                    0 => Verdict::Passed,
                    differing => unpredicted(flow, differing, p.differing_times, conditions),
                }
            }
        }
    }

    /// Packets that the host lost by its own counters, or delivered so late that they count as lost.
    fn host_lost(&self) -> u64 {
        self.host_dropped + self.receiver.late_packets.unwrap_or(0)
    }

    /// Joined packets that the host lost, if its own counters account for them.
    fn lost_by_host(&self) -> Option<u64> {
        let t = &self.joined;
        let lost = t.lost_before + t.lost_behind;
        // Counters of an interface or of the whole host are bounds: they count other packets too.
        let is_by_host = t.disagreeing <= t.lost_behind && lost <= self.host_dropped;
        (lost > 0 && is_by_host).then_some(lost)
    }

    /// The conditions of this flow. A few packets that took long from the emulator to the receiver show a stall of
    /// the host, many are a fault; packets that the host lost reduce the rates.
    fn conditions(&self, all: &Conditions) -> Conditions {
        let mut found: Vec<String> = all.host_limited.iter().cloned().collect();
        if let Some(lost) = self.lost_by_host() {
            found.push(format!("the host lost {}", counted(lost as i64, "packet")));
        }
        let residual = &self.joined.residual_ns;
        let limit_ns = all.path_delay_ns + LATE_NS.max(2.0 * all.floor.single_ns);
        let slow = residual.iter().filter(|ns| **ns as f64 > limit_ns).count();
        if slow > 0 && slow as f64 <= LATE_RATIO * residual.len() as f64 {
            let (slow, count) = (counted(slow as i64, "packet"), residual.len());
            found.push(format!("{slow} of {count} were delayed after the emulator"));
        }
        let host_limited = (!found.is_empty()).then(|| found.join(", "));
        Conditions { host_limited, ..all.clone() }
    }

    fn lines(&self, conditions: &Conditions, out: &mut Vec<Line>) {
        let (flow, t, r) = (self.claim.flow, &self.joined, self.receiver);
        let host_lost = self.host_lost();
        match self.claim.claim {
            Claim::Untouched => {
                let none = CountInterval::exact(0);
                let realised = t.lost + t.queue_dropped + t.duplicated + t.modified;
                let measured = r.lost_packets.map(|lost| {
                    lost + r.duplicate_packets.unwrap_or(0) + r.corrupted_packets.unwrap_or(0)
                });
                let figure = "lost, copied, damaged";
                out.push(count_line(flow, figure, &none, realised, measured, host_lost));
                self.delay_lines(conditions, out, &["delay, median"]);
            }
            Claim::Delay => self.delay_lines(conditions, out, &["delay, median"]),
            Claim::DelayInOrder => {
                let figures = ["delay, median", "delay, mean", "delay, deviation"];
                self.delay_lines(conditions, out, &figures);
                let (none, measured) = (CountInterval::exact(0), r.reordered_packets);
                out.push(count_line(flow, "reordered", &none, self.reordered, measured, 0));
            }
            Claim::DelayLaw => {
                self.delay_lines(conditions, out, &["delay, median"]);
                self.law_lines(conditions, out);
            }
            Claim::Loss => {
                let law =
                    self.laws.loss.as_ref().and_then(|law| CountInterval::of_losses(t.judged, law));
                let law = law.unwrap_or(CountInterval::exact(0));
                out.push(count_line(flow, "lost", &law, t.lost, r.lost_packets, host_lost));
            }
            Claim::Duplication => {
                let share =
                    self.laws.duplicate.as_ref().and_then(|d| d.probability()).unwrap_or(0.0);
                let law = CountInterval::independent(t.judged - t.lost, share);
                let measured = r.duplicate_packets;
                out.push(count_line(flow, "duplicates", &law, t.duplicated, measured, host_lost));
            }
            Claim::Corruption | Claim::CorruptionLost => {
                let share = self.laws.content.as_ref().and_then(|c| c.mean()).unwrap_or(0.0);
                let law = CountInterval::independent(self.departures.len() as u64, share);
                let (figure, measured) = if self.claim.claim == Claim::Corruption {
                    ("corrupted", r.corrupted_packets)
                } else {
                    ("damaged, so lost", r.lost_packets)
                };
                out.push(count_line(flow, figure, &law, t.modified, measured, host_lost));
            }
            Claim::Rate => self.rate_lines(conditions, out),
            // Judged by the caller, from the record alone.
            Claim::EveryByte => {}
        }
    }

    /// Delays against those predicted from the same laws, seed and arrivals.
    fn delay_lines(&self, c: &Conditions, out: &mut Vec<Line>, figures: &[&'static str]) {
        let predicted = self.prediction.as_ref().map(|p| p.delays_ns.as_slice()).unwrap_or(&[]);
        let of = |series: &[i64], i: usize| match i {
            0 => quantile(series, 0.5).map(|ns| ns as f64),
            1 => moments(series).map(|m| m.0),
            _ => moments(series).map(|m| m.1),
        };
        for (i, figure) in figures.iter().copied().enumerate() {
            // The path shifts a distribution, but does not widen it.
            let path = if i < 2 { c.path_delay_ns } else { 0.0 };
            let values = [
                of(predicted, i),
                of(&self.joined.realised_delay_ns, i),
                of(&self.joined.measured_delay_ns, i).map(|ns| ns - path),
            ];
            out.push(nanoseconds(self.claim.flow, figure, values, c.floor.median_ns, c));
        }
    }

    /// Mean and standard deviation against the law's closed forms, within the sampling error.
    fn law_lines(&self, c: &Conditions, out: &mut Vec<Line>) {
        let law = self.laws.delay.as_ref().and_then(Delay::moments);
        let n = (self.joined.realised_delay_ns.len() as f64).max(1.0);
        let deviation = law.and_then(|m| m.deviation_ns).unwrap_or(0.0);
        let realised = moments(&self.joined.realised_delay_ns);
        let measured = moments(&self.joined.measured_delay_ns);
        let mean = [
            law.and_then(|m| m.mean_ns),
            realised.map(|m| m.0),
            measured.map(|m| m.0 - c.path_delay_ns),
        ];
        let room = DEVIATIONS * deviation / n.sqrt() + c.floor.median_ns;
        out.push(nanoseconds(self.claim.flow, "delay, mean", mean, room, c));
        // The variance of a sample's standard deviation is σ²/2n for a normal law.
        let spread =
            [law.and_then(|m| m.deviation_ns), realised.map(|m| m.1), measured.map(|m| m.1)];
        let room = DEVIATIONS * deviation / (2.0 * n).sqrt() + c.floor.median_ns;
        out.push(nanoseconds(self.claim.flow, "delay, deviation", spread, room, c));
    }

    fn rate_lines(&self, c: &Conditions, out: &mut Vec<Line>) {
        let payload_bits = self.payload_bytes as f64 * 8.0;
        let over = |first: Option<u64>, last: Option<u64>, count: usize| {
            // n packets span n − 1 gaps.
            let span = last?.checked_sub(first?).filter(|span| *span > 0)? as f64 / 1e9;
            Some(payload_bits * (count as f64 - 1.0) / span)
        };
        let (first, last) = (self.departures.first(), self.departures.last());
        let realised = over(first.map(|d| d.0), last.map(|d| d.0), self.departures.len());
        let (a, z) = (self.arrivals.first().copied(), self.arrivals.last().copied());
        let measured = over(a, z, self.arrivals.len());
        let asked = self.laws.rate.as_ref().zip(first).map(|(rate, (_, size))| {
            // Framing counts from the network layer on; the frame includes 14 bytes of Ethernet.
            let framed = f64::from(rate.framing().bytes(i64::from(*size) - 14));
            rate.bits.mean().0 as f64 * self.payload_bytes as f64 / framed
        });
        let span_ns = a.zip(z).map_or(1, |(a, z)| z.saturating_sub(a).max(1));
        // First and last packet each have the error of a single time.
        let ratio = c.floor_ratio + 2.0 * c.floor.single_ns / span_ns as f64;
        let host_limited = c.host_limited.as_deref();
        out.push(time_line(
            self.claim.flow,
            "rate",
            Value::BitsPerSecond,
            [asked, realised, measured],
            asked.unwrap_or(0.0) * ratio,
            host_limited,
        ));
        let predicted = self.prediction.as_ref().map_or(0, |p| p.queue_dropped);
        let drops = CountInterval::exact(predicted);
        let t = &self.joined;
        let measured = self.receiver.lost_packets;
        let (flow, host_lost) = (self.claim.flow, self.host_lost());
        out.push(count_line(flow, "queue drops", &drops, t.queue_dropped, measured, host_lost));
    }
}

/// A line of times given in ns.
fn nanoseconds(
    flow: u32,
    figure: &'static str,
    values: [Option<f64>; 3],
    room_ns: f64,
    c: &Conditions,
) -> Line {
    let host_limited = c.host_limited.as_deref();
    let seconds = values.map(|v| v.map(|ns| ns / 1e9));
    // Rounding is not shown as part of the tolerance.
    let judged = (room_ns + ROUNDING_NS) / 1e9;
    let mut line = time_line(flow, figure, Value::Seconds, seconds, judged, host_limited);
    line.tolerance = if room_ns > 0.0 {
        Tolerance::PlusMinus(Value::Seconds(room_ns / 1e9))
    } else {
        Tolerance::Exact
    };
    line
}

#[cfg(test)]
mod tests;
