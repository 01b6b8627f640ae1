//! The general one-line form of every law, `name(key=value, …)`, read and written by its serde fields.
//!
//! A law of a single value, such as `percentage`, has it without a key: `percentage(1%)`.

use std::fmt;
use std::sync::LazyLock;

use serde::de::value::{MapDeserializer, StrDeserializer};
use serde::de::{self, Deserializer, IntoDeserializer, Visitor};
use serde::{Serialize, forward_to_deserialize_any};
use serde_json::Value;

use super::{LAW, Law, Words, split_list};
use crate::{ModelError, schema};

/// A law in its general form.
pub(super) fn written<L: Serialize>(name: &str, law: &L) -> String {
    let value = serde_json::to_value(law).unwrap_or_default();
    let arguments = match &value {
        Value::Object(fields) => {
            let pairs = fields.iter().map(|(key, value)| format!("{key}={}", word(value)));
            pairs.collect::<Vec<_>>().join(", ")
        }
        value => word(value),
    };
    format!("{name}({arguments})")
}

pub(super) fn word(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        // Without JSON's decimal point of a whole number.
        Value::Number(number) if number.is_f64() => number.as_f64().unwrap_or_default().to_string(),
        value => value.to_string(),
    }
}

/// Reads the arguments of the law `name`; `at` is the path of its slot.
///
/// # Errors
/// [`ModelError::Field`] naming the argument, what was given and what is accepted.
pub(super) fn read<L: Law>(arguments: &str, at: &str, name: &'static str) -> Result<L, ModelError> {
    let arguments = arguments.trim();
    let refused = |refusal: Refusal, given: &str| ModelError::Field {
        field: match &refusal.key {
            Some(key) => format!("{at}.{name}.{key}"),
            None => format!("{at}.{name}"),
        },
        given: refusal.given.unwrap_or_else(|| given.to_owned()),
        accepted: match refusal.needs {
            Needs::Nothing => refusal.accepted,
            Needs::Names => with_example::<L>("its values by name", arguments, name),
            Needs::Value => with_example::<L>(&refusal.accepted, arguments, name),
        },
    };
    if L::IS_LIST || !arguments.is_empty() && !arguments.contains(['=', ',']) {
        let value = Argument { key: name, word: arguments, has_unit: L::IS_LIST };
        return L::deserialize(value).map_err(|refusal| refused(refusal, arguments));
    }
    parsed(arguments).and_then(L::deserialize).map_err(|refusal| refused(refusal, arguments))
}

/// Reads the parameters of the law `name` as words, `key value …`; a switch is its key alone. `at` is the path of its slot.
///
/// # Errors
/// As [`read`].
pub(super) fn read_words<L: Law>(
    words: &mut Words,
    at: &str,
    name: &'static str,
) -> Result<L, ModelError> {
    let keys = Parameter::all::<L>();
    let mut pairs = vec![];
    while let Some(key) = words.peek().and_then(|word| keys.iter().find(|key| key.name == word)) {
        words.next()?;
        let value = if key.is_switch { "true" } else { words.next()? };
        pairs.push(format!("{}={value}", key.name));
    }
    read(&pairs.join(", "), at, name)
}

/// The parameters of a law as words, each with a space before it.
pub(crate) fn written_words<L: Law>(law: &L) -> String {
    let value = serde_json::to_value(law).unwrap_or_default();
    let mut out = String::new();
    for key in Parameter::all::<L>() {
        match value.get(key.name) {
            Some(_) if key.is_switch => out += &format!(" {}", key.name),
            Some(value) => out += &format!(" {} {}", key.name, word(value)),
            None => {}
        }
    }
    out
}

/// The form of a law's parameters as words, by their examples, each with a space before it.
pub(crate) fn form_of_words<L: Law>() -> String {
    let mut out = String::new();
    for key in Parameter::all::<L>() {
        let text =
            if key.is_switch { key.name.into() } else { format!("{} {}", key.name, key.example) };
        out += &if key.is_required { format!(" {text}") } else { format!(" [{text}]") };
    }
    out
}

/// A parameter of a law, from its schema.
struct Parameter {
    name: &'static str,
    example: String,
    is_required: bool,
    /// Whether it is true or absent.
    is_switch: bool,
}

impl Parameter {
    /// All parameters of a law, in the order of their declaration.
    fn all<L: Law>() -> Vec<Parameter> {
        let schema = L::json_schema(&mut schemars::SchemaGenerator::default());
        let required = schema.get("required").and_then(Value::as_array);
        let of = |name: &'static str| {
            let property = schema.get("properties").and_then(|all| all.get(name));
            let first = |of: &Value| of.get("examples")?.get(0).map(word);
            Parameter {
                name,
                example: property.and_then(first).unwrap_or_default(),
                is_required: required.is_some_and(|all| all.iter().any(|one| one == name)),
                is_switch: property.is_some_and(|of| of["type"] == "boolean"),
            }
        };
        schema::declared::<L>().iter().copied().map(of).collect()
    }
}

/// The pairs of `key=value, …`.
fn parsed(arguments: &str) -> Result<Pairs<'_>, Refusal> {
    let mut pairs: Vec<(&str, Argument)> = vec![];
    for part in split_list(arguments).filter(|_| !arguments.is_empty()) {
        let Some((key, word)) = part.split_once('=') else {
            return Err(Refusal { given: Some(part.into()), ..Refusal::unnamed() });
        };
        let (key, word) = (key.trim(), word.trim());
        if pairs.iter().any(|(other, _)| *other == key) {
            let (key, given) = (Some(key.into()), Some(part.into()));
            return Err(Refusal { key, given, ..Refusal::of("each key once") });
        }
        pairs.push((key, Argument { key, word, has_unit: false }));
    }
    Ok(MapDeserializer::new(pairs.into_iter()))
}

