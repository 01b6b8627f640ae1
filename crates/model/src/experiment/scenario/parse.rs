//! Parses a scenario: replaces variables and names the steps.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Action, EmulatorSpec, HostSpec, SCENARIO_SCHEMA, Scenario, Step, nearest, refuse};
use crate::ModelError;
use crate::document::{self, DocumentError};
use crate::experiment::{Variables, expand};
use crate::names::is_variable;

/// Maximum number of hosts of a lab.
const MAX_LAB_HOSTS: u64 = 16;

impl Scenario {
    /// Reads a scenario from TOML, or from JSON if it starts with `{`, replaces its variables (`--quick` and
    /// `set` override the file) and checks everything that needs no file and no host. `hosts` replace those of
    /// the file. With any of them there is no lab: tests run from this machine, and emulators between the lab's
    /// hosts are omitted. A step that needs such an emulator is refused.
    ///
    /// # Errors
    /// [`ModelError`] with line, or with the path of the field, what was given and what is accepted.
    pub fn parse(
        text: &str,
        is_quick: bool,
        set: &Variables,
        hosts: &BTreeMap<String, HostSpec>,
    ) -> Result<Scenario, ModelError> {
        let of = |error: Box<DocumentError>| ModelError::from(error.of(SCENARIO_SCHEMA));
        let mut raw = document::tree(text).map_err(of)?;
        if let (false, Some(fields)) = (hosts.is_empty(), raw.as_object_mut()) {
            let known = host_names(fields);
            let unknown = hosts.keys().find(|name| !known.is_empty() && !known.contains(name));
            if let Some(name) = unknown {
                let near = nearest(name, known.iter().map(String::as_str));
                let hint = near.map_or_else(String::new, |n| format!(" (did you mean {n}?)"));
                let known = format!("the scenario's hosts: {}{hint}", known.join(", "));
                return Err(refuse_host(name, known));
            }
            fields.remove("lab");
            let given = fields.entry("host").or_insert_with(|| Value::Object(Default::default()));
            if !given.is_object() {
                refuse("host", &given.to_string(), "tables [host.NAME]")?;
            }
            for (name, host) in hosts {
                given[name] = serde_json::to_value(host).unwrap_or_default();
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
                    field: "set".into(),
                    given: format!("'{name}'"),
                    accepted: match known.is_empty() {
                        true => "nothing: the scenario has no variables".into(),
                        false => format!("the scenario's variables: {}{hint}", known.join(", ")),
                    },
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
        if let Some(fields) = expanded.as_object_mut()
            && !variables.is_empty()
        {
            fields.insert("variables".into(), Value::Object(variables.into_iter().collect()));
        }
        let mut scenario: Scenario =
            document::read(&expanded).map_err(|error| of(error.located(text)))?;
        scenario.name_steps();
        if !hosts.is_empty() {
            scenario.remove_lab_emulators()?;
        }
        scenario.check().map_err(|e| DocumentError::of_check(e, SCENARIO_SCHEMA, text))?;
        Ok(scenario)
    }

    /// Removes emulators between the hosts of a lab that is not used: the path to another host can't be
    /// emulated.
    fn remove_lab_emulators(&mut self) -> Result<(), ModelError> {
        let is_elsewhere = |e: &EmulatorSpec| e.interfaces.is_some() || e.control_socket.is_some();
        let gone = self.emulators.iter().filter(|(_, e)| !is_elsewhere(e));
        let gone: Vec<String> = gone.map(|(name, _)| name.clone()).collect();
        if let Some((step, emulator)) = first_that_needs(&self.steps, &gone, self.emulators.len()) {
            return refuse(
                "hosts",
                &format!(
                    "emulator {emulator}, which step {step} needs, is between the hosts of the lab, \
                     and with another host there is no lab"
                ),
                "a scenario whose emulators have interfaces or a control_socket of their own, or this one without a host",
            );
        }
        self.emulators.retain(|name, _| !gone.contains(name));
        Ok(())
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

/// The first step that needs one of these emulators, and the emulator. A step that names none means the only
/// one of `count`.
fn first_that_needs(steps: &[Step], gone: &[String], count: usize) -> Option<(String, String)> {
    let meant = |named: Option<&str>| match named {
        Some(name) => gone.iter().find(|g| *g == name).cloned(),
        None => gone.first().filter(|_| count == 1).cloned(),
    };
    steps.iter().find_map(|step| {
        let own = match step.action()? {
            Action::Impair(impair) => meant(impair.emulator.as_deref()),
            Action::Sweep(sweep) => {
                sweep.impair.as_ref().and_then(|impair| meant(impair.emulator.as_deref()))
            }
            Action::Collect(collect) => {
                collect.emulator.as_deref().and_then(|name| meant(Some(name)))
            }
            Action::Parallel(inner) => return first_that_needs(inner, gone, count),
            Action::Repeat(repeat) => return first_that_needs(&repeat.steps, gone, count),
            _ => None,
        };
        Some((step.name.clone().unwrap_or_default(), own?))
    })
}

/// The hosts that a scenario names: its tables and those of its lab (`a`, `b`, …); empty if it has neither.
fn host_names(fields: &serde_json::Map<String, Value>) -> Vec<String> {
    let tables = fields.get("host").and_then(Value::as_object);
    // A number from a variable is not known yet.
    let count = fields.get("lab").map_or(0, |lab| match lab.get("hosts") {
        None => 2,
        Some(count) => count.as_u64().map_or(MAX_LAB_HOSTS, |n| n.min(MAX_LAB_HOSTS)),
    });
    let lab = (b'a'..).take(count as usize).map(|c| char::from(c).to_string());
    tables.into_iter().flat_map(|t| t.keys().cloned()).chain(lab).collect()
}

fn refuse_host(name: &str, accepted: String) -> ModelError {
    ModelError::Field { field: "hosts".into(), given: format!("'{name}'"), accepted }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_host(steps: &str) -> Result<Scenario, ModelError> {
        let text = format!(
            "schema = \"weir.scenario/1\"\nname = \"s\"\n[lab]\nmiddle = true\n[emulator.link]\nboth = \"rate 10M\"\n{steps}"
        );
        let host = HostSpec { address: "192.0.2.1".into(), port: None, key_file: None };
        Scenario::parse(&text, false, &Variables::new(), &[("b".to_owned(), host)].into())
    }

    /// Otherwise a host other than the named one would be measured.
    #[test]
    fn an_unknown_host_is_refused() {
        let host = || HostSpec { address: "192.0.2.1".into(), port: None, key_file: None };
        let given = |text: &str, name: &str| {
            let text = format!(
                "schema = \"weir.scenario/1\"\nname = \"s\"\n{text}\n[[step]]\ntest = {{}}\n"
            );
            let hosts = [(name.to_owned(), host())].into();
            Scenario::parse(&text, false, &Variables::new(), &hosts)
        };
        let far = "[host.far]\naddress = \"192.0.2.7\"";
        for (text, name, accepted) in [
            (far, "fra", "the scenario's hosts: far (did you mean far?)"),
            ("[lab]", "c", "the scenario's hosts: a, b"),
        ] {
            let expected = refuse_host(name, accepted.into());
            assert_eq!(given(text, name).unwrap_err(), expected);
        }
        for (text, name) in [(far, "far"), ("[lab]", "b"), ("[lab]\nhosts = 3", "c"), ("", "x")] {
            assert!(given(text, name).is_ok(), "{text} {name}");
        }
    }

    /// The path to another host can't be emulated.
    #[test]
    fn an_emulator_of_the_lab_is_omitted_unless_a_step_needs_it() {
        let scenario = with_host("[[step]]\ntest = { to = \"b\" }").unwrap();
        assert!(scenario.lab.is_none() && scenario.emulators.is_empty());
        for step in [
            "name = \"x\"\nimpair = { both = \"loss 1%\" }",
            "name = \"x\"\ncollect = { emulator = \"link\" }",
            "repeat = { times = 2, step = [{ name = \"x\", impair = { emulator = \"link\", both = \"loss 1%\" } }] }",
            "parallel = [{ name = \"x\", sweep = { over = [\"loss=1,2\"], impair = { both = \"loss {loss}%\" }, test = {} } }]",
        ] {
            let refused = with_host(&format!("[[step]]\n{step}")).unwrap_err();
            let ModelError::Field { field, given, .. } = refused else {
                panic!("{step}: {refused}")
            };
            assert_eq!(field, "hosts");
            assert!(given.contains("emulator link") && given.contains("step x"), "{given}");
        }
    }
}
