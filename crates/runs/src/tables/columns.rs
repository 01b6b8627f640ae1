//! The columns of the tables: JSON paths of the record, joined by `_`. The order is fixed; new ones go to the end of their
//! group, and a test compares them with the published schema.

use super::TABLE_FILES;

const RUN: &[&str] = &[
    "run_id",
    "schema",
    "version",
    "build_commit",
    "build_target",
    "started_at",
    "seconds",
    "status",
    "end_reason",
    "command",
    "plan_sha256",
    "seed",
    "peer",
    "flows",
    "warnings",
    "warning_codes",
    "verdict_passed",
    "control_bytes",
    "omitted_seconds",
    "loss_threshold_seconds",
];
const PLAN: &[&str] = &[
    "schema",
    "title",
    "host",
    "port",
    "family",
    "bind",
    "device",
    "interval",
    "omit",
    "seed",
    "data_ports",
    "loss_threshold",
    "latency",
    "nominal",
];
const HOST: &[&str] = &[
    "host",
    "version",
    "os",
    "kernel",
    "cpu_model",
    "cpu_cores",
    "cpu_governor",
    "memory_bytes",
    "virtual",
    "clocksource",
];
const CLOCK: &[&str] = &[
    "clock_method",
    "clock_source",
    "clock_offset_seconds",
    "clock_skew_ratio",
    "clock_error_seconds",
    "clock_samples",
    "clock_min_round_trip_seconds",
    "time_source_send",
    "time_source_receive",
    "time_source_resolution_seconds",
];
const SUMS: &[&str] = &[
    "bytes",
    "packets",
    "seconds",
    "start_seconds",
    "end_seconds",
    "bits_per_second",
    "packets_per_second",
    "lost_packets",
    "loss_ratio",
    "late_packets",
    "duplicate_packets",
    "reordered_packets",
    "corrupted_packets",
    "implausible_packets",
    "retransmits",
    "missed_slots",
];
const DELAY: &[&str] = &[
    "count",
    "min_seconds",
    "mean_seconds",
    "p50_seconds",
    "p90_seconds",
    "p99_seconds",
    "p99_9_seconds",
    "p99_99_seconds",
    "p99_999_seconds",
    "max_seconds",
    "error_seconds",
    "negative_samples",
];
const LATENCY: &[&str] =
    &["latency_method", "latency_sent", "latency_lost", "latency_responsiveness_per_minute"];
