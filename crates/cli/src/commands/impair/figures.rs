//! `weir impair --otlp`: the counters of each flow and direction of an emulator.

use weir_emulator::Report;
use weir_model::impairment::COUNTERS;
use weir_model::plan::Direction;

use crate::commands::exporter::OtlpSeries;

/// The counters of the reports, each by interface, direction and flow, and the packets that are queued.
pub(super) fn series<'a>(reports: impl IntoIterator<Item = &'a Report> + Clone) -> Vec<OtlpSeries> {
    let from = |report: &Report, direction: Direction| {
        let [a, b] = &report.interfaces;
        let interface = if direction == Direction::Forward { a } else { b };
        ("from".to_owned(), interface.clone())
    };
    let counters = COUNTERS.iter().enumerate().map(|(i, counter)| {
        let of_report = |report: &'a Report| {
            report.impairment.flows.iter().map(move |flow| {
                let from = from(report, flow.direction);
                (vec![from, ("flow".to_owned(), flow.name.clone())], flow.counters.named()[i].1)
            })
        };
        OtlpSeries {
            name: format!("weir_emulator_{}", counter.name),
            help: counter.meaning.into(),
            is_sum: true,
            values: reports.clone().into_iter().flat_map(of_report).collect(),
        }
    });
    let of_report = |report: &'a Report| {
        let directions = report.directions.iter();
        directions.map(move |one| (vec![from(report, one.direction)], one.held_packets))
    };
    let queued = OtlpSeries {
        name: "weir_emulator_queued_packets".into(),
        help: "Packets that are queued or delayed now".into(),
        is_sum: false,
        values: reports.clone().into_iter().flat_map(of_report).collect(),
    };
    counters.chain([queued]).collect()
}
