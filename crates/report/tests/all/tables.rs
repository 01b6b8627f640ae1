//! Result tables as text.

use weir_model::experiment::{ResultTable, TableCell, TableColumn, TableRow};
use weir_report::tables_text;

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
