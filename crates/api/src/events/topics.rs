//! The objects that a reader subscribes to.

use crate::problem::Problem;
use crate::types::ObjectKind;

/// Maximum number of topics of one reader.
const MAX: usize = 1000;

/// Kinds and single objects; empty: all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Topics(Vec<(ObjectKind, Option<String>)>);

impl Topics {
    /// Parses `tests,emulators:ID`, the value of a query field.
    pub(crate) fn parse(field: &'static str, text: &str) -> Result<Topics, Problem> {
        let refuse = |given: &str| {
            Problem::field(
                field,
                given,
                "tests, experiments, emulators, clients, calibration, demo, documents, or KIND:ID, separated by commas",
            )
        };
        let mut out = vec![];
        for word in text.split(',').map(str::trim).filter(|w| !w.is_empty()) {
            let (kind, id) = match word.split_once(':') {
                Some((kind, id)) => (kind, Some(id.to_owned())),
                None => (word, None),
            };
            let kind = serde_json::from_value(kind.into()).map_err(|_| refuse(word))?;
            out.push((kind, id));
            if out.len() > MAX {
                return Err(refuse(&format!("more than {MAX} topics")));
            }
        }
        Ok(Topics(out))
    }

    /// Whether this object is subscribed to.
    pub(crate) fn want(&self, kind: ObjectKind, id: &str) -> bool {
        self.0.is_empty()
            || self.0.iter().any(|(k, one)| *k == kind && one.as_deref().is_none_or(|o| o == id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_single_objects() {
        let topics = Topics::parse("?topics", "tests, emulators:7").unwrap();
        assert!(topics.want(ObjectKind::Tests, "x") && topics.want(ObjectKind::Emulators, "7"));
        assert!(!topics.want(ObjectKind::Emulators, "8") && !topics.want(ObjectKind::Clients, "x"));
        assert!(Topics::parse("?topics", "").unwrap().want(ObjectKind::Clients, "x"));
        assert!(Topics::parse("?topics", "test").is_err());
    }
}
