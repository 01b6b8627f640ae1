//! Reads documents in TOML or JSON: the text is parsed into a tree, and the tree is read as a type.
//!
//! One deserializer reads the types of both formats, which keeps the program small. Every error is data.

mod error;
mod line;
mod reader;

use std::cell::RefCell;

use serde::Serialize;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

pub(crate) use error::refused;
pub use error::{DocumentCode, DocumentError};

/// Maximum length of a value that an error repeats, characters.
const MAX_GIVEN: usize = 200;
/// Most tables and lists within each other in TOML, a table's header apart; JSON has the same limit from its parser.
const MAX_DEPTH: usize = 128;

/// Reads a type from a tree.
///
/// # Errors
/// The error of the first field that the type does not accept.
pub fn read<T: DeserializeOwned>(tree: &Value) -> Result<T, Box<DocumentError>> {
    reader::read(tree)
}

/// The tree of a text: TOML, or JSON if it starts with `{`.
///
/// # Errors
/// [`DocumentCode::Syntax`] with the line, or [`DocumentCode::DuplicateField`].
pub fn tree(text: &str) -> Result<Value, Box<DocumentError>> {
    if is_json(text) { json(text.as_bytes()) } else { toml(text) }
}

/// The tree of JSON.
///
/// # Errors
/// As [`tree`].
pub fn json(text: &[u8]) -> Result<Value, Box<DocumentError>> {
    let outside = RefCell::default();
    let mut source = serde_json::Deserializer::from_slice(text);
    let tree = TreeVisitor(&outside).deserialize(&mut source);
    tree.and_then(|tree| source.end().map(|()| tree)).map_err(|error| {
        // The position is a field of its own.
        let position = format!(" at line {} column {}", error.line(), error.column());
        let message = error.to_string();
        let reason = message.strip_suffix(&position).unwrap_or(&message);
        let line = (error.line() > 0).then_some(error.line());
        let Some(field) = reason.strip_prefix(TWICE) else {
            return DocumentError::syntax(reason, "JSON").at_line(line);
        };
        let steps = outside.take().into_iter();
        let error = steps.fold(DocumentError::duplicate(field), |error, step| match step {
            Step::Key(key) => error.in_key(&key),
            Step::Index(index) => error.inside(&format!("[{index}]")),
        });
        error.at_line(line)
    })
}

fn toml(text: &str) -> Result<Value, Box<DocumentError>> {
    if let Some(line) = too_deep(text) {
        let reason = format!("more than {MAX_DEPTH} tables and lists within each other");
        return Err(DocumentError::syntax(&reason, "TOML").at_line(Some(line)));
    }
    toml::from_str::<Tree>(text).map(|tree| tree.0).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start));
        let line = before.map(|before| before.matches('\n').count() + 1);
        // The parser has no code for it. Its span is the key.
        let twice = error.span().filter(|_| error.message() == "duplicate key");
        match twice.and_then(|span| text.get(span)) {
            Some(key) => DocumentError::duplicate(key.trim_matches(['"', '\''])).at_line(line),
            None => DocumentError::syntax(error.message(), "TOML").at_line(line),
        }
    })
}

/// Reads a type from TOML, or from JSON if the text starts with `{`. Errors have the line.
///
/// # Errors
/// As [`tree`] and [`read`].
pub(crate) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, Box<DocumentError>> {
    read(&tree(text)?).map_err(|error| error.located(text))
}

/// Reads a type from JSON.
///
/// # Errors
/// As [`json`] and [`read`].
pub fn parse_json<T: DeserializeOwned>(text: &[u8]) -> Result<T, Box<DocumentError>> {
    read(&json(text)?)
}

/// A type as TOML.
///
/// # Errors
/// [`DocumentCode::Value`] if a number does not fit TOML's 64-bit integers.
pub(crate) fn to_toml<T: Serialize>(value: &T) -> Result<String, Box<DocumentError>> {
    toml::to_string(value).map_err(|e| DocumentError::unwritable(&e))
}

