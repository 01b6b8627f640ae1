//! Sets a sweep's values in the plan of a step.

use serde_json::Value;

use super::inside;
use crate::ModelError;
use crate::document::{self, DocumentCode, DocumentError};
use crate::experiment::variables::plain;
use crate::plan::Plan;

/// The plan of a step: a `weir.plan/1` that may omit its schema.
///
/// # Errors
/// Those of [`Plan::parse`].
pub fn test_plan(plan: &Value) -> Result<Plan, ModelError> {
    let mut plan = plan.clone();
    if let Some(fields) = plan.as_object_mut() {
        fields.entry("schema").or_insert_with(|| crate::plan::PLAN_SCHEMA.into());
    }
    let plan: Plan = document::read(&plan)?;
    plan.check()?;
    Ok(plan)
}

/// Sets parameters of a plan by name: fields of the plan or of every connection (`NAME.field` for one of them).
/// The flags' short names are accepted: `size`, `connections`, `time`. The plan is checked after all are set.
///
/// # Errors
/// [`ModelError::Field`] for an unknown name or an invalid value.
pub fn set_parameters<'a>(
    plan: &Plan,
    values: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Plan, ModelError> {
    let mut plan = plan.clone();
    let mut names = vec![];
    for (name, value) in values {
        plan = set(&plan, name, value)?;
        names.push(name);
    }
    plan.check().map_err(|e| match e {
        ModelError::Field { field: place, given, accepted } => {
            let last = place.rsplit('.').next().unwrap_or(&place);
            // Report it by the name that was used.
            match (names.iter().find(|name| field_of(name) == last), &names[..]) {
                (Some(name), _) => ModelError::Field { field: (*name).into(), given, accepted },
                (None, [name]) => inside(name, ModelError::Field { field: place, given, accepted }),
                (None, _) => ModelError::Field { field: place, given, accepted },
            }
        }
        other => other,
    })?;
    Ok(plan)
}

/// The field of a parameter's name, without the connection's name.
fn field_of(name: &str) -> &str {
    parameter_of(name.rsplit_once('.').map_or(name, |(_, field)| field))
}

/// The plan with one parameter set, not yet checked.
fn set(plan: &Plan, name: &str, value: &str) -> Result<Plan, ModelError> {
    let mut raw = serde_json::to_value(plan).unwrap_or_default();
    let only = name.rsplit_once('.').map(|(connection, _)| connection);
    let field = field_of(name);
    if field == "profile" {
        // All fields of a plan that was read are given: none would be the profile's.
        return Err(ModelError::Field {
            field: name.into(),
            given: "no parameter of a plan".into(),
            accepted: "a step for each profile".into(),
        });
    }
    // A number or a boolean if it is one; fields with units accept both.
    let number: Value = match value {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => value.parse::<u64>().map_or_else(|_| Value::String(value.into()), Into::into),
    };
    let mut found = false;
    if only.is_none() && OF_PLAN.contains(&field) {
        raw[field] = number;
        found = true;
    } else if let Some(connections) = raw.get_mut("connection").and_then(Value::as_array_mut) {
        for connection in connections {
            if only.is_none_or(|n| connection.get("name").map(plain).as_deref() == Some(n)) {
                connection[field] = number.clone();
                found = true;
            }
        }
    }
    if !found {
        return Err(ModelError::Field {
            field: name.into(),
            given: "no such connection".into(),
            accepted: "the name of a connection of the plan".into(),
        });
    }
    document::read(&raw).map_err(|error| match error.code {
        DocumentCode::UnknownField => ModelError::Field {
            field: name.into(),
            given: "no parameter of a plan".into(),
            accepted: known(name, &error),
        },
        _ => ModelError::Field {
            field: name.into(),
            given: format!("'{value}'"),
            accepted: error.accepted_with_hint(),
        },
    })
}

/// Short names of the flags, and the fields of a connection that they set.
const SHORT: &[(&str, &str)] = &[
    ("size", "payload"),
    ("length", "payload"),
    ("connections", "count"),
    ("parallel", "count"),
    ("time", "duration"),
    ("seconds", "duration"),
    ("bitrate", "rate"),
    ("cc", "congestion"),
];

/// Fields of the plan itself; all others are of its connections.
const OF_PLAN: &[&str] = &[
    "family",
    "interval",
    "omit",
    "data_ports",
    "loss_threshold",
    "control_rate",
    "latency",
    "nominal",
    "seed",
    "bind",
    "device",
];