const CPU: &[&str] = &[
    "seconds",
    "user_ratio",
    "system_ratio",
    "irq_ratio",
    "steal_ratio",
    "process_user_ratio",
    "process_system_ratio",
    "busiest_core_ratio",
    "waiting_seconds",
    "waiting_process_ratio",
];
const RUN_RESULTS: &[&str] = &[
    "link_usage_nominal_bits_per_second",
    "link_usage_source",
    "link_usage_direction",
    "link_usage_payload_ratio",
    "link_usage_ip_ratio",
    "link_usage_ethernet_ratio",
    "link_usage_wire_ratio",
    "loss_ledger_missing_packets",
    "loss_ledger_remainder_packets",
    "triangulation_matched_packets",
    "triangulation_disagreeing_packets",
    "triangulation_predicted_fates",
    "triangulation_unpredicted_fates",
    "triangulation_residual_count",
    "triangulation_residual_min_seconds",
    "triangulation_residual_p50_seconds",
    "triangulation_residual_p99_seconds",
    "triangulation_residual_max_seconds",
    "calibration_id",
    "calibration_at",
];
const FLOW: &[&str] = &[
    "run_id",
    "flow_id",
    "flow_name",
    "flow_transport",
    "flow_family",
    "flow_direction",
    "flow_source",
    "flow_destination",
    "flow_payload_bytes",
    "flow_connect_seconds",
];
const SENDER: &[&str] = &[
    "bytes",
    "packets",
    "seconds",
    "start_seconds",
    "end_seconds",
    "bits_per_second",
    "packets_per_second",
    "io_calls",
    "method",
    "segments_per_message",
    "intended_slots",
    "missed_slots",
    "late_slots",
    "asked_packets_per_second",
    "spacing_intended_seconds",
    "spacing_deviation_seconds",
    "spacing_p50_seconds",
    "spacing_p01_seconds",
    "spacing_p99_seconds",
    "spacing_max_seconds",
    "buffer_bytes",
    "queue_full",
    "scheduling",
    "reported_until_seconds",
];
const RECEIVER: &[&str] = &[
    "bytes",
    "packets",
    "seconds",
    "start_seconds",
    "end_seconds",
    "bits_per_second",
    "packets_per_second",
    "io_calls",
    "method",
    "crossing",
    "segments_per_message",
    "lost_packets",
    "loss_ratio",
    "late_packets",
    "implausible_packets",
    "forced_packets",
    "duplicate_packets",
    "reordered_packets",
    "reordering_extent_mean",
    "reordering_extent_max",
    "reordering_extent_bounds",
    "corrupted_packets",
    "unreadable_packets",
    "bit_errors",
    "undelivered_bytes",
    "truncated_packets",
    "ambiguous",
    "jitter_seconds",
    "delay_variation_pdv_mean_seconds",
    "delay_variation_pdv_p99_seconds",
    "delay_variation_ipdv_mean_seconds",
    "delay_variation_ipdv_p99_seconds",
    "delay_variation_ipdv_pairs",
    "delay_variation_ipdv_omitted_pairs",
    "user_timed_messages",
    "time_unit",
    "socket_dropped_packets",
    "buffer_bytes",
    "reported_until_seconds",
];
const TCP: &[&str] = &[
    "retransmits",
    "mss_bytes",
    "rtt_seconds",
    "min_rtt_seconds",
    "max_rtt_seconds",
    "cwnd_bytes",
    "max_cwnd_bytes",
    "congestion_control",
    "send_window_bytes",
    "receive_window_bytes",
    "retransmitted_bytes",
    "receive_window_limited_ratio",
    "send_buffer_limited_ratio",
    "timestamps",
];
const CONNECTION: &[&str] = &[
    "name",
    "transport",
    "direction",
    "count",
    "payload",
    "rate",
    "duration",
    "bytes",
    "packets",
    "start_after",
    "autostart",
    "content",
    "verify",
    "catch_up",
    "gso",
    "gro",
    "window",
    "mss",
    "no_delay",
    "congestion",
    "tos",
    "flow_label",
    "ttl",
    "dont_fragment",
    "zero_copy",
    "discard",
    "kernel_pacing",
    "client_port",
];
const INTERVAL: &[&str] = &[
    "run_id",
    "start_seconds",
    "end_seconds",
    "omitted",
    "flow_id",
    "flow_name",
    "flow_transport",
    "flow_direction",
];
const INTERVAL_SENDER: &[&str] = &[
    "bytes",
    "packets",
    "bits_per_second",
    "packets_per_second",
    "retransmits",
    "cwnd_bytes",
    "rtt_seconds",
];
const INTERVAL_RECEIVER: &[&str] = &[
    "bytes",
    "packets",
    "bits_per_second",
    "packets_per_second",
    "lost_packets",
    "duplicate_packets",
    "reordered_packets",
    "jitter_seconds",
    "mean_delay_seconds",
];
const HISTOGRAM: &[&str] = &["run_id", "flow_id", "metric", "low_seconds", "high_seconds", "count"];

