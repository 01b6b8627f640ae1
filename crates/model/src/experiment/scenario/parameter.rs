//! A plan of a step, and the values of a sweep in it.

use serde_json::Value;

use super::inside;
use super::nearest::read;
use crate::ModelError;
use crate::experiment::variables::plain;
use crate::plan::Plan;

/// A plan of a step: as `weir.plan/1`, whose schema need not be said.
///
/// # Errors
/// Those of [`Plan::parse`].
pub fn test_plan(plan: &Value) -> Result<Plan, ModelError> {
    let mut plan = plan.clone();
    if let Some(fields) = plan.as_object_mut() {
        fields.entry("schema").or_insert_with(|| crate::plan::PLAN_SCHEMA.into());
    }
    let plan: Plan = read(&plan)?;
    plan.check()?;
    Ok(plan)
}

/// Sets a parameter of a plan by its name: a field of the plan, or of every connection (`NAME.field` for one of them). Short
/// names of the flags are known: `size`, `connections`, `time`.
///
/// # Errors
/// [`ModelError::Field`] for a name that no plan has or a value that it does not take.
pub fn set_parameter(plan: &Plan, name: &str, value: &str) -> Result<Plan, ModelError> {
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
    let fail = |reason: String| ModelError::Document {
        document: crate::plan::PLAN_SCHEMA,
        field: String::new(),
        reason,
    };
    let mut raw = serde_json::to_value(plan).map_err(|e| fail(e.to_string()))?;
    let (only, field) = match name.rsplit_once('.') {
        Some((connection, field)) => (Some(connection), field),
        None => (None, name),
    };
    let field = SHORT.iter().find(|(short, _)| *short == field).map_or(field, |(_, long)| long);
    let of_plan = [
        "family",
        "interval",
        "omit",
        "data_ports",
        "loss_threshold",
        "latency",
        "nominal",
        "seed",
        "bind",
        "device",
    ];
    // As a number or a boolean where it reads as one; fields with units take both.
    let number: Value = match value {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => value.parse::<u64>().map_or_else(|_| Value::String(value.into()), Into::into),
    };
    let mut found = false;
    if only.is_none() && of_plan.contains(&field) {
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
    let plan: Plan = read(&raw).map_err(|e| match e {
        ModelError::Document { reason, .. } => {
            // What is asked for most has a short name, which no list of the plan's fields shows.
            let short = SHORT.iter().map(|(short, _)| *short);
            let hint = crate::experiment::nearest(name, short)
                .filter(|_| reason.contains("unknown field") && !reason.contains("did you mean"))
                .map_or_else(String::new, |near| format!(" (did you mean {near}?)"));
            ModelError::Field {
                field: name.into(),
                given: format!("'{value}'"),
                accepted: format!("a parameter of the plan{hint}: {reason}"),
            }
        }
        other => other,
    })?;
    plan.check().map_err(|e| inside(name, e))?;
    Ok(plan)
}