type Pairs<'a> = MapDeserializer<'a, std::vec::IntoIter<(&'a str, Argument<'a>)>, Refusal>;

/// `accepted` with an example of the law `name`: the given values with their names if they make a valid law, else the
/// example of the published schema.
fn with_example<L: Law>(accepted: &str, arguments: &str, name: &str) -> String {
    let is_law = |arguments: &String| {
        let law = parsed(arguments).and_then(L::deserialize);
        law.is_ok_and(|law| law.check(name).is_ok())
    };
    let named = named(schema::declared::<L>(), arguments);
    let form = named.filter(is_law).or_else(|| examples(name).find(is_law));
    match form {
        Some(form) => format!("{accepted}, such as {name}({form})"),
        None => accepted.to_owned(),
    }
}

/// Values without keys, with the keys in the order of their declaration.
fn named(keys: &[&str], arguments: &str) -> Option<String> {
    let values: Vec<&str> = split_list(arguments).collect();
    let is_plain = !arguments.contains('=') && values.len() <= keys.len();
    let pairs = keys.iter().zip(&values).map(|(key, value)| format!("{key}={value}"));
    is_plain.then(|| pairs.collect::<Vec<_>>().join(", "))
}

/// The arguments of the examples of the law `name`.
fn examples(name: &str) -> impl Iterator<Item = String> {
    let arguments = EXAMPLES
        .iter()
        .filter_map(move |text| text.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')'));
    arguments.map(str::to_owned)
}

/// The examples in the schema of plans.
static EXAMPLES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut found = vec![];
    let mut rest = vec![schema::plan_schema()];
    while let Some(value) = rest.pop() {
        match value {
            Value::Object(mut object) => {
                if let Some(Value::Array(examples)) = object.remove("examples") {
                    found.extend(examples.iter().filter_map(Value::as_str).map(str::to_owned));
                }
                rest.extend(object.into_iter().map(|(_, value)| value));
            }
            Value::Array(values) => rest.extend(values),
            _ => {}
        }
    }
    found
});

/// The error of an argument.
#[derive(Debug, Default)]
struct Refusal {
    key: Option<String>,
    given: Option<String>,
    accepted: String,
    needs: Needs,
}

/// What is missing.
#[derive(Debug, Default)]
enum Needs {
    #[default]
    Nothing,
    /// The names of values.
    Names,
    /// The value of a required key.
    Value,
}

impl Refusal {
    fn of(accepted: &str) -> Self {
        Refusal { accepted: accepted.into(), ..Refusal::default() }
    }

    fn unnamed() -> Self {
        Refusal { needs: Needs::Names, ..Refusal::of("KEY=VALUE, …") }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.accepted)
    }
}

impl std::error::Error for Refusal {}

impl de::Error for Refusal {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Refusal::of(&text.to_string())
    }

    fn invalid_type(_: de::Unexpected, expected: &dyn de::Expected) -> Self {
        Refusal::of(&expected.to_string())
    }

    fn invalid_value(given: de::Unexpected, expected: &dyn de::Expected) -> Self {
        let given = match given {
            de::Unexpected::Str(text) | de::Unexpected::Other(text) => Some(text.into()),
            _ => None,
        };
        Refusal { given, ..Refusal::of(&expected.to_string()) }
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Refusal { given: Some(field.into()), ..Refusal::of(&expected.join(", ")) }
    }

    fn missing_field(field: &'static str) -> Self {
        Refusal {
            key: Some(field.into()),
            given: Some("nothing".into()),
            needs: Needs::Value,
            ..Refusal::of(&format!("{field}=VALUE"))
        }
    }
}

/// The value of a key, read as the type of its field.
#[derive(Clone, Copy)]
struct Argument<'a> {
    key: &'a str,
    word: &'a str,
    /// Whether a number without a unit is accepted, as for sizes.
    has_unit: bool,
}

impl Argument<'_> {
    fn refusal(&self, accepted: &str) -> Refusal {
        Refusal {
            key: Some(self.key.into()),
            given: Some(self.word.into()),
            ..Refusal::of(accepted)
        }
    }

    fn number<T: std::str::FromStr>(&self, accepted: &str) -> Result<T, Refusal> {
        let sign = self.key.ends_with("percentage").then(|| self.word.strip_suffix('%')).flatten();
        sign.unwrap_or(self.word).trim_end().parse().map_err(|_| self.refusal(accepted))
    }
}

impl<'de> IntoDeserializer<'de, Refusal> for Argument<'de> {
    type Deserializer = Self;
    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Argument<'de> {
    type Error = Refusal;

    /// Times and other quantities: words with their unit.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        if !self.has_unit && self.word.parse::<f64>().is_ok_and(|number| number != 0.0) {
            return Err(self.refusal("a value with its unit, such as 10ms"));
        }
        let value: Result<_, Refusal> = visitor.visit_str(self.word);
        value.map_err(|refusal| self.refusal(&refusal.accepted))
    }

    /// Plain text, which has no unit.
    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_str(self.word)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_f64(self.number("a number")?)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_u64(self.number("a whole number")?)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_u32(self.number("a whole number")?)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_bool(self.number("true or false")?)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        visitor
            .visit_newtype_struct(Argument { has_unit: name == "ByteSize" || name == LAW, ..self })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        let word: StrDeserializer<Refusal> = self.word.into_deserializer();
        let value = word.deserialize_enum(name, variants, visitor);
        value.map_err(|_| self.refusal(&variants.join(", ")))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Refusal> {
        Err(Refusal::unnamed())
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u128 f32 char str bytes byte_buf unit unit_struct seq tuple tuple_struct map
        identifier ignored_any
    }
}
