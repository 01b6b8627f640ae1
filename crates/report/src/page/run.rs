//! The page of one run.

use weir_model::metric::{are_echo, are_transfers};
use weir_model::plan::Direction;
use weir_model::record::{ClockRelation, CommandTime, Crossing, Flow, Record, Status};
use weir_model::warning::Severity;

use super::document::{Block, Document, Headline, Notice, Section};
use super::figures::figures_of_run;
use super::grid::{Cell, Column, Grid};
use super::{definitions, phrases, tables};
use crate::meta::imported_from;
use crate::plot::{Figure, Quantity};

/// A page about one run.
pub fn of_run(record: &Record) -> Document {
    let mut sections = vec![summary(record)];
    sections.extend(verdict(record));
    sections.push(results(record));
    let (time, distributions) = figures(record);
    if !time.is_empty() {
        sections.push(Section::new("over-time", "Over time", vec![Block::Figures(time)]));
    }
    sections.extend(delays(record, distributions));
    sections.extend(losses(record));
    sections.extend(path(record));
    sections.push(conditions(record));
    sections.push(what_ran(record));
    sections.push(method(&[record]));
    Document {
        title: phrases::title(record),
        subtitle: subtitle(record),
        sentence: phrases::in_one_sentence(record),
        passed: record.verdict.as_ref().map(|v| v.passed),
        headlines: headlines(record),
        notices: notices(record, ""),
        sections,
        generator: generator(),
    }
}

pub(super) fn generator() -> String {
    format!("weir {}", env!("CARGO_PKG_VERSION"))
}

fn subtitle(record: &Record) -> String {
    let mut parts = vec![];
    if !record.id.is_empty() {
        parts.push(format!("run {}", record.id));
    }
    if !record.started_at.is_empty() {
        parts.push(phrases::when(&record.started_at));
    }
    parts.push(Quantity::Seconds.format(record.seconds));
    parts.push(status(record).into());
    parts.join(" · ")
}

pub(super) fn status(record: &Record) -> &'static str {
    match record.status {
        Status::Complete => "complete",
        Status::Partial => "partial",
        Status::Interrupted => "interrupted",
    }
}

/// Warnings, the most severe first; `run` is the name of the run on a page of several.
pub(super) fn notices(record: &Record, run: &str) -> Vec<Notice> {
    let about = |flow: Option<u32>| {
        let parts = [(!run.is_empty()).then(|| run.to_string()), flow.map(|f| format!("flow {f}"))];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    };
    let mut out: Vec<Notice> = record
        .warnings
        .iter()
        .map(|w| Notice {
            severity: w.severity,
            code: w.code.clone(),
            about: about(w.flow),
            text: w.text.clone(),
        })
        .collect();
    if record.status != Status::Complete {
        let text = if record.end_reason.is_empty() { status(record) } else { &record.end_reason };
        out.push(Notice {
            severity: Severity::Error,
            code: status(record).into(),
            about: about(None),
            text: text.into(),
        });
    }
    let rank = |severity| match severity {
        Severity::Error => 0,
        Severity::Warning => 1,
        Severity::Info => 2,
    };
    out.sort_by_key(|n| rank(n.severity));
    out
}

