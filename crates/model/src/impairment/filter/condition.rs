//! A condition on one field.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::ModelError;
use crate::impairment::value::Word;
use crate::units::Dscp;

/// The word before a negated value.
const NOT: &str = "not";

/// The values of a field that match, or with `not` before them those that do not: `80`, `not 80`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Condition<T> {
    /// Whether all other values match, and packets without the field.
    pub negated: bool,
    /// The values.
    pub value: T,
}

impl<T> Condition<T> {
    /// The values that match; `None` if the condition is negated.
    pub fn matching(&self) -> Option<&T> {
        (!self.negated).then_some(&self.value)
    }
}

impl<T> From<T> for Condition<T> {
    fn from(value: T) -> Self {
        Condition { negated: false, value }
    }
}

impl Word for Dscp {
    const FORM: &'static str = "a DSCP code point 0 to 63 or its name";
}

impl<T: FromStr<Err = ModelError>> FromStr for Condition<T> {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let word = text.trim_start();
        let after = |rest: &str| rest.starts_with(char::is_whitespace);
        // `!` is the spelling of iptables.
        let rest = word.strip_prefix('!').or(word.strip_prefix(NOT).filter(|rest| after(rest)));
        let value = rest.unwrap_or(text).trim().parse().map_err(|error| match error {
            ModelError::Value { what, accepted, .. } => {
                ModelError::Value { what, given: text.into(), accepted }
            }
            other => other,
        })?;
        Ok(Condition { negated: rest.is_some(), value })
    }
}

impl<T: fmt::Display> fmt::Display for Condition<T> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.negated {
            true => write!(f, "{NOT} {}", self.value),
            false => self.value.fmt(f),
        }
    }
}

impl<T: fmt::Display> Serialize for Condition<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de, T: Word> Deserialize<'de> for Condition<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct V<T>(PhantomData<T>);
        impl<T: Word> Visitor<'_> for V<T> {
            type Value = Condition<T>;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str(T::FORM)
            }
            fn visit_str<E: de::Error>(self, v: &str) -> Result<Condition<T>, E> {
                v.parse().map_err(crate::document::refused)
            }
            fn visit_u64<E: de::Error>(self, v: u64) -> Result<Condition<T>, E> {
                self.visit_str(&v.to_string())
            }
            fn visit_i64<E: de::Error>(self, v: i64) -> Result<Condition<T>, E> {
                self.visit_str(&v.to_string())
            }
        }
        deserializer.deserialize_any(V(PhantomData))
    }
}

impl<T: Word> JsonSchema for Condition<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("{}Condition", T::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = T::json_schema(generator);
        // A pattern is that of the value alone.
        schema.remove("pattern");
        let form = format!("{}; {NOT} before it negates it", T::FORM);
        schema.insert("description".into(), form.into());
        if let Some(Value::Array(examples)) = schema.get_mut("examples")
            && let Some(Value::String(first)) = examples.first()
        {
            let negated = format!("{NOT} {first}");
            examples.push(negated.into());
        }
        schema
    }
}
