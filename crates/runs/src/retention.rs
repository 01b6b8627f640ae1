//! Deletes old results that others create without end: visitors of a page, clients of a server.

use crate::{Filter, Store, StoreError};

const DAY_MS: i64 = 24 * 3600 * 1000;
/// Maximum number deleted in one go, so that a result does not wait for years of old ones.
const MAX_AT_ONCE: usize = 500;

/// Which results are kept.
#[derive(Debug, Clone, Copy)]
pub struct Retention<'a> {
    /// The label of results that others create.
    pub label: &'a str,
    /// Other labels that such a result has. One with any more was tagged, and is kept.
    pub own: &'a [&'a str],
    /// Days after which they are deleted.
    pub days: u64,
    /// The maximum number of them.
    pub most: usize,
}

/// Deletes results that are too old or too many, oldest first, except those with a tag of their own; returns how
/// many.
///
/// # Errors
/// [`StoreError`].
pub fn tidy(
    store: &mut Store,
    kept: &Retention<'_>,
    now_unix_ms: i64,
) -> Result<usize, StoreError> {
    let labels = vec![(kept.label.to_owned(), None)];
    let until = now_unix_ms.saturating_sub_unsigned(kept.days.saturating_mul(DAY_MS as u64));
    let old = Filter { labels: labels.clone(), until_unix_ms: Some(until), ..Filter::default() };
    let mut ids: Vec<String> = store.list(&old)?.into_iter().map(|row| row.id).collect();
    let young = Filter { labels, since_unix_ms: Some(until), ..Filter::default() };
    // Newest first.
    let beyond = store.list(&young)?.into_iter().skip(kept.most).map(|row| row.id);
    ids.splice(0..0, beyond);
    ids.reverse();
    let mut gone = vec![];
    for id in ids {
        let tags = store.labels(&id)?;
        let is_own = |key: &String| key == kept.label || kept.own.contains(&key.as_str());
        if tags.keys().all(is_own) {
            gone.push(id);
        }
        if gone.len() == MAX_AT_ONCE {
            break;
        }
    }
    if !gone.is_empty() {
        store.remove(&gone)?;
    }
    Ok(gone.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::record::{RUN_SCHEMA, Record};

    #[test]
    fn old_ones_and_those_beyond_the_number_go_and_tagged_ones_stay() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = Store::open(&directory.path().join("runs.db")).unwrap();
        let mut keep = |day: u32, more: &[(&str, &str)]| {
            let id = format!("202601{day:02}-120000-aaaaaa");
            let labels = [("of_others", "x"), ("streams", "4")];
            store
                .insert(&Record {
                    schema: RUN_SCHEMA.into(),
                    id: id.clone(),
                    started_at: format!("2026-01-{day:02}T12:00:00.000Z"),
                    labels: labels
                        .iter()
                        .chain(more)
                        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                        .collect(),
                    ..Record::default()
                })
                .unwrap();
            id
        };
        let tagged = keep(1, &[("why", "the night of the storm")]);
        let _old = keep(2, &[]);
        let _beyond = keep(10, &[]);
        let kept = [keep(11, &[]), keep(12, &[])];
        let other = Record {
            schema: RUN_SCHEMA.into(),
            id: "20260101-000000-bbbbbb".into(),
            started_at: "2026-01-01T00:00:00.000Z".into(),
            ..Record::default()
        };
        store.insert(&other).unwrap();
        let limits = Retention { label: "of_others", own: &["streams"], days: 7, most: 2 };
        // Noon of 13 January 2026.
        let now = 1_768_305_600_000;
        assert_eq!(tidy(&mut store, &limits, now).unwrap(), 2);
        let mut left: Vec<String> =
            store.list(&Filter::default()).unwrap().into_iter().map(|row| row.id).collect();
        left.sort();
        let [a, b] = kept;
        assert_eq!(left, [other.id, tagged, a, b]);
        assert_eq!(tidy(&mut store, &limits, now).unwrap(), 0);
    }
}
