//! Tidy tables: their content, and the list of their columns in docs/formats.md.
// Clippy exempts test functions, but not their helpers.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use weir_model::record::{Histogram, Record};
use weir_runs::{TABLE_FILES, Tables, table_columns};

const UDP: &str = include_str!("../../../report/tests/golden/udp_loss.json");
const TCP: &str = include_str!("../../../report/tests/golden/tcp_bidir.json");

fn tables(records: &[Record], label_keys: &[&str]) -> ([String; 4], u64) {
    let mut tables = Tables::new([vec![], vec![], vec![], vec![]], label_keys).unwrap();
    for record in records {
        tables.record(record).unwrap();
    }
    let left_out = tables.unreadable_histograms();
    (tables.into_inner().unwrap().map(|bytes| String::from_utf8(bytes).unwrap()), left_out)
}

/// The rows of a table without quoted cells, by column.
fn rows(text: &str) -> Vec<HashMap<&str, &str>> {
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    lines
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            assert_eq!(cells.len(), header.len(), "{line}");
            header.iter().copied().zip(cells).collect()
        })
        .collect()
}

#[test]
fn every_run_flow_interval_and_cell_has_its_row() {
    let mut udp: Record = serde_json::from_str(UDP).unwrap();
    // This test splits rows at commas, so titles and processor names must not contain any.
    udp.plan.title = Some("=HYPERLINK".into());
    let tcp: Record = serde_json::from_str(TCP).unwrap();
    let mut histogram = weir_stats::Histogram::new();
    [1_000u64, 1_000, 50_000_000].into_iter().for_each(|ns| histogram.record(ns));
    let encoded = |encoding: &str, data: String| Histogram {
        flow: Some(1),
        metric: "one_way_delay".into(),
        encoding: encoding.into(),
        data,
    };
    udp.histograms = vec![
        encoded("hdr-v2", histogram.to_hdr_v2().unwrap()),
        encoded("hdr-v2", "AAAA".into()),
        encoded("hdr-v9", histogram.to_hdr_v2().unwrap()),
    ];
    let ([runs, flows, intervals, histograms], left_out) =
        tables(&[udp.clone(), tcp.clone()], &["site"]);
    assert_eq!(left_out, 2);

    let runs = rows(&runs);
    assert_eq!(runs.len(), 2);
    assert_eq!((runs[0]["run_id"], runs[0]["status"]), (udp.id.as_str(), "complete"));
    assert_eq!((runs[0]["labels_site"], runs[1]["labels_site"]), ("annex", ""));
    assert_eq!(runs[0]["plan_title"], "'=HYPERLINK");
    assert_eq!(runs[0]["command"], "weir test 198.18.0.2");
    assert_eq!(runs[0]["total_forward_receiver_loss_ratio"], "0.0012");
    assert_eq!(runs[0]["total_forward_receiver_lost_packets"], "12");
    assert_eq!((runs[0]["warnings"], runs[0]["local_host"]), ("2", "alpha"));
    assert_eq!(runs[0]["warning_codes"].split(' ').count(), 2);
    assert_eq!(runs[1]["total_forward_receiver_lost_packets"], "", "not measured: empty");

    let flows = rows(&flows);
    assert_eq!(flows.len(), 1 + 8);
    assert_eq!(flows[0]["receiver_one_way_delay_p99_seconds"], "0.000054");
    assert_eq!(flows[0]["plan_connection_rate"], "1000pps");
    assert_eq!(flows[0]["receiver_crossing"], "per-packet");
    let reverse = flows.iter().filter(|f| f["flow_direction"] == "reverse");
    assert!(reverse.clone().count() == 4);
    assert!(reverse.into_iter().all(|f| f["plan_connection_direction"] == "reverse"));

    let intervals = rows(&intervals);
    assert_eq!(intervals.len(), 3 + 8);
    assert_eq!(
        (intervals[1]["start_seconds"], intervals[1]["receiver_lost_packets"]),
        ("1.0", "4")
    );
    assert_eq!((intervals[2]["receiver_bytes"], intervals[2]["flow_name"]), ("", "udp-forward"));

    let histograms = rows(&histograms);
    assert_eq!(histograms.len(), 2);
    assert_eq!(
        (histograms[0]["low_seconds"], histograms[0]["high_seconds"], histograms[0]["count"]),
        ("1e-6", "1e-6", "2")
    );
    let (low, high): (f64, f64) = (
        histograms[1]["low_seconds"].parse().unwrap(),
        histograms[1]["high_seconds"].parse().unwrap(),
    );
    assert!(low <= 0.05 && 0.05 <= high && high - low < 0.05 / 1000.0);
}

/// Parts of a flow and of a record that few tests have are in their rows too.
#[test]
fn rare_parts_have_cells() {
    let mut record: Record = serde_json::from_str(UDP).unwrap();
    record.plan.title = None;
    record.flows[0].transactions =
        serde_json::from_value(serde_json::json!({ "completed": 41 })).unwrap();
    record.flows[0].host = Some("198.18.0.2".into());
    record.data_source = serde_json::from_value(serde_json::json!({ "bytes": 43 })).unwrap();
    let ([runs, flows, ..], _) = tables(&[record], &[]);
    let (text, flows) = (rows(&runs)[0].clone(), rows(&flows)[0].clone());
    assert_eq!(text["data_source_bytes"], "43");
    assert_eq!((flows["transactions_completed"], flows["flow_host"]), ("41", "198.18.0.2"));
}

#[test]
fn odd_cells_are_quoted() {
    let mut record: Record = serde_json::from_str(UDP).unwrap();
    record.plan.title = Some("a,\"b\"\n=c".into());
    record.labels = [("x,y".to_string(), "1".to_string())].into();
    let ([runs, ..], _) = tables(&[record], &["x,y"]);
    assert!(runs.lines().next().unwrap().ends_with(",\"labels_x,y\""), "{runs}");
    assert!(runs.contains(",\"a,\"\"b\"\"\n=c\","), "{runs}");
}

/// Locked by the tests that rewrite docs/formats.md with `WEIR_BLESS=1`.
pub(crate) static PAGE: Mutex<()> = Mutex::new(());

/// docs/formats.md lists the actual columns. `WEIR_BLESS=1` rewrites the lists.
#[test]
fn documented_columns_are_current() {
    let _page = PAGE.lock().unwrap_or_else(PoisonError::into_inner);
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let mut now = page.clone();
    for file in TABLE_FILES {
        let mark = format!("<!-- columns of {file} -->\n");
        let (before, rest) = now.split_once(&mark).unwrap();
        // The list ends with the first empty line.
        let after = &rest[rest.find("\n\n").unwrap()..];
        let columns: Vec<String> =
            table_columns(file).iter().map(|column| format!("`{}`", column.name)).collect();
        now = format!("{before}{mark}{}{after}", columns.join(",\n"));
    }
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(&path, &now).unwrap();
    } else {
        assert!(
            page == now,
            "docs/formats.md: the lists of columns differ; run with WEIR_BLESS=1 and commit"
        );
    }
}
