//! `weir impair --otlp`: the counters of each flow and direction of an emulator.

use weir_emulator::Report;
use weir_model::impairment::COUNTERS;
use weir_model::plan::Direction;

use crate::commands::exporter::OtlpSeries;

/// The counters of a report, each by interfaces, direction and flow, and the packets that are queued.
pub(super) fn series(report: &Report) -> Vec<OtlpSeries> {
    let [a, b] = &report.interfaces;
    let of_direction = |direction: Direction| match direction {
        Direction::Forward => ("from".to_owned(), a.clone()),
        Direction::Reverse => ("from".to_owned(), b.clone()),
    };
    let counters = COUNTERS.iter().enumerate().map(|(i, counter)| {
        let value = |flow: &weir_emulator::FlowReport| {
            let labels = vec![of_direction(flow.direction), ("flow".to_owned(), flow.name.clone())];
            (labels, flow.counters.named()[i].1)
        };
        OtlpSeries {
            name: format!("weir_emulator_{}", counter.name),
            help: counter.meaning.into(),
            is_sum: true,
            values: report.impairment.flows.iter().map(value).collect(),
        }
    });
    let queued = OtlpSeries {
        name: "weir_emulator_queued_packets".into(),
        help: "Packets that are queued or delayed now".into(),
        is_sum: false,
        values: report
            .directions
            .iter()
            .map(|d| (vec![of_direction(d.direction)], d.held_packets))
            .collect(),
    };
    counters.chain([queued]).collect()
}
