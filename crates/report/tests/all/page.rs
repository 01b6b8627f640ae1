//! Pages: their content, the escaping of strings of a record, and their size.
// Clippy exempts test functions, but not their helpers.

use crate::support;
use serde_json::Value;
use support::golden;
use weir_model::experiment::{Experiment, HostUse, ResultTable, TableCell};
use weir_model::record::{Host, Record};
use weir_report::page::{
    figures_of_run, headings, html, markdown, of_experiments, of_run, of_runs,
};
use weir_report::{CsvWriter, TextOptions, csv_columns, escape, json_pretty, summary};

/// The visible text of a page: without elements, with references resolved.
fn text_of(html: &str) -> String {
    let body = &html[html.find("<body>").unwrap()..html.find("<script>").unwrap()];
    let mut out = String::new();
    for part in body.split('<') {
        out.push_str(part.split_once('>').map_or(part, |(_, text)| text));
        out.push(' ');
    }
    for (reference, c) in
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")]
    {
        out = out.replace(reference, c);
    }
    out.replace(['\u{a0}', '\u{202f}'], " ")
}

/// The names of all elements in their order.
fn elements(html: &str) -> Vec<&str> {
    let end = |c: char| c.is_whitespace() || c == '>' || c == '/';
    html.split('<')
        .skip(1)
        .map(|part| {
            let rest = part.strip_prefix('/').unwrap_or(part);
            &rest[..rest.find(end).unwrap_or(rest.len())]
        })
        .collect()
}

#[test]
fn an_experiment_is_shown_as_it_was() {
    let input = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/experiment.json");
    let text = std::fs::read_to_string(input).unwrap();
    let experiment: weir_model::experiment::Experiment = serde_json::from_str(&text).unwrap();
    let page = weir_report::page::of_experiment(&experiment);
    golden("experiment.md", &markdown(&page));
    golden("experiment.csv", &weir_report::experiment_csv(&experiment));
    golden("experiment-tables.txt", &weir_report::tables_text(&experiment.tables, 100));
    golden("experiment-tables-narrow.txt", &weir_report::tables_text(&experiment.tables, 60));
    let tables = &experiment.tables;
    let [name] = weir_report::table_names(tables)[..] else { panic!("one table") };
    golden("experiment-table.csv", &weir_report::table_csv(tables, name));
    let text = text_of(&html(&page));
    for wanted in [
        "Golden experiment",
        "not for publication",
        "saturation: received against sent",
        "Their first packets arrived within",
        "sum packet_rate >= 130000",
        "hello <world>",
    ] {
        assert!(text.contains(wanted), "{wanted}");
    }
}