fn headlines(record: &Record) -> Vec<Headline> {
    let mut out = vec![];
    let show = |quantity: Quantity, value: Option<f64>| {
        value.filter(|v| v.is_finite()).map(|v| quantity.format(v))
    };
    for direction in [Direction::Forward, Direction::Reverse] {
        let Some(total) = record.direction(direction) else { continue };
        let members: Vec<&Flow> =
            record.flows.iter().filter(|f| f.direction == direction).collect();
        let both = record.total.forward.is_some() && record.total.reverse.is_some();
        let label =
            |what: &str| if both { format!("{what}, {direction}") } else { what.to_string() };
        if !members.is_empty() && members.iter().all(|f| f.transactions.is_some()) {
            out.extend(transactions(&members));
            continue;
        }
        let rate = total.receiver.as_ref().and_then(|r| r.bits_per_second);
        let sent = total.sender.as_ref().and_then(|s| s.bits_per_second);
        let mut note: Vec<String> =
            show(Quantity::BitsPerSecond, sent).map(|s| format!("{s} sent")).into_iter().collect();
        note.extend(Crossing::of(members.iter().copied()).map(|c| c.word().into()));
        out.push(Headline::new(
            &label("Received"),
            show(Quantity::BitsPerSecond, rate),
            note.join(", "),
        ));
        if members.iter().any(|f| f.transport.datagrams()) {
            let receiver = total.receiver.as_ref();
            let was_told = receiver.is_some_and(|r| r.lost_packets.is_some());
            let receiver = receiver.filter(|_| record.is_loss_known(direction));
            let lost = receiver.and_then(|r| r.lost_packets);
            let ratio = receiver.and_then(|r| r.loss_ratio).or(match lost {
                Some(0) => Some(0.0),
                _ => None,
            });
            let note = lost.map(|n| format!("{} packets", Quantity::Count.format(n as f64)));
            let unknown =
                if was_told && lost.is_none() { "unknown: peer report missing" } else { "" };
            out.push(Headline::new(
                &label("Loss"),
                show(Quantity::Ratio, ratio),
                note.unwrap_or_else(|| unknown.into()),
            ));
            let delays: Vec<_> = members
                .iter()
                .filter_map(|f| f.receiver.as_ref()?.one_way_delay.as_ref())
                .collect();
            let value = match delays.as_slice() {
                [] => None,
                all => {
                    Some(all.iter().map(|d| phrases::middle(d)).fold(f64::NEG_INFINITY, f64::max))
                }
            };
            let error = delays.iter().filter_map(|d| d.error_seconds).reduce(f64::max);
            let mut note: Vec<String> =
                error.map(|e| format!("± {}", Quantity::Seconds.format(e))).into_iter().collect();
            if delays.len() > 1 {
                note.push("slowest flow".into());
            } else if let Some(p99) = delays.first().and_then(|d| d.p99_seconds) {
                note.push(format!("p99 {}", Quantity::Seconds.format(p99)));
            }
            let kind = if delays.iter().all(|d| d.p50_seconds.is_some()) {
                "One-way delay, median"
            } else {
                "One-way delay, mean"
            };
            out.push(Headline::new(&label(kind), show(Quantity::Seconds, value), note.join(", ")));
        } else if let Some(n) = total.sender.as_ref().and_then(|s| s.retransmits) {
            out.push(Headline::new(
                &label("Retransmitted"),
                Some(Quantity::Count.format(n as f64)),
                "TCP segments",
            ));
        }
    }
    if let Some(latency) = &record.latency {
        let middle = |d: &Option<weir_model::record::Delay>| d.as_ref().map(phrases::middle);
        let note = show(Quantity::Seconds, middle(&latency.idle)).map(|i| format!("{i} idle"));
        out.push(Headline::new(
            "Round trip under load",
            show(Quantity::Seconds, middle(&latency.loaded)),
            note.unwrap_or_default(),
        ));
    }
    out
}

