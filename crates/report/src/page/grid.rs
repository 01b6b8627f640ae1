//! Tables with aligned figures: a column, or a group of columns, has one unit and one number of decimals.

use crate::markup::grouped;
use crate::plot::Quantity;

/// A column.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Column {
    /// Heading, without the unit.
    pub head: String,
    /// The quantity of its figures; absent for a column of text.
    pub quantity: Option<Quantity>,
    /// Columns of the same group share their unit.
    pub group: &'static str,
    /// Heading over it and its neighbours with the same one.
    pub over: String,
    /// Whether its text is aligned as figures are.
    pub is_aligned: bool,
    /// Whether a report of several experiments shows the differences of its figures.
    pub is_compared: bool,
    /// Whether a report of several experiments omits it.
    pub is_detail: bool,
}

impl Column {
    /// A column of text.
    pub fn text(head: &str) -> Column {
        Column { head: head.into(), ..Default::default() }
    }

    /// A column of figures.
    pub(crate) fn figures(head: &str, quantity: Quantity) -> Column {
        Column { head: head.into(), quantity: Some(quantity), ..Default::default() }
    }

    /// The column under a common heading.
    pub(crate) fn under(self, over: &str) -> Column {
        Column { over: over.into(), ..self }
    }

    /// A column of text that holds formatted figures.
    pub(crate) fn aligned(self) -> Column {
        Column { is_aligned: true, ..self }
    }

    /// The column with differences in a report of several experiments.
    pub(crate) fn compared(self) -> Column {
        Column { is_compared: true, ..self }
    }

    /// The column, omitted in a report of several experiments.
    pub(crate) fn detail(self) -> Column {
        Column { is_detail: true, ..self }
    }

    /// The column as a member of a group, which shares a unit.
    pub(crate) fn group(self, group: &'static str) -> Column {
        Column { group, ..self }
    }
}

/// A cell.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Cell {
    /// Not measured.
    #[default]
    Absent,
    /// Text.
    Text(String),
    /// A literal: an address, a name, a path.
    Code(String),
    /// A figure in the column's SI unit.
    Figure(f64),
    /// A figure with its own quantity, in a column of different quantities.
    With(Quantity, f64),
}

impl From<Option<f64>> for Cell {
    fn from(value: Option<f64>) -> Cell {
        value.filter(|v| v.is_finite()).map_or(Cell::Absent, Cell::Figure)
    }
}

impl From<Option<u64>> for Cell {
    fn from(value: Option<u64>) -> Cell {
        value.map_or(Cell::Absent, |v| Cell::Figure(v as f64))
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Cell {
        Some(value).into()
    }
}

impl From<u64> for Cell {
    fn from(value: u64) -> Cell {
        Cell::Figure(value as f64)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        if text.is_empty() { Cell::Absent } else { Cell::Text(text.into()) }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        if text.is_empty() { Cell::Absent } else { Cell::Text(text) }
    }
}

impl Cell {
    /// A literal; absent if it is empty.
    pub(crate) fn code(text: &str) -> Cell {
        if text.is_empty() { Cell::Absent } else { Cell::Code(text.into()) }
    }
}

/// A table.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Grid {
    /// The caption.
    pub caption: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows; missing cells at the end are absent.
    pub rows: Vec<Vec<Cell>>,
    /// Number of rows at the end that are sums: sorting leaves them there.
    pub sums: usize,
    /// Whether the first cell of each row is its heading.
    pub row_heads: bool,
    /// Whether the order of rows is fixed, as in a table of different figures.
    pub in_order: bool,
    /// Number of columns at the start that identify a row. Tables of several experiments with the same ones are merged;
    /// absent: they are not.
    pub keys: Option<usize>,
}

/// A table with formatted cells, for HTML and Markdown.
pub(crate) struct Laid {
    /// Heading and unit of each column, and whether it has figures.
    pub(crate) heads: Vec<(String, &'static str, bool)>,
    pub(crate) rows: Vec<Vec<LaidCell>>,
}

/// A formatted cell and, for a figure, its value to sort by.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LaidCell {
    pub(crate) text: String,
    pub(crate) value: Option<f64>,
    pub(crate) code: bool,
    pub(crate) absent: bool,
}

impl Grid {
    /// A table without rows.
    pub fn new(caption: &str, columns: impl IntoIterator<Item = Column>) -> Grid {
        Grid {
            caption: caption.into(),
            columns: columns.into_iter().collect(),
            row_heads: true,
            ..Default::default()
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().take(self.columns.len()).collect());
    }

