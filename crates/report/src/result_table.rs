//! Result tables of an experiment as text, CSV and a grid. Every rendering has the same rows, columns, units and order.

use std::ops::Range;

use weir_model::csv::text_cell;
use weir_model::experiment::{
    Experiment, Metric, ResultTable, TableCell, TableChart, TableColumn, TableReference, TableRow,
};

use crate::page::{
    Block, Cell, Column, DIFFERENCE, Grid, TABLES, difference, number_of, of_experiments, quantity,
    suffix,
};
use crate::plot::{Axis, Figure, Point, Quantity, ReferenceLine, Series};
use crate::style::clean;

/// Between two columns of text.
const GAP: &str = "  ";

/// Why there is no difference.
const NO_FIGURE: &str = "no figure";

/// Whether nothing is missing: the study has no such figure, one host can't measure it, or a difference has nothing to compare.
fn is_dash(reason: &str) -> bool {
    ["not published", "no counterpart", NO_FIGURE].contains(&reason)
}

/// The text of a cell. `*` marks a host-limited figure.
fn shown(cell: &TableCell) -> String {
    match cell.absent.as_deref() {
        None => format!("{}{}", cell.text, if cell.host_limited { "*" } else { "" }),
        Some(reason) if is_dash(reason) => "–".into(),
        Some(reason) => reason.into(),
    }
}

/// What `*` means; absent for a table without it.
pub(crate) fn legend(table: &ResultTable) -> Option<&'static str> {
    let mut cells = table.rows.iter().flat_map(|row| &row.cells);
    cells.any(|cell| cell.host_limited).then_some("* limited by tool or host")
}

/// The format that all columns have. The cells of columns without a format, such as differences, have their units.
fn common_format(table: &ResultTable) -> Option<&str> {
    let mut formats = table.columns.iter().map(|c| c.format.as_str()).filter(|f| !f.is_empty());
    let first = formats.next()?;
    formats.all(|format| format == first).then_some(first)
}

/// A column's heading, with its format unless all columns have it.
fn heading(column: &TableColumn, common: Option<&str>) -> String {
    match (common, column.head.as_str()) {
        (Some(_), head) => head.into(),
        (None, head) if column.format.is_empty() => head.into(),
        (None, "") => column.format.clone(),
        (None, head) => format!("{head}, {}", column.format),
    }
}

fn title(table: &ResultTable) -> String {
    match common_format(table) {
        Some(format) if !format.is_empty() => format!("{}, {format}", table.title),
        _ => table.title.clone(),
    }
}

/// Tables as text: a line of groups, a line of headings, the rows, the sources. Groups that do not fit into `width`
/// characters beside the others are below them, and so are columns of a group that is wider by itself.
#[must_use]
pub fn tables_text(tables: &[ResultTable], width: usize) -> String {
    tables.iter().map(|table| format!("\n{}", text(table, width))).collect()
}

/// The steps of several experiments as text: tables as on their common page, with the columns of each experiment and the
/// differences.
#[must_use]
pub fn experiments_text(experiments: &[(String, Experiment)], width: usize) -> String {
    let page = of_experiments(experiments);
    let mut out = String::new();
    for section in page.sections.iter().filter(|s| !s.background && s.id != TABLES) {
        let mut is_first = true;
        for block in &section.blocks {
            let Block::Grid(grid) = block else { continue };
            if std::mem::take(&mut is_first) {
                out += &format!("\n{}\n", clean(&section.heading));
            }
            out += &format!("\n{}", text(&of_grid(grid), width));
        }
    }
    out
}

