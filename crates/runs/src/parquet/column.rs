//! One column of a row group: its values in memory, in the form that the Parquet writer takes.

use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, TimeUnit, Type as PhysicalType};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::Result;
use parquet::schema::types::{Type, TypePtr};
use weir_model::csv::{Column, ColumnType};

/// A value of a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Cell<'a> {
    /// Not measured.
    Null,
    Boolean(bool),
    /// An integer, or nanoseconds since 1970 in a column of times.
    Integer(i64),
    Number(f64),
    Text(&'a str),
}

/// The schema of a file with these columns, all optional.
pub(crate) fn schema(columns: &[Column]) -> Result<TypePtr> {
    let field = |column: &Column| {
        let (physical, logical) = match column.kind {
            ColumnType::Boolean => (PhysicalType::BOOLEAN, None),
            ColumnType::Integer => (PhysicalType::INT64, None),
            ColumnType::Number => (PhysicalType::DOUBLE, None),
            ColumnType::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
            ColumnType::Time => {
                (PhysicalType::INT64, Some(LogicalType::timestamp(true, TimeUnit::NANOS)))
            }
        };
        let field = Type::primitive_type_builder(&column.name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical);
        field.build().map(Arc::new)
    };
    let fields = columns.iter().map(field).collect::<Result<_>>()?;
    Type::group_type_builder("weir").with_fields(fields).build().map(Arc::new)
}

#[derive(Debug)]
enum Values {
    Boolean(Vec<bool>),
    Integer(Vec<i64>),
    Number(Vec<f64>),
    Text(Vec<ByteArray>),
}

/// A column's values in the row group that is being filled.
#[derive(Debug)]
pub(crate) struct Buffer {
    /// For each row 1, or 0 if it is null.
    levels: Vec<i16>,
    /// Those that are not null.
    values: Values,
}

impl Buffer {
    pub(crate) fn new(kind: ColumnType) -> Self {
        let values = match kind {
            ColumnType::Boolean => Values::Boolean(vec![]),
            ColumnType::Integer | ColumnType::Time => Values::Integer(vec![]),
            ColumnType::Number => Values::Number(vec![]),
            ColumnType::Text => Values::Text(vec![]),
        };
        Buffer { levels: vec![], values }
    }

    /// Adds the cell of the next row; returns about how many bytes of memory it takes. A value of another type than the
    /// column's, and a number that is not finite, become null.
    pub(crate) fn push(&mut self, cell: Cell<'_>) -> usize {
        let bytes = match (&mut self.values, cell) {
            (Values::Boolean(values), Cell::Boolean(value)) => {
                values.push(value);
                size_of::<bool>()
            }
            (Values::Integer(values), Cell::Integer(value)) => {
                values.push(value);
                size_of::<i64>()
            }
            (Values::Number(values), Cell::Number(value)) if value.is_finite() => {
                values.push(value);
                size_of::<f64>()
            }
            (Values::Text(values), Cell::Text(text)) => {
                // Many rows repeat the text of the row before: they share it.
                let last = values.last().filter(|last| last.data() == text.as_bytes()).cloned();
                let (value, bytes) = match last {
                    Some(last) => (last, 0),
                    None => (ByteArray::from(text), text.len()),
                };
                values.push(value);
                size_of::<ByteArray>() + bytes
            }
            _ => {
                self.levels.push(0);
                return size_of::<i16>();
            }
        };
        self.levels.push(1);
        size_of::<i16>() + bytes
    }

    /// Writes the values as a column chunk and empties the buffer.
    ///
    /// # Errors
    /// Those of the writer.
    pub(crate) fn write(&mut self, out: &mut ColumnWriter<'_>) -> Result<()> {
        let levels = Some(self.levels.as_slice());
        match (&mut self.values, out) {
            (Values::Boolean(values), ColumnWriter::BoolColumnWriter(out)) => {
                out.write_batch(values, levels, None)?;
                values.clear();
            }
            (Values::Integer(values), ColumnWriter::Int64ColumnWriter(out)) => {
                out.write_batch(values, levels, None)?;
                values.clear();
            }
            (Values::Number(values), ColumnWriter::DoubleColumnWriter(out)) => {
                out.write_batch(values, levels, None)?;
                values.clear();
            }
            (Values::Text(values), ColumnWriter::ByteArrayColumnWriter(out)) => {
                out.write_batch(values, levels, None)?;
                values.clear();
            }
            // The schema has each column's type from the same `ColumnType`; the writer reports a column without values.
            _ => {}
        }
        self.levels.clear();
        Ok(())
    }
}
