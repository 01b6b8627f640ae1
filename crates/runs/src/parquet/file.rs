//! One Parquet file: rows in, row groups and a footer out.

use std::fs::File;
use std::io;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use weir_model::csv::Column;

use super::column::{Buffer, Cell, schema};

/// Maximum rows of a row group: what DuckDB reads in one thread.
const MAX_ROWS: usize = 122_880;
/// Maximum bytes of values in memory of a row group; one row may exceed it.
const MAX_BYTES: usize = 32 << 20;

/// Writes a file with these columns.
#[derive(Debug)]
pub(crate) struct ParquetFile {
    writer: SerializedFileWriter<File>,
    buffers: Vec<Buffer>,
    /// Rows and bytes in the buffers.
    rows: usize,
    bytes: usize,
}

/// An error of the library; one of the file is as the system reported it.
fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(source) => *source,
            Err(source) => io::Error::other(source),
        },
        other => io::Error::other(other),
    }
}

impl ParquetFile {
    /// # Errors
    /// Those of the file, as for each method.
    pub(crate) fn new(out: File, columns: &[Column]) -> io::Result<Self> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            // Minimum and maximum of each row group; those of pages would only make the footer longer.
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true)
            .build();
        let writer = schema(columns)
            .and_then(|schema| SerializedFileWriter::new(out, schema, Arc::new(properties)));
        let buffers = columns.iter().map(|column| Buffer::new(column.kind)).collect();
        Ok(ParquetFile { writer: writer.map_err(io_error)?, buffers, rows: 0, bytes: 0 })
    }

    /// Adds a row; `cells` are in the order of the columns.
    pub(crate) fn row<'a>(&mut self, cells: impl IntoIterator<Item = Cell<'a>>) -> io::Result<()> {
        let mut cells = cells.into_iter();
        for buffer in &mut self.buffers {
            self.bytes += buffer.push(cells.next().unwrap_or(Cell::Null));
        }
        self.rows += 1;
        if self.rows == MAX_ROWS || self.bytes >= MAX_BYTES {
            return self.end_group().map_err(io_error);
        }
        Ok(())
    }

    /// Writes the buffered rows.
    fn end_group(&mut self) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = self.writer.next_row_group()?;
        for buffer in &mut self.buffers {
            if let Some(mut column) = group.next_column()? {
                buffer.write(column.untyped())?;
                column.close()?;
            }
        }
        group.close()?;
        (self.rows, self.bytes) = (0, 0);
        Ok(())
    }

    /// Writes the rest and the footer, and returns the file.
    pub(crate) fn finish(mut self) -> io::Result<File> {
        self.end_group().and_then(|()| self.writer.into_inner()).map_err(io_error)
    }
}
