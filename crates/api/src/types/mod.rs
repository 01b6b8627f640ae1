//! The bodies of requests and answers, as the OpenAPI document describes them.
//!
//! Plans, impairments, scenarios and records are `weir_model`'s own types. Requests refuse fields that they do not know.

mod demo;
mod emulators;
mod events;
mod experiments;
mod meshes;
mod preview;
mod runs;
mod system;
mod tests;

pub(crate) use demo::*;
pub(crate) use emulators::*;
pub(crate) use events::*;
pub(crate) use experiments::*;
pub(crate) use meshes::*;
pub(crate) use preview::*;
pub(crate) use runs::*;
pub use system::*;
pub(crate) use tests::*;

/// Pattern of a host of a lab, `LAB/HOST`.
const LAB_HOST: &str = "^[A-Za-z0-9_][A-Za-z0-9_-]*/[A-Za-z0-9_-]+$";

/// Pattern of a server: the usual forms of `weir_model::names::Host`.
fn host() -> String {
    let port = "(:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}))?";
    let name = "[A-Za-z0-9._][A-Za-z0-9._-]{0,252}";
    let part = "[0-9a-fA-F]{1,4}";
    let v6 = format!(
        "(::({part})?|({part}:){{7}}{part}|({part}:){{1,3}}(:{part}){{1,4}}|({part}:){{4,6}}:{part})(%[0-9A-Za-z_-]{{1,15}})?"
    );
    format!(r"^(unix:[!-~]{{1,107}}|{name}{port}|{v6}|\[{v6}\]{port})$")
}

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
    use proptest::prelude::*;
    use proptest::string::string_regex;

    /// Texts that the pattern at this place of the document admits.
    fn admitted(pointer: &str) -> impl Strategy<Value = String> {
        let document = crate::openapi();
        let pattern = document.pointer(pointer).and_then(|p| p.as_str()).unwrap().to_owned();
        string_regex(pattern.trim_matches(['^', '$'])).unwrap()
    }

    proptest! {
        #[test]
        fn what_a_pattern_admits_is_accepted(
            host in admitted("/components/schemas/TestRequest/properties/host/pattern"),
            name in admitted("/paths/~1api~1v1~1plans~1{name}/get/parameters/0/schema/pattern"),
            interface in admitted("/components/schemas/EmulatorRequest/properties/interfaces/items/pattern"),
            condition in admitted("/paths/~1api~1v1~1runs/get/parameters/7/schema/items/pattern"),
        ) {
            prop_assert!(weir_model::names::Host::parse(&host).is_ok(), "{host}");
            prop_assert!(crate::handlers::file_name(&name).is_ok(), "{name}");
            let mut excluded = weir_model::names::VERBS.iter().chain(&super::emulators::NOT_NAMES);
            prop_assert!(excluded.any(|name| *name == interface) || weir_model::names::is_emulator_end(&interface), "{interface}");
            prop_assert!(condition.parse::<weir_runs::Condition>().is_ok(), "{condition}");
        }
    }

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
