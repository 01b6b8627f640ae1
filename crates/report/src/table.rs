//! A small aligned table for lists: demo, doctor, stored runs, the loss ledger.

use crate::style::{Style, clean};

/// The alignment of a column's cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Align {
    /// For text.
    #[default]
    Left,
    /// Numbers.
    Right,
}

/// Rows under headings, two spaces between columns, each column as wide as its widest cell.
///
/// Widths count characters. Cells are made safe for a terminal.
#[derive(Debug, Clone, Default)]
pub struct Table {
    headings: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
    indent: usize,
}

impl Table {
    /// A table with these headings; all empty: none are printed.
    pub fn new<S: AsRef<str>>(headings: impl IntoIterator<Item = (S, Align)>) -> Self {
        Table {
            headings: headings
                .into_iter()
                .map(|(h, a)| (clean(h.as_ref()).into_owned(), a))
                .collect(),
            ..Default::default()
        }
    }

    /// Spaces before each line.
    #[must_use]
    pub(crate) fn indented(mut self, spaces: usize) -> Self {
        self.indent = spaces;
        self
    }

    /// Adds a row. Missing cells are empty; cells beyond the headings are left out.
    pub fn row<S: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = S>) -> &mut Self {
        self.rows.push(
            cells
                .into_iter()
                .take(self.headings.len())
                .map(|c| clean(c.as_ref()).into_owned())
                .collect(),
        );
        self
    }

    /// The lines, each ended by a newline, without trailing spaces.
    pub fn render(&self, style: &Style) -> String {
        let mut widths: Vec<usize> = self.headings.iter().map(|(h, _)| h.chars().count()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let mut out = " ".repeat(self.indent);
            for (i, cell) in cells.enumerate() {
                let pad = widths[i].saturating_sub(cell.chars().count());
                if i > 0 {
                    out.push_str("  ");
                }
                match self.headings[i].1 {
                    Align::Left => {
                        out.push_str(cell);
                        out.extend(std::iter::repeat_n(' ', pad));
                    }
                    Align::Right => {
                        out.extend(std::iter::repeat_n(' ', pad));
                        out.push_str(cell);
                    }
                }
            }
            out.truncate(out.trim_end().len());
            out
        };
        let mut out = String::new();
        if self.headings.iter().any(|(h, _)| !h.is_empty()) {
            out.push_str(&style.bold(&line(&mut self.headings.iter().map(|(h, _)| h.as_str()))));
            out.push('\n');
        }
        for row in &self.rows {
            out.push_str(&line(&mut row.iter().map(String::as_str)));
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align() {
        let mut t = Table::new([("name", Align::Left), ("count", Align::Right)]);
        t.row(["a", "1"]).row(["longer ±", "12345", "beyond"]).row(["only"]);
        assert_eq!(
            t.render(&Style::PLAIN),
            "name      count\na             1\nlonger ±  12345\nonly\n"
        );
    }

    #[test]
    fn cells_cannot_break_the_table() {
        let mut t = Table::new([("h", Align::Left)]);
        t.row(["a\nb\x1b[2J"]);
        assert_eq!(t.indented(2).render(&Style::PLAIN).lines().count(), 2);
    }
}
