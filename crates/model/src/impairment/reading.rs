//! Reads laws from a file: as tables or in one line, for each direction or for both.
//!
//! The result is the same for either form, so that other code does not depend on it.

use std::fmt;
use std::sync::OnceLock;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{
    self, Deserialize, DeserializeSeed, Deserializer, IntoDeserializer, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;
use serde::ser::{Serialize, Serializer};

use super::{Aggregate, ImpairFlow, Laws, Other, TimelineChange};
use crate::document::refused;

const FORM: &str = "laws in one line such as \"delay 40ms, loss 0.5%\"";
/// The error for `both` together with the laws of one direction.
pub(crate) const TWICE: &str = "a direction's laws given twice";
pub(crate) const TWICE_ACCEPTED: &str = "both alone, or a_to_b and b_to_a";

/// The schema of a direction's laws: their tables, or one line.
pub(super) fn one_way(generator: &mut SchemaGenerator) -> Schema {
    let tables = generator.subschema_for::<Laws>();
    json_schema!({ "anyOf": [tables, { "type": "string", "examples": ["rate 10M, delay 40ms"] }] })
}

/// Adds `both` to a table with `a_to_b` and `b_to_a`, which exclude it.
pub(super) fn and_both(schema: &mut Schema) {
    let both = json_schema!({
        "description": "Laws of both directions, in one line; instead of `a_to_b` and `b_to_a`.",
        "type": "string",
        "examples": ["rate 10M, delay 40ms"],
    });
    if let Some(properties) = schema.get_mut("properties").and_then(|p| p.as_object_mut()) {
        properties.insert("both".into(), both.to_value());
    }
    let alone = json_schema!({
        "not": { "anyOf": [{ "required": ["a_to_b"] }, { "required": ["b_to_a"] }] },
    });
    schema.insert("dependentSchemas".into(), serde_json::json!({ "both": alone }));
}

impl Serialize for Laws {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Laws::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for Laws {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LineOrTables;
        impl<'de> Visitor<'de> for LineOrTables {
            type Value = Laws;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                write!(f, "{FORM}, or a table")
            }
            fn visit_str<E: de::Error>(self, line: &str) -> Result<Laws, E> {
                line.parse().map_err(refused)
            }
            fn visit_map<M: de::MapAccess<'de>>(self, map: M) -> Result<Laws, M::Error> {
                Laws::deserialize(MapAccessDeserializer::new(map))
            }
        }
        deserializer.deserialize_any(LineOrTables)
    }
}

/// A table in which `both` sets both directions; the other fields are read as derived.
macro_rules! with_both {
    ($($name:ident)*) => { $(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $name::serialize(self, serializer)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                static KNOWN: OnceLock<Vec<&'static str>> = OnceLock::new();
                $name::deserialize(Table { deserializer, known: &KNOWN })
            }
        }
    )* };
}
with_both!(ImpairFlow Other Aggregate TimelineChange);

/// A deserializer of a table with `both`.
struct Table<D> {
    deserializer: D,
    /// The names of its fields, filled at first use.
    known: &'static OnceLock<Vec<&'static str>>,
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Table<D> {
    type Error = D::Error;
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.deserialize_struct("", &[], visitor)
    }
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let known = self.known.get_or_init(|| fields.iter().copied().chain(["both"]).collect());
        self.deserializer.deserialize_struct("", known, Fields { visitor, known })
    }
    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// The visitor of its fields.
struct Fields<V> {
    visitor: V,
    known: &'static [&'static str],
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Fields<V> {
    type Value = V::Value;
    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.visitor.expecting(f)
    }
    fn visit_map<M: de::MapAccess<'de>>(self, map: M) -> Result<V::Value, M::Error> {
        let Fields { visitor, known } = self;
        visitor.visit_map(Unfolding { map, known, both: None, both_entries: 0, one_way: false })
    }
}

/// The entries of a table; `both` appears as `a_to_b` and then as `b_to_a`.
struct Unfolding<M> {
    map: M,
    known: &'static [&'static str],
    /// The line of `both`, once its value was read.
    both: Option<String>,
    /// Number of entries of `both` returned so far, 0 to 2.
    both_entries: u8,
    /// Whether `a_to_b` or `b_to_a` was read.
    one_way: bool,
}

impl<'de, M: de::MapAccess<'de>> de::MapAccess<'de> for Unfolding<M> {
    type Error = M::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, M::Error> {
        if self.both_entries == 1 {
            self.both_entries = 2;
            return seed.deserialize("b_to_a".into_deserializer()).map(Some);
        }
        let Unfolding { map, known, both_entries, one_way, .. } = self;
        map.next_key_seed(Key { seed, known, both_entries, one_way })
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, M::Error> {
        match (self.both_entries, self.both.take()) {
            (1, None) => self.map.next_value_seed(Line { seed, line: &mut self.both }),
            (2, Some(line)) => seed.deserialize(line.as_str().into_deserializer()),
            _ => self.map.next_value_seed(seed),
        }
    }
}

/// A key of the derived fields. It is read within the file's own deserializer, whose errors have the path.
struct Key<'a, K> {
    seed: K,
    known: &'static [&'static str],
    both_entries: &'a mut u8,
    one_way: &'a mut bool,
}

impl<'de, K: DeserializeSeed<'de>> DeserializeSeed<'de> for Key<'_, K> {
    type Value = K::Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<K::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl<'de, K: DeserializeSeed<'de>> Visitor<'de> for Key<'_, K> {
    type Value = K::Value;
    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a field")
    }
    fn visit_str<E: de::Error>(self, key: &str) -> Result<K::Value, E> {
        let (both, one_way) = (key == "both", matches!(key, "a_to_b" | "b_to_a"));
        if (both && (*self.one_way || *self.both_entries > 0))
            || (one_way && *self.both_entries > 0)
        {
            let given = format!("{key}: {TWICE}");
            return Err(E::invalid_value(Unexpected::Other(&given), &TWICE_ACCEPTED));
        }
        *self.one_way |= one_way;
        if both {
            *self.both_entries = 1;
        }
        // The derived fields do not know `both`.
        if !self.known.contains(&key) {
            return Err(E::unknown_field(key, self.known));
        }
        let key: StrDeserializer<E> = if both { "a_to_b" } else { key }.into_deserializer();
        self.seed.deserialize(key)
    }
}

/// The line of `both`: read as the laws of one direction, and stored for the other.
struct Line<'a, S> {
    seed: S,
    line: &'a mut Option<String>,
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Line<'_, S> {
    type Value = S::Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        // Any type, because this visitor states what is accepted.
        deserializer.deserialize_any(self)
    }
}

impl<'de, S: DeserializeSeed<'de>> Visitor<'de> for Line<'_, S> {
    type Value = S::Value;
    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{FORM}; tables belong to a_to_b and b_to_a")
    }
    fn visit_str<E: de::Error>(self, line: &str) -> Result<S::Value, E> {
        *self.line = Some(line.into());
        self.seed.deserialize(line.into_deserializer())
    }
}
