//! One table of the tables of several experiments.

use super::difference::difference;
use super::experiment::number_of;
use super::grid::{Cell, Column, Grid};
use crate::plot::Quantity;

/// Heading over the columns of differences.
pub(crate) const DIFFERENCE: &str = "Difference";

/// The cells that identify a row, and how many rows before it have the same ones.
type Key = (Vec<Cell>, usize);

/// Two columns of figures whose difference is shown: the number of the table, and the column in it.
struct Pair {
    quantity: Option<Quantity>,
    from: (usize, usize),
    to: (usize, usize),
}

/// The tables of several experiments, each with the experiment's name, as one: the columns of each experiment under its
/// name, then the differences from the first one. All are mergeable with the first.
pub(super) fn merged(parts: &[(&str, &Grid)]) -> Grid {
    let Some((_, first)) = parts.first() else { return Grid::default() };
    let keys = first.keys.unwrap_or(0);
    let rows_of: Vec<Vec<(Key, &Vec<Cell>)>> =
        parts.iter().map(|(_, grid)| keyed(grid, keys)).collect();
    let mut rows: Vec<&Key> = vec![];
    for (key, _) in rows_of.iter().flatten() {
        if !rows.contains(&key) {
            rows.push(key);
        }
    }
    sort_by_load(&mut rows, &rows_of, first);
    let found = |part: usize, key: &Key| -> Option<&Vec<Cell>> {
        rows_of[part].iter().find(|(own, _)| own == key).map(|(_, row)| *row)
    };
    let mut columns: Vec<Column> = first.columns.iter().take(keys).cloned().collect();
    // For each column the part and the place of its cells.
    let mut places: Vec<(usize, usize)> = vec![];
    for (part, (name, grid)) in parts.iter().enumerate() {
        for (place, column) in grid.columns.iter().enumerate().skip(keys) {
            if !column.is_detail && !counts_nothing(grid, place) {
                columns.push(Column { over: (*name).into(), ..column.clone() });
                places.push((part, place));
            }
        }
    }
    // Pairs of places whose figures differ.
    let mut pairs: Vec<Pair> = vec![];
    for (part, (name, grid)) in parts.iter().enumerate().skip(1) {
        for (place, column) in first.columns.iter().enumerate().filter(|(_, c)| c.is_compared) {
            let Some(other) = grid.columns.iter().position(|c| c.head == column.head) else {
                continue;
            };
            let over = match parts.len() {
                2 => DIFFERENCE.to_owned(),
                _ => format!("{DIFFERENCE}, {name}"),
            };
            columns.push(Column::text(&column.head).aligned().under(&over));
            pairs.push(Pair { quantity: column.quantity, from: (0, place), to: (part, other) });
        }
    }
    let mut grid = Grid::new(&first.caption, columns).keyed(keys);
    grid.row_heads = first.row_heads && keys > 0;
    grid.in_order = first.in_order;
    for key in rows {
        let cell = |(part, place): &(usize, usize)| -> Cell {
            found(*part, key).and_then(|row| row.get(*place)).cloned().unwrap_or_default()
        };
        let differences = pairs.iter().map(|Pair { quantity, from, to }| {
            match (figure(*quantity, &cell(from)), figure(*quantity, &cell(to))) {
                (Some((quantity, from)), Some((_, to))) => {
                    difference(quantity, from, to).map_or(Cell::Absent, Cell::Text)
                }
                _ => Cell::Absent,
            }
        });
        grid.row(key.0.iter().cloned().chain(places.iter().map(cell)).chain(differences));
    }
    grid.without_empty_columns()
}

/// Whether a column counts, such as host-limited runs, and is zero in all rows.
fn counts_nothing(grid: &Grid, place: usize) -> bool {
    let is_zero = |row: &Vec<Cell>| matches!(row.get(place), Some(Cell::Figure(v)) if *v == 0.0);
    let column = &grid.columns[place];
    column.quantity == Some(Quantity::Count) && !column.is_compared && grid.rows.iter().all(is_zero)
}

