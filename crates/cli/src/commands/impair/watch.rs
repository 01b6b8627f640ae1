//! `weir impair stats --watch`: rates and ratios of each interval, from two reports.

use std::collections::HashMap;
use std::io::{IsTerminal, stdout};
use std::time::Duration;

use serde_json::json;
use weir_emulator::{DirectionReport, FlowReport, Report};
use weir_model::impairment::Counters;
use weir_model::plan::Direction;
use weir_model::units::Span;
use weir_report::{Align, Style, Table, Units, percent, significant};

use super::args::SocketArgs;
use super::control::{talk, understood};
use super::text::{in_hop, way};
use crate::error::CliError;
use crate::output::print;
use crate::terminal::style;

/// Cursor to the first line, and an empty screen from there.
const CLEAR: &str = "\x1b[H\x1b[J";

/// Prints a table for each interval, in place of the one before on a terminal, until the emulator ends; with `json` a report in a line.
pub(super) fn run(interval: Span, json: bool, socket: &SocketArgs) -> Result<i32, CliError> {
    let ask =
        || talk(socket, &json!({ "verb": "stats" })).map(|mut answer| answer["report"].take());
    let mut before: Option<Report> = None;
    loop {
        let answer = ask()?;
        if json {
            print(&format!("{answer}\n"))?;
        } else {
            let report: Report = understood(&answer)?;
            if let Some(before) = &before {
                let clear = if stdout().is_terminal() { CLEAR } else { "" };
                let table = table(before, &report, &style());
                // While the emulator ends, its time stands still.
                if !table.is_empty() {
                    print(&format!("{clear}{table}\n"))?;
                }
            }
            before = Some(report);
        }
        std::thread::sleep(Duration::from_nanos(interval.0));
    }
}

/// What happened between two reports, a line for each flow and direction that saw packets.
fn table(before: &Report, now: &Report, style: &Style) -> String {
    let seconds = now.seconds - before.seconds;
    if seconds <= 0.0 {
        return String::new();
    }
    let right = Align::Right;
    let mut table = Table::new([
        ("flow", Align::Left),
        ("direction", Align::Left),
        ("packets/s", right),
        ("rate in", right),
        ("rate out", right),
        ("lost", right),
        ("queue-dropped", right),
        ("duplicated", right),
        ("reordered", right),
        ("unplanned", right),
    ]);
    let key = |flow: &FlowReport| (flow.name.clone(), flow.direction == Direction::Forward);
    let earlier: HashMap<_, Counters> =
        before.impairment.flows.iter().map(|flow| (key(flow), flow.counters)).collect();
    let hops = now.impairment.config.hops();
    let rate = |bytes: u64| Units::ADAPTIVE.rate(8.0 * bytes as f64 / seconds);
    for flow in &now.impairment.flows {
        let then = earlier.get(&key(flow)).copied().unwrap_or_default();
        let since = flow.counters.since(&then);
        let packets = since.received_packets;
        if packets == 0 && since.sent_packets == 0 {
            continue;
        }
        let ratio = |count: u64| match packets {
            0 => "-".to_owned(),
            _ => percent(count as f64 / packets as f64),
        };
        table.row([
            in_hop(&flow.name, flow.hop, hops),
            way(flow.direction).to_owned(),
            significant(packets as f64 / seconds),
            rate(since.received_bytes),
            rate(since.sent_bytes),
            ratio(since.lost_packets),
            ratio(since.queue_dropped_packets),
            ratio(since.duplicated_packets),
            ratio(since.reordered_packets),
            since.unplanned_dropped_packets.to_string(),
        ]);
    }
    let mut out =
        format!("{:.1} s to {:.1} s\n{}", before.seconds, now.seconds, table.render(style));
    for (now, before) in now.directions.iter().zip(&before.directions) {
        let since = |count: fn(&DirectionReport) -> u64| count(now).saturating_sub(count(before));
        let processor = since(|direction| direction.link.cpu_nanoseconds) as f64 / 1e9 / seconds;
        out += &format!(
            "{}: {} held, {} late, {} of a processor\n",
            way(now.direction),
            weir_model::counted(now.held_packets, "packet"),
            since(|direction| direction.late_packets),
            percent(processor),
        );
    }
    for alarm in now.alarms.iter().filter(|alarm| alarm.active) {
        out += &format!("alarm at {:.1} s: {}\n", alarm.at_seconds, alarm.text);
    }
    out
}
