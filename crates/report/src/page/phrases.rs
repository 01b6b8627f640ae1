//! Sentences about a result: the test, the figures, whether they can be trusted, and the bottleneck.

use weir_model::metric::{are_echo, are_transfers};
use weir_model::plan::{Direction, TransportName};
use weir_model::record::{
    Crossing, Delay, Flow, LimitedBy, Receiver, Record, Status, Sums, Transfers,
};
use weir_model::units::RateLimit;
use weir_model::warning::{Severity, Warning};

use crate::meta::{FlowMeta, imported_from};
use crate::plot::Quantity;
use crate::text::rate_in_words;

const DIRECTIONS: [Direction; 2] = [Direction::Forward, Direction::Reverse];
/// Fraction of the nominal rate on the wire from which the line counts as full.
const FULL: f64 = 0.97;
/// Loss ratio above which reaching the requested rate at the sender says little about the received rate.
const MUCH_LOSS: f64 = 0.001;
/// Fraction of the time spent waiting for timeouts from which they count as the limit of transactions.
const MUCH_WAITING: f64 = 0.5;
/// Fraction of the requested rate from which it counts as reached.
const REACHED: f64 = 0.995;
/// Fraction of the asked rate above which a run was too short to have one.
const EXCEEDED: f64 = 2.0;

/// The plan's title, else the two hosts.
pub(super) fn title(record: &Record) -> String {
    record.plan.title.clone().filter(|t| !t.trim().is_empty()).unwrap_or_else(|| {
        let there = servers(record);
        match (record.local.as_ref().map(|h| h.host.as_str()), there.as_deref()) {
            (Some(here), Some(there)) if !here.is_empty() => format!("{here} to {there}"),
            (_, Some(there)) => format!("Test with {there}"),
            _ if record.id.is_empty() => "Test".into(),
            _ => format!("Run {}", record.id),
        }
    })
}

/// `2026-11-21 20:30:09 UTC`.
pub(super) fn when(started_at: &str) -> String {
    match started_at.get(..19) {
        Some(start) if started_at.ends_with('Z') => format!("{} UTC", start.replace('T', " ")),
        _ => started_at.into(),
    }
}

/// The server or servers of a test; `None` if the record names none.
fn servers(record: &Record) -> Option<String> {
    let names: Vec<&str> = record.servers.iter().map(|server| server.name.as_str()).collect();
    if names.is_empty() { record.plan.host.clone() } else { Some(names.join(", ")) }
}

/// The test in a sentence.
pub(super) fn what_ran(record: &Record) -> String {
    let mut kinds: Vec<(TransportName, String, usize)> = vec![];
    for f in &record.flows {
        let what = match &f.transactions {
            Some(_) if f.transport.echoes() => "of echo requests".into(),
            Some(t) if t.transfers.is_some() => "of transfers".into(),
            Some(t) => format!("of transactions ({})", t.shape),
            None => f.direction.to_string(),
        };
        match kinds.iter_mut().find(|(t, of, _)| *t == f.transport && *of == what) {
            Some(kind) => kind.2 += 1,
            None => kinds.push((f.transport, what, 1)),
        }
    }
    let flows: Vec<String> = kinds
        .iter()
        .map(|(t, what, n)| {
            let t = t.title();
            format!("{n} {t} flow{} {what}", if *n == 1 { "" } else { "s" })
        })
        .collect();
    let who = record.local.as_ref().map(|h| h.host.as_str()).filter(|h| !h.is_empty());
    let imported = imported_from(record);
    let mut text = format!(
        "{} tested with {} for {}",
        who.or(imported.as_deref()).unwrap_or("This host"),
        servers(record).as_deref().unwrap_or("the other side"),
        Quantity::Seconds.format(record.seconds)
    );
    if !flows.is_empty() {
        text += &format!(": {}", flows.join(", "));
    }
    let asked: Vec<String> = record.plan.connections.iter().map(asked).collect();
    if let Some(first) = asked.first().filter(|f| !f.is_empty() && asked.iter().all(|a| a == *f)) {
        text += &format!("; {first}{}", if record.flows.len() > 1 { " each" } else { "" });
    }
    text += ".";
    if record.flows.iter().any(|f| f.direction == Direction::Reverse) {
        text += &format!(
            " Forward is what {} sends, reverse what it receives.",
            who.unwrap_or("this host")
        );
    }
    text
}

