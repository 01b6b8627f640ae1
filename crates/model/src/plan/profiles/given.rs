//! A connection of a document, with the names of the fields that the document has.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};

use crate::plan::ConnectionFields;

/// A connection and the fields that were given.
pub(super) struct Given {
    pub(super) fields: ConnectionFields,
    pub(super) keys: Vec<String>,
}

impl<'de> Deserialize<'de> for Given {
    fn deserialize<D: Deserializer<'de>>(inner: D) -> Result<Given, D::Error> {
        let keys = RefCell::default();
        let fields = ConnectionFields::deserialize(Recorder { inner, keys: &keys })?;
        Ok(Given { fields, keys: keys.into_inner() })
    }
}

/// Passes a table on and records its keys.
struct Recorder<'a, T> {
    inner: T,
    keys: &'a RefCell<Vec<String>>,
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Recorder<'_, D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_any(Recorder { inner: visitor, keys: self.keys })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = Recorder { inner: visitor, keys: self.keys };
        self.inner.deserialize_struct(name, fields, visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Recorder<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.inner.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.inner.visit_map(Recorder { inner: map, keys: self.keys })
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Recorder<'_, A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.inner.next_key_seed(Recorder { inner: seed, keys: self.keys })
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.inner.next_value_seed(seed)
    }
}

/// A key.
impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Recorder<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<S::Value, D::Error> {
        let key = String::deserialize(source)?;
        let value = self.inner.deserialize(serde::de::value::StrDeserializer::new(&key));
        self.keys.borrow_mut().push(key);
        value
    }
}
