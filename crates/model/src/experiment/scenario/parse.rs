//! A text becomes a scenario: variables replaced, steps named.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::kept::respelt;
use super::nearest::read;
use super::{HostSpec, SCENARIO_SCHEMA, Scenario, Step, nearest, refuse};
use crate::ModelError;
use crate::experiment::{Variables, expand};
use crate::names::is_variable;

impl Scenario {
    /// Reads a scenario from TOML, or from JSON when it begins with `{`, replaces its variables (`--quick` and `set` win
    /// over the file's) and checks all that needs no file and no host. `hosts` replace those of the file; with one of them there
    /// is no lab: tests then run from this machine.
    ///
    /// # Errors
    /// [`ModelError`] with line, or with the path of the field, what was given and what is accepted.
    pub fn parse(
        text: &str,
        is_quick: bool,
        set: &Variables,
        hosts: &BTreeMap<String, HostSpec>,
    ) -> Result<Scenario, ModelError> {
        Self::parse_by(text, is_quick, set, hosts, &|_| {})
    }

    /// The same for a text that a journal has kept, maybe of an earlier version: what that took and [`Scenario::parse`] refuses
    /// (a long range without a step, a share without its per cent) means what it meant.
    ///
    /// # Errors
    /// As [`Scenario::parse`].
    pub fn parse_kept(
        text: &str,
        is_quick: bool,
        set: &Variables,
        hosts: &BTreeMap<String, HostSpec>,
    ) -> Result<Scenario, ModelError> {
        Self::parse_by(text, is_quick, set, hosts, &respelt)
    }

    fn parse_by(
        text: &str,
        is_quick: bool,
        set: &Variables,
        hosts: &BTreeMap<String, HostSpec>,
        spell: &dyn Fn(&mut Value),
    ) -> Result<Scenario, ModelError> {
        let document = |reason: String| ModelError::Document {
            document: SCENARIO_SCHEMA,
            field: String::new(),
            reason,
        };
        let raw: Value = if text.trim_start().starts_with('{') {
            serde_json::from_str(text).map_err(|e| document(e.to_string()))?
        } else {
            toml::from_str(text).map_err(|e| document(e.to_string()))?
        };
        let mut raw = raw;
        if let (false, Some(fields)) = (hosts.is_empty(), raw.as_object_mut()) {
            fields.remove("lab");
            let given = fields.entry("host").or_insert_with(|| Value::Object(Default::default()));
            if !given.is_object() {
                refuse("host", &given.to_string(), "tables [host.NAME]")?;
            }
            for (name, host) in hosts {
                given[name] = serde_json::to_value(host).map_err(|e| document(e.to_string()))?;
            }
        }
        let mut variables = Variables::new();
        let table =
            |name: &str| raw.get(name).and_then(Value::as_object).cloned().unwrap_or_default();
        variables.extend(table("variables"));
        if is_quick {
            variables.extend(table("quick"));
        }
        for (name, value) in set {
            if !variables.contains_key(name) {
                let known: Vec<&str> = variables.keys().map(String::as_str).collect();
                let hint = nearest(name, known.iter().copied())
                    .map_or_else(String::new, |n| format!(" (did you mean {n}?)"));
                return Err(ModelError::Field {
                    field: "--set".into(),
                    given: format!("'{name}'"),
                    accepted: format!("the scenario's variables: {}{hint}", known.join(", ")),
                });
            }
            variables.insert(name.clone(), value.clone());
        }
        for (name, value) in &variables {
            if !is_variable(name) {
                return Err(ModelError::Field {
                    field: format!("variables.{name}"),
                    given: format!("{name:?}"),
                    accepted: "a name of letters, digits, '-' and '_', at most 64".into(),
                });
            }
            if value.is_array() || value.is_object() {
                return Err(ModelError::Field {
                    field: format!("variables.{name}"),
                    given: value.to_string(),
                    accepted: "a string, a number or a boolean".into(),
                });
            }
        }
        let mut expanded = expand(&raw, &variables, &BTreeSet::new(), "")?;
        if let Some(steps) = expanded.get_mut("step") {
            spell(steps);
        }
        if let Some(fields) = expanded.as_object_mut()
            && !variables.is_empty()
        {
            fields.insert("variables".into(), Value::Object(variables.into_iter().collect()));
        }
        let mut scenario: Scenario = read(&expanded)?;
        scenario.name_steps();
        scenario.check()?;
        Ok(scenario)
    }

    fn name_steps(&mut self) {
        fn name(steps: &mut [Step], count: &mut BTreeMap<&'static str, u32>) {
            for step in steps {
                if step.name.is_none()
                    && let Some(action) = step.action().map(|a| a.name())
                {
                    let n = count.entry(action).or_default();
                    *n += 1;
                    step.name = Some(format!("{action}-{n}"));
                }
                if let Some(inner) = &mut step.parallel {
                    name(inner, count);
                }
                if let Some(repeat) = &mut step.repeat {
                    name(&mut repeat.steps, count);
                }
            }
        }
        name(&mut self.steps, &mut BTreeMap::new());
    }
}
