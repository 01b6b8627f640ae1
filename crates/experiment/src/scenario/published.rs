//! Published figures from CSV files with a header line, matched with the points of a sweep.

use weir_model::experiment::{Point, Published, PublishedFigure};

use super::{Files, ScenarioError};

/// Limits of a file: rows and columns.
const MAX_ROWS: usize = 100_000;

/// The rows of a file, each cell with its column's name.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CsvTable {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl CsvTable {
    /// Number of its rows.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The text at a row and a column.
    pub(super) fn cell(&self, row: usize, name: &str) -> Option<&str> {
        Some(self.rows.get(row)?.get(self.column(name)?)?)
    }

    fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|c| c == name)
    }
}

/// Reads a file and checks that every named column exists.
pub(super) fn file<'a>(
    name: &str,
    columns: impl Iterator<Item = &'a String>,
    files: &Files,
) -> Result<CsvTable, ScenarioError> {
    let what = format!("published file {name}");
    let table = parse(&files.read(name)?).map_err(|e| ScenarioError::refused(&what, &e))?;
    for column in columns {
        if table.column(column).is_none() {
            let reason = format!("no column '{column}'; available: {}", table.columns.join(", "));
            return Err(ScenarioError::refused(&what, &reason));
        }
    }
    Ok(table)
}

/// Reads the file of a step's published figures.
pub(super) fn read(published: &Published, files: &Files) -> Result<CsvTable, ScenarioError> {
    let named = published.matching.values().chain(published.filter.keys()).chain(&published.label);
    file(&published.file, named.chain([&published.column]), files)
}

/// Adds the published figures to their points.
pub(super) fn beside(published: &Published, table: &CsvTable, points: &mut [Point]) {
    let cell = |row: &'_ [String], name: &str| -> String {
        table.column(name).and_then(|i| row.get(i)).cloned().unwrap_or_default()
    };
    for row in &table.rows {
        if published.filter.iter().any(|(column, value)| cell(row, column) != *value) {
            continue;
        }
        let Ok(value) = cell(row, &published.column).parse::<f64>() else { continue };
        let label: Vec<String> = published.label.iter().map(|c| cell(row, c)).collect();
        for point in points.iter_mut() {
            let is_here =
                published.at.iter().all(|(axis, value)| point.at.get(axis) == Some(value));
            let matches = is_here
                && published.matching.iter().all(|(axis, column)| {
                    point.at.get(axis).is_some_and(|v| v.eq_ignore_ascii_case(&cell(row, column)))
                });
            if matches {
                point.published.push(PublishedFigure {
                    label: label.join(", "),
                    metric: published.metric.clone(),
                    value: value * published.scale.unwrap_or(1.0),
                    source: published.source.clone(),
                });
            }
        }
    }
}

/// Parses CSV (RFC 4180) with a header line.
pub(super) fn parse(text: &str) -> Result<CsvTable, String> {
    let mut records = vec![];
    let (mut record, mut cell, mut quoted, mut was_quoted) = (vec![], String::new(), false, false);
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match (quoted, c) {
            (true, '"') if characters.peek() == Some(&'"') => {
                characters.next();
                cell.push('"');
            }
            (true, '"') => quoted = false,
            (false, '"') if cell.is_empty() && !was_quoted => (quoted, was_quoted) = (true, true),
            (false, ',') => {
                record.push(std::mem::take(&mut cell));
                was_quoted = false;
            }
            (false, '\r') if characters.peek() == Some(&'\n') => {}
            (false, '\n') => {
                record.push(std::mem::take(&mut cell));
                was_quoted = false;
                records.push(std::mem::take(&mut record));
                if records.len() > MAX_ROWS {
                    return Err(format!("more than {MAX_ROWS} lines"));
                }
            }
            (_, c) => cell.push(c),
        }
    }
    if quoted {
        return Err("a quote is not closed".into());
    }
    if !cell.is_empty() || !record.is_empty() {
        record.push(cell);
        records.push(record);
    }
    let mut records = records.into_iter().filter(|r| r.iter().any(|c| !c.is_empty()));
    let columns = records.next().ok_or("it is empty")?;
    let rows: Vec<Vec<String>> = records.collect();
    if let Some(place) = rows.iter().position(|row| row.len() != columns.len()) {
        return Err(format!(
            "line {}: {} cells, the header has {}",
            place + 2,
            rows[place].len(),
            columns.len()
        ));
    }
    Ok(CsvTable { columns, rows })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_beside_the_points_that_they_are_for() {
        let table = parse("os,size,rate\nXP,128,61.0\nVista,128,62.5\nXP,256,\"68.5\"\n").unwrap();
        let published = Published {
            column: "rate".into(),
            scale: Some(1e6),
            metric: "throughput".into(),
            source: "s".into(),
            matching: [("size".to_owned(), "size".to_owned())].into(),
            filter: [("os".to_owned(), "XP".to_owned())].into(),
            label: vec!["os".into()],
            ..Published::default()
        };
        let point = |size: &str| Point {
            at: [("size".to_owned(), size.to_owned())].into(),
            ..Point::default()
        };
        let mut points = [point("128"), point("256"), point("384")];
        beside(&published, &table, &mut points);
        let values: Vec<Vec<f64>> =
            points.iter().map(|p| p.published.iter().map(|f| f.value).collect()).collect();
        assert_eq!(values, [vec![61e6], vec![68.5e6], vec![]]);
        assert_eq!(points[0].published[0].label, "XP");
        // Beside one value of an axis alone.
        let only = Published { at: [("size".to_owned(), "256".to_owned())].into(), ..published };
        let mut points = [point("128"), point("256")];
        beside(&only, &table, &mut points);
        assert!(points[0].published.is_empty() && points[1].published.len() == 1);
    }

    #[test]
    fn csv_is_read_as_it_is_written() {
        let table = parse("a,b\r\n\"1,\"\"2\",3\r\n").unwrap();
        assert_eq!(table.rows, [["1,\"2".to_owned(), "3".to_owned()]]);
        assert!(parse("a,b\n1\n").unwrap_err().contains("line 2"));
        assert!(parse("").is_err());
        assert!(parse("a\n\"x").is_err());
    }
}