/// The headlines of flows of transactions.
fn transactions(flows: &[&Flow]) -> [Headline; 2] {
    let all = || flows.iter().filter_map(|f| f.transactions.as_ref());
    let failed = all().map(|t| t.failed).fold(0, u64::saturating_add);
    let is_echo = are_echo(flows.iter().copied());
    let has_transfers = are_transfers(flows.iter().copied());
    let answered = if is_echo {
        let completed = all().map(|t| t.completed).fold(0, u64::saturating_add);
        let requests = completed.saturating_add(failed);
        let ratio = (requests > 0).then(|| failed as f64 / requests as f64);
        let [completed, requests] = [completed, requests].map(|n| Quantity::Count.format(n as f64));
        Headline::new(
            "Answered",
            Some(format!("{completed} of {requests}")),
            ratio.map(|r| format!("{} lost", Quantity::Ratio.format(r))).unwrap_or_default(),
        )
    } else {
        let rate = all().filter_map(|t| t.transactions_per_second).reduce(|sum, rate| sum + rate);
        let (what, quantity) = match has_transfers {
            true => ("Transfers", Quantity::TransfersPerSecond),
            false => ("Transactions", Quantity::TransactionsPerSecond),
        };
        Headline::new(
            what,
            rate.map(|rate| quantity.format(rate)),
            format!("{} failed", Quantity::Count.format(failed as f64)),
        )
    };
    let times: Vec<_> = all().filter_map(|t| t.response_time.as_ref()).collect();
    let slowest = times.iter().max_by(|a, b| phrases::middle(a).total_cmp(&phrases::middle(b)));
    let middle = if slowest.is_none_or(|d| d.p50_seconds.is_some()) { "median" } else { "mean" };
    let time = match is_echo {
        true => "Round trip",
        false if has_transfers => "Completion time",
        false => "Response time",
    };
    let p99 = slowest.and_then(|d| d.p99_seconds).map(|p99| Quantity::Seconds.format(p99));
    let mut note: Vec<String> = p99.map(|p99| format!("p99 {p99}")).into_iter().collect();
    if times.len() > 1 {
        note.push("slowest flow".into());
    }
    [
        answered,
        Headline::new(
            &format!("{time}, {middle}"),
            slowest.map(|d| Quantity::Seconds.format(phrases::middle(d))),
            note.join(", "),
        ),
    ]
}

fn summary(record: &Record) -> Section {
    let mut blocks = vec![Block::Text(phrases::what_ran(record))];
    blocks.extend(phrases::what_came_out(record).into_iter().map(Block::Text));
    blocks.push(Block::Text(phrases::bottleneck(record)));
    blocks.push(Block::Text(phrases::trust(record)));
    Section::new("summary", "Summary", blocks)
}

pub(super) fn verdict(record: &Record) -> Option<Section> {
    let verdict = record.verdict.as_ref()?;
    let mut grid = Grid::new(
        "Expectations",
        [
            Column::text("Expectation"),
            Column::text("Result"),
            Column::figures("Measured", Quantity::Number),
        ],
    );
    for e in &verdict.expectations {
        let word = if e.passed { "met" } else { "NOT met" };
        grid.row([Cell::code(&e.text), word.into(), e.measured.into()]);
    }
    let words = if verdict.passed { "Passed: every expectation was met." } else { "Failed." };
    Some(Section::new("verdict", "Verdict", vec![Block::Text(words.into()), Block::Grid(grid)]))
}

fn results(record: &Record) -> Section {
    let mut blocks = vec![];
    let totals = tables::totals(record);
    if !totals.rows.is_empty() {
        blocks.push(Block::Grid(totals));
    }
    blocks.extend(tables::servers(record).map(Block::Grid));
    if record.flows.is_empty() {
        blocks.push(Block::Text("No flow was measured.".into()));
    } else {
        blocks.push(Block::Grid(tables::flows(record)));
    }
    blocks.extend(tables::transactions(record).map(Block::Grid));
    blocks.extend(tables::tcp(record).map(Block::Grid));
    blocks.extend(tables::laws(record).map(Block::Grid));
    blocks.extend(tables::pacing(record).map(Block::Grid));
    blocks.extend(tables::link_usage(record).map(Block::Grid));
    let absent = phrases::not_measured(record);
    if !absent.is_empty() {
        blocks.push(Block::Text(format!("Not measured in this run: {}.", absent.join(", "))));
    }
    Section::new("results", "Results", blocks)
}

/// Figures over time, and the others.
fn figures(record: &Record) -> (Vec<Figure>, Vec<Figure>) {
    figures_of_run(record).into_iter().partition(|f| f.x.key == "time_seconds")
}