    /// The table without columns of figures in which nothing was measured.
    pub(crate) fn without_empty_columns(mut self) -> Grid {
        let keep: Vec<bool> = (0..self.columns.len())
            .map(|i| {
                i == 0 || self.rows.iter().any(|r| r.get(i).is_some_and(|c| *c != Cell::Absent))
            })
            .collect();
        let is_kept = |i: &usize| keep.get(*i).copied().unwrap_or(false);
        self.keys = self.keys.map(|keys| (0..keys).filter(is_kept).count());
        self.columns = std::mem::take(&mut self.columns)
            .into_iter()
            .enumerate()
            .filter_map(|(i, c)| is_kept(&i).then_some(c))
            .collect();
        for row in &mut self.rows {
            *row = std::mem::take(row)
                .into_iter()
                .enumerate()
                .filter_map(|(i, c)| is_kept(&i).then_some(c))
                .collect();
        }
        self
    }

    /// The table with rows that its first columns identify.
    pub(crate) fn keyed(mut self, keys: usize) -> Grid {
        self.keys = Some(keys);
        self
    }

    /// Whether another table has the same title and the same columns that identify a row.
    pub(crate) fn is_mergeable(&self, other: &Grid) -> bool {
        let heads = |grid: &Grid| -> Option<Vec<String>> {
            Some(grid.columns.iter().take(grid.keys?).map(|c| c.head.clone()).collect())
        };
        self.caption == other.caption && heads(self).is_some() && heads(self) == heads(other)
    }

    pub(crate) fn laid(&self) -> Laid {
        let styles: Vec<Option<Style>> = self
            .columns
            .iter()
            .enumerate()
            .map(|(i, column)| {
                let quantity = column.quantity?;
                let members = |j: usize| {
                    j == i
                        || (!column.group.is_empty()
                            && self.columns[j].group == column.group
                            && self.columns[j].quantity == column.quantity)
                };
                let in_group = (0..self.columns.len()).filter(|j| members(*j));
                let values = |columns: &mut dyn Iterator<Item = usize>| -> Vec<f64> {
                    columns
                        .flat_map(|j| {
                            self.rows.iter().filter_map(move |r| match r.get(j) {
                                Some(Cell::Figure(v)) => Some(*v),
                                _ => None,
                            })
                        })
                        .collect()
                };
                let (all, own) = (values(&mut { in_group }), values(&mut std::iter::once(i)));
                Some(Style::of(quantity, &all, &own))
            })
            .collect();
        let heads = self
            .columns
            .iter()
            .zip(&styles)
            .map(|(c, s)| {
                let is_figures = c.quantity.is_some() || c.is_aligned;
                (c.head.clone(), s.as_ref().map_or("", |s| s.symbol), is_figures)
            })
            .collect();
        let absent = Cell::Absent;
        let rows = self.rows.iter().map(|row| {
            let cells = styles.iter().enumerate();
            cells
                .map(|(i, style)| laid_cell(row.get(i).unwrap_or(&absent), style.as_ref()))
                .collect()
        });
        Laid { heads, rows: rows.collect() }
    }
}

fn laid_cell(cell: &Cell, style: Option<&Style>) -> LaidCell {
    let plain = |text: String| LaidCell { text, value: None, code: false, absent: false };
    match cell {
        Cell::Absent => LaidCell { absent: true, ..plain("–".into()) },
        Cell::Text(text) => plain(text.clone()),
        Cell::Code(text) => LaidCell { code: true, ..plain(text.clone()) },
        Cell::Figure(v) => {
            let text = style.map_or_else(|| Quantity::Number.format(*v), |s| s.show(*v));
            LaidCell { value: Some(*v), ..plain(text) }
        }
        Cell::With(quantity, v) => LaidCell { value: Some(*v), ..plain(quantity.format(*v)) },
    }
}

/// Maximum number of decimals of a column.
const DECIMALS: usize = 3;

/// The format of a column's figures.
struct Style {
    quantity: Quantity,
    factor: f64,
    symbol: &'static str,
    /// Absent: each figure has its own unit, since the magnitudes differ too much.
    decimals: Option<usize>,
}

