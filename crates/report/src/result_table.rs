//! Result tables of an experiment as text, CSV and a grid. Every rendering has the same rows, columns, units and order.

use std::ops::Range;

use weir_model::csv::text_cell;
use weir_model::experiment::{Experiment, ResultTable, TableCell, TableColumn};

use crate::page::{Cell, Column, Grid};
use crate::style::clean;

/// Between two columns of text.
const GAP: &str = "  ";

/// The text of a cell. `*` marks a host-limited figure.
fn shown(cell: &TableCell) -> String {
    match cell.absent.as_deref() {
        None => format!("{}{}", cell.text, if cell.host_limited { "*" } else { "" }),
        // The study has no such figure.
        Some("not published") => "–".into(),
        Some(reason) => reason.into(),
    }
}

/// The format that all columns have.
fn common_format(table: &ResultTable) -> Option<&str> {
    let first = table.columns.first()?;
    table.columns.iter().all(|c| c.format == first.format).then_some(&first.format)
}

/// A column's heading, with its format unless all columns have it.
fn heading(column: &TableColumn, common: Option<&str>) -> String {
    match (common, column.head.as_str()) {
        (Some(_), head) => head.into(),
        (None, "") => column.format.clone(),
        (None, head) => format!("{head}, {}", column.format),
    }
}

fn title(table: &ResultTable) -> String {
    match common_format(table) {
        Some(format) => format!("{}, {format}", table.title),
        None => table.title.clone(),
    }
}

/// Tables as text: a line of groups, a line of headings, the rows, the sources. Groups that do not fit into `width`
/// characters beside the others are below them, and so are columns of a group that is wider by itself.
#[must_use]
pub fn tables_text(tables: &[ResultTable], width: usize) -> String {
    tables.iter().map(|table| format!("\n{}", text(table, width))).collect()
}

