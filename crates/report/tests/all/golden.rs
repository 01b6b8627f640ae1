//! Golden tests: compares every rendering of the records with committed files. `WEIR_BLESS=1` rewrites them.
// Clippy exempts test functions, but not their helpers.

use crate::support;
use std::path::PathBuf;

use support::golden;

use weir_model::record::{Flow, Record};
use weir_report::{
    CsvWriter, ErrorEvent, IntervalTable, JsonStream, Start, Style, TextOptions, csv_columns,
    header, json_line, json_pretty, summary,
};

/// The terminal output of a run.
fn terminal(record: &Record, options: &TextOptions) -> String {
    let start = Start::from(record);
    let table = IntervalTable::new(&start.flows, options);
    let mut out = header(&start, options) + &table.heading();
    for interval in &record.intervals {
        out += &table.rows(interval);
    }
    out + &summary(record, options)
}

fn csv(record: &Record) -> String {
    let mut writer = CsvWriter::new(vec![]).unwrap();
    writer.record(record).unwrap();
    String::from_utf8(writer.into_inner()).unwrap()
}

#[test]
fn text() {
    let plain = TextOptions::default();
    let verbose = TextOptions { verbose: true, ..plain };
    golden("udp_loss.txt", &terminal(&support::udp_loss(), &plain));
    golden("udp_loss_verbose.txt", &terminal(&support::udp_loss(), &verbose));
    let bytes = TextOptions { units: "K".parse().unwrap(), width: 60, stored: false, ..plain };
    golden("udp_loss_kbytes_narrow.txt", &terminal(&support::udp_loss(), &bytes));
    golden("tcp_bidir.txt", &terminal(&support::tcp_bidir(), &plain));
    golden("tcp_bidir_verbose.txt", &terminal(&support::tcp_bidir(), &verbose));
    golden("transactions.txt", &terminal(&support::transactions(), &plain));
    golden("echo.txt", &terminal(&support::echo(), &plain));
    golden("partial.txt", &terminal(&support::partial(), &plain));
    golden("thousand.txt", &terminal(&support::thousand(), &plain));
}

/// If a peer's report is missing, the rows of the summary have no loss, as in all other renderings.
#[test]
fn rows_of_a_flow_without_the_peers_report_have_no_loss() {
    let rows = |record: &Record| -> Vec<String> {
        let text = summary(record, &TextOptions { verbose: true, ..TextOptions::default() });
        text.lines().filter(|l| l.contains("  receiver")).map(Into::into).collect()
    };
    let mut record = support::udp_loss();
    let told = rows(&record);
    assert!(!told.is_empty() && told.iter().all(|l| l.contains("%)")), "{told:?}");
    for flow in &mut record.flows {
        flow.receiver.as_mut().unwrap().reported_until_seconds = Some(1.5);
    }
    let told = rows(&record);
    assert!(
        told.iter().all(|l| l.contains("  -  ") && !l.contains("-/") && !l.contains('%')),
        "{told:?}"
    );
    // One of two concurrent flows: its own row and the sum have no loss.
    let mut other = support::udp_loss().flows[0].clone();
    (other.id, other.name) = (99, "other".into());
    record.flows.truncate(1);
    record.flows.push(other);
    let told = rows(&record);
    assert_eq!(told.len(), 3, "{told:?}");
    let has_loss: Vec<bool> = told.iter().map(|l| l.contains("%)")).collect();
    assert_eq!(has_loss, [false, true, false], "{told:?}");
    // A missing report of a stream does not affect the loss of the datagrams.
    let mut mixed = support::udp_loss();
    let mut streams = support::tcp_bidir().flows;
    streams[0].receiver.as_mut().unwrap().reported_until_seconds = Some(1.5);
    mixed.flows.extend(streams);
    let whole = mixed.flows[0].clone();
    mixed.flows.extend((50..54).map(|id| Flow { id, ..whole.clone() }));
    let text = summary(&mixed, &TextOptions::default());
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(!words.contains("report missing"), "{text}");
}