/// The requested size and rate of a connection.
fn asked(connection: &weir_model::plan::Connection) -> String {
    let mut parts = vec![];
    if let Some(payload) = &connection.payload {
        let units = connection.transport.unit_of_payload();
        parts.push(match payload.is_constant() {
            true => format!("{}-byte {units}", payload.moments().max_bytes),
            false => format!("{units} of {payload} bytes"),
        });
    }
    if connection.shape.has_data() {
        let (request, response) = (connection.request_bytes(), connection.response_bytes());
        parts.push(format!("{request}-byte requests, {response}-byte responses"));
    }
    let of_law = || connection.spacing.moments().mean_ns.map(|_| connection.send_rate());
    if let Some(rate) = connection.rate.or_else(of_law) {
        let schedule = connection.rate_schedule.as_ref();
        let later = schedule.map(|schedule| format!(" at first ({schedule})"));
        let words = match connection.shape.has_volumes() {
            true => rate_in_words(&rate.to_string()).replace("packets/s", "transfers/s"),
            false => rate_in_words(&rate.to_string()),
        };
        parts.push(words + &later.unwrap_or_default());
    }
    let mut text = parts.join(" at ").replace(" at unlimited", ", unlimited");
    if !connection.spacing.is_constant() {
        text += if text.is_empty() { "" } else { ", " };
        text += &format!("{} intervals", connection.spacing);
    }
    text
}

/// The results, a sentence for each direction.
pub(super) fn what_came_out(record: &Record) -> Vec<String> {
    let mut out = vec![];
    out.extend(transactions(record).map(|text| format!("{}.", capital(&text))));
    for direction in DIRECTIONS {
        let Some(total) = record.direction(direction) else { continue };
        let members: Vec<&Flow> =
            record.flows.iter().filter(|f| f.direction == direction).collect();
        if !members.is_empty() && members.iter().all(|f| f.transactions.is_some()) {
            continue;
        }
        let rate = |s: &Option<Sums>| {
            s.as_ref()?.bits_per_second.map(|r| Quantity::BitsPerSecond.format(r))
        };
        let mut text = capital(&direction.to_string()) + ": ";
        text += &match (rate(&total.receiver), rate(&total.sender)) {
            (Some(got), Some(sent)) => format!("{got} of payload arrived, {sent} was sent"),
            (Some(got), None) => format!("{got} of payload arrived"),
            (None, Some(sent)) => {
                format!("{sent} of payload was sent; what arrived was not measured")
            }
            (None, None) => "no rate was measured".into(),
        };
        if let Some(r) = &total.receiver {
            if r.lost_packets.is_some() && !record.is_loss_known(direction) {
                text += "; the loss is unknown, since the peer's report is missing";
            } else if let Some(lost) = r.lost_packets {
                let awaited = r.packets.saturating_add(lost);
                text += &match (lost, r.loss_ratio) {
                    (0, _) => "; no packet was lost".into(),
                    (_, ratio) => format!(
                        "; {} of {} packets were lost ({})",
                        Quantity::Count.format(lost as f64),
                        Quantity::Count.format(awaited as f64),
                        Quantity::Ratio.format(ratio.unwrap_or(lost as f64 / awaited as f64))
                    ),
                };
            }
            if let Some(crossing) = Crossing::of(members.iter().copied()) {
                text += &format!("; crossing of datagrams: {}", crossing.word());
            }
        }
        if let Some(n) = total.sender.as_ref().and_then(|s| s.retransmits) {
            text += &match n {
                0 => "; no segment was retransmitted".into(),
                1 => "; 1 segment was retransmitted".into(),
                n => format!("; {} segments were retransmitted", Quantity::Count.format(n as f64)),
            };
        }
        text += ".";
        if let Some(delay) = delays(&members, |f| f.receiver.as_ref()?.one_way_delay.as_ref()) {
            text += &format!(" One-way delay {delay}.");
        }
        out.push(text);
    }
    if let Some(latency) = &record.latency
        && let (Some(idle), Some(loaded)) = (&latency.idle, &latency.loaded)
    {
        out.push(format!(
            "The round trip was {} idle and {} under load ({}).",
            Quantity::Seconds.format(middle(idle)),
            Quantity::Seconds.format(middle(loaded)),
            if idle.p50_seconds.is_some() && loaded.p50_seconds.is_some() {
                "medians"
            } else {
                "medians, or means of few"
            }
        ));
    }
    out
}

