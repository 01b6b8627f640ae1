//! What the figures shown mean: short, with their source. docs/METHODOLOGY.md has the rest.

use weir_model::plan::Transport;
use weir_model::record::{Flow, Receiver, Record};

/// A metric, what it means and where that is defined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// The metric.
    pub term: &'static str,
    /// What it means here.
    pub text: &'static str,
    /// The standard that defines it; empty: Weir's own.
    pub source: &'static str,
}

/// The definitions of exactly those metrics that these records hold.
pub(super) fn of(records: &[&Record]) -> Vec<Definition> {
    let flows = || records.iter().flat_map(|r| &r.flows);
    let receiver =
        |has: fn(&Receiver) -> bool| flows().any(|f| f.receiver.as_ref().is_some_and(has));
    let flow = |has: fn(&Flow) -> bool| flows().any(has);
    let any = |has: fn(&Record) -> bool| records.iter().any(|r| has(r));
    let udp = flow(|f| f.transport == Transport::Udp);
    let mut out = vec![];
    let mut define = |shown: bool, term, source, text| {
        if shown {
            out.push(Definition { term, text, source });
        }
    };
    define(
        true,
        "Throughput",
        "",
        "Payload bytes × 8 over the time from the first to the last arrival (received) or of sending (sent); of a sum, over the time from the first flow's start to the last one's end. Headers are not in it.",
    );
    define(
        receiver(|r| r.crossing.is_some()),
        "Crossing",
        "",
        "How datagrams reached the receiver's socket. Per-packet: each on its own. Coalesced: as super-packets of several (GSO, GRO). Mixed: flows of both kinds. Coalesced and per-packet rates are not comparable.",
    );
    define(
        receiver(|r| r.lost_packets.is_some()),
        "Loss",
        "RFC 7680",
        "Sent less received. A packet is lost when it has not come within the loss threshold; what comes later stays lost and is counted as late.",
    );
    define(
        receiver(|r| r.loss_periods.is_some()),
        "Loss periods",
        "RFC 3357",
        "Numbers of consecutive lost packets.",
    );
    define(
        udp && receiver(|r| r.duplicate_packets.is_some()),
        "Duplicates",
        "RFC 5560",
        "Further copies of a packet that had come before.",
    );
    define(
        udp && receiver(|r| r.reordered_packets.is_some()),
        "Reordered",
        "RFC 4737",
        "Came after a packet that was sent later.",
    );
    define(
        receiver(|r| r.corrupted_packets.is_some_and(|n| n > 0)),
        "Corrupted",
        "",
        "The packet's keyed tag or its payload is not what was sent.",
    );
    define(
        receiver(|r| r.implausible_packets.is_some_and(|n| n > 0)),
        "Implausible",
        "",
        "A number beyond what the sender can have sent: damaged or foreign. Not counted as received.",
    );
    define(
        receiver(|r| r.forced_packets.is_some_and(|n| n > 0)),
        "Given up early",
        "",
        "Counted as lost before the loss threshold had passed, because the receiver's bitmap was full.",
    );
    define(
        receiver(|r| r.undelivered_bytes.is_some_and(|n| n > 0)),
        "Not delivered",
        "",
        "Bytes that the sender of a stream had written and that had not arrived when the receiver stopped waiting.",
    );
    define(
        receiver(|r| r.jitter_seconds.is_some()),
        "Jitter",
        "RFC 3550",
        "Smoothed difference of consecutive transit times (J += (|D| − J)/16), at the end of an interval or of the run; not an average.",
    );
    define(
        receiver(|r| r.delay_variation.is_some()),
        "Delay variation",
        "RFC 5481",
        "PDV: delay less the smallest delay. IPDV: absolute difference between the delays of consecutive packets; where pairs are omitted, a lower bound.",
    );
    define(
        receiver(|r| r.one_way_delay.is_some()),
        "One-way delay",
        "RFC 7679",
        "Received less sent, the two clocks related as stated; ± is the bound of that relation's error. A percentile q needs at least 10/(1 − q) samples.",
    );
    define(
        receiver(|r| r.one_way_delay_from_intended.is_some()),
        "From intended",
        "",
        "The same from when the schedule meant to send: the sender's own lateness is in it, so that nothing is omitted under load.",
    );
    define(
        any(|r| r.latency.is_some()) || flow(|f| f.round_trip.is_some()),
        "Round trip",
        "RFC 2681",
        "Answer received less probe sent, less the time that the other host held it; idle before the test, loaded during it.",
    );
    define(
        any(|r| r.latency.as_ref().is_some_and(|l| l.responsiveness_per_minute.is_some())),
        "Responsiveness",
        "",
        "60 ÷ mean loaded round trip in seconds: round trips a minute, of the network alone.",
    );
    define(
        flow(|f| f.tcp.is_some()),
        "TCP figures",
        "",
        "The sender's kernel's own (TCP_INFO): smoothed round trip, congestion window, retransmitted segments.",
    );
    define(
        flow(|f| f.sender.as_ref().is_some_and(|s| s.spacing.is_some())),
        "Spacing",
        "",
        "Actual less intended gap between a paced sender's packets; ± is half the range from the 16th to the 84th percentile.",
    );
    define(
        flow(|f| f.sender.as_ref().is_some_and(|s| s.intended_slots.is_some())),
        "Late, missed slots",
        "",
        "Sent more than one period after its time; skipped because the backlog was too long.",
    );
    define(
        any(|r| r.link_usage.is_some()),
        "Link usage",
        "",
        "Payload, with IP and transport headers, with Ethernet header and FCS, with preamble and gap (wire), each over the nominal rate. Computed, not counted.",
    );
    define(
        any(|r| r.loss_ledger.is_some()),
        "Loss ledger",
        "",
        "Where each missing packet went. Exact rows are of this test alone; a bound may count other traffic too. Rows and remainder add up to what is missing.",
    );
    define(
        any(|r| r.cpu.is_some()),
        "CPU",
        "",
        "Shares of all processors of the host while the test sent, without the wait for stragglers; Weir's own in processors (1 is one core).",
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
        "The emulator's journal and the receiver's log, joined packet by packet. The residual is measured delay less the emulator's: the error of tool and hosts.",
    );
    define(
        any(|r| r.calibration.is_some()),
        "Noise floor",
        "",
        "What this host shows on an undisturbed path of its own, by weir calibrate: smaller differences are those of the host.",
    );
    out
}