/// Published columns are there once, and each experiment has its measured columns, its steps and its series.
#[test]
fn several_experiments_are_side_by_side() {
    let input = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/experiment.json");
    let text = std::fs::read_to_string(input).unwrap();
    let first: Experiment = serde_json::from_str(&text).unwrap();
    let mut second = Experiment { id: "20261123-other".into(), ..first.clone() };
    let used = |kernel: &str| {
        let host = Host { os: "Linux".into(), kernel: kernel.into(), ..Host::default() };
        vec![HostUse { role: "a".into(), host }]
    };
    second.hosts = used("6.12.0");
    // Systems where they differ, else names and times, never ids.
    let named = format!("{}, {} UTC", first.name, first.started_at[..16].replace('T', " "));
    assert_eq!(headings(&[first.clone(), second.clone()]), [&named, "Linux 6.12.0"]);
    let same = Experiment { hosts: used("6.12.0"), ..first.clone() };
    let three = headings(&[first.clone(), same.clone(), second.clone()]);
    assert!(three.iter().all(|heading| heading.starts_with(&first.name)), "{three:?}");
    let distinct: std::collections::BTreeSet<&String> = three.iter().collect();
    assert_eq!(distinct.len(), 3, "{three:?}");
    let titled = |title: &str| Experiment { title: Some(title.into()), ..first.clone() };
    let titles = headings(&[titled("before"), titled("after")]);
    assert!(titles[0].starts_with("before, ") && titles[1].starts_with("after, "), "{titles:?}");
    // A row that only the second has, and a figure that it has not.
    let mut own = second.tables[0].rows[0].clone();
    own.labels[0] = "64".into();
    second.tables[0].rows.push(own);
    let experiments = [("old".to_owned(), first), ("new".to_owned(), second)];
    let merged = weir_report::merged_tables(&experiments);
    let [old, new] = [0, 1].map(|i| &experiments[i].1.tables);
    assert_eq!(merged.len(), old.len());
    let count = |table: &ResultTable, published| {
        table.columns.iter().filter(|c| c.published == published).count()
    };
    assert_eq!(count(&merged[0], true), count(&old[0], true));
    // The columns of both, and their differences.
    assert_eq!(count(&merged[0], false), 3 * count(&old[0], false));
    assert_eq!(merged[0].rows.len(), new[0].rows.len());
    let last = merged[0].rows.last().unwrap();
    let absent = |cell: &TableCell| cell.absent.is_some();
    let measured: Vec<(bool, bool)> = merged[0]
        .columns
        .iter()
        .zip(&last.cells)
        .filter(|(column, _)| !column.published && !column.metrics.is_empty())
        .map(|(column, cell)| (column.group == "old", absent(cell)))
        .collect();
    assert!(measured.iter().all(|(is_old, is_absent)| is_old == is_absent), "{measured:?}");
    let page = of_experiments(&experiments);
    golden("experiments.md", &markdown(&page));
    golden("experiments-steps.txt", &weir_report::experiments_text(&experiments, 100));
    golden("experiments-tables.txt", &weir_report::tables_text(&merged, 100));
    let csv = weir_report::experiments_csv(&experiments);
    let one = weir_report::experiment_csv(&experiments[0].1);
    assert!(csv.starts_with("experiment,step,"));
    assert_eq!(csv.lines().count(), 2 * one.lines().count() - 1);
    let ids: Vec<&str> = page.figures().map(|f| f.id.as_str()).collect();
    let distinct: std::collections::BTreeSet<&&str> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len(), "{ids:?}");
    for figure in page.figures() {
        let names = |of: &str| figure.series.iter().filter(|s| s.name.ends_with(of)).count();
        assert_eq!(names("old"), names("new"), "{}", figure.title);
    }
}

#[test]
fn a_page_reports_everything_of_a_run() {
    let record = support::everything();
    golden("everything.json", &json_pretty(&record));
    let page = html(&of_run(&record));
    let text = text_of(&page);
    for wanted in [
        "Voice beside a bulk transfer",
        "run 20261122-081500-e0e0e0",
        "failed",
        "Warning, flow 1:",
        "socket-overflow",
        "12 of 10 000 packets were lost (0.12 %)",
        "p99 one_way_delay < 41 ms",
        "weir test 198.18.0.2 --plan 'voice and bulk.toml'",
        "0x7",
        "offset -1.25 ms",
        "send user, receive kernel, resolution 1.00 ns",
        "Example CPU",
        "socket overflow",
        "loss 0.1%, delay 40ms",
        "10 003",
        "RFC 7679",
        "RFC 3550",
        "\"schema\": \"weir.plan/1\"",
        "Spacing deviation 4.10 µs",
    ] {
        assert!(text.contains(wanted), "{wanted:?} is not in the page:\n{text}");
    }
    let warnings = page.find("class=\"notices\"").unwrap();
    assert!(
        warnings < page.find("<svg").unwrap() && warnings < page.find("<table").unwrap(),
        "warnings are at the top"
    );
    assert!(
        !page.contains("http://")
            && !page.contains("https://")
            && !page.contains(" src=")
            && !page.contains("style=\"")
    );
    golden("everything.md", &markdown(&of_run(&record)));
}