impl Style {
    /// `all` determine the unit, `own` the decimals: the minimum gets at least two digits, the maximum four if possible.
    fn of(quantity: Quantity, all: &[f64], own: &[f64]) -> Style {
        let size = |values: &[f64], pick: fn(f64, f64) -> f64| {
            values.iter().map(|v| v.abs()).filter(|v| *v > 0.0 && v.is_finite()).reduce(pick)
        };
        let greatest = size(all, f64::max).unwrap_or(0.0);
        let least = size(all, f64::min).unwrap_or(greatest);
        let unit = match quantity.unit(greatest) {
            // Packet rates are shown to the packet: 998.9 is not 1 k.
            _ if quantity == Quantity::PacketsPerSecond => quantity.unit(1.0),
            // 95 and 9 410 Mbit/s rather than 0.095 and 9.410 Gbit/s.
            unit if quantity == Quantity::BitsPerSecond
                && (0.01..0.1).contains(&(least / unit.factor)) =>
            {
                quantity.unit(least)
            }
            unit => unit,
        };
        let digits = |v: f64, wanted: f64| {
            (wanted - 1.0 - (v / unit.factor).log10().floor()).clamp(0.0, 99.0) as usize
        };
        let whole = quantity == Quantity::Count && own.iter().all(|v| v.fract() == 0.0);
        let decimals = match (size(own, f64::min), size(own, f64::max)) {
            _ if whole => Some(0),
            (Some(least), Some(most)) => {
                let enough = digits(least, 2.0);
                let needed = enough.max(digits(most, 4.0).min(DECIMALS));
                // Either all columns of a group have the unit, or none.
                let together = size(all, f64::min).is_none_or(|v| digits(v, 2.0) <= DECIMALS);
                (together && needed <= DECIMALS && greatest / unit.factor < 1e9).then_some(needed)
            }
            _ => Some(0),
        };
        Style {
            quantity,
            factor: unit.factor,
            symbol: if decimals.is_some() { unit.symbol } else { "" },
            decimals,
        }
    }

    fn show(&self, value: f64) -> String {
        match self.decimals {
            _ if value == 0.0 => "0".into(),
            Some(decimals) => grouped(&format!("{:.decimals$}", value / self.factor)),
            None => self.quantity.format(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(quantity: Quantity, values: &[f64]) -> (&'static str, Vec<String>) {
        let mut grid = Grid::new("", [Column::figures("x", quantity)]);
        values.iter().for_each(|v| grid.row([Cell::Figure(*v)]));
        let laid = grid.laid();
        let plain = |t: &str| t.replace('\u{a0}', " ").replace('\u{202f}', "_");
        (laid.heads[0].1, laid.rows.iter().map(|r| plain(&r[0].text)).collect())
    }

    #[test]
    fn a_column_has_one_unit_and_does_not_round_to_zero() {
        assert_eq!(
            shown(Quantity::BitsPerSecond, &[941.4e6, 94.2e6, 0.0]),
            ("Mbit/s", vec!["941.4".into(), "94.2".into(), "0".into()])
        );
        assert_eq!(
            shown(Quantity::BitsPerSecond, &[9.41e9, 94.9e6]),
            ("Mbit/s", vec!["9410".into(), "95".into()])
        );
        assert_eq!(
            shown(Quantity::Seconds, &[1.23e-5, 2.9e-3]),
            ("ms", vec!["0.012".into(), "2.900".into()])
        );
        assert_eq!(
            shown(Quantity::Seconds, &[1e-9, 2.0]),
            ("", vec!["1.00 ns".into(), "2.00 s".into()])
        );
        assert_eq!(
            shown(Quantity::Count, &[12_345.0, 0.0]),
            ("", vec!["12_345".into(), "0".into()])
        );
        assert_eq!(
            shown(Quantity::Ratio, &[0.0012, 1.0]),
            ("%", vec!["0.12".into(), "100.00".into()])
        );
    }

    #[test]
    fn groups_share_their_unit() {
        let columns = ["min", "max"].map(|h| Column::figures(h, Quantity::Seconds).group("delay"));
        let mut grid = Grid::new("", columns);
        grid.row([Cell::Figure(80e-6), Cell::Figure(1.3e-3)]);
        let laid = grid.laid();
        assert_eq!((laid.heads[0].1, laid.heads[1].1), ("ms", "ms"));
        assert_eq!(
            (laid.rows[0][0].text.as_str(), laid.rows[0][1].text.as_str()),
            ("0.080", "1.300")
        );
    }

    #[test]
    fn empty_columns_are_removed() {
        let columns = ["a", "b", "c"].map(|h| Column::figures(h, Quantity::Count));
        let mut grid = Grid::new("", columns);
        grid.row([Cell::Absent, Cell::Absent, Cell::Figure(0.0)]);
        let grid = grid.without_empty_columns();
        assert_eq!(grid.columns.len(), 2, "a measured zero stays");
        assert_eq!(grid.laid().rows[0][0].text, "–");
    }
}