fn keyed(grid: &Grid, keys: usize) -> Vec<(Key, &Vec<Cell>)> {
    let mut out: Vec<(Key, &Vec<Cell>)> = vec![];
    for row in &grid.rows {
        let cells: Vec<Cell> = row.iter().take(keys).cloned().collect();
        let before = out.iter().filter(|((known, _), _)| *known == cells).count();
        out.push(((cells, before), row));
    }
    out
}

/// Sorts rows by their only key if it is a number and each table has it in ascending order.
fn sort_by_load(rows: &mut [&Key], tables: &[Vec<(Key, &Vec<Cell>)>], first: &Grid) {
    let Some(head) = first.columns.first().filter(|_| first.keys == Some(1)) else { return };
    let load = |key: &Key| match &key.0[..] {
        [Cell::Text(text)] => number_of(&head.head, text),
        _ => None,
    };
    let is_ascending = |table: &Vec<(Key, &Vec<Cell>)>| table.is_sorted_by_key(|(k, _)| load(k));
    if rows.iter().all(|key| load(key).is_some()) && tables.iter().all(is_ascending) {
        rows.sort_by(|a, b| load(a).partial_cmp(&load(b)).unwrap_or(std::cmp::Ordering::Equal));
    }
}

/// The figure of a cell with its quantity.
fn figure(quantity: Option<Quantity>, cell: &Cell) -> Option<(Quantity, f64)> {
    match cell {
        Cell::Figure(value) => Some((quantity?, *value)),
        Cell::With(own, value) => Some((*own, *value)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[(&str, Cell)]) -> Grid {
        let columns = [
            Column::text("rate"),
            Column::figures("Mean", Quantity::BitsPerSecond).compared(),
            Column { is_detail: true, ..Column::text("Deviation") },
        ];
        let mut grid = Grid::new("throughput", columns).keyed(1);
        for (rate, cell) in rows {
            grid.row([Cell::Text((*rate).into()), cell.clone(), Cell::Text("x".into())]);
        }
        grid
    }

    #[test]
    fn experiments_are_groups_of_columns_with_differences() {
        let old = table(&[("1M", Cell::Figure(1e6)), ("3M", Cell::Figure(2e6))]);
        let new =
            table(&[("1M", Cell::Figure(1.1e6)), ("2M", Cell::Figure(2e6)), ("3M", Cell::Absent)]);
        assert!(old.is_mergeable(&new));
        let both = merged(&[("old", &old), ("new", &new)]);
        let heads: Vec<(&str, &str)> =
            both.columns.iter().map(|c| (c.over.as_str(), c.head.as_str())).collect();
        let wanted = [("", "rate"), ("old", "Mean"), ("new", "Mean"), ("Difference", "Mean")];
        assert_eq!(heads, wanted);
        let text = |text: &str| Cell::Text(text.into());
        let row = |rate: &str, old, new, difference| vec![text(rate), old, new, difference];
        assert_eq!(
            both.rows,
            [
                row("1M", Cell::Figure(1e6), Cell::Figure(1.1e6), text("+10.0 %")),
                row("2M", Cell::Absent, Cell::Figure(2e6), Cell::Absent),
                row("3M", Cell::Figure(2e6), Cell::Absent, Cell::Absent),
            ]
        );
    }

    #[test]
    fn each_further_experiment_has_a_difference_from_the_first() {
        let of = |value| table(&[("1M", Cell::Figure(value))]);
        let (a, b, c) = (of(1e6), of(2e6), of(0.5e6));
        let all = merged(&[("a", &a), ("b", &b), ("c", &c)]);
        let last: Vec<(&str, &Cell)> =
            all.columns.iter().map(|c| c.over.as_str()).zip(&all.rows[0]).skip(4).collect();
        let text = |text: &str| Cell::Text(text.into());
        let wanted = [("Difference, b", text("+100 %")), ("Difference, c", text("−50.0 %"))];
        assert_eq!(last, wanted.each_ref().map(|(over, cell)| (*over, cell)));
    }

    #[test]
    fn other_tables_are_not_merged() {
        let one = table(&[]);
        let other = Grid { caption: "loss".into(), ..one.clone() };
        assert!(!one.is_mergeable(&other));
        assert!(!Grid { keys: None, ..one.clone() }.is_mergeable(&one));
        let mut axis = one.clone();
        axis.columns[0].head = "size".into();
        assert!(!one.is_mergeable(&axis));
    }
}