/// Coalesced and per-packet rates are not comparable: every rendering of a run says which one it shows.
#[test]
fn each_rendering_says_how_datagrams_crossed() {
    use weir_model::record::Crossing::{Coalesced, Mixed, PerPacket};
    for (both, wanted) in [
        ([PerPacket, PerPacket], PerPacket),
        ([Coalesced, Coalesced], Coalesced),
        ([PerPacket, Coalesced], Mixed),
    ] {
        let mut record = support::udp_loss();
        let mut other = record.flows[0].clone();
        other.id = 2;
        record.flows.push(other);
        for (flow, crossing) in record.flows.iter_mut().zip(both) {
            flow.receiver.as_mut().unwrap().crossing = Some(crossing);
        }
        // The rows of the two flows and of their sum.
        let text = summary(&record, &TextOptions::default());
        let labels: Vec<&str> =
            text.lines().filter_map(|l| Some(l.split_once("receiver, ")?.1)).collect();
        assert_eq!(labels, [both[0].word(), both[1].word(), wanted.word()], "{text}");
        let page = of_run(&record);
        let note = format!("sent, {}", wanted.word());
        for (shown, page) in [("HTML", text_of(&html(&page))), ("Markdown", markdown(&page))] {
            assert!(page.contains(&note), "{shown} without {note:?}: {page}");
            assert!(both.iter().all(|c| page.contains(c.word())), "{shown}: {page}");
        }
        let mut csv = CsvWriter::new(vec![]).unwrap();
        csv.record(&record).unwrap();
        let csv = String::from_utf8(csv.into_inner()).unwrap();
        let at = csv_columns().iter().position(|c| *c == "receiver_crossing").unwrap();
        let cells = csv.lines().filter(|l| l.starts_with("summary,"));
        let cells: Vec<&str> = cells.filter_map(|l| l.split(',').nth(at)).collect();
        assert_eq!(cells, both.map(|c| c.word()));
        let json: Value = serde_json::from_str(&json_pretty(&record)).unwrap();
        let of = |flow: usize| &json["flows"][flow]["receiver"]["crossing"];
        assert_eq!([of(0), of(1)], both.map(|c| c.word()));
    }
}

#[test]
fn figures_that_were_not_measured_are_listed_and_never_zero() {
    let record = support::partial();
    let text = text_of(&html(&of_run(&record)));
    for wanted in [
        "not measured",
        "Not measured in this run: what arrived, loss, jitter, one-way delay, round trip under load, use of the link's nominal rate, CPU, figures over time, this host's noise floor",
        "what arrived was not measured",
        "closed the control connection after 3.2 s",
    ] {
        assert!(text.contains(wanted), "{wanted:?} is not in the page:\n{text}");
    }
    for unwanted in ["RFC 3550", "0 packets were lost", "no packet was lost"] {
        assert!(!text.contains(unwanted), "{unwanted:?} is in the page");
    }
    golden("partial.md", &markdown(&of_run(&record)));
}

/// Transactions have a rate, failures by reason, response times and their distribution, and no losses.
#[test]
fn golden_of_transactions() {
    let record = support::transactions();
    let figures: Vec<_> = figures_of_run(&record).into_iter().map(|f| f.id).collect();
    for id in ["transactions", "response-time-histogram", "response-time-cdf", "response-time-tail"]
    {
        assert!(figures.iter().any(|figure| figure == id), "{id}: {figures:?}");
    }
    assert!(!figures.iter().any(|figure| figure.starts_with("delay-")), "{figures:?}");
    golden("transactions.md", &markdown(&of_run(&record)));
}

/// Echo requests have round trips, and no clocks that matter.
#[test]
fn golden_of_echo() {
    let record = support::echo();
    let figures: Vec<_> = figures_of_run(&record).into_iter().map(|f| f.id).collect();
    for id in ["replies", "round-trip-histogram"] {
        assert!(figures.iter().any(|figure| figure == id), "{id}: {figures:?}");
    }
    let page = markdown(&of_run(&record));
    for word in ["Response time", "ransactions", "Clock"] {
        assert!(!page.contains(word), "{word}: {page}");
    }
    golden("echo.md", &page);
}

#[test]
fn runs_are_compared_and_warnings_keep_their_run() {
    let runs = [support::everything(), support::udp_loss(), support::tcp_bidir()];
    let text = text_of(&html(&of_runs(&runs)));
    for wanted in [
        "Warning, run 1, flow 1:",
        "Warning, run 2, flow 1:",
        "The runs differ in plans",
        "What ran: run 3",
    ] {
        assert!(text.contains(wanted), "{wanted:?} is not in the page:\n{text}");
    }
    golden("compared.md", &markdown(&of_runs(&runs)));
    // Gaps are NaN, which does not equal itself: compare the pages instead.
    assert!(html(&of_runs(&runs[..1])) == html(&of_run(&runs[0])));
}

