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

/// Schema of a request that has none of two fields, or both: a request has exactly one of them.
fn not_one_of(a: &str, b: &str) -> serde_json::Value {
    let none = serde_json::json!({ "type": "null" });
    let given = serde_json::json!({ "not": none });
    serde_json::json!({ "anyOf": [
        { "properties": { a: none, b: none } },
        { "properties": { a: given, b: given }, "required": [a, b] },
    ] })
}

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

/// Parses a parameter that is `true` or `false`.
pub(crate) fn switch<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    let text: String = serde::Deserialize::deserialize(deserializer)?;
    let given = serde::de::Unexpected::Str(&text);
    text.parse().map_err(|_| serde::de::Error::invalid_value(given, &"true or false"))
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

#[cfg(test)]
mod unit {
    /// Requests that a handler refuses for reasons that the schema states.
    #[test]
    fn constraints_are_in_the_schema() {
        let document = crate::openapi();
        let schemas = &document["components"]["schemas"];
        let lab = &schemas["LabRequest"]["properties"];
        assert_eq!((&lab["hosts"]["minimum"], &lab["hosts"]["maximum"]), (&2.into(), &16.into()));
        let sweep = &schemas["SweepRequest"]["properties"];
        assert_eq!(sweep["over"]["maxItems"], 16);
        assert_eq!(sweep["confidence_percentage"]["exclusiveMaximum"], 100);
        assert_eq!(schemas["TestRequest"]["properties"]["tags"]["maxProperties"], 64);
        for request in ["TestRequest", "ExperimentRequest"] {
            assert!(schemas[request]["not"].is_object(), "{request}");
        }
        let parameters = &document["paths"]["/api/v1/plans/{name}"]["put"]["parameters"];
        assert!(parameters[0]["schema"]["pattern"].is_string());
    }
}
