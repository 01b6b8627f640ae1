//! The deserializer of trees. Its errors contain the path, the given value and the accepted ones.

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Map, Value};

use super::error::{DocumentError, ReadError};

pub(super) fn read<T: DeserializeOwned>(tree: &Value) -> Result<T, Box<DocumentError>> {
    T::deserialize(Reader(tree)).map_err(|error| error.0)
}

/// Maximum number of fields that an error lists if the value is not their table.
const MAX_NAMES: usize = 30;

#[derive(Clone, Copy)]
struct Reader<'a>(&'a Value);

impl Reader<'_> {
    fn refuse<T>(self, accepted: impl Into<String>) -> Result<T, ReadError> {
        Err(DocumentError::value(self.0, accepted).into())
    }

    /// Adds the given value to a visitor's error that lacks it.
    fn add_given<T>(self, result: Result<T, ReadError>) -> Result<T, ReadError> {
        result.map_err(|error| error.0.with_given(self.0).into())
    }
}

/// A number with a fraction of zero, `1.0`, which is an integer in JSON Schema.
fn whole(value: &Value) -> Option<i128> {
    value.as_f64().filter(|v| v.fract() == 0.0 && v.abs() < 9e15).map(|v| v as i128)
}

/// Integers: a value beyond the type's range is refused with the range.
macro_rules! integers {
    ($($method:ident $visit:ident $read:ident $type:ty;)*) => { $(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
            let number = self.0.$read().map(i128::from).or_else(|| whole(self.0));
            match number.and_then(|value| <$type>::try_from(value).ok()) {
                Some(value) => self.add_given(visitor.$visit(value)),
                None => self.refuse(format!("a whole number, {} to {}", <$type>::MIN, <$type>::MAX)),
            }
        }
    )* };
}

impl<'de> Deserializer<'de> for Reader<'de> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        self.add_given(match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(value), _) => visitor.visit_u64(value),
                (_, Some(value)) => visitor.visit_i64(value),
                _ => visitor.visit_f64(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(items) => visitor.visit_seq(Items { next: 0, items }),
            Value::Object(fields) => visitor.visit_map(Fields::of(fields)),
        })
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.0 {
            Value::Bool(value) => self.add_given(visitor.visit_bool(*value)),
            _ => self.refuse("true or false"),
        }
    }

    integers! {
        deserialize_u8 visit_u8 as_u64 u8;
        deserialize_u16 visit_u16 as_u64 u16;
        deserialize_u32 visit_u32 as_u64 u32;
        deserialize_u64 visit_u64 as_u64 u64;
        deserialize_i8 visit_i8 as_i64 i8;
        deserialize_i16 visit_i16 as_i64 i16;
        deserialize_i32 visit_i32 as_i64 i32;
        deserialize_i64 visit_i64 as_i64 i64;
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.0.as_f64() {
            Some(value) => self.add_given(visitor.visit_f64(value)),
            None => self.refuse("a number"),
        }
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.0 {
            Value::String(text) => self.add_given(visitor.visit_borrowed_str(text)),
            _ => self.refuse("a string"),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.0 {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.add_given(visitor.visit_newtype_struct(self))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.0 {
            Value::Array(items) => self.add_given(visitor.visit_seq(Items { next: 0, items })),
            _ => self.refuse("a list"),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match self.0 {
            Value::Array(items) if items.len() == length => {
                self.add_given(visitor.visit_seq(Items { next: 0, items }))
            }
            _ => self.refuse(format!("a list of {length}")),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.0 {
            Value::Object(fields) => self.add_given(visitor.visit_map(Fields::of(fields))),
            _ => self.refuse("a table"),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match self.0 {
            Value::Object(fields) => self.add_given(visitor.visit_map(Fields::of(fields))),
            _ if fields.len() > MAX_NAMES => self.refuse("a table"),
            _ => self.refuse(format!("a table of {}", fields.join(", "))),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match self.0 {
            Value::String(name) => visitor.visit_enum(Choice { name, value: None }),
            Value::Object(fields) => match fields.iter().next() {
                Some((name, value)) if fields.len() == 1 => {
                    visitor.visit_enum(Choice { name, value: Some(value) })
                }
                _ => self.refuse(format!("one of {}", variants.join(", "))),
            },
            _ => self.refuse(variants.join(", ")),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        i128 u128 char bytes byte_buf unit unit_struct tuple_struct identifier
    }
}

struct Items<'a> {
    next: usize,
    items: &'a [Value],
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = ReadError;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, ReadError> {
        let Some(item) = self.items.get(self.next) else { return Ok(None) };
        let index = self.next;
        self.next += 1;
        seed.deserialize(Reader(item)).map(Some).map_err(|e| e.in_item(index))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len() - self.next)
    }
}

struct Fields<'a> {
    fields: serde_json::map::Iter<'a>,
    current: Option<(&'a str, &'a Value)>,
}

impl<'a> Fields<'a> {
    fn of(fields: &'a Map<String, Value>) -> Self {
        Fields { fields: fields.iter(), current: None }
    }
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = ReadError;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, ReadError> {
        self.current = self.fields.next().map(|(key, value)| (key.as_str(), value));
        let Some((key, _)) = self.current else { return Ok(None) };
        seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, ReadError> {
        let (key, value) = self.current.unwrap_or(("", &Value::Null));
        seed.deserialize(Reader(value)).map_err(|error| error.in_key(key))
    }
}

/// A variant of an enum: its name and its value, if it has one.
struct Choice<'a> {
    name: &'a str,
    value: Option<&'a Value>,
}

impl<'de> EnumAccess<'de> for Choice<'de> {
    type Error = ReadError;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), ReadError> {
        let name: BorrowedStrDeserializer<ReadError> = BorrowedStrDeserializer::new(self.name);
        Ok((seed.deserialize(name)?, self))
    }
}

impl<'de> VariantAccess<'de> for Choice<'de> {
    type Error = ReadError;

    fn unit_variant(self) -> Result<(), ReadError> {
        match self.value {
            None | Some(Value::Null) => Ok(()),
            Some(value) => {
                Err(ReadError::from(DocumentError::value(value, "null")).in_key(self.name))
            }
        }
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, ReadError> {
        let value = self.value.unwrap_or(&Value::Null);
        seed.deserialize(Reader(value)).map_err(|error| error.in_key(self.name))
    }

    fn tuple_variant<V: Visitor<'de>>(
        self,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        let value = Reader(self.value.unwrap_or(&Value::Null));
        value.deserialize_tuple(length, visitor).map_err(|error| error.in_key(self.name))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        let value = Reader(self.value.unwrap_or(&Value::Null));
        value.deserialize_struct("", fields, visitor).map_err(|error| error.in_key(self.name))
    }
}