/// The result in one sentence: the expectations, what arrived and was lost, and whether the figures hold.
pub fn in_one_sentence(record: &Record) -> String {
    let mut parts = vec![];
    if let Some(verdict) = &record.verdict {
        let all = verdict.expectations.len();
        let missed = verdict.expectations.iter().filter(|e| !e.passed).count();
        parts.push(match (verdict.passed, missed) {
            (true, _) if all == 1 => "passed: the expectation was met".into(),
            (true, _) => format!("passed: all {all} expectations were met"),
            (false, _) if all == 1 => "failed: the expectation was not met".into(),
            (false, 1) => format!("failed: 1 of {all} expectations was not met"),
            (false, missed) => format!("failed: {missed} of {all} expectations were not met"),
        });
    }
    let is_both = DIRECTIONS.iter().all(|d| record.direction(*d).is_some());
    let of_transactions = transactions(record);
    let has_streams = record.flows.iter().any(|f| f.transactions.is_none());
    let directions = DIRECTIONS.iter().filter(|_| has_streams || of_transactions.is_none());
    let arrived = directions.filter_map(|direction| {
        let total = record.direction(*direction)?;
        let of = if is_both { format!("{direction} ") } else { String::new() };
        let rate = |sums: &Option<Sums>| {
            sums.as_ref()?.bits_per_second.map(|r| Quantity::BitsPerSecond.format(r))
        };
        let Some(got) = rate(&total.receiver) else {
            return rate(&total.sender).map(|sent| format!("{of}{sent} was sent"));
        };
        let lost = total.receiver.as_ref().and_then(|r| Some((r.lost_packets?, r.loss_ratio)));
        let loss = match lost {
            None => String::new(),
            Some(_) if !record.is_loss_known(*direction) => ", the loss is unknown".into(),
            Some((0, _)) => " without loss".into(),
            Some((lost, None)) => {
                format!(" with {} packets lost", Quantity::Count.format(lost as f64))
            }
            Some((_, Some(ratio))) => format!(" with a loss of {}", Quantity::Ratio.format(ratio)),
        };
        let receivers = record.flows.iter().filter(|f| f.direction == *direction);
        let is_part = |f: &Flow| f.receiver.as_ref().is_some_and(Receiver::is_part);
        let member = if receivers.clone().any(is_part) { " while in the group" } else { "" };
        let shared = record.plan.shared_streams();
        let most = shared.iter().map(Vec::len).max().filter(|_| *direction == Direction::Forward);
        let at = match most {
            Some(count) => format!(" at the receiver with the fewest packets, of {count},"),
            None => String::new(),
        };
        Some(format!("{of}{got} arrived{at}{member}{loss}"))
    });
    let arrived: Vec<String> = of_transactions.iter().cloned().chain(arrived).collect();
    parts.push(match arrived.is_empty() {
        true => "no rate was measured".into(),
        false => arrived.join(", "),
    });
    match record.status {
        Status::Complete => {}
        Status::Partial => parts.push("the run did not end as planned".into()),
        Status::Interrupted => parts.push("the run was interrupted".into()),
    }
    parts.extend(warned(record));
    capital(&parts.join("; ")) + "."
}

