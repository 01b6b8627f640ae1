use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::*;
use crate::record::{DirectionTotal, Record, Sums};

/// A JSON value at a path of keys.
fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |v, key| v.get(key))
}

fn put(root: &mut Value, path: &str, value: Value) {
    let mut place = root;
    for key in path.split('.') {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        place = &mut place[key];
    }
    *place = value;
}

/// A flow with `value` at `path`, in an otherwise empty flow of `transport`.
fn flow_with(path: &str, value: Value, transport: &str) -> Flow {
    let mut flow =
        json!({ "transport": transport, "voice_codec": "g711", "sender": {}, "receiver": {} });
    put(&mut flow, path, value);
    serde_json::from_value(flow).unwrap()
}

#[test]
fn names_labels_and_keys_are_unique() {
    for get in [|m: &Definition| m.name, |m: &Definition| m.label, |m: &Definition| m.key] {
        let all: BTreeSet<&str> = METRICS.iter().map(get).collect();
        assert_eq!(all.len(), METRICS.len());
    }
    for m in METRICS {
        assert!(!m.definition.is_empty() && m.definition.ends_with('.'), "{}", m.name);
        assert!(!m.label.is_empty() && !m.limits.is_empty(), "{}", m.name);
    }
}

/// A metric is read from the field that its path names: the web page reads it from there.
#[test]
fn metrics_are_read_from_their_paths() {
    let mut read = 0;
    for m in METRICS.iter().filter(|m| !m.path.is_empty()) {
        let is_stream = matches!(m.carrier, Carrier::Streams | Carrier::TcpInfo);
        let transport = if is_stream { "tcp" } else { "udp" };
        if m.is_of_run() {
            let delay = json!({ "count": 3, "mean_seconds": 7.0 });
            let mut record = json!({});
            put(&mut record, m.path, if m.is_distribution() { delay } else { json!(7.0) });
            let record: Record = serde_json::from_value(record).unwrap();
            assert_eq!(m.of(&record, None, None), Some(7.0), "{}", m.name);
        } else if m.is_distribution() {
            let delay = json!({ "count": 3, "mean_seconds": 7.0 });
            let flow = flow_with(m.path, delay, transport);
            assert_eq!(m.of_flow(&flow), Some(7.0), "{}", m.name);
        } else {
            // Integers are read as floats; fields of floats take integers too.
            let flow = flow_with(m.path, json!(7), transport);
            assert_eq!(m.of_flow(&flow), Some(7.0), "{}", m.name);
            let other = flow_with(m.path, json!(7), if transport == "udp" { "tcp" } else { "udp" });
            assert_eq!(m.of_flow(&other).is_some(), m.carrier == Carrier::All, "{}", m.name);
        }
        read += 1;
    }
    assert!(read > 40, "{read}");
    assert!(at(&json!({ "a": { "b": 1 } }), "a.b").is_some());
}

/// An interval's value equals its field, and fields that one end alone fills belong to that end.
#[test]
fn interval_values_are_read_from_their_fields() {
    for m in METRICS {
        let Some(interval) = &m.interval else { continue };
        if interval.field.is_empty() {
            continue;
        }
        let count: IntervalCount = serde_json::from_value(json!({ interval.field: 5 })).unwrap();
        assert_eq!((interval.get)(&count), Some(5.0), "{}", m.name);
    }
    assert!(is_interval_field_of("jitter_seconds", End::Receiver));
    assert!(!is_interval_field_of("jitter_seconds", End::Sender));
    assert!(!is_interval_field_of("rtt_seconds", End::Receiver));
    assert!(
        is_interval_field_of("bytes", End::Sender) && is_interval_field_of("bytes", End::Receiver)
    );
}

#[test]
fn quotients_need_the_values_of_all_flows() {
    let flow = |lost: Option<u64>, sent: u64| -> Flow {
        let receiver = match lost {
            Some(n) => json!({ "lost_packets": n }),
            None => json!({}),
        };
        let flow =
            json!({ "transport": "udp", "sender": { "packets": sent }, "receiver": receiver });
        serde_json::from_value(flow).unwrap()
    };
    let loss = Definition::named("loss").unwrap();
    let of = |flows: &[Flow]| loss.of_flows(flows.iter(), None);
    assert_eq!(of(&[flow(Some(1), 10), flow(Some(5), 30)]), Some(0.15));
    assert_eq!(of(&[flow(Some(1), 10), flow(None, 30)]), None);
    assert_eq!(of(&[flow(Some(0), 0)]), None, "nothing was sent");
    assert_eq!(of(&[]), None);
}