/// The columns of one of [`TABLE_FILES`], in order; in `runs.csv` those of labels follow, `labels_KEY`.
/// Nothing for another name.
pub fn table_columns(file: &str) -> Vec<String> {
    let groups: &[(&str, &[&str])] = match TABLE_FILES.iter().position(|name| *name == file) {
        Some(0) => &[
            ("", RUN),
            ("plan", PLAN),
            ("total_forward_sender", SUMS),
            ("total_forward_receiver", SUMS),
            ("total_reverse_sender", SUMS),
            ("total_reverse_receiver", SUMS),
            ("", LATENCY),
            ("latency_idle", DELAY),
            ("latency_loaded", DELAY),
            ("cpu_local", CPU),
            ("cpu_remote", CPU),
            ("", RUN_RESULTS),
            ("", CLOCK),
            ("local", HOST),
            ("remote", HOST),
        ],
        Some(1) => &[
            ("", FLOW),
            ("sender", SENDER),
            ("receiver", RECEIVER),
            ("receiver_one_way_delay", DELAY),
            ("receiver_one_way_delay_from_intended", DELAY),
            ("round_trip", DELAY),
            ("tcp", TCP),
            ("plan_connection", CONNECTION),
        ],
        Some(2) => &[("", INTERVAL), ("sender", INTERVAL_SENDER), ("receiver", INTERVAL_RECEIVER)],
        Some(_) => &[("", HISTOGRAM)],
        None => &[],
    };
    let column = |prefix: &str, name: &str| match prefix {
        "" => name.to_string(),
        _ => format!("{prefix}_{name}"),
    };
    groups
        .iter()
        .flat_map(|(prefix, names)| names.iter().map(move |name| column(prefix, name)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::collections::BTreeSet;

    /// Paths of the scalars of a type in a published schema; those of lists and maps are not columns.
    fn leaves(root: &Value, node: &Value, path: &str, out: &mut BTreeSet<String>) {
        let node = match node["$ref"].as_str() {
            Some(r) => &root["$defs"][r.trim_start_matches("#/$defs/")],
            None => node,
        };
        for (key, value) in node["properties"].as_object().into_iter().flatten() {
            let path = if path.is_empty() { key.clone() } else { format!("{path}_{key}") };
            leaves(root, value, &path, out);
        }
        for inner in node["anyOf"].as_array().into_iter().flatten() {
            leaves(root, inner, path, out);
        }
        let scalar = |t: &Value| ["integer", "number", "string", "boolean"].iter().any(|s| t == s);
        let kind = &node["type"];
        if scalar(kind)
            || kind.as_array().is_some_and(|k| k.iter().any(scalar))
            || node.get("oneOf").is_some()
            || node.get("enum").is_some()
        {
            out.insert(path.to_string());
        }
    }

    fn columns(file: &str) -> BTreeSet<String> {
        let list = table_columns(file);
        let set: BTreeSet<String> = list.iter().cloned().collect();
        assert_eq!(set.len(), list.len(), "a column of {file} stands twice");
        set
    }

    /// The columns of a table are the scalars of its part of the schema, but for the `ours` and the `left_out`.
    fn compare(
        columns: &BTreeSet<String>,
        paths: &BTreeSet<String>,
        ours: &[&str],
        left_out: &[&str],
    ) {
        let missing: Vec<_> = paths
            .difference(columns)
            .filter(|p| !left_out.iter().any(|l| *p == l || p.starts_with(&format!("{l}_"))))
            .collect();
        assert!(missing.is_empty(), "no column: {missing:?}");
        let unknown: Vec<_> =
            columns.difference(paths).filter(|c| !ours.contains(&c.as_str())).collect();
        assert!(unknown.is_empty(), "not in the schema: {unknown:?}");
    }

    #[test]
    fn every_scalar_of_the_record_has_its_column() {
        let schema = weir_model::schema::run_schema();
        let mut paths = BTreeSet::new();
        leaves(&schema, &schema, "", &mut paths);
        assert!(paths.len() > 150, "{paths:?}");
        // What an emulator was asked has no fixed columns.
        let ours = ["run_id", "command", "flows", "warnings", "warning_codes"];
        compare(&columns("runs.csv"), &paths, &ours, &["id", "impairment"]);

        let mut paths = BTreeSet::new();
        leaves(&schema, &schema["$defs"]["Flow"], "", &mut paths);
        let mut connection = BTreeSet::new();
        leaves(&schema, &schema["$defs"]["Connection"], "plan_connection", &mut connection);
        let own = [
            "id",
            "name",
            "transport",
            "family",
            "direction",
            "source",
            "destination",
            "payload_bytes",
            "connect_seconds",
        ];
        let mut paths: BTreeSet<String> = paths
            .into_iter()
            .map(|p| if own.contains(&p.as_str()) { format!("flow_{p}") } else { p })
            .collect();
        paths.extend(connection);
        compare(&columns("flows.csv"), &paths, &["run_id"], &[]);

        let mut paths = BTreeSet::new();
        leaves(&schema, &schema["$defs"]["IntervalFlow"], "", &mut paths);
        // One shape serves both ends of an interval; these never come from that end.
        let one_sided = [
            "id",
            "sender_lost_packets",
            "sender_duplicate_packets",
            "sender_reordered_packets",
            "sender_jitter_seconds",
            "sender_mean_delay_seconds",
            "receiver_retransmits",
            "receiver_cwnd_bytes",
            "receiver_rtt_seconds",
            // Of running tests alone.
            "sender_earlier_lost_packets",
            "receiver_earlier_lost_packets",
        ];
        compare(&columns("intervals.csv"), &paths, INTERVAL, &one_sided);
        assert_eq!(columns("histograms.csv").len(), HISTOGRAM.len());
        assert!(table_columns("other.csv").is_empty());
    }
}