#[test]
fn colour_adds_escape_sequences_and_nothing_else() {
    for record in [support::udp_loss(), support::tcp_bidir(), support::partial()] {
        let plain = terminal(&record, &TextOptions::default());
        let colour = terminal(&record, &TextOptions { style: Style::COLOUR, ..Default::default() });
        assert!(colour.contains("\x1b[1m"));
        let mut bare = colour;
        for code in ["\x1b[1m", "\x1b[33m", "\x1b[31m", "\x1b[0m"] {
            bare = bare.replace(code, "");
        }
        assert_eq!(bare, plain);
    }
}

#[test]
fn json() {
    golden("udp_loss.json", &json_pretty(&support::udp_loss()));
    golden("tcp_bidir.json", &json_pretty(&support::tcp_bidir()));
    golden("partial.json", &json_pretty(&support::partial()));
    for record in
        [support::udp_loss(), support::tcp_bidir(), support::partial(), support::thousand()]
    {
        for text in [json_pretty(&record), json_line(&record)] {
            assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
        }
    }
}

#[test]
fn json_stream() {
    let record = support::udp_loss();
    let mut stream = JsonStream::new(vec![]);
    stream.start(&Start::from(&record)).unwrap();
    for interval in &record.intervals {
        stream.interval(interval).unwrap();
    }
    stream
        .error(&ErrorEvent { message: "connect to 198.18.0.2: refused".into(), exit_code: 3 })
        .unwrap();
    stream.end(&record).unwrap();
    let text = String::from_utf8(stream.into_inner()).unwrap();
    golden("udp_loss.jsonl", &text);
    let events: Vec<serde_json::Value> =
        text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let names: Vec<_> = events.iter().map(|e| e["event"].as_str().unwrap()).collect();
    assert_eq!(names, ["start", "interval", "interval", "interval", "error", "end"]);
    assert_eq!(serde_json::from_value::<Record>(events[5]["data"].clone()).unwrap(), record);
    assert_eq!(
        ErrorEvent { message: "m".into(), exit_code: 2 }.to_json(),
        "{\"error\":{\"message\":\"m\",\"exit_code\":2}}\n"
    );
}

#[test]
fn csv_files() {
    golden("udp_loss.csv", &csv(&support::udp_loss()));
    golden("partial.csv", &csv(&support::partial()));
    let thousand = csv(&support::thousand());
    let kind = |k: &str| thousand.lines().filter(|l| l.split(',').next() == Some(k)).count();
    assert_eq!((kind("interval"), kind("summary"), kind("total")), (1000, 1000, 1));
    // No name in that record needs quotes, so splitting at commas gives the columns.
    assert!(thousand.lines().all(|l| l.split(',').count() == csv_columns().len()));
}

#[test]
fn a_csv_cell_is_in_its_column() {
    let text = csv(&support::tcp_bidir());
    let rows: Vec<Vec<&str>> = text.lines().map(|l| l.split(',').collect()).collect();
    let column = |name: &str| rows[0].iter().position(|c| *c == name).unwrap();
    let flow3 = rows.iter().find(|r| r[0] == "summary" && r[column("flow_id")] == "3").unwrap();
    assert_eq!(flow3[column("flow_name")], "tcp-forward-3");
    assert_eq!(flow3[column("sender_bytes")], "1111000000");
    assert_eq!(flow3[column("tcp_mss_bytes")], "1448");
    assert_eq!(flow3[column("receiver_jitter_seconds")], "", "not measured: empty, never zero");
    let interval = rows.iter().find(|r| r[0] == "interval" && r[column("flow_id")] == "8").unwrap();
    assert_eq!(interval[column("flow_direction")], "reverse");
    assert_eq!(interval[column("sender_cwnd_bytes")], "1310720");
}

