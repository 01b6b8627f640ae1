//! The line of a TOML document in which a field is.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The line, from 1, of the field at `path` (`connection[0].mss`); `None` where the document does not have it.
pub(super) fn line_of(text: &str, path: &str) -> Option<usize> {
    let document = DeTable::parse(text).ok()?;
    let mut table = document.get_ref();
    let mut at = None;
    for part in path.split('.') {
        let (name, index) = match part.split_once('[') {
            Some((name, index)) => (name, Some(index.trim_end_matches(']').parse::<usize>().ok()?)),
            None => (part, None),
        };
        let (key, value) = table.get_key_value(name)?;
        let value = match (index, value.get_ref()) {
            (Some(index), DeValue::Array(items)) => items.get(index)?,
            (Some(_), _) => return None,
            (None, _) => value,
        };
        at = Some(if index.is_some() { start(value) } else { key.span().start });
        if let DeValue::Table(inner) = value.get_ref() {
            table = inner;
        }
    }
    Some(text.get(..at?)?.matches('\n').count() + 1)
}

fn start(value: &Spanned<DeValue<'_>>) -> usize {
    value.span().start
}

#[cfg(test)]
mod tests {
    use super::line_of;

    #[test]
    fn fields_have_their_lines() {
        let text = "schema = \"weir.plan/1\"\n\n[[connection]]\nmss = 5\n[[connection]]\nrate = \"1M\"\n\nmss = 6\n";
        for (path, line) in [
            ("schema", Some(1)),
            ("connection[0].mss", Some(4)),
            ("connection[1].mss", Some(8)),
            ("connection[1].ttl", None),
            ("connection[2].mss", None),
            ("port", None),
        ] {
            assert_eq!(line_of(text, path), line, "{path}");
        }
        let inline = "connection = [\n { mss = 1 },\n { mss = 2 },\n]";
        assert_eq!(line_of(inline, "connection[1].mss"), Some(3));
    }
}