/// A page's table with formatted cells.
fn of_grid(grid: &Grid) -> ResultTable {
    let laid = grid.laid();
    let keys = grid.keys.unwrap_or(0);
    let head = |i: usize| -> String {
        match laid.heads.get(i) {
            Some((head, "", _)) => head.clone(),
            Some((head, unit, _)) => format!("{head}, {unit}"),
            None => String::new(),
        }
    };
    let columns = grid.columns.iter().enumerate().skip(keys).map(|(i, column)| TableColumn {
        group: column.over.clone(),
        head: head(i),
        ..TableColumn::default()
    });
    let rows = laid.rows.iter().map(|row| {
        let mut texts = row.iter().map(|cell| cell.text.clone());
        let labels = texts.by_ref().take(keys).collect();
        TableRow {
            labels,
            cells: texts.map(|text| TableCell { text, ..TableCell::default() }).collect(),
        }
    });
    ResultTable {
        title: grid.caption.clone(),
        row_heads: (0..keys).map(head).collect(),
        columns: columns.collect(),
        rows: rows.collect(),
        ..ResultTable::default()
    }
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
    if let Some(legend) = legend(table) {
        out += &format!("{legend}\n");
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

/// The names of tables.
#[must_use]
pub fn table_names(tables: &[ResultTable]) -> Vec<&str> {
    let mut out: Vec<&str> = vec![];
    for table in tables {
        if !out.contains(&table.name.as_str()) {
            out.push(&table.name);
        }
    }
    out
}

/// The tables of one name as CSV (RFC 4180, lines end in LF): the columns of the split, the labels of the row, then a column
/// for each figure in its printed unit, and after a column with host-limited figures `… host_limited`, `true` or `false`. An absent
/// figure has its reason, such as `not installed`; a column that only another table has is empty.
#[must_use]
pub fn table_csv(tables: &[ResultTable], name: &str) -> String {
    let tables: Vec<&ResultTable> = tables.iter().filter(|t| t.name == name).collect();
    let mut columns: Vec<&TableColumn> = vec![];
    for column in tables.iter().flat_map(|t| &t.columns) {
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    fn cell_of<'a>(
        table: &ResultTable,
        row: &'a TableRow,
        column: &TableColumn,
    ) -> Option<&'a TableCell> {
        row.cells.get(table.columns.iter().position(|c| c == column)?)
    }
    let has_limited = |column: &TableColumn| {
        let mut cells = tables
            .iter()
            .flat_map(|table| table.rows.iter().filter_map(|row| cell_of(table, row, column)));
        cells.any(|cell| cell.host_limited)
    };
    let columns: Vec<(&TableColumn, bool)> =
        columns.into_iter().map(|column| (column, has_limited(column))).collect();
    let mut out = String::new();
    let mut line = |cells: Vec<String>| {
        let cells: Vec<String> = cells.iter().map(|c| text_cell(c)).collect();
        out += &cells.join(",");
        out.push('\n');
    };
    if let Some(first) = tables.first() {
        let mut head: Vec<String> =
            first.at.iter().map(|at| &at.axis).chain(&first.row_heads).cloned().collect();
        for (column, is_limited) in &columns {
            let name = |end: &str| {
                let words = [column.group.as_str(), column.head.as_str(), end];
                let words: Vec<&str> = words.into_iter().filter(|w| !w.is_empty()).collect();
                words.join(" ")
            };
            head.extend(column.units.iter().map(|unit| name(unit)));
            head.extend(is_limited.then(|| name("host_limited")));
        }
        line(head);
    }
    for table in &tables {
        for row in &table.rows {
            let mut cells: Vec<String> =
                table.at.iter().map(|at| &at.value).chain(&row.labels).cloned().collect();
            for (column, is_limited) in &columns {
                let cell = cell_of(table, row, column);
                let text = |cell: &TableCell, i| {
                    cell.absent.clone().or_else(|| cell.texts.get(i).cloned())
                };
                cells.extend(
                    (0..column.units.len())
                        .map(|i| cell.and_then(|cell| text(cell, i)).unwrap_or_default()),
                );
                let limited = |cell: &TableCell| cell.absent.is_none().then_some(cell.host_limited);
                cells.extend(is_limited.then(|| {
                    cell.and_then(limited).map_or(String::new(), |limited| limited.to_string())
                }));
            }
            line(cells);
        }
    }
    out
}

/// The tables of several experiments, each with a name: those of one name and split become one, with the published columns
/// once and the measured columns of each experiment under its name.
#[must_use]
pub fn merged_tables(experiments: &[(String, Experiment)]) -> Vec<ResultTable> {
    let mut groups: Vec<Vec<(&str, &ResultTable)>> = vec![];
    for (name, experiment) in experiments {
        for table in &experiment.tables {
            let is_same = |group: &&mut Vec<(&str, &ResultTable)>| {
                let first = group[0].1;
                (&first.name, &first.at, &first.row_heads)
                    == (&table.name, &table.at, &table.row_heads)
            };
            match groups.iter_mut().find(is_same) {
                Some(group) => group.push((name, table)),
                None => groups.push(vec![(name, table)]),
            }
        }
    }
    groups.iter().map(|group| merged(group)).collect()
}

/// A column of a merged table, and where its cells are: the number of the table, and the column in it.
type MergedColumn = (TableColumn, Vec<(usize, usize)>);

/// One table of several. `group` is not empty.
fn merged(group: &[(&str, &ResultTable)]) -> ResultTable {
    // Each column with the places where its cells are.
    let mut columns: Vec<MergedColumn> = vec![];
    for is_published in [true, false] {
        for (part, (name, table)) in group.iter().enumerate() {
            for (i, column) in table.columns.iter().enumerate() {
                if column.published != is_published {
                    continue;
                }
                let group = match column.group.as_str() {
                    _ if is_published => column.group.clone(),
                    "measured" => (*name).to_owned(),
                    own => format!("{own}, {name}"),
                };
                let column = TableColumn { group, ..column.clone() };
                match columns.iter_mut().find(|(known, _)| is_published && *known == column) {
                    Some((_, places)) => places.push((part, i)),
                    None => columns.push((column, vec![(part, i)])),
                }
            }
        }
    }
    let mut rows: Vec<&Vec<String>> = vec![];
    for row in group.iter().flat_map(|(_, table)| &table.rows) {
        if !rows.contains(&&row.labels) {
            rows.push(&row.labels);
        }
    }
    // Loads that differ between experiments, if each has them in ascending order; the order of a study stays.
    let head = group[0].1.row_heads.first().map_or("", String::as_str);
    let load = |labels: &[String]| match labels {
        [one] => number_of(head, one),
        _ => None,
    };
    let is_ascending = |table: &ResultTable| table.rows.is_sorted_by_key(|row| load(&row.labels));
    if columns.iter().all(|(column, _)| !column.published)
        && group.iter().all(|(_, table)| is_ascending(table))
    {
        rows.sort_by(|a, b| load(a).partial_cmp(&load(b)).unwrap_or(std::cmp::Ordering::Equal));
    }
    let rows = rows.into_iter().map(|labels| {
        let cell = |(column, places): &MergedColumn| {
            let here = places.iter().filter_map(|(part, i)| {
                let row = group[*part].1.rows.iter().find(|row| row.labels == *labels)?;
                row.cells.get(*i)
            });
            let absent = if column.published { "not published" } else { "not run" };
            let none = || TableCell { absent: Some(absent.into()), ..TableCell::default() };
            here.clone()
                .find(|c| c.absent.is_none())
                .or(here.clone().next())
                .cloned()
                .unwrap_or_else(none)
        };
        TableRow { labels: labels.clone(), cells: columns.iter().map(cell).collect() }
    });
    let mut rows: Vec<TableRow> = rows.collect();
    let names: Vec<&str> = group.iter().map(|(name, _)| *name).collect();
    let differences = add_differences(&columns, &mut rows, &names);
    let mut sources: Vec<String> = vec![];
    for source in group.iter().flat_map(|(_, table)| &table.sources) {
        if !sources.contains(source) {
            sources.push(source.clone());
        }
    }
    let mut charts: Vec<TableChart> = vec![];
    for (name, table) in group {
        for chart in &table.charts {
            let references = chart.references.iter().map(|line| TableReference {
                name: format!("{}, {name}", line.name),
                ..line.clone()
            });
            match charts.iter_mut().find(|known| (&known.x, &known.y) == (&chart.x, &chart.y)) {
                Some(known) => known.references.extend(references),
                None => {
                    charts.push(TableChart { references: references.collect(), ..chart.clone() })
                }
            }
        }
    }
    let columns = columns.into_iter().map(|(column, _)| column).chain(differences).collect();
    ResultTable { columns, rows, sources, charts, ..group[0].1.clone() }
}

/// Adds to each row the differences of the measured columns of further experiments from those of the first: of the first
/// figure in each cell. Returns their columns.
fn add_differences(
    columns: &[MergedColumn],
    rows: &mut [TableRow],
    names: &[&str],
) -> Vec<TableColumn> {
    let places_of = |part: usize| {
        let own = move |(_, (column, places)): &(usize, &MergedColumn)| {
            !column.published && places.iter().any(|(of, _)| *of == part)
        };
        columns.iter().enumerate().filter(own)
    };
    let mut out = vec![];
    for (part, name) in names.iter().enumerate().skip(1) {
        for (from, (column, places)) in places_of(0) {
            let place = places.first().map(|(_, place)| place);
            let is_same = |(_, (other, of)): &(usize, &MergedColumn)| {
                (&other.head, &other.units, of.first().map(|(_, place)| place))
                    == (&column.head, &column.units, place)
            };
            let Some((to, _)) = places_of(part).find(is_same) else { continue };
            let Some(metric) = column.metrics.first() else { continue };
            let kind = quantity(metric);
            let group = match names.len() {
                2 => DIFFERENCE.to_owned(),
                _ => format!("{DIFFERENCE}, {name}"),
            };
            let units = vec![if kind == Quantity::Ratio { "pp".into() } else { "%".into() }];
            let head = column.head.clone();
            out.push(TableColumn { group, head, units, ..TableColumn::default() });
            for row in rows.iter_mut() {
                let figure = |i: usize| row.cells.get(i).and_then(|c| *c.figures.first()?);
                let text = figure(from).zip(figure(to)).and_then(|(a, b)| difference(kind, a, b));
                row.cells.push(match text {
                    Some(text) => {
                        let number = text.split_whitespace().next().unwrap_or_default();
                        TableCell { texts: vec![number.into()], text, ..TableCell::default() }
                    }
                    None => TableCell { absent: Some(NO_FIGURE.into()), ..TableCell::default() },
                });
            }
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
            Some(reason) if is_dash(reason) => Cell::Absent,
            _ => Cell::Text(shown(cell)),
        })));
    }
    grid
}

