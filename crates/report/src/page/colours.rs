//! Colours of series, bound to their names: a name has the same colour in all charts of a page.

use std::collections::{BTreeMap, BTreeSet};

use crate::plot::{Figure, SLOTS};

/// Gives each name without a colour the next free one. Names that are always alone in their charts share one.
pub(super) fn bind<'a>(figures: impl IntoIterator<Item = &'a mut Figure>) {
    let mut figures: Vec<&mut Figure> = figures.into_iter().collect();
    let mut slots: BTreeMap<String, usize> = BTreeMap::new();
    let mut accompanied: BTreeSet<String> = BTreeSet::new();
    let mut names: Vec<String> = vec![];
    for figure in &figures {
        let drawn = || figure.series.iter().filter(|s| !s.is_empty());
        for series in drawn() {
            match series.colour {
                Some(slot) => _ = slots.entry(series.name.clone()).or_insert(slot),
                None => names.push(series.name.clone()),
            }
            if drawn().count() > 1 {
                accompanied.insert(series.name.clone());
            }
        }
    }
    let mut used: BTreeSet<usize> = slots.values().copied().collect();
    let mut shared = None;
    for name in names {
        if slots.contains_key(&name) {
            continue;
        }
        let mut next = || {
            let slot = (0..SLOTS).find(|s| !used.contains(s)).unwrap_or(used.len() % SLOTS);
            used.insert(slot);
            slot
        };
        let is_alone = !accompanied.contains(&name);
        let slot = if is_alone { *shared.get_or_insert_with(next) } else { next() };
        slots.insert(name, slot);
    }
    for series in figures.iter_mut().flat_map(|f| &mut f.series) {
        series.colour = series.colour.or_else(|| slots.get(&series.name).copied());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{Axis, Mark, Point, Quantity, Series};

    fn figure(names: &[&str]) -> Figure {
        let y = Axis::new("y", "y", Quantity::Number);
        names.iter().fold(Figure::over_time("x", "x", y), |figure, name| {
            figure.with(Series::new(*name, Mark::Step).points([Point::over(0.0, 1.0, 1.0)]))
        })
    }

    fn bound(mut figures: Vec<Figure>) -> Vec<Vec<Option<usize>>> {
        bind(&mut figures);
        figures.iter().map(|f| f.series.iter().map(|s| s.colour).collect()).collect()
    }

    #[test]
    fn a_name_has_one_colour_on_a_page() {
        let of = bound(vec![figure(&["a", "b", "sum"]), figure(&["b", "c"]), figure(&["c"])]);
        assert_eq!(of, [vec![Some(0), Some(1), Some(2)], vec![Some(1), Some(3)], vec![Some(3)]]);
    }

    #[test]
    fn names_that_are_alone_share_a_colour() {
        let of = bound(vec![figure(&["loss"]), figure(&["a", "b"]), figure(&["delay"])]);
        assert_eq!(of, [vec![Some(0)], vec![Some(1), Some(2)], vec![Some(0)]]);
        let of = bound(vec![figure(&["a", "b"]), figure(&["loss"])]);
        assert_eq!(of, [vec![Some(0), Some(1)], vec![Some(2)]]);
    }

    #[test]
    fn a_given_colour_stays_and_is_not_given_again() {
        let mut given = figure(&["a", "b"]);
        given.series[0].colour = Some(1);
        let of = bound(vec![figure(&["c", "a"]), given]);
        assert_eq!(of, [vec![Some(0), Some(1)], vec![Some(1), Some(2)]]);
    }
}