/// The parameter of a plan for the name of an axis or a flag: `payload` for `size`; other names are unchanged.
#[must_use]
pub fn parameter_of(name: &str) -> &str {
    SHORT.iter().find(|(short, _)| *short == name).map_or(name, |(_, long)| long)
}

/// The accepted names of parameters: the fields of a connection, which the error of an unknown one lists, and
/// those of the plan.
fn known(name: &str, error: &DocumentError) -> String {
    let fields = error.accepted.split(", ");
    // Frequent parameters have a short name, that of the flag.
    let called = |field: &str| {
        let short = SHORT.iter().find(|(_, long)| *long == field);
        // The short name is not needed if the field's own name is a flag too.
        let short = short.filter(|_| !matches!(field, "rate" | "congestion"));
        short.map_or_else(|| field.to_owned(), |(short, _)| (*short).to_owned())
    };
    let fields = fields.filter(|field| !matches!(*field, "name" | "profile")).map(called);
    let names: Vec<String> = fields.chain(OF_PLAN.iter().map(|n| (*n).to_owned())).collect();
    let all = names.iter().map(String::as_str).chain(SHORT.iter().map(|(short, _)| *short));
    let hint = crate::nearest(name, all)
        .map_or_else(String::new, |near| format!(" (did you mean {near}?)"));
    format!("{}{hint}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Size;

    #[test]
    fn parameters_are_checked_when_all_of_them_are_set() {
        let plan = serde_json::json!({ "connection": [{ "transport": "udp" }] });
        let plan = test_plan(&plan).unwrap();
        let both = [("zero_copy", "true"), ("transport", "tcp")];
        let set = set_parameters(&plan, both).unwrap();
        assert!(set.connections[0].transport.stream().unwrap().zero_copy);
        // All fields of a plan that was read are given: none would be a profile's.
        let Err(ModelError::Field { field, .. }) = set_parameters(&plan, [("profile", "dns")])
        else {
            panic!("a profile was set")
        };
        assert_eq!(field, "profile");
        let refused = |values: &[(&str, &str)]| match set_parameters(&plan, values.iter().copied())
            .unwrap_err()
        {
            ModelError::Field { field, .. } => field,
            other => panic!("{other}"),
        };
        assert_eq!(refused(&[("zero_copy", "true")]), "zero_copy");
        assert_eq!(refused(&[("zero_copy", "true"), ("tos", "0")]), "zero_copy");
        assert_eq!(refused(&[("bytes", "1"), ("time", "1")]), "bytes");
    }

    #[test]
    fn a_refused_value_is_reported_by_the_name_that_was_used_and_what_is_accepted() {
        let plan = test_plan(&serde_json::json!({ "connection": [{ "transport": "udp" }] }));
        let plan = plan.unwrap();
        let refused = |name, value| set_parameters(&plan, [(name, value)]).unwrap_err().to_string();
        for (name, value, wanted) in [
            ("size", "abc", &*format!("size: 'abc'; accepted: {}", Size::form())),
            ("size", "0.1", &*format!("size: '0.1'; accepted: {}", Size::form())),
            ("length", "70000", "length: 70000; accepted: 0 to 65507 bytes for UDP"),
            ("connections", "0", "connections: 0; accepted: 1 to 200000"),
            ("connections", "x", "connections: 'x'; accepted: a whole number, 0 to 4294967295"),
            ("tos", "300", "tos: '300'; accepted: a whole number, 0 to 255"),
            ("verify", "maybe", "verify: 'maybe'; accepted: true or false"),
        ] {
            assert_eq!(refused(name, value), wanted);
        }
        let transport = refused("transport", "xcp");
        assert!(transport.starts_with("transport: 'xcp'; accepted: "), "{transport}");
        assert!(transport.contains("udp") && transport.ends_with("tcp?)"), "{transport}");
        let unknown = refused("sise", "3");
        assert!(unknown.starts_with("sise: ") && unknown.ends_with("size?)"), "{unknown}");
        let names: Vec<&str> = unknown.split([',', ' ']).collect();
        for name in ["size", "rate", "time", "family"] {
            assert!(names.contains(&name), "{name}: {unknown}");
        }
        assert!(!unknown.contains("payload") && !unknown.contains('`'), "{unknown}");
    }
}