fn delays(record: &Record, mut distributions: Vec<Figure>) -> Option<Section> {
    // Loss periods are shown with the losses.
    distributions.retain(|f| f.id != "loss-periods");
    let mut blocks: Vec<Block> = vec![];
    blocks.extend(tables::times(record).map(Block::Grid));
    blocks.extend(tables::variation(record).map(Block::Grid));
    blocks.extend(tables::voice(record).map(Block::Grid));
    if !distributions.is_empty() {
        blocks.push(Block::Figures(distributions));
    }
    if let Some(latency) = &record.latency {
        let mut text = format!(
            "{} of {} round-trip probes were answered ({}).",
            Quantity::Count.format(latency.sent.saturating_sub(latency.lost) as f64),
            Quantity::Count.format(latency.sent as f64),
            latency.method
        );
        if let Some(rpm) = latency.responsiveness_per_minute {
            text +=
                &format!(" Responsiveness: {} round trips a minute.", Quantity::Number.format(rpm));
        }
        blocks.push(Block::Text(text));
    }
    (!blocks.is_empty()).then(|| Section::new("delay", "Delay", blocks))
}

fn losses(record: &Record) -> Option<Section> {
    let mut blocks = vec![];
    if let Some(ledger) = &record.loss_ledger {
        if ledger.missing_packets == 0
            && ledger.remainder_packets == 0
            && ledger.rows.iter().all(|r| r.packets == 0)
        {
            blocks.push(Block::Text("No packet is missing.".into()));
        } else {
            blocks.push(Block::Grid(tables::ledger(ledger)));
        }
    }
    let runs: Vec<Figure> =
        figures_of_run(record).into_iter().filter(|f| f.id == "loss-periods").collect();
    if !runs.is_empty() {
        blocks.push(Block::Figures(runs));
    }
    (!blocks.is_empty()).then(|| Section::new("losses", "Missing packets", blocks))
}

/// The emulator's laws and counters, and the comparison with the receiver's log.
fn path(record: &Record) -> Option<Section> {
    let mut blocks: Vec<Block> = vec![];
    blocks.extend(tables::realised_measured(record).map(Block::Grid));
    if let Some(used) = &record.impairment {
        blocks.push(Block::Grid(tables::impairment(used)));
    }
    if let Some(joined) = &record.triangulation {
        blocks.push(Block::Facts(tables::triangulation(joined)));
    }
    (!blocks.is_empty()).then(|| Section::new("emulator", "Emulator", blocks))
}

/// Hosts, clocks, noise.
fn conditions(record: &Record) -> Section {
    let mut blocks = vec![];
    blocks.extend(tables::cpu(record).map(Block::Grid));
    let mut facts: Vec<(String, String)> = vec![];
    let mut fact = |name: &str, text: String| facts.push((name.into(), text));
    let related = |clock: Option<&ClockRelation>| clock.map_or("not related".into(), clocks);
    // One clock measures the round trips of echo.
    let has_clocks = !are_echo(&record.flows);
    if record.servers.is_empty() && has_clocks {
        fact("Clocks", related(record.clock.as_ref()));
    }
    for server in record.servers.iter().filter(|_| has_clocks) {
        fact(&format!("Clock of {}", server.name), related(server.clock.as_ref()));
    }
    match &record.time_source {
        Some(source) => fact(
            "Time sources",
            format!(
                "send {}, receive {}, resolution {}",
                source.send,
                source.receive,
                Quantity::Seconds.format(source.resolution_seconds)
            ),
        ),
        None => fact("Time sources", "not reported".into()),
    }
    match &record.calibration {
        Some(c) => {
            let figures = tables::named_figures(&c.noise_floor);
            let list: Vec<String> =
                figures.iter().map(|(name, value)| format!("{name} {value}")).collect();
            fact(
                "Noise floor",
                format!("{} (calibrated {})", list.join("; "), phrases::when(&c.at)),
            );
        }
        None => fact("Noise floor", "not measured on this host (weir calibrate)".into()),
    }
    if let Some(t) = record.loss_threshold_seconds {
        fact("Loss threshold", Quantity::Seconds.format(t));
    }
    if let Some(t) = record.omitted_seconds.filter(|t| *t > 0.0) {
        fact("Left out at the start", Quantity::Seconds.format(t));
    }
    if let Some(bytes) = record.control_bytes {
        fact("Control and probes", Quantity::Bytes.format(bytes as f64));
    }
    blocks.push(Block::Facts(facts));
    blocks.extend(tables::hosts(record).map(Block::Grid));
    blocks.extend(record.commands.iter().map(|ran| {
        let when = match ran.when {
            CommandTime::Before => "before",
            CommandTime::After => "after",
        };
        Block::Verbatim {
            title: format!("Output of `{}`, run {when} the test", ran.command),
            text: ran.output.clone(),
        }
    }));
    Section { background: true, ..Section::new("conditions", "Hosts, clocks, noise", blocks) }
}