/// The charts of a table: a point for each row, a series for each measured column that has both figures, named by its group,
/// and by its head if the group has several.
pub(crate) fn figures(table: &ResultTable) -> Vec<Figure> {
    // Each measured column's place with the number of the figure in its cells, and its unit.
    let columns = |metric: &str| -> Vec<(usize, usize, &str)> {
        let measured = table.columns.iter().enumerate().filter(|(_, c)| !c.published);
        let own = measured.filter_map(|(column, c)| {
            let figure = c.metrics.iter().position(|m| m == metric)?;
            Some((column, figure, c.units.get(figure).map_or("", String::as_str)))
        });
        own.collect()
    };
    let place = table.at.iter().map(|at| format!("-{}", at.value)).collect::<String>();
    let mut out = vec![];
    for (number, chart) in table.charts.iter().enumerate() {
        let (across, up) = (columns(&chart.x), columns(&chart.y));
        let (Some((.., x_unit)), Some((.., y_unit))) = (across.first(), up.first()) else {
            continue;
        };
        let ((x, to_x), (y, to_y)) = (axis(&chart.x, x_unit), axis(&chart.y, y_unit));
        let id = format!("table-{}{place}-{}", table.name, number + 1);
        let title = format!("{}: {} against {}", table.title, lower(&y.label), lower(&x.label));
        let mut figure = Figure::curve(&id, &title, x, y);
        let name = |column: usize| {
            let of_group =
                |place: &usize| table.columns[*place].group == table.columns[column].group;
            let TableColumn { group, head, .. } = &table.columns[column];
            match up.iter().filter(|(place, ..)| of_group(place)).count() {
                1 => group.clone(),
                _ => format!("{group}, {head}"),
            }
        };
        // The columns of both figures are in the same order.
        for ((x, x_figure, _), (y, y_figure, _)) in across.iter().zip(&up) {
            let value = |cell: Option<&TableCell>, figure: usize| *cell?.figures.get(figure)?;
            let drawn = table.rows.iter().filter_map(|row| {
                let (x, y) = (row.cells.get(*x), row.cells.get(*y));
                let point = Point::at(value(x, *x_figure)? * to_x, value(y, *y_figure)? * to_y);
                Some(point.host_limited(y.is_some_and(|cell| cell.host_limited)))
            });
            let mut points: Vec<Point> = drawn.collect();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            figure = figure.with(Series::curve(name(*y)).points(points));
        }
        for line in &chart.references {
            figure = figure.reference(&line.name, ReferenceLine::Vertical(line.value * to_x));
        }
        if !figure.is_empty() {
            out.push(figure);
        }
    }
    out
}

/// The axis of a metric in the unit of its cells, and the factor from its SI value.
fn axis(metric: &str, unit: &str) -> (Axis, f64) {
    let (kind, factor) = match unit {
        "B/s" | "kB/s" | "KB/s" | "MB/s" => (Quantity::BytesPerSecond, 0.125),
        _ => (quantity(metric), 1.0),
    };
    let label = metric.parse().map_or(metric.to_owned(), |m: Metric| m.definition().label.into());
    let name = metric.replace([' ', '.'], "_");
    let end = suffix(kind);
    let key = if name.ends_with(end) { name } else { name + end };
    (Axis::new(&label, &key, kind), factor)
}

/// The label of an axis inside of a title.
fn lower(label: &str) -> String {
    let mut characters = label.chars();
    characters.next().map_or(String::new(), |c| c.to_lowercase().chain(characters).collect())
}
