//! Short definitions of the figures on a page, with their source. docs/METHODOLOGY.md has the details.

use weir_model::experiment::Metric;
use weir_model::metric::METRICS;
use weir_model::record::{Flow, Receiver, Record};

/// The definition of a metric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// The metric.
    pub term: &'static str,
    /// The definition.
    pub text: &'static str,
    /// The standard that defines it; empty: Weir's own.
    pub source: &'static str,
}

/// The definitions of these metrics, in the order of [`METRICS`]; names that are no metrics are left out.
pub(super) fn of_metrics<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<Definition> {
    let read = |name: &str| {
        let of = ["variance ", "deviation "].iter().find_map(|of| name.strip_prefix(of));
        of.unwrap_or(name).parse::<Metric>().ok()
    };
    let used: Vec<Metric> = names.into_iter().filter_map(read).collect();
    let is_used = |m: &&weir_model::metric::Definition| {
        used.iter().any(|metric| metric.definition().name == m.name)
    };
    METRICS.iter().filter(is_used).map(Definition::from).collect()
}

impl From<&weir_model::metric::Definition> for Definition {
    fn from(m: &weir_model::metric::Definition) -> Definition {
        Definition { term: m.label, text: m.definition, source: m.source }
    }
}

/// The definitions of the metrics that these records have.
pub(super) fn of(records: &[&Record]) -> Vec<Definition> {
    let flows = || records.iter().flat_map(|r| &r.flows);
    let receiver =
        |has: fn(&Receiver) -> bool| flows().any(|f| f.receiver.as_ref().is_some_and(has));
    let flow = |has: fn(&Flow) -> bool| flows().any(has);
    let any = |has: fn(&Record) -> bool| records.iter().any(|r| has(r));
    let mut out: Vec<Definition> = METRICS
        .iter()
        .filter(|m| {
            let values =
                flows().map(|f| m.of_flow(f)).chain(records.iter().map(|r| m.of(r, None, None)));
            values.flatten().any(|v| !m.is_rare || v > 0.0)
        })
        .map(|m| Definition { term: m.label_of(flows()), ..Definition::from(m) })
        .collect();
    let mut define = |shown: bool, term, source, text| {
        if shown {
            out.push(Definition { term, text, source });
        }
    };
    define(
        receiver(|r| r.crossing.is_some()),
        "Crossing",
        "",
        "How datagrams reached the receiver's socket. Per-packet: each on its own. Coalesced: as super-packets of several (GSO, GRO). Mixed: flows of both kinds. Coalesced and per-packet rates are not comparable.",
    );
    define(
        receiver(|r| r.loss_periods.is_some()),
        "Loss periods",
        "RFC 3357",
        "Numbers of consecutive lost packets.",
    );
    define(
        flow(|f| f.sender.as_ref().is_some_and(|s| s.spacing.is_some())),
        "Spacing",
        "",
        "Actual less intended gap between a paced sender's packets; ± is half the range from the 16th to the 84th percentile.",
    );
    define(
        any(|r| r.loss_ledger.is_some()),
        "Loss ledger",
        "",
        "Where each missing packet went. Exact rows are of this test alone; a bound may count other traffic too. Rows and remainder add up to what is missing.",
    );
    define(
        any(|r| r.impairment.is_some()),
        "Asked, realised, measured",
        "",
        "What the emulator's laws say, what its own counters say it did, and what the receiver saw.",
    );
    define(
        any(|r| r.impairment.is_some()),
        "Lateness",
        "",
        "The emulator's departure of a packet less its deadline.",
    );
    define(
        any(|r| r.triangulation.is_some()),
        "Triangulation",
        "",
        "The emulator's packet trace and the receiver's log, joined packet by packet. The residual is measured delay less the emulator's: the error of tool and hosts.",
    );
    define(
        any(|r| r.calibration.is_some()),
        "Noise floor",
        "",
        "What this host measures on a path of its own without other load, by weir calibrate. Smaller differences are the host's.",
    );
    out
}