fn text(table: &ResultTable, width: usize) -> String {
    let mut out = format!("{}\n", clean(&title(table)));
    let fits = |range: Range<usize>| block(table, range).lines().all(|line| length(line) <= width);
    let split = |group: Range<usize>| match fits(group.clone()) {
        true => vec![group],
        false => group.map(|i| i..i + 1).collect(),
    };
    let groups: Vec<Range<usize>> = table
        .columns
        .chunk_by(|a, b| a.group == b.group)
        .scan(0, |end, group| {
            let start = *end;
            *end += group.len();
            Some(start..*end)
        })
        .flat_map(split)
        .collect();
    let mut first = 0;
    while first < groups.len() {
        let range = |last: usize| groups[first].start..groups[last].end;
        let next = first + 1..groups.len();
        let last = next.take_while(|last| fits(range(*last))).last().unwrap_or(first);
        if first > 0 {
            out.push('\n');
        }
        out += &block(table, range(last));
        first = last + 1;
    }
    if table.rows.iter().flat_map(|r| &r.cells).any(|c| c.host_limited) {
        out += "* limited by tool or host\n";
    }
    for source in &table.sources {
        out += &format!("Published: {}.\n", clean(source));
    }
    out
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// Some columns of a table, with the labels of its rows.
fn block(table: &ResultTable, range: Range<usize>) -> String {
    let common = common_format(table);
    let labels = table.row_heads.len();
    let columns = &table.columns[range.clone()];
    let heads = columns.iter().map(|column| heading(column, common));
    let mut rows: Vec<Vec<String>> = vec![table.row_heads.iter().cloned().chain(heads).collect()];
    rows.extend(table.rows.iter().map(|row| {
        let cells = row.cells.get(range.clone()).unwrap_or_default().iter().map(shown);
        row.labels.iter().cloned().chain(cells).collect()
    }));
    for row in &mut rows {
        row.iter_mut().for_each(|cell| *cell = clean(cell).into_owned());
    }
    let count = labels + columns.len();
    let mut widths: Vec<usize> = (0..count)
        .map(|i| rows.iter().filter_map(|r| r.get(i)).map(|c| length(c)).max().unwrap_or(0))
        .collect();
    let mut over = " ".repeat(widths[..labels].iter().map(|w| w + GAP.len()).sum());
    let mut first = 0;
    for group in columns.chunk_by(|a, b| a.group == b.group) {
        let name = clean(&group[0].group);
        let own = &mut widths[labels + first..labels + first + group.len()];
        let room = own.iter().sum::<usize>() + GAP.len() * (group.len() - 1);
        if let Some(last) = own.last_mut() {
            *last += length(&name).saturating_sub(room);
        }
        let room = room.max(length(&name));
        let pad = " ".repeat(room - length(&name));
        // Over one column as its cells are.
        over += &if group.len() == 1 { pad + &name + GAP } else { name.into_owned() + &pad + GAP };
        first += group.len();
    }
    let mut out = format!("{}\n", over.trim_end());
    for row in &rows {
        let mut line = String::new();
        for (i, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let pad = " ".repeat(width - length(cell));
            line +=
                &if i < labels { format!("{cell}{pad}{GAP}") } else { format!("{pad}{cell}{GAP}") };
        }
        out += line.trim_end();
        out.push('\n');
    }
    out
}

/// The names of an experiment's tables.
#[must_use]
pub fn table_names(experiment: &Experiment) -> Vec<&str> {
    let mut out: Vec<&str> = vec![];
    for table in &experiment.tables {
        if !out.contains(&table.name.as_str()) {
            out.push(&table.name);
        }
    }
    out
}

/// The tables of one name as CSV (RFC 4180, lines end in LF): the columns of the split, the labels of the row, then a column
/// for each figure in its printed unit. A figure that is absent is empty.
#[must_use]
pub fn table_csv(experiment: &Experiment, name: &str) -> String {
    let tables: Vec<&ResultTable> = experiment.tables.iter().filter(|t| t.name == name).collect();
    let mut columns: Vec<&TableColumn> = vec![];
    for column in tables.iter().flat_map(|t| &t.columns) {
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    let mut out = String::new();
    let mut line = |cells: Vec<String>| {
        let cells: Vec<String> = cells.iter().map(|c| text_cell(c)).collect();
        out += &cells.join(",");
        out.push('\n');
    };
    if let Some(first) = tables.first() {
        let mut head: Vec<String> =
            first.at.iter().map(|at| &at.axis).chain(&first.row_heads).cloned().collect();
        for column in &columns {
            head.extend(column.units.iter().map(|unit| {
                let words = [column.group.as_str(), column.head.as_str(), unit.as_str()];
                let words: Vec<&str> = words.into_iter().filter(|w| !w.is_empty()).collect();
                words.join(" ")
            }));
        }
        line(head);
    }
    for table in &tables {
        for row in &table.rows {
            let mut cells: Vec<String> =
                table.at.iter().map(|at| &at.value).chain(&row.labels).cloned().collect();
            for column in &columns {
                let here = table.columns.iter().position(|c| c == *column);
                let cell = here.and_then(|i| row.cells.get(i));
                cells.extend(
                    (0..column.units.len()).map(|i| {
                        cell.and_then(|cell| cell.texts.get(i).cloned()).unwrap_or_default()
                    }),
                );
            }
            line(cells);
        }
    }
    out
}

/// A table for a page.
pub(crate) fn grid(table: &ResultTable) -> Grid {
    let common = common_format(table);
    let labels = table.row_heads.iter().map(|head| Column::text(head));
    let figures = table
        .columns
        .iter()
        .map(|column| Column::text(&heading(column, common)).under(&column.group).aligned());
    let mut grid = Grid::new(&title(table), labels.chain(figures));
    grid.in_order = true;
    for row in &table.rows {
        let labels = row.labels.iter().map(|label| Cell::Text(label.clone()));
        grid.row(labels.chain(row.cells.iter().map(|cell| match cell.absent.as_deref() {
            Some("not published") => Cell::Absent,
            _ => Cell::Text(shown(cell)),
        })));
    }
    grid
}
