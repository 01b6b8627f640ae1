//! Rows of runs, flows and histograms: scalars by the names of their columns.

use std::collections::HashMap;
use std::fs::File;
use std::io;

use jiff::Timestamp;
use serde::Serialize;
use weir_model::csv::{ColumnType, Scalar, each_scalar};

use super::column::Cell;
use super::file::ParquetFile;
use super::layout::group_columns;
use crate::RowSink;

/// A cell of the row that is being filled.
#[derive(Debug, Clone)]
enum Value {
    Null,
    Boolean(bool),
    Integer(i64),
    Number(f64),
    Text(String),
}

impl Value {
    fn cell(&self) -> Cell<'_> {
        match self {
            Value::Null => Cell::Null,
            Value::Boolean(value) => Cell::Boolean(*value),
            Value::Integer(value) => Cell::Integer(*value),
            Value::Number(value) => Cell::Number(*value),
            Value::Text(text) => Cell::Text(text),
        }
    }
}

/// Nanoseconds since 1970 of an RFC 3339 time; absent if it is invalid, or not from 1677 to 2262.
pub(crate) fn nanoseconds(rfc3339: &str) -> Option<i64> {
    i64::try_from(rfc3339.parse::<Timestamp>().ok()?.as_nanosecond()).ok()
}

/// A scalar of the record as a value of a column; absent if the column's type can't have it.
fn value(kind: ColumnType, scalar: Scalar<'_>) -> Option<Value> {
    match (kind, scalar) {
        (ColumnType::Boolean, Scalar::Boolean(value)) => Some(Value::Boolean(value)),
        (ColumnType::Integer, Scalar::Number(number)) => number.as_i64().map(Value::Integer),
        (ColumnType::Number, Scalar::Number(number)) => number.as_f64().map(Value::Number),
        (ColumnType::Text, Scalar::Text(text)) => Some(Value::Text(text.into())),
        (ColumnType::Text, Scalar::Number(number)) => Some(Value::Text(number.to_string())),
        (ColumnType::Text, Scalar::Boolean(value)) => Some(Value::Text(value.to_string())),
        (ColumnType::Time, Scalar::Text(text)) => nanoseconds(text).map(Value::Integer),
        _ => None,
    }
}

/// The table of a group.
#[derive(Debug)]
pub(crate) struct Table {
    file: ParquetFile,
    places: HashMap<String, (usize, ColumnType)>,
    row: Vec<Value>,
    /// Values that the types of their columns can't have.
    omitted: u64,
}

impl Table {
    pub(crate) fn new(group: &str, out: File) -> io::Result<Self> {
        let columns = group_columns(group);
        let places = columns.iter().enumerate();
        Ok(Table {
            places: places.map(|(place, c)| (c.name.clone(), (place, c.kind))).collect(),
            row: vec![Value::Null; columns.len()],
            file: ParquetFile::new(out, &columns)?,
            omitted: 0,
        })
    }

    pub(crate) fn omitted(&self) -> u64 {
        self.omitted
    }

    pub(crate) fn finish(self) -> io::Result<File> {
        self.file.finish()
    }
}

impl RowSink for Table {
    type Error = io::Error;

    fn put<T: Serialize + ?Sized>(&mut self, path: &str, from: &T) {
        each_scalar(path, from, |path, scalar| {
            let Some((place, kind)) = self.places.get(path) else { return };
            let value = value(*kind, scalar);
            // An empty text is how a record states an unknown time.
            let is_known = scalar != Scalar::Text("");
            self.omitted += u64::from(value.is_none() && is_known);
            self.row[*place] = value.unwrap_or(Value::Null);
        });
    }

    fn end_row(&mut self) -> io::Result<()> {
        self.file.row(self.row.iter().map(Value::cell))?;
        self.row.fill(Value::Null);
        Ok(())
    }
}

/// A table of which each row has the start of the run.
pub(crate) struct Started<'a> {
    pub(crate) table: &'a mut Table,
    pub(crate) started_at: &'a str,
}

impl RowSink for Started<'_> {
    type Error = io::Error;

    fn put<T: Serialize + ?Sized>(&mut self, path: &str, from: &T) {
        self.table.put(path, from);
    }

    fn end_row(&mut self) -> io::Result<()> {
        self.table.put("started_at", self.started_at);
        self.table.end_row()
    }
}