/// The transactions of all flows: their rate, failures and response time; `None` without any.
fn transactions(record: &Record) -> Option<String> {
    let flows: Vec<&Flow> = record.flows.iter().filter(|f| f.transactions.is_some()).collect();
    let all = || flows.iter().filter_map(|f| f.transactions.as_ref());
    all().next()?;
    let rate = all().filter_map(|t| t.transactions_per_second).reduce(|sum, rate| sum + rate);
    let has_transfers = are_transfers(flows.iter().copied());
    let (quantity, what) = match has_transfers {
        true => (Quantity::TransfersPerSecond, "transfers"),
        false => (Quantity::TransactionsPerSecond, "transactions"),
    };
    let mut text = match rate {
        Some(rate) => quantity.format(rate),
        None => format!("no rate of {what} was measured"),
    };
    let failed = all().map(|t| t.failed).fold(0, u64::saturating_add);
    let of_transfers = |count: fn(&Transfers) -> u64| {
        let all = all().filter_map(|t| t.transfers.as_ref());
        all.map(count).fold(0, u64::saturating_add)
    };
    let lossy = of_transfers(|t| t.with_loss.unwrap_or(0));
    let (not_started, unfinished) =
        (of_transfers(|t| t.not_started), of_transfers(|t| t.unfinished));
    let is_echo = are_echo(flows.iter().copied());
    if is_echo {
        let completed = all().map(|t| t.completed).fold(0, u64::saturating_add);
        let requests = completed.saturating_add(failed);
        text = format!("{completed} of {requests} echo requests answered");
    }
    text += &match failed {
        _ if is_echo => String::new(),
        0 if lossy == 0 && unfinished == 0 && not_started == 0 => " without a failure".into(),
        n => format!(" with {} failed", Quantity::Count.format(n as f64)),
    };
    for (count, what) in
        [(lossy, "with loss"), (not_started, "not started"), (unfinished, "unfinished")]
    {
        if count > 0 {
            text += &format!(", {} {what}", Quantity::Count.format(count as f64));
        }
    }
    if let Some(times) = delays(&flows, |f| f.transactions.as_ref()?.response_time.as_ref()) {
        let what = match is_echo {
            true => "round trip",
            false if has_transfers => "completion time",
            false => "response time",
        };
        text += &format!(", {what} {times}");
    }
    Some(text)
}

/// How many errors and warnings affect the figures; absent if none does.
fn warned(record: &Record) -> Option<String> {
    let count = |severity| record.warnings.iter().filter(|w| w.severity == severity).count();
    match (count(Severity::Error), count(Severity::Warning)) {
        (0, 0) => None,
        (0, 1) => Some("1 warning affects the figures".into()),
        (0, w) => Some(format!("{w} warnings affect the figures")),
        (1, _) => Some("1 error makes the figures unusable".into()),
        (e, _) => Some(format!("{e} errors make the figures unusable")),
    }
}

/// The median, or the mean if there are too few values for one.
pub(super) fn middle(delay: &Delay) -> f64 {
    delay.p50_seconds.unwrap_or(delay.mean_seconds)
}

