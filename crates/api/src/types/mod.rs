//! What is asked and answered: the bodies of requests and answers, as the OpenAPI document tells them.
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

pub use demo::*;
pub use emulators::*;
pub use events::*;
pub use experiments::*;
pub use preview::*;
pub use runs::*;
pub use system::*;
pub use tests::*;

/// Parses a number of a query, where everything is text.
pub(crate) fn number<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: std::str::FromStr,
{
    let text: String = serde::Deserialize::deserialize(deserializer)?;
    // Only fields that may have fractions accept one.
    let accepted = if "0.5".parse::<T>().is_ok() { "a number" } else { "a whole number" };
    let refuse = |_| serde::de::Error::custom(format!("'{text}'; accepted: {accepted}"));
    text.parse().map(Some).map_err(refuse)
}

/// Parses a parameter that may be repeated.
pub(crate) fn several<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<String>, D::Error> {
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum OneOrMore {
        One(String),
        More(Vec<String>),
    }
    Ok(match serde::Deserialize::deserialize(deserializer)? {
        OneOrMore::One(one) => vec![one],
        OneOrMore::More(more) => more,
    })
}
