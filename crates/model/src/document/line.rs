//! Finds the line of a field in a document.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::segments;

/// The line, from 1, of the field at `path` (`connection[0].mss`); `None` if the document does not have it.
pub(super) fn line_of(text: &str, path: &str) -> Option<usize> {
    // The part after a colon is within the value of the field.
    let path = path.split(": ").next().unwrap_or(path);
    let at = if super::is_json(text) { in_json(text, path) } else { in_toml(text, path) };
    Some(text.get(..at?)?.matches('\n').count() + 1)
}

/// Offset of the value at `path`.
fn in_json(text: &str, path: &str) -> Option<usize> {
    let mut here = text;
    for part in segments(path) {
        let next: &RawValue = match part.parse::<usize>() {
            Ok(index) => serde_json::from_str::<Vec<&RawValue>>(here).ok()?.get(index)?,
            Err(_) => {
                serde_json::from_str::<BTreeMap<String, &RawValue>>(here).ok()?.remove(&part)?
            }
        };
        here = next.get();
    }
    // A raw value is a part of the text.
    (here.as_ptr() as usize).checked_sub(text.as_ptr() as usize)
}

fn in_toml(text: &str, path: &str) -> Option<usize> {
    let document = DeTable::parse(text).ok()?;
    let table = document.get_ref();
    let mut at = None;
    let mut item: Option<&Spanned<DeValue<'_>>> = None;
    for part in segments(path) {
        let inside = match item.map(Spanned::get_ref) {
            None => Some(table),
            Some(DeValue::Table(inner)) => Some(inner),
            Some(_) => None,
        };
        let next = match (inside, item.map(Spanned::get_ref)) {
            (Some(inner), _) => {
                let (key, value) = inner.get_key_value(part.as_str())?;
                at = Some(key.span().start);
                value
            }
            (None, Some(DeValue::Array(items))) => {
                let value = items.get(part.parse::<usize>().ok()?)?;
                at = Some(value.span().start);
                value
            }
            _ => return None,
        };
        item = Some(next);
    }
    at
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
        let json = "{\n \"port\": 1,\n \"connection\": [\n  {},\n  {\"mss\":\n 2}\n ]\n}";
        for (path, line) in [
            ("port", Some(2)),
            ("connection[0]", Some(4)),
            ("connection[1].mss", Some(6)),
            ("connection[2]", None),
            ("ports", None),
        ] {
            assert_eq!(line_of(json, path), line, "{path}");
        }
    }
}
