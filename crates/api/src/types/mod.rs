//! The bodies of requests and answers, as the OpenAPI document describes them.
//!
//! Plans, impairments, scenarios and records are `weir_model`'s own types. Requests refuse fields that they do not know.

mod demo;
mod emulators;
mod events;
mod experiments;
mod preview;
mod runs;
mod system;
mod tests;

pub(crate) use demo::*;
pub(crate) use emulators::*;
pub(crate) use events::*;
pub(crate) use experiments::*;
pub(crate) use preview::*;
pub(crate) use runs::*;
pub use system::*;
pub(crate) use tests::*;

/// Parses a number of a query, where everything is text.
pub(crate) fn number<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: std::str::FromStr,
{
    let text: String = serde::Deserialize::deserialize(deserializer)?;
    // Only fields that may have fractions accept one.
    let accepted = if "0.5".parse::<T>().is_ok() { "a number" } else { "a whole number" };
    let given = serde::de::Unexpected::Str(&text);
    text.parse().map(Some).map_err(|_| serde::de::Error::invalid_value(given, &accepted))
}

/// Parses a parameter that may be repeated.
pub(crate) fn several<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<String>, D::Error> {
    struct OneOrMore;
    impl<'de> serde::de::Visitor<'de> for OneOrMore {
        type Value = Vec<String>;
        fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
            f.write_str("a string, or several")
        }
        fn visit_str<E>(self, one: &str) -> Result<Vec<String>, E> {
            Ok(vec![one.into()])
        }
        fn visit_seq<A: serde::de::SeqAccess<'de>>(
            self,
            mut items: A,
        ) -> Result<Vec<String>, A::Error> {
            let mut all = vec![];
            while let Some(item) = items.next_element()? {
                all.push(item);
            }
            Ok(all)
        }
    }
    deserializer.deserialize_any(OneOrMore)
}