#[test]
fn a_shared_sender_counts_once_whichever_of_its_sessions_failed() {
    let to = |host: &str| {
        format!(
            "[[connection]]\nhost = \"{host}\"\ntransport = \"multicast\"\ngroup = \"239.1.1.1\"\n"
        )
    };
    let plan = ["schema = \"weir.plan/1\"\n", &to("a"), &to("b"), &to("c")].concat();
    let plan = crate::plan::Plan::parse(&plan).unwrap();
    let flow = |id: u32, sent: Option<u64>| -> Flow {
        let sender = sent.map(|n| json!({ "packets": n }));
        let flow = json!({ "id": id, "transport": "multicast", "sender": sender, "receiver": {} });
        serde_json::from_value(flow).unwrap()
    };
    let sent = Definition::named("sent_packets").unwrap();
    for (flows, copies) in [
        (vec![flow(1, Some(5)), flow(2, Some(5)), flow(3, Some(5))], [2, 3].as_slice()),
        // The first server failed before its session sent anything, early, and before there was a flow.
        (vec![flow(1, None), flow(2, Some(5)), flow(3, Some(5))], &[1, 3]),
        (vec![flow(1, Some(1)), flow(2, Some(5)), flow(3, Some(4))], &[1, 3]),
        (vec![flow(2, Some(5)), flow(3, Some(5))], &[3]),
    ] {
        let mut record = Record { plan: plan.clone(), flows, ..Record::default() };
        assert_eq!(record.sender_copies(), copies);
        assert_eq!(sent.of(&record, None, None), Some(5.0), "{copies:?}");
        let sums = Sums { bytes: 7, ..Sums::default() };
        let total = DirectionTotal { sender: Some(sums), ..DirectionTotal::default() };
        record.total.forward = Some(total);
        let bytes = Definition::named("sent_bytes").unwrap().of(&record, None, None);
        assert_eq!(bytes, Some(7.0), "{copies:?}");
    }
}

/// The table in docs/METHODOLOGY.md is generated. `WEIR_BLESS=1` rewrites it.
#[test]
fn methodology_table_is_current() {
    const BEGIN: &str = "<!-- metrics: generated from crates/model/src/metric/declared.rs -->\n";
    const END: &str = "<!-- end of metrics -->\n";
    let path = format!("{}/../../docs/METHODOLOGY.md", env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let now = format!("{before}{BEGIN}{}{END}{after}", methodology_table());
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(&path, &now).unwrap();
    } else {
        assert!(page == now, "docs/METHODOLOGY.md: run this test with WEIR_BLESS=1 and commit");
    }
}

/// The page's mock server answers with the declared metrics. `WEIR_BLESS=1` rewrites its file.
#[test]
fn mock_server_metrics_are_current() {
    let path = format!("{}/../../web/test/mock/data/metrics.json", env!("CARGO_MANIFEST_DIR"));
    let now = serde_json::to_string_pretty(&json!({ "metrics": metric_entries() })).unwrap() + "\n";
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(&path, &now).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == now, "{path}: run this test with WEIR_BLESS=1 and commit");
}

/// One direction of a call that has no rating must not leave the rating of the other as that of the call.
#[test]
fn an_unrated_voice_flow_makes_the_figure_of_the_run_absent() {
    let rated = flow_with("voice.mos", json!(4.0), "udp");
    let plain = Flow { voice_codec: None, voice: None, ..rated.clone() };
    let unrated = Flow { voice: None, ..rated.clone() };
    let mos = METRICS.iter().find(|m| m.name == "mos").unwrap();
    let of = |other: Flow| {
        let flows = vec![rated.clone(), other];
        mos.of(&Record { flows, ..Record::default() }, None, None)
    };
    assert_eq!(of(plain), Some(4.0));
    assert_eq!(of(unrated), None);
}

/// Flows of transfers have transfers and completion times, as those of echo have replies and round trips.
#[test]
fn labels_use_the_words_of_the_flows() {
    use crate::record::{Transactions, Transfers};
    let flow = |transfers| Flow {
        transactions: Some(Transactions { transfers, ..Transactions::default() }),
        ..Flow::default()
    };
    let (plain, transfers) = (flow(None), flow(Some(Transfers::default())));
    let response = METRICS.iter().find(|m| m.name == "response_time").unwrap();
    let of = |flows: &[&Flow]| response.label_of(flows.iter().copied());
    assert_eq!(of(&[&plain]), response.label);
    assert_eq!(Some(of(&[&transfers, &transfers])), response.transfer_label);
    assert_eq!(of(&[&transfers, &plain]), response.label);
    assert_eq!(of(&[]), response.label);
}