fn clocks(clock: &ClockRelation) -> String {
    let show = |v| Quantity::Seconds.format(v);
    if clock.method == "shared" {
        return format!("one clock shared by both ends, ± {}", show(clock.error_seconds));
    }
    let mut text = format!(
        "{}{}: offset {}, skew {} ppm, ± {}, {} probes",
        clock.method,
        clock.source.as_deref().map(|s| format!(" by {s}")).unwrap_or_default(),
        show(clock.offset_seconds),
        Quantity::Number.format(clock.skew_ratio * 1e6),
        show(clock.error_seconds),
        clock.samples
    );
    if let Some(min) = clock.min_round_trip_seconds {
        text += &format!(", smallest round trip {}", show(min));
    }
    text
}

pub(super) fn what_ran(record: &Record) -> Section {
    let mut blocks = vec![];
    if let Some(line) = repeating(&record.command, &record.id) {
        let mut text =
            "Another program started this run, with a plan in a temporary file; ".to_owned();
        if is_kept(&record.command) {
            blocks.push(Block::Command(line));
            text += "this command takes the plan from the stored run.";
        } else {
            // Without that file the command can't be repeated.
            text += &format!(
                "the run was not stored. Save the plan below under the file name in this command: {line}."
            );
        }
        if let Some(experiment) = record.labels.get("experiment") {
            text += &format!(
                " It is a run of experiment {experiment}, whose hosts may no longer exist; if that is stored, \
                 weir report {experiment} shows how it was started."
            );
        }
        blocks.push(Block::Text(text));
    } else if !record.command.is_empty() {
        blocks.push(Block::Command(command(&record.command)));
    }
    let mut facts = vec![];
    let mut fact = |name: &str, text: String| {
        if !text.trim().is_empty() {
            facts.push((name.to_string(), text));
        }
    };
    fact("Run", record.id.clone());
    fact("Started", phrases::when(&record.started_at));
    fact("End", format!("{}: {}", status(record), record.end_reason));
    fact("Seed", record.seed.to_string());
    fact("Plan, SHA-256", record.plan_sha256.clone());
    fact("Imported from", imported_from(record).unwrap_or_default());
    fact("Peer", record.peer.clone());
    let labels: Vec<String> = record.labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
    fact("Labels", labels.join(", "));
    let build = record.build.commit.as_deref().map(|c| format!(" ({c})")).unwrap_or_default();
    fact("Weir", format!("{}{build} {}", record.version, record.build.target));
    blocks.push(Block::Facts(facts));
    if !record.flows.is_empty() {
        blocks.push(Block::Grid(tables::endpoints(record)));
    }
    // A plan can always be serialized.
    if let Ok(text) = weir_model::json::to_pretty(&record.plan) {
        blocks.push(Block::Verbatim { title: "Plan as understood (weir.plan/1)".into(), text });
    }
    Section { background: true, ..Section::new("what-ran", "What ran", blocks) }
}

/// The command that repeats a run started by another program of Weir: with the stored plan and the same host, key and threads.
/// `None` for a run that a user started.
///
/// The plan of such a run was in a temporary directory of an experiment (`weir-run-…`) or a server (`weir-ui-…`). Only that
/// distinguishes it from a user's plan, since users may use `--json-stream` too. `web/src/lib/commands.ts` does the same.
fn repeating(words: &[String], id: &str) -> Option<String> {
    // Flags that belonged to that run only: its control socket, its start time, its labels.
    const OWN: [&str; 5] =
        ["--json-stream", "--no-store", "--label=", "--control-socket=", "--start-at="];
    const TEMPORARY: [&str; 2] = ["weir-run-", "weir-ui-"];
    let (program, _) = words.split_first()?;
    let plan = words.iter().find_map(|word| word.strip_prefix("--plan="))?;
    let directory = plan.rsplit('/').nth(1)?;
    if !TEMPORARY.iter().any(|own| directory.starts_with(own)) {
        return None;
    }
    let file = format!("{id}.plan.json");
    let left = words.iter().filter(|word| !OWN.iter().any(|own| word.starts_with(own)));
    let again: Vec<String> = left
        .map(
            |word| {
                if word.starts_with("--plan=") { format!("--plan={file}") } else { word.clone() }
            },
        )
        .collect();
    let again = command(&again);
    if !is_kept(words) {
        return Some(again);
    }
    let show = [program.as_str(), "runs", "show", id, "--plan"].map(String::from);
    Some(format!("{} > {} && {again}", command(&show), command(&[file])))
}