/// Renders seeded mutations of valid records: no rendering panics.
#[test]
fn mutated_records_render() {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let pieces: [&[u8]; 10] = [
        b"1e308",
        b"-1",
        b"0",
        b"18446744073709551615",
        b"\\u001b[31m",
        b"\\n",
        b"=",
        b"\\\"",
        b"null",
        b"-0.0",
    ];
    let mut rendered = 0;
    for record in [support::udp_loss(), support::tcp_bidir(), support::partial()] {
        let seed = json_line(&record).into_bytes();
        weir_report::fuzz::fuzz_render(&seed);
        for _ in 0..250 {
            let mut data = seed.clone();
            for _ in 0..=next() % 3 {
                let at = (next() as usize) % data.len();
                // Replaces a digit or a character of a string, which mostly leaves valid JSON.
                match data[at] {
                    b'0'..=b'9' if next() % 2 == 0 => data[at] = b'0' + (next() % 10) as u8,
                    b'0'..=b'9' | b'a'..=b'z' => {
                        let piece = pieces[(next() as usize) % pieces.len()];
                        data.splice(at..=at, piece.iter().copied());
                    }
                    _ => {}
                }
            }
            rendered += usize::from(serde_json::from_slice::<Record>(&data).is_ok());
            weir_report::fuzz::fuzz_render(&data);
        }
    }
    assert!(rendered > 80, "only {rendered} mutations were still records");
}

/// docs/formats.md lists the actual columns. `WEIR_BLESS=1` rewrites the list.
#[test]
fn documented_columns_are_current() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once("<!-- columns -->\n").unwrap();
    let after = &rest[rest.find("\n## ").unwrap()..];
    let columns: Vec<String> = csv_columns().iter().map(|c| format!("`{c}`")).collect();
    let now = format!("{before}<!-- columns -->\n{}\n{after}", columns.join(",\n"));
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(&path, &now).unwrap();
    } else {
        assert!(
            page == now,
            "docs/formats.md: the list of columns differs; run with WEIR_BLESS=1 and commit"
        );
    }
}

#[test]
fn verified_content_without_errors_is_reported() {
    let told = |bit_errors| {
        let mut record = support::udp_loss();
        for flow in &mut record.flows {
            let receiver = flow.receiver.as_mut().unwrap();
            (receiver.bit_errors, receiver.corrupted_packets) = (bit_errors, Some(0));
            receiver.bytes = 4711;
            receiver.verified_bytes = bit_errors.map(|_| 4711);
        }
        summary(&record, &TextOptions::default())
    };
    assert!(
        told(Some(0)).contains("Content verified 4711 bytes, no bit errors"),
        "{}",
        told(Some(0))
    );
    // 3 of 8 × 4711 bits.
    assert!(told(Some(3)).contains("8.0e-5"), "{}", told(Some(3)));
    assert!(told(Some(3)).contains("3 bit errors"));
    // Not requested, hence not measured.
    assert!(!told(None).contains("verified"));
}

#[test]
fn the_loss_line_says_until_when_an_unreachable_peer_reported() {
    let line = |record: &Record| {
        let text = terminal(record, &TextOptions { width: 400, ..TextOptions::default() });
        text.lines().find(|l| l.trim_start().starts_with("Loss")).unwrap().to_owned()
    };
    let whole = support::udp_loss();
    assert!(!line(&whole).contains("not known"), "{}", line(&whole));
    let [mut no_receiver, mut no_sender, mut silent] = [whole.clone(), whole.clone(), whole];
    no_receiver.flows[0].receiver.as_mut().unwrap().reported_until_seconds = Some(3.0);
    no_sender.flows[0].sender.as_mut().unwrap().reported_until_seconds = Some(3.0);
    silent.flows[0].sender = None;
    let until = line(&no_receiver);
    assert!(until.contains("until 3.00 s; later not known"), "{until}");
    for lost in [no_sender, silent] {
        let arrived = line(&lost);
        assert!(arrived.contains("how many more were sent is not known"), "{arrived}");
    }
    let mut many = support::thousand();
    assert!(!line(&many).contains("not known"), "{}", line(&many));
    for flow in &mut many.flows[..3] {
        flow.receiver.as_mut().unwrap().reported_until_seconds = Some(3.0);
    }
    let of_many = line(&many);
    assert!(
        of_many.contains("peer report missing for 3 flows, whose loss is unknown"),
        "{of_many}"
    );
}
