//! Result tables as text.

use weir_model::experiment::{
    Experiment, ResultTable, TableCell, TableChart, TableColumn, TableRow,
};
use weir_report::page::of_experiment;
use weir_report::{merged_tables, tables_text};

/// One group of ten columns, 12 characters each.
fn wide() -> ResultTable {
    let column =
        |i| TableColumn { group: "measured".into(), head: format!("col{i}"), ..Default::default() };
    let cell =
        |row: u32, i: u32| TableCell { text: format!("{row}{i}00000000"), ..Default::default() };
    let row = |n| TableRow {
        labels: vec![format!("r{n}")],
        cells: (0..10).map(|i| cell(n, i)).collect(),
    };
    ResultTable {
        title: "t".into(),
        row_heads: vec!["row".into()],
        columns: (0..10).map(column).collect(),
        rows: vec![row(1), row(2)],
        ..Default::default()
    }
}

#[test]
fn a_group_that_is_wider_than_the_terminal_is_folded() {
    let table = wide();
    let lines = |width| {
        let text = tables_text(std::slice::from_ref(&table), width);
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    for width in [20, 40, 80] {
        let lines = lines(width);
        assert!(lines.iter().all(|line| line.chars().count() <= width), "{width}: {lines:#?}");
        // Every figure once, in a line that starts with the label of its row.
        for row in &table.rows {
            for cell in &row.cells {
                let with: Vec<_> = lines.iter().filter(|line| line.contains(&cell.text)).collect();
                assert_eq!(with.len(), 1, "{}: {lines:#?}", cell.text);
                assert!(with[0].starts_with(&row.labels[0]), "{lines:#?}");
            }
        }
    }
    assert_eq!(lines(200).iter().filter(|line| line.starts_with("row")).count(), 1);
}

/// The rows of a table of experiments that have these.
fn merged_rows(experiments: &[&[&str]]) -> Vec<String> {
    let experiment = |(i, labels): (usize, &&[&str])| {
        let row = |label: &&str| TableRow {
            labels: vec![(*label).to_owned()],
            cells: vec![TableCell { text: (*label).to_owned(), ..Default::default() }],
        };
        let table = ResultTable {
            name: "t".into(),
            row_heads: vec!["rate".into()],
            columns: vec![TableColumn { group: "measured".into(), ..Default::default() }],
            rows: labels.iter().map(row).collect(),
            ..Default::default()
        };
        (i.to_string(), with_tables(vec![table]))
    };
    let experiments: Vec<_> = experiments.iter().enumerate().map(experiment).collect();
    let tables = merged_tables(&experiments);
    tables[0].rows.iter().map(|row| row.labels[0].clone()).collect()
}

#[test]
fn merged_rows_are_in_the_order_of_their_experiments() {
    for (experiments, wanted) in [
        (vec![&["500k", "1M", "10M"][..]; 2], &["500k", "1M", "10M"][..]),
        (vec![&["500k", "10M"], &["1M"]], &["500k", "1M", "10M"]),
        (vec![&["900pps", "2000pps"], &["1500pps"]], &["900pps", "1500pps", "2000pps"]),
        (vec![&["10M", "1M"], &["10M", "500k"]], &["10M", "1M", "500k"]),
        (vec![&["udp", "tcp"], &["tcp", "10M"]], &["udp", "tcp", "10M"]),
    ] {
        assert_eq!(merged_rows(&experiments), wanted, "{experiments:?}");
    }
}

#[test]
fn each_measured_column_is_a_series_with_a_name_of_its_own() {
    let metrics = ["sent_throughput", "received_ratio"].map(str::to_owned);
    let column = |head: &str| TableColumn {
        group: "measured".into(),
        head: head.into(),
        units: vec!["Mb/s".into(), "%".into()],
        metrics: metrics.to_vec(),
        ..Default::default()
    };
    let cell = TableCell { figures: vec![Some(1e6), Some(1.0)], ..Default::default() };
    let names = |heads: &[&str]| -> Vec<String> {
        let table = ResultTable {
            name: "t".into(),
            columns: heads.iter().map(|head| column(head)).collect(),
            rows: vec![TableRow { labels: vec![], cells: vec![cell.clone(); heads.len()] }],
            charts: vec![TableChart {
                x: metrics[0].clone(),
                y: metrics[1].clone(),
                references: vec![],
            }],
            ..Default::default()
        };
        let page = of_experiment(&with_tables(vec![table]));
        let figures = page.figures().filter(|figure| figure.id.starts_with("table-t"));
        figures.flat_map(|f| f.series.iter().map(|s| s.name.clone()).collect::<Vec<_>>()).collect()
    };
    assert_eq!(names(&["weir, Mb/s"]), ["measured"]);
    assert_eq!(names(&["weir", "iperf3"]), ["measured, weir", "measured, iperf3"]);
}

/// An experiment with these tables.
fn with_tables(tables: Vec<ResultTable>) -> Experiment {
    let text = include_str!("../golden/experiment.json");
    Experiment { tables, ..serde_json::from_str(text).unwrap() }
}
