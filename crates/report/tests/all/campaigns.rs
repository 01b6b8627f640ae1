//! The tables of shipped campaigns, from results of real runs (`weir run --quick --json`, without their `runs`,
//! hosts and outputs of commands).
// Clippy exempts test functions, but not their helpers.

use crate::support;
use support::golden;
use weir_model::experiment::Experiment;
use weir_report::page::{markdown, of_experiment};
use weir_report::{table_csv, table_names, tables_text};

fn stored(name: &str) -> Experiment {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/campaigns");
    let text = std::fs::read_to_string(format!("{directory}/{name}.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn campaigns_are_rendered_from_their_stored_results() {
    for name in [
        "emulator-packets",
        "emulator-throughput",
        "link-throughput",
        "packet-rate",
        "saturation",
        "tools",
        "ttcp-link",
    ] {
        let experiment = stored(name);
        assert_eq!(experiment.name, name);
        let tables = &experiment.tables;
        let page = of_experiment(&experiment);
        golden(&format!("campaigns/{name}.txt"), &tables_text(tables, 100));
        golden(&format!("campaigns/{name}.md"), &markdown(&page));
        for table in table_names(tables) {
            golden(&format!("campaigns/{name}-{table}.csv"), &table_csv(tables, table));
        }
        for figure in page.figures().filter(|f| f.id.starts_with("table-")) {
            golden(&format!("campaigns/{name}-{}.svg", figure.id), &figure.svg());
        }
    }
}

/// The study's charts have its units: kB/s, and the received fraction in percent.
#[test]
fn charts_of_a_table_are_in_the_units_of_its_cells() {
    let page = of_experiment(&stored("saturation"));
    let keys: Vec<(&str, &str)> = page
        .figures()
        .filter(|f| f.id.starts_with("table-"))
        .map(|f| (f.x.key.as_str(), f.y.key.as_str()))
        .collect();
    let sent = "sent_throughput_bytes_per_second";
    let wanted = [(sent, "throughput_bytes_per_second"), (sent, "received_ratio")];
    assert_eq!(keys, [wanted, wanted].concat());
}