/// The line in which TOML goes deeper than [`MAX_DEPTH`]. The parser bounds brackets and dotted keys, each alone: both
/// together make thousands of levels, for which no thread has the stack.
fn too_deep(text: &str) -> Option<usize> {
    // Dots of the key at each open bracket.
    let mut dots = vec![0];
    let mut sum = 0;
    let mut rest = text;
    while let Some(at) = rest.find(['"', '\'', '#', '.', '[', ']', '{', '}', ',', '\n']) {
        rest = &rest[at..];
        let mut length = 1;
        match rest.as_bytes()[0] {
            b'#' => length = rest.find('\n').unwrap_or(rest.len()),
            b'"' | b'\'' => length = quoted(rest),
            b'.' => {
                sum += 1;
                dots.last_mut().into_iter().for_each(|last| *last += 1);
            }
            b'[' | b'{' => dots.push(0),
            b']' | b'}' if dots.len() > 1 => sum -= dots.pop().unwrap_or(0),
            // Another key.
            b',' | b'\n' => sum -= dots.last_mut().map_or(0, std::mem::take),
            _ => {}
        }
        if sum + dots.len() > MAX_DEPTH {
            return Some(text[..text.len() - rest.len()].matches('\n').count() + 1);
        }
        rest = &rest[length..];
    }
    None
}

/// Bytes of the string of TOML at the start of `text`, with its quotes; of one without an end, all.
fn quoted(text: &str) -> usize {
    let quote = &text[..1];
    let triple = quote.repeat(3);
    let mark = if text.starts_with(&triple) { &*triple } else { quote };
    let mut at = mark.len();
    while at < text.len() && !text[at..].starts_with(mark) {
        let is_escape = quote == "\"" && text[at..].starts_with('\\');
        let characters = text[at..].chars().take(if is_escape { 2 } else { 1 });
        at += characters.map(char::len_utf8).sum::<usize>();
    }
    (at + mark.len()).min(text.len())
}

fn is_json(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

/// A tree in which no object has a key twice, and no number is lost.
struct Tree(Value);

/// Prefix of the visitor's error for a duplicate key.
const TWICE: &str = "\u{1}";

impl<'de> serde::Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Tree, D::Error> {
        deserializer.deserialize_any(TreeVisitor(&RefCell::default())).map(Tree)
    }
}

/// A step to a value from what holds it.
enum Step {
    Key(String),
    Index(usize),
}

/// With the steps to what was refused, the last one first.
#[derive(Clone, Copy)]
struct TreeVisitor<'a>(&'a RefCell<Vec<Step>>);

impl TreeVisitor<'_> {
    fn within<T, E>(self, read: Result<T, E>, step: impl FnOnce() -> Step) -> Result<T, E> {
        read.inspect_err(|_| self.0.borrow_mut().push(step()))
    }
}

impl<'de> DeserializeSeed<'de> for TreeVisitor<'_> {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for TreeVisitor<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("a value")
    }
    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        // TOML has nan and inf, which a tree can't hold: as words their fields refuse them, where null would be absent.
        let number = serde_json::Number::from_f64(value).map(Value::Number);
        Ok(number.unwrap_or_else(|| value.to_string().to_lowercase().into()))
    }
    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut out = vec![];
        while let Some(item) =
            self.within(items.next_element_seed(self), || Step::Index(out.len()))?
        {
            out.push(item);
        }
        Ok(out.into())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut out = serde_json::Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            if out.contains_key(&key) {
                return Err(serde::de::Error::custom(format_args!("{TWICE}{key}")));
            }
            let value = self.within(fields.next_value_seed(self), || Step::Key(key.clone()))?;
            out.insert(key, value);
        }
        Ok(out.into())
    }
}

/// The names and indices of a path such as `connection[2].payload` or `hosts["a.b"].port`.
#[must_use]
pub fn segments(path: &str) -> Vec<String> {
    let mut out = vec![];
    let mut rest = path.trim_start_matches('.');
    while !rest.is_empty() {
        let bracket = rest.strip_prefix('[');
        let quoted = bracket.filter(|inside| inside.starts_with('"'));
        let mut names = serde_json::Deserializer::from_str(quoted.unwrap_or("")).into_iter();
        match (quoted, names.next()) {
            (Some(quoted), Some(Ok(name))) => {
                out.push(name);
                rest = &quoted[names.byte_offset()..];
            }
            _ => {
                let start = bracket.unwrap_or(rest);
                let end = start.find(['.', '[', ']']).unwrap_or(start.len());
                out.push(start[..end].to_owned());
                rest = &start[end..];
            }
        }
        rest = rest.trim_start_matches(['.', ']']);
    }
    out
}

/// A value as an error repeats it: at most 200 characters, strings without quotes.
#[must_use]
pub fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => short(text),
        value => short(&value.to_string()),
    }
}

fn short(text: &str) -> String {
    match text.char_indices().nth(MAX_GIVEN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
