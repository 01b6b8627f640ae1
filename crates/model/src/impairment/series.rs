//! Timelines from CSV: a line for each time, with the laws from then on.

use std::str::FromStr;

use super::Laws;
use super::laws::SLOT_TERMS;
use super::timeline::{MAX_TIMELINE_CHANGES, Timeline, TimelineChange};
use crate::ModelError;
use crate::units::Span;

/// Maximum size of a series, bytes.
pub const MAX_SERIES_BYTES: usize = 4 << 20;
/// Maximum number of columns: time, and each term for both directions and for either.
const MAX_COLUMNS: usize = 1 + 3 * SLOT_TERMS.len();

/// The directions that a column sets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Both,
    AToB,
    BToA,
}

/// A column of terms.
struct Column {
    term: &'static str,
    side: Side,
}

fn refused<T>(line: usize, column: &str, given: &str, accepted: &str) -> Result<T, ModelError> {
    // As in other messages, without the end of a very long text.
    let given = given.chars().take(100).collect();
    Err(ModelError::Field {
        field: format!("line {line}, {column}"),
        given,
        accepted: accepted.to_owned(),
    })
}

fn cells(line: &str) -> impl Iterator<Item = &str> {
    line.split(',').map(|cell| {
        let cell = cell.trim();
        cell.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(cell).trim()
    })
}

impl Column {
    fn read(line: usize, name: &str) -> Result<Self, ModelError> {
        let (side, term) = match name.split_once('.') {
            Some(("a_to_b", term)) => (Side::AToB, term),
            Some(("b_to_a", term)) => (Side::BToA, term),
            _ => (Side::Both, name),
        };
        match SLOT_TERMS.iter().find(|known| known.name == term) {
            Some(known) => Ok(Column { term: known.name, side }),
            None => {
                let names: Vec<&str> = SLOT_TERMS.iter().map(|term| term.name).collect();
                let accepted = format!("{}, alone or after a_to_b. or b_to_a.", names.join(", "));
                refused(line, "column", name, &accepted)
            }
        }
    }

    fn sets(&self, side: Side) -> bool {
        self.side == Side::Both || self.side == side
    }
}

/// The lines that are not empty and no comments, with their numbers.
fn rows(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..)
        .zip(text.trim_start_matches('\u{feff}').lines())
        .filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'))
}

/// Whether a text is CSV with a column `time`, and not a document.
pub(super) fn is_csv(text: &str) -> bool {
    rows(text).next().is_some_and(|(_, head)| cells(head).next() == Some("time"))
}

impl Timeline {
    /// A timeline of the packets that no filter matches, from CSV. The first line names the columns: `time` (s, or with its
    /// unit), then terms of laws (`rate`, `delay`, `loss`, …) of both directions, or after `a_to_b.` or `b_to_a.` of one. Each
    /// further line has the laws from its time on; an empty cell is no law. Lines that start with `#` are comments.
    ///
    /// # Errors
    /// [`ModelError::Field`] naming the line and the column.
    pub fn from_csv(text: &str) -> Result<Self, ModelError> {
        if text.len() > MAX_SERIES_BYTES {
            return refused(1, "size", &format!("{} bytes", text.len()), "at most 4M");
        }
        let mut lines = rows(text);
        let (line, head) = lines.next().unwrap_or((1, ""));
        let mut names = cells(head);
        if names.next() != Some("time") {
            return refused(line, "column", head, "time, then terms of laws: time,rate,delay,loss");
        }
        let columns: Vec<Column> = names
            .take(MAX_COLUMNS)
            .map(|name| Column::read(line, name))
            .collect::<Result<_, _>>()?;
        for side in [Side::AToB, Side::BToA] {
            let mut seen = vec![];
            for column in columns.iter().filter(|column| column.sets(side)) {
                if seen.contains(&column.term) {
                    return refused(line, "column", column.term, "each term once in a direction");
                }
                seen.push(column.term);
            }
        }
        if columns.is_empty() {
            return refused(line, "column", head, "at least one term of laws after time");
        }
        let mut changes: Vec<TimelineChange> = vec![];
        for (line, row) in lines {
            if changes.len() == MAX_TIMELINE_CHANGES {
                return refused(line, "time", row, "at most 10000 lines");
            }
            let row: Vec<&str> = cells(row).take(columns.len() + 2).collect();
            if row.len() != columns.len() + 1 {
                let given = format!("{} cells", row.len());
                return refused(line, "row", &given, &format!("{} cells", columns.len() + 1));
            }
            let Ok(at) = Span::from_str(row[0]) else {
                return refused(
                    line,
                    "time",
                    row[0],
                    "seconds such as 0.5, or a time such as 500ms",
                );
            };
            let a_to_b = laws(line, &columns, &row[1..], Side::AToB)?;
            let b_to_a = laws(line, &columns, &row[1..], Side::BToA)?;
            if changes.last().is_some_and(|last| last.at > at) {
                return refused(
                    line,
                    "time",
                    row[0],
                    "the time of the line before, or a later one",
                );
            }
            changes.push(TimelineChange { at, a_to_b, b_to_a, ..TimelineChange::default() });
        }
        Ok(Timeline { changes, ..Timeline::default() })
    }
}

