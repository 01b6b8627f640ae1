//! Fields of a JSON document by path, so that an error names the field.

use serde_json::Value;

use crate::ReadError;

/// Maximum number of objects and arrays of a document: each may use a kilobyte of memory.
const MAX_NODES: usize = 1_000_000;
/// Beyond the first thousand, objects and arrays must have at least this many bytes of the file on average.
const BYTES_PER_NODE: usize = 4;

/// Refuses a document that would use far more memory than its size.
pub(crate) fn bounded(bytes: &[u8]) -> Result<(), ReadError> {
    let nodes = bytes.iter().filter(|b| matches!(b, b'{' | b'[')).count();
    match nodes > MAX_NODES || nodes > 1000 + bytes.len() / BYTES_PER_NODE {
        true => Err(ReadError::new(
            format!("{nodes} objects and arrays"),
            format!("at most {MAX_NODES}, of {BYTES_PER_NODE} bytes on average"),
        )),
        false => Ok(()),
    }
}

/// A value and its path in the document.
#[derive(Debug, Clone)]
pub(crate) struct Node<'a> {
    pub value: &'a Value,
    pub path: String,
}

impl<'a> Node<'a> {
    /// The document.
    pub(crate) fn root(value: &'a Value) -> Self {
        Node { value, path: String::new() }
    }

    fn error(&self, accepted: &str) -> ReadError {
        let field = if self.path.is_empty() { "the document" } else { &self.path };
        ReadError::at_field(field, self.value.to_string(), accepted)
    }

    /// A member of an object; absent also if it is `null` or this is no object.
    pub(crate) fn get(&self, name: &str) -> Option<Node<'a>> {
        let value = self.value.get(name).filter(|value| !value.is_null())?;
        let path = match self.path.as_str() {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        };
        Some(Node { value, path })
    }

    /// The items of an array that is a member; none if it is absent.
    pub(crate) fn items(&self, name: &str) -> Result<Vec<Node<'a>>, ReadError> {
        let Some(node) = self.get(name) else { return Ok(vec![]) };
        let items = node.value.as_array().ok_or_else(|| node.error("an array"))?;
        let path = |n| format!("{}[{n}]", node.path);
        Ok(items.iter().enumerate().map(|(n, value)| Node { value, path: path(n) }).collect())
    }

    /// A member that is a finite number.
    pub(crate) fn number(&self, name: &str) -> Result<Option<f64>, ReadError> {
        let Some(node) = self.get(name) else { return Ok(None) };
        let number = node.value.as_f64().filter(|n| n.is_finite());
        number.map(Some).ok_or_else(|| node.error("a number"))
    }

    /// A member that is a count; absent if it is negative, by which tools say that they don't know.
    pub(crate) fn count(&self, name: &str) -> Result<Option<u64>, ReadError> {
        let Some(node) = self.get(name) else { return Ok(None) };
        match (node.value.as_u64(), node.value.as_f64()) {
            (Some(count), _) => Ok(Some(count)),
            (None, Some(n)) if n < 0.0 => Ok(None),
            (None, Some(n)) if n < 9.2e18 => Ok(Some(n as u64)),
            _ => Err(node.error("a whole number")),
        }
    }

    /// A member that is a length of time, 0 s to 10 years.
    pub(crate) fn seconds(&self, name: &str) -> Result<Option<f64>, ReadError> {
        match self.number(name)? {
            Some(s) if !(0.0..3.2e8).contains(&s) => {
                let node = self.get(name).unwrap_or_else(|| self.clone());
                Err(node.error("a number of seconds, 0 to 10 years"))
            }
            seconds => Ok(seconds),
        }
    }

    /// A member that is text.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&'a str>, ReadError> {
        let Some(node) = self.get(name) else { return Ok(None) };
        node.value.as_str().map(Some).ok_or_else(|| node.error("a string"))
    }

    /// A member that is `true`, `false`, 1 or 0.
    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>, ReadError> {
        let Some(node) = self.get(name) else { return Ok(None) };
        let flag = node.value.as_bool().or_else(|| node.value.as_u64().map(|n| n != 0));
        flag.map(Some).ok_or_else(|| node.error("true or false"))
    }
}