/// The delays of some flows as text; absent if none was measured.
pub(super) fn delays<'a>(
    flows: &[&'a Flow],
    pick: impl Fn(&'a Flow) -> Option<&'a Delay>,
) -> Option<String> {
    let all: Vec<&Delay> = flows.iter().filter_map(|f| pick(f)).collect();
    let show = |v: f64| Quantity::Seconds.format(v);
    let error = all.iter().filter_map(|d| d.error_seconds).reduce(f64::max);
    let error = error.map(|e| format!(", ± {}", show(e))).unwrap_or_default();
    match all.as_slice() {
        [] => None,
        [one] => {
            let kind = if one.p50_seconds.is_some() { "median" } else { "mean" };
            let tail = match one.p99_seconds {
                Some(p99) => format!("99th percentile {}", show(p99)),
                None => format!("largest {}", show(one.max_seconds)),
            };
            Some(format!("{} ({kind}), {tail}{error}", show(middle(one))))
        }
        many => {
            let least = many.iter().map(|d| middle(d)).fold(f64::INFINITY, f64::min);
            let most = many.iter().map(|d| middle(d)).fold(f64::NEG_INFINITY, f64::max);
            Some(format!("from {} to {} by flow (medians){error}", show(least), show(most)))
        }
    }
}

/// Whether the figures can be used, by the status of the run and its warnings.
pub(super) fn trust(record: &Record) -> String {
    let count = |severity| record.warnings.iter().filter(|w| w.severity == severity).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let mut text = String::new();
    match record.status {
        Status::Complete => {}
        Status::Partial => {
            text += "The run did not end as planned: the figures cover the time until its end. "
        }
        Status::Interrupted => {
            text += "The run was interrupted: the figures cover the time until then. "
        }
    }
    text += &match (warned(record), errors, warnings) {
        (None, ..) if record.status == Status::Complete => {
            "No problem with the figures was found".to_string()
        }
        (None, ..) => "No warning was raised".to_string(),
        (Some(warned), 0, 1) => format!("{warned}: take it into account"),
        (Some(warned), 0, _) => format!("{warned}: take them into account"),
        (Some(warned), _, 0) => warned,
        (Some(warned), _, 1) => format!("{warned}; 1 further warning"),
        (Some(warned), _, w) => format!("{warned}; {w} further warnings"),
    };
    text += ".";
    match &record.calibration {
        Some(c) => {
            text += &format!(" This host's noise floor is known (calibrated {}).", when(&c.at))
        }
        None => text += " This host's noise floor was not measured (weir calibrate).",
    }
    text
}

/// What limited the rate, as far as the record shows.
pub(crate) fn bottleneck(record: &Record) -> String {
    let mut transactions = record.flows.iter().map(|f| f.transactions.as_ref());
    if !record.flows.is_empty() && transactions.all(|t| t.is_some_and(|t| t.outstanding.is_some()))
    {
        return closed_loop_limit(record);
    }
    let has = |code: &str| record.warnings.iter().any(|w: &Warning| w.code == code);
    let mut found: Vec<String> = vec![];
    for (code, words) in [
        ("receive-window-limited", "the receiver's TCP window"),
        ("window-limited", "the TCP window that was asked for"),
        ("socket-overflow", "the receiving host, whose socket buffer overflowed"),
        ("emulator-overloaded", "the emulator's host, which could not forward all packets"),
    ] {
        if has(code) {
            found.push(words.into());
        }
    }
    if let Some(usage) =
        record.link_usage.as_ref().filter(|u| u.wire_ratio >= FULL && u.wire_ratio <= 1.0001)
    {
        found.push(format!(
            "the line: {} of its nominal {} was on the wire",
            Quantity::Ratio.format(usage.wire_ratio),
            Quantity::BitsPerSecond.format(usage.nominal_bits_per_second as f64)
        ));
    }
    // A guess, unless a cause is known.
    let is_known = !found.is_empty();
    for (code, words) in [
        ("sender-cpu-bound", "perhaps a processor of the sending host, which was busy"),
        ("receiver-cpu-bound", "perhaps a processor of the receiving host, which was busy"),
        ("late-transfers", "perhaps the sending host, which sent datagrams late"),
    ] {
        if !is_known && has(code) {
            found.push(words.into());
        }
    }
    if found.is_empty() && record.status == Status::Complete && asked_rate_was_sent(record) {
        let unanswered = unanswered(record);
        if unanswered > MUCH_LOSS {
            let requests = if are_echo(&record.flows) { "echo requests" } else { "requests" };
            return format!(
                "The rate that was asked for was sent, and {} of the {requests} were not answered.",
                Quantity::Ratio.format(unanswered)
            );
        }
        let lost =
            DIRECTIONS.iter().filter_map(|d| record.direction(*d)?.receiver.as_ref()?.loss_ratio);
        let lost = lost.fold(0.0, f64::max);
        if lost > MUCH_LOSS {
            return format!(
                "The rate that was asked for was sent, and {} of it did not arrive: see the loss ledger.",
                Quantity::Ratio.format(lost)
            );
        }
        return "The limit was the rate that was asked for: it was reached, so this run does not show the capacity of the path.".into();
    }
    if found.is_empty()
        && let Some((reason, share)) = tcp_limit(record)
    {
        found.push(format!("{reason} in {} of the samples of TCP", Quantity::Ratio.format(share)));
    }
    match found.as_slice() {
        [] => "The measurements do not show what limited the rate.".into(),
        all => format!("The limit was {}.", all.join("; and ")),
    }
}

/// What limited transactions that wait for each other.
fn closed_loop_limit(record: &Record) -> String {
    let (mut waited, mut all, mut completed) = (0.0, 0.0, 0);
    for t in record.flows.iter().filter_map(|f| f.transactions.as_ref()) {
        let timeouts = t.failures.get("timeout").copied().unwrap_or(0) as f64;
        let places = t.seconds * f64::from(t.outstanding.unwrap_or(1));
        waited += (timeouts * t.timeout_seconds.unwrap_or(0.0)).min(places);
        all += places;
        completed += t.completed;
    }
    let (is_echo, has_transfers) = (are_echo(&record.flows), are_transfers(&record.flows));
    let mut transfers =
        record.flows.iter().filter_map(|f| f.transactions.as_ref()?.transfers.as_ref());
    let has_loss = transfers.any(|t| t.with_loss.is_some_and(|n| n > 0));
    if completed == 0 {
        let what = match (is_echo, has_transfers) {
            (true, _) => "echo request was answered",
            (_, true) => "transfer was completed",
            _ => "transaction was completed",
        };
        return format!("No {what}.");
    }
    match waited / f64::max(all, f64::MIN_POSITIVE) {
        by_timeout if by_timeout >= MUCH_WAITING => format!(
            "The limit was the loss of requests or responses: {} of the time was spent waiting for responses that did not arrive within the timeout.",
            Quantity::Ratio.format(by_timeout)
        ),
        _ if has_loss => "The limit was the number of users, their pauses, the completion time and the wait for missing datagrams: each started a transfer after its earlier one.".into(),
        _ if has_transfers => "The limit was the number of users, their pauses and the completion time: each started a transfer after its earlier one.".into(),
        _ if is_echo => "The limit was the round trip: a request was sent when an earlier one had been answered.".into(),
        _ => "The limit was the response time: a request was sent when an earlier one had been answered.".into(),
    }
}

/// Fraction of the requests without an answer; 0 without transactions. Transfers that are missing have not reached their rate.
fn unanswered(record: &Record) -> f64 {
    let (mut sent, mut answered) = (0u64, 0u64);
    for flow in &record.flows {
        let (Some(sender), Some(t)) = (&flow.sender, &flow.transactions) else { continue };
        if t.transfers.is_none() {
            sent = sent.saturating_add(sender.packets);
            answered = answered.saturating_add(t.completed.min(sender.packets));
        }
    }
    if sent == 0 { 0.0 } else { 1.0 - answered as f64 / sent as f64 }
}

/// Whether every flow had a requested rate and its sender reached it.
fn asked_rate_was_sent(record: &Record) -> bool {
    let paced = |f: &Flow| {
        let of_transfers = f.transactions.as_ref().and_then(|t| Some((t, t.transfers.as_ref()?)));
        if let Some((t, transfers)) = of_transfers {
            transfers.asked_starts_per_second?;
            // Their number by chance differs from that of the rate.
            let due = [t.completed, t.failed, transfers.unfinished, transfers.not_started];
            let due = due.into_iter().fold(0, u64::saturating_add);
            return Some(t.completed as f64 / due as f64);
        }
        let sender = f.sender.as_ref()?;
        let asked = sender.asked_packets_per_second.filter(|a| *a > 0.0)?;
        match (sender.intended_slots, sender.missed_slots) {
            // By chance, the mean of drawn sizes and intervals differs from that of their law.
            (Some(slots @ 1..), Some(missed))
                if f.payload_law.is_some() || f.spacing_law.is_some() =>
            {
                Some(1.0 - missed as f64 / slots as f64)
            }
            _ => Some(sender.packets_per_second? / asked),
        }
    };
    let limited = record.plan.connections.iter().all(|c| match c.rate {
        Some(rate) => rate.limit != RateLimit::Unlimited,
        None => c.transport.datagrams() || c.intervals().moments().mean_ns.is_some(),
    });
    limited
        && !record.flows.is_empty()
        && record.flows.iter().all(|f| paced(f).is_some_and(|r| (REACHED..=EXCEEDED).contains(&r)))
}

/// The most frequent limit of the sender in the TCP samples, and its fraction of the samples.
fn tcp_limit(record: &Record) -> Option<(&'static str, f64)> {
    let mut counts = [0usize; 4];
    // Without an emulator, nothing but this host's kernel is between the two ends.
    let path =
        match (record.is_one_namespace(), record.is_one_host() && record.impairment.is_none()) {
            (true, _) => "this host, since loopback has no path: TCP's congestion window was full",
            (false, true) => "the path within this host, by TCP's congestion control,",
            (false, false) => "the path, by TCP's congestion control,",
        };
    let reasons = [
        (LimitedBy::Congestion, path),
        (LimitedBy::ReceiveWindow, "the receiver's TCP window"),
        (LimitedBy::SendBuffer, "the sender's TCP buffer"),
        (LimitedBy::Application, "the sending program"),
    ];
    for sample in record.flows.iter().flat_map(|f| &f.tcp_samples) {
        let by = sample.limited_by;
        if let Some(at) = reasons.iter().position(|(limit, _)| Some(*limit) == by) {
            counts[at] += 1;
        }
    }
    let all: usize = counts.iter().sum();
    let (at, most) = counts.iter().enumerate().max_by_key(|(_, n)| **n)?;
    (all >= 4 && 2 * most > all).then(|| (reasons[at].1, *most as f64 / all as f64))
}

/// Names of the figures that were not measured.
pub(super) fn not_measured(record: &Record) -> Vec<&'static str> {
    let flows = &record.flows;
    let any = |has: fn(&Flow) -> bool| flows.iter().any(has);
    let udp = any(|f| f.transport.datagrams() && f.transactions.is_none());
    let mut out = vec![];
    let mut absent = |missing: bool, what| {
        if missing {
            out.push(what);
        }
    };
    absent(!any(|f| f.receiver.is_some()), "what arrived");
    absent(udp && !any(|f| f.receiver.as_ref().is_some_and(|r| r.lost_packets.is_some())), "loss");
    absent(
        udp && !any(|f| f.receiver.as_ref().is_some_and(|r| r.jitter_seconds.is_some())),
        "jitter",
    );
    absent(
        udp && !any(|f| f.receiver.as_ref().is_some_and(|r| r.one_way_delay.is_some())),
        "one-way delay",
    );
    let latency = record.latency.as_ref();
    absent(latency.and_then(|l| l.loaded.as_ref()).is_none(), "round trip under load");
    absent(record.link_usage.is_none(), "use of the link's nominal rate");
    absent(record.cpu.is_none(), "CPU");
    absent(record.intervals.is_empty(), "figures over time");
    absent(record.calibration.is_none(), "this host's noise floor");
    out
}