/// Replaces every free string of a record, including keys of maps, by `words`.
fn with_strings(record: &Record, words: &str) -> Record {
    fn walk(value: &mut Value, words: &str, change: &mut dyn FnMut(&mut Value, &str)) {
        match value {
            Value::String(_) => change(value, words),
            Value::Array(items) => items.iter_mut().for_each(|v| walk(v, words, change)),
            Value::Object(map) => map.iter_mut().for_each(|(key, v)| {
                // Otherwise the distributions would be lost.
                if !["encoding", "data", "metric"].contains(&key.as_str()) {
                    walk(v, words, change);
                }
            }),
            _ => {}
        }
    }
    let mut tree = serde_json::to_value(record).unwrap();
    // Replace one string after the other. If the record can't be read afterwards, the string was not free, and is restored.
    for nth in 0.. {
        let (mut seen, mut candidate) = (0, tree.clone());
        walk(&mut candidate, words, &mut |v, words| {
            if seen == nth {
                *v = words.into();
            }
            seen += 1;
        });
        if nth >= seen {
            break;
        }
        if serde_json::from_value::<Record>(candidate.clone()).is_ok() {
            tree = candidate;
        }
    }
    for pointer in [
        "/labels",
        "/local/sysctls",
        "/local/interfaces/0/offloads",
        "/calibration/noise_floor",
        "/flows/0/receiver/loss_periods",
        "/impairment/flows/0/realised",
        "/impairment/flows/0/counters",
    ] {
        let map = tree
            .pointer_mut(pointer)
            .and_then(Value::as_object_mut)
            .unwrap_or_else(|| panic!("no {pointer}"));
        let value = map.values().next().unwrap().clone();
        map.insert(words.into(), value);
    }
    serde_json::from_value(tree).unwrap()
}

/// Markdown without its code spans, by GitHub's rule: from unescaped backticks up to the same number of backticks.
fn without_code(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let mut rest = line;
        while let Some(at) = rest.find('`') {
            let run = rest[at..].len() - rest[at..].trim_start_matches('`').len();
            let (before, after) = (&rest[..at], &rest[at + run..]);
            let escaped = before.len() - before.trim_end_matches('\\').len();
            out.push_str(before);
            let fence = "`".repeat(run);
            let close = after
                .match_indices(&fence)
                .find(|(i, _)| !after[..*i].ends_with('`') && !after[i + run..].starts_with('`'));
            rest = match close {
                Some((i, _)) if escaped % 2 == 0 => &after[i + run..],
                _ => after,
            };
        }
        out.push_str(rest);
        out.push('\n');
    }
    out
}

