//! What netperf 2.7 prints: the tables of its classic tests with their banner, CSV (`-o`) and keywords (`-k`) of omni output, and
//! interim lines (`-D`).
//!
//! Its throughput is what the receiver received. In units, `K`, `M` and `G` of bytes are powers of 1024, `10^3` and the like
//! of bits are powers of ten. A table without its banner (`-P 0`) states no unit and is refused.

mod keys;
mod lines;
mod result;

use crate::ReadError;
use crate::reading::{self, Reading};
use crate::rows::MAX_ROWS;
use lines::Line;
use result::Test;

/// What a line is expected to be.
const LINE: &str = "a line that netperf prints with its banner, or of -k or -o";

/// Whether a file looks like netperf's output.
pub(crate) fn recognises(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    text.lines().take(200).any(|line| match Line::of(line) {
        Line::Banner { .. } | Line::Header(_) | Line::Interim(_) => true,
        Line::Key { name, .. } => keys::is_key(name),
        Line::Row(_) | Line::Unit(_) | Line::Other => false,
    })
}

/// The results of a file.
pub(crate) fn read(bytes: &[u8]) -> Result<Vec<Reading<'_>>, ReadError> {
    let text = std::str::from_utf8(bytes)
        .map_err(|e| ReadError::new(format!("byte {}", e.valid_up_to()), "text in UTF-8"))?;
    let mut out = vec![];
    let mut test = Test::default();
    let (mut from, mut to) = (0, 0);
    let mut header: Option<Vec<String>> = None;
    for (n, whole_line) in text.split_inclusive('\n').enumerate() {
        let before = to;
        to += whole_line.len();
        let line = whole_line.trim_end();
        let fail = || ReadError::at_line(n + 1, line, LINE);
        if let Some(names) = header.take() {
            // The values of the columns; a repeated test prints several such lines.
            if !line.is_empty() && !test.is_complete() {
                test.columns(&names, &lines::fields(line)).ok_or_else(fail)?;
                continue;
            }
        }
        let line = Line::of(line);
        if test.is_ended_by(&line) {
            out.extend(test.reading(&bytes[from..before])?);
            reading::bounded(&out)?;
            (test, from) = (Test::default(), before);
        }
        match line {
            Line::Banner { test: name, host, burst } => test.banner(n + 1, name, host, burst)?,
            Line::Header(names) => header = Some(names),
            Line::Key { name, value } => test.key(name, value).ok_or_else(fail)?,
            Line::Interim(_) if test.rows.len() == MAX_ROWS => {
                return Err(ReadError::at_line(
                    n + 1,
                    "interim",
                    format!("at most {MAX_ROWS} of them"),
                ));
            }
            Line::Interim(row) => test.rows.push(row),
            Line::Unit(unit) => test.unit = test.unit.or(Some(unit)),
            Line::Row(values) => test.row(&values),
            Line::Other => {}
        }
    }
    out.extend(test.reading(&bytes[from..to])?);
    Ok(out)
}