/// The name of a flow, else its number.
pub(super) fn flow_title(flow: &Flow) -> String {
    let meta = FlowMeta::from(flow);
    let name = if meta.name.is_empty() { format!("flow {}", meta.id) } else { meta.name };
    match meta.host {
        Some(host) => format!("{name} ({host})"),
        None => name,
    }
}

/// The text with its first letter in upper case.
pub(super) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|c| c.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use weir_model::plan::{Connection, Plan};
    use weir_model::record::{
        ClockRelation, Host, ImpairmentUse, Interface, Sender, TcpSample, Transactions,
    };

    use super::*;

    /// A run of TCP that its congestion window limited, between two interfaces.
    fn limited(interface: &str, clock: &str) -> Record {
        let sample = TcpSample { limited_by: Some(LimitedBy::Congestion), ..Default::default() };
        let flow = Flow { tcp_samples: vec![sample; 9], ..Default::default() };
        let interfaces = vec![Interface { name: interface.into(), ..Default::default() }];
        let host = Host { interfaces, ..Default::default() };
        Record {
            flows: vec![flow],
            local: Some(host.clone()),
            remote: Some(host),
            clock: Some(ClockRelation { method: clock.into(), ..Default::default() }),
            ..Default::default()
        }
    }

    /// A run of one flow of transactions.
    fn of_transactions(transactions: Transactions, asked: Option<f64>) -> Record {
        let connection =
            Connection { rate: asked.map(|_| "100pps".parse().unwrap()), ..Connection::default() };
        let sender = Sender {
            packets: 1000,
            packets_per_second: Some(100.0),
            asked_packets_per_second: asked,
            ..Sender::default()
        };
        let flow =
            Flow { sender: Some(sender), transactions: Some(transactions), ..Flow::default() };
        Record {
            plan: Plan { connections: vec![connection], ..Plan::default() },
            flows: vec![flow],
            status: Status::Complete,
            ..Record::default()
        }
    }

    #[test]
    fn timeouts_limit_a_closed_loop_if_it_mostly_waits_for_them() {
        let limit = |completed, timeouts| {
            bottleneck(&of_transactions(
                Transactions {
                    outstanding: Some(2),
                    completed,
                    failures: [("timeout".to_owned(), timeouts)].into(),
                    timeout_seconds: Some(2.0),
                    seconds: 10.0,
                    ..Default::default()
                },
                None,
            ))
        };
        assert!(limit(1000, 4).contains("response time"));
        assert!(limit(1000, 6).contains("loss of requests or responses: 60"));
        assert_eq!(limit(0, 10), "No transaction was completed.");
    }

    #[test]
    fn requests_that_were_sent_in_time_have_the_asked_rate_and_may_be_unanswered() {
        let of = |completed| {
            let t = Transactions { completed, seconds: 10.0, ..Default::default() };
            let record = of_transactions(t, Some(100.0));
            (asked_rate_was_sent(&record), unanswered(&record))
        };
        assert_eq!(of(1000), (true, 0.0));
        assert_eq!(of(750), (true, 0.25));
        assert_eq!(of(0), (true, 1.0));
        // Of requests before an omitted start, responses may arrive after it.
        assert_eq!(of(1001), (true, 0.0));
        let t = Transactions { completed: 1000, ..Default::default() };
        assert!(!asked_rate_was_sent(&of_transactions(t, Some(200.0))));
    }

    #[test]
    fn drawn_intervals_have_the_asked_rate_where_no_slot_was_missed() {
        let of = |missed: u64, has_law: bool| {
            let mut record = of_transactions(Transactions::default(), Some(110.0));
            let flow = &mut record.flows[0];
            flow.transactions = None;
            flow.spacing_law = has_law.then(|| "exponential".parse().unwrap());
            let sender = flow.sender.as_mut().unwrap();
            (sender.intended_slots, sender.missed_slots) = (Some(1000 + missed), Some(missed));
            asked_rate_was_sent(&record)
        };
        assert!(of(0, true));
        assert!(!of(10, true));
        assert!(!of(0, false), "equal intervals have no chance");
    }

    #[test]
    fn the_path_is_a_limit_only_where_there_is_one() {
        let of = |record: &Record| tcp_limit(record).unwrap().0;
        assert_eq!(of(&limited("eth0", "ntp")), "the path, by TCP's congestion control,");
        assert!(of(&limited("lo", "shared")).starts_with("this host, since loopback has no path"));
        let mut lab = limited("eth0", "shared");
        assert_eq!(of(&lab), "the path within this host, by TCP's congestion control,");
        lab.impairment = Some(ImpairmentUse::default());
        assert_eq!(of(&lab), "the path, by TCP's congestion control,");
    }
}