#[test]
fn strings_of_a_record_stay_text() {
    let hostile = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>]]>&lt;`|\\\n# @you </style><!-- \u{202e}";
    // Of the same length, since the position of labels depends on it.
    let harmless: String =
        hostile.chars().map(|c| if c.is_alphanumeric() { c } else { 'x' }).collect();
    // Some strings select content of a page (times per packet or batch, shared clock): compare with a harmless string.
    let (bad, good) = (
        with_strings(&support::everything(), hostile),
        with_strings(&support::everything(), &harmless),
    );
    assert_eq!(bad.flows[0].name, hostile);
    assert_eq!(bad.warnings[0].text, hostile);
    for (bad, good) in [
        (of_run(&bad), of_run(&good)),
        (of_runs(&[bad.clone(), bad.clone()]), of_runs(&[good.clone(), good.clone()])),
    ] {
        let (bad_page, good_page) = (html(&bad), html(&good));
        // The height of the legend varies, so labels of axes may appear or disappear.
        let without_words = |page| {
            elements(page)
                .into_iter()
                .filter(|e| *e != "text")
                .map(String::from)
                .collect::<Vec<_>>()
        };
        let (bad_names, good_names) = (without_words(&bad_page), without_words(&good_page));
        let at = bad_names.iter().zip(&good_names).position(|(a, b)| a != b);
        assert!(
            bad_names == good_names,
            "elements differ at {at:?}: {:?}",
            at.map(|i| (&bad_names[i - 9..i + 9], &good_names[i - 9..i + 9]))
        );
        assert!(bad_page.matches(&*escape(hostile)).count() > 20);
        assert!(
            !bad_page.contains("<img")
                && !bad_page.contains("<!--")
                && !bad_page.contains('\u{202e}')
        );
        let (bad_text, good_text) = (markdown(&bad), markdown(&good));
        let bare = without_code(&bad_text);
        assert_eq!(bare.matches('<').count(), 2, "only <sub> of ours: {bare}");
        assert!(!bare.contains("@y") && !bare.contains("](") && !bare.contains("# @"), "{bare}");
        assert!(
            bare.contains("alert(1)") && bad_text.len() > bare.len(),
            "both text and code are present"
        );
        assert_eq!(bad_text.lines().count(), good_text.lines().count(), "no line is broken");
        for figure in bad.figures() {
            let svg = figure.svg();
            assert!(!svg.contains("<script") && !svg.contains("<img"), "{svg}");
        }
    }
}

/// Blocks assembled by callers are escaped too, in every position.
#[test]
fn every_block_is_escaped() {
    use weir_model::warning::Severity;
    use weir_report::page::{Block, Cell, Column, Document, Grid, Headline, Notice, Section};
    use weir_report::plot::{Axis, Figure, Mark, Point, Quantity, ReferenceLine, Series};
    let bad = "\"'><img src=x onerror=alert(1)>";
    let text = || bad.to_string();
    let mut grid = Grid::new(bad, [Column::text(bad), Column::text(bad)]);
    grid.row([Cell::Text(text()), Cell::Code(text())]);
    let figure = Figure::grouped_bars(bad, bad, [bad], Axis::new(bad, bad, Quantity::Count))
        .caption(bad)
        .reference(bad, ReferenceLine::Horizontal(1.0))
        .with(Series::new(bad, Mark::Bars).points([Point::at(0.0, 1.0)]));
    assert_eq!(figure.id, "img-src-x-onerror-alert-1");
    let blocks = vec![
        Block::Text(text()),
        Block::Command(text()),
        Block::Facts(vec![(text(), text())]),
        Block::Grid(grid),
        Block::Figures(vec![figure]),
        Block::Verbatim { title: text(), text: text() },
    ];
    let document = Document {
        title: text(),
        subtitle: text(),
        sentence: text(),
        passed: Some(true),
        headlines: vec![Headline::new(bad, Some(text()), bad)],
        notices: vec![Notice {
            severity: Severity::Info,
            code: text(),
            about: text(),
            text: text(),
        }],
        sections: vec![Section::new(bad, bad, blocks)],
        generator: text(),
    };
    let page = html(&document);
    assert!(!page.contains("<img"), "{page}");
    assert!(page.matches(&*escape(bad)).count() >= 25, "{page}");
}

#[test]
fn an_hour_of_sixteen_flows_is_below_five_megabytes() {
    let page = html(&of_run(&support::large(16, 3600)));
    assert!(page.len() < 5_000_000, "{}", page.len());
}

#[test]
fn thousand_flows_are_reported_by_their_range() {
    let document = of_run(&support::thousand());
    let page = html(&document);
    assert!(text_of(&page).contains("median, and the range from the smallest to the largest"));
    assert!(page.len() < 2_500_000, "{}", page.len());
    assert!(
        markdown(&document).len() < 20_000,
        "a ticket stays short: {}",
        markdown(&document).len()
    );
}

/// Contrast by WCAG 2.2: text 4.5 to 1, lines of charts 3 to 1, on both grounds.
#[test]
fn colours_have_contrast() {
    let page = html(&of_run(&support::udp_loss()));
    let style = &page[page.find("<style>").unwrap()..page.find("</style>").unwrap()];
    let themes: Vec<std::collections::BTreeMap<String, String>> = {
        let mut light = std::collections::BTreeMap::new();
        let mut dark = std::collections::BTreeMap::new();
        for (i, block) in style.split(":root{").enumerate().skip(1) {
            let body = &block[..block.find('}').unwrap()];
            let into = if style.split(":root{").nth(i - 1).unwrap().ends_with("dark){") {
                &mut dark
            } else {
                &mut light
            };
            for (name, value) in body.split(';').filter_map(|d| d.split_once(':')) {
                into.insert(name.to_string(), value.to_string());
            }
        }
        vec![light, dark]
    };
    let luminance = |hex: &str| {
        let hex = hex.trim_start_matches('#');
        let hex = if hex.len() == 3 {
            hex.chars().flat_map(|c| [c, c]).collect()
        } else {
            hex.to_string()
        };
        let channel = |i: usize| {
            let v = f64::from(u8::from_str_radix(&hex[i..i + 2], 16).unwrap()) / 255.0;
            if v <= 0.04045 { v / 12.92 } else { ((v + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(0) + 0.7152 * channel(2) + 0.0722 * channel(4)
    };
    for theme in themes {
        let contrast = |a: &str, b: &str| {
            let (a, b) = (luminance(&theme[a]), luminance(&theme[b]));
            (a.max(b) + 0.05) / (a.min(b) + 0.05)
        };
        let pairs = [
            ("--ink", "--paper"),
            ("--soft", "--paper"),
            ("--link", "--paper"),
            ("--ink", "--code"),
            ("--ink", "--shade"),
            ("--soft", "--shade"),
            ("--error", "--error-bg"),
            ("--warning", "--warning-bg"),
            ("--note", "--note-bg"),
            ("--good", "--good-bg"),
            // Names beside lines are text.
            ("--c0", "--paper"),
            ("--c1", "--paper"),
            ("--c2", "--paper"),
            ("--c3", "--paper"),
            ("--c4", "--paper"),
        ];
        for (a, b) in pairs {
            assert!(contrast(a, b) >= 4.5, "{a} on {b}: {:.2}", contrast(a, b));
        }
        for n in 0..8 {
            let line = format!("--c{n}");
            assert!(contrast(&line, "--paper") >= 3.0, "{line}: {:.2}", contrast(&line, "--paper"));
        }
    }
}

/// If an unreachable peer's report is missing, the loss that it reported before is nowhere shown as the loss of the run.
#[test]
fn the_loss_of_a_run_without_the_peers_report_is_not_shown() {
    let mut whole = support::udp_loss();
    whole.flows[0].sender.as_mut().unwrap().packets = 92_823;
    let told = whole.flows[0].receiver.as_mut().unwrap();
    (told.lost_packets, told.loss_ratio) = (Some(42_420), Some(0.457));
    let sums = whole.total.forward.as_mut().unwrap().receiver.as_mut().unwrap();
    (sums.lost_packets, sums.loss_ratio) = (Some(42_420), Some(0.457));
    let [mut no_receiver, mut no_sender, mut silent] =
        [whole.clone(), whole.clone(), whole.clone()];
    no_receiver.flows[0].receiver.as_mut().unwrap().reported_until_seconds = Some(3.0);
    no_sender.flows[0].sender.as_mut().unwrap().reported_until_seconds = Some(3.0);
    silent.flows[0].sender = None;
    let named = |text: &str| (text.matches("42 420").count(), text.matches("45.7").count());
    let alone = |record: &Record| text_of(&html(&of_run(record)));
    let beside =
        |record: &Record| text_of(&html(&of_runs(&[support::tcp_bidir(), record.clone()])));
    // The sentence at the top, a headline with its note, the summary, the totals and the flows; a row of the comparison.
    assert_eq!(named(&alone(&whole)), (4, 5), "{}", alone(&whole));
    assert!(named(&beside(&whole)).0 > 0 && named(&beside(&whole)).1 > 0);
    for lost in [no_receiver, no_sender, silent] {
        let text = alone(&lost);
        assert_eq!(named(&text), (0, 0), "{text}");
        for wanted in [
            "unknown: peer report missing",
            "the loss is unknown, since the peer's report is missing",
        ] {
            assert!(text.contains(wanted), "{wanted:?} is not in the page:\n{text}");
        }
        assert_eq!(named(&beside(&lost)), (0, 0));
    }
}
