//! CSV files of published figures, with a header line.

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
    fn csv_is_read_as_it_is_written() {
        let table = parse("a,b\r\n\"1,\"\"2\",3\r\n").unwrap();
        assert_eq!(table.rows, [["1,\"2".to_owned(), "3".to_owned()]]);
        assert!(parse("a,b\n1\n").unwrap_err().contains("line 2"));
        assert!(parse("").is_err());
        assert!(parse("a\n\"x").is_err());
    }
}