/// The laws of a line for a direction; `None` if no column sets it.
fn laws(
    line: usize,
    columns: &[Column],
    cells: &[&str],
    side: Side,
) -> Result<Option<Laws>, ModelError> {
    let mut own = columns.iter().zip(cells).filter(|(column, _)| column.sets(side)).peekable();
    if own.peek().is_none() {
        return Ok(None);
    }
    let mut laws = Laws::default();
    for (column, cell) in own.filter(|(_, cell)| !cell.is_empty()) {
        match format!("{} {cell}", column.term).parse::<Laws>() {
            Ok(one) => laws = laws.over(&one),
            Err(ModelError::Value { accepted, .. }) => {
                return refused(line, column.term, cell, accepted);
            }
            Err(ModelError::Field { given, accepted, .. }) => {
                return refused(line, column.term, &given, &accepted);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Some(laws))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_laws_from_its_time_on() {
        let text = "\u{feff}# measured\ntime, rate, a_to_b.delay ,\"b_to_a.loss\"\n0,10M,20ms,1%\n\n0.5,2M queue 100packets,,\r\n1500ms,\"1M\",5ms,2% 25%\n";
        let timeline = Timeline::from_csv(text).unwrap();
        let text = |laws: &Option<Laws>| laws.as_ref().unwrap().to_string();
        let rows: Vec<_> = timeline
            .changes
            .iter()
            .map(|change| (change.at.0 / 1_000_000, text(&change.a_to_b), text(&change.b_to_a)))
            .collect();
        let row = |at, a: &str, b: &str| (at, a.to_owned(), b.to_owned());
        assert_eq!(
            rows,
            [
                row(0, "rate 10M, delay 20ms", "loss 1%, rate 10M"),
                row(500, "rate 2M queue 100packets", "rate 2M queue 100packets"),
                row(1500, "rate 1M, delay 5ms", "loss 2% 25%, rate 1M"),
            ]
        );
        let one_way = Timeline::from_csv("time,a_to_b.rate\n1,1M").unwrap();
        assert_eq!(one_way.changes[0].b_to_a, None);
    }

    #[test]
    fn an_invalid_series_is_refused_by_its_line() {
        let many = "time,rate\n".to_owned() + &"1,1M\n".repeat(MAX_TIMELINE_CHANGES + 1);
        for (text, field) in [
            ("", "line 1, column"),
            ("rate,time\n", "line 1, column"),
            ("time", "line 1, column"),
            ("# x\ntime,speed", "line 2, column"),
            ("time,trigger", "line 1, column"),
            ("time,rate,a_to_b.rate", "line 1, column"),
            ("time,rate\n1", "line 2, row"),
            ("time,rate\n1,1M,2M", "line 2, row"),
            ("time,rate\nsoon,1M", "line 2, time"),
            ("time,rate\n2,1M\n1,1M", "line 3, time"),
            ("time,rate\n1,fast", "line 2, rate"),
            ("time,rate,loss\n1,1M,101%", "line 2, loss"),
            ("time,delay\n1,20", "line 2, delay"),
            // A cell has one term.
            ("time,delay\n1,20ms loss 1%\n2,1ms delay 1ms", "line 3, delay"),
            (&many, "line 10002, time"),
        ] {
            match Timeline::from_csv(text) {
                Err(ModelError::Field { field: given, .. }) => {
                    assert_eq!(given, field, "{text:.40}")
                }
                other => panic!("{text:.40}: {other:?}"),
            }
        }
    }
}