/// Whether the run was to be stored.
fn is_kept(words: &[String]) -> bool {
    !words.iter().any(|word| word == "--no-store")
}

/// The arguments of a command, quoted for a shell.
pub(super) fn command(words: &[String]) -> String {
    let quoted = |word: &String| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+./:,@%".contains(c);
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

pub(super) fn method(records: &[&Record]) -> Section {
    meaning(definitions::of(records))
}

/// The section of definitions.
pub(super) fn meaning(definitions: Vec<definitions::Definition>) -> Section {
    let blocks = vec![Block::Definitions(definitions)];
    Section { background: true, ..Section::new("method", "What the figures mean", blocks) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_can_be_typed_again() {
        let words = ["weir", "test", "h", "-T", "it's; rm", ""].map(String::from);
        assert_eq!(command(&words), r"weir test h -T 'it'\''s; rm' ''");
    }

    #[test]
    fn a_run_that_a_program_started_is_repeated_without_its_lost_file() {
        let words = "weir test --json-stream --plan=/tmp/weir-run-x/.tmpQ --key-file=k --port=1 --label=experiment=e \
                     --control-socket=/tmp/s --start-at=monotonic:5 --spin=1ms -- 192.0.2.1";
        let words: Vec<String> = words.split(' ').map(Into::into).collect();
        let again = "weir test --plan=id.plan.json --key-file=k --port=1 --spin=1ms -- 192.0.2.1";
        let line = format!("weir runs show id --plan > id.plan.json && {again}");
        let record = |command: &[String]| Record {
            id: "id".into(),
            command: command.to_vec(),
            labels: [("experiment".to_owned(), "e".to_owned())].into(),
            ..Record::default()
        };
        let markdown = |record: &Record| crate::page::markdown(&crate::page::of_run(record));
        let text = markdown(&record(&words));
        assert!(text.contains(&format!("To repeat: `{line}`")), "{text}");
        let page = crate::page::html(&crate::page::of_run(&record(&words)));
        assert!(
            page.contains("weir report e shows how it was started") && !page.contains(".tmpQ"),
            "{page}"
        );
        // If the run was not stored, its plan is only on the page.
        let mut unkept = words;
        unkept.insert(4, "--no-store".into());
        assert!(!markdown(&record(&unkept)).contains("To repeat"));
        let page = crate::page::html(&crate::page::of_run(&record(&unkept)));
        assert!(page.contains("Save the plan below") && page.contains(again), "{page}");
        let server = "weir test --json-stream --plan=/tmp/weir-ui-y/1.plan --control-socket=/tmp/weir-ui-y/1.sock -- h";
        let server: Vec<String> = server.split(' ').map(Into::into).collect();
        let line = "weir runs show id --plan > id.plan.json && weir test --plan=id.plan.json -- h";
        assert_eq!(repeating(&server, "id").as_deref(), Some(line));
        // Commands of users are shown unchanged.
        for own in [
            "weir test h --plan=mine.toml",
            "weir test h --json-stream",
            "weir test --json-stream --plan=mine.toml --label=experiment=mine h",
            "weir test --json-stream --plan=/home/me/plans/mine.toml h",
        ] {
            let words: Vec<String> = own.split(' ').map(Into::into).collect();
            assert!(markdown(&record(&words)).contains(&format!("To repeat: `{own}`")), "{own}");
        }
    }
}
