//! The setup of runs: plan, programs and hosts as paths and values, to name differences.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use weir_model::record::Record;

/// A value of the setup that differs between the sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SetupDifference {
    /// Where in the record: `plan.connection[0].rate`.
    pub path: String,
    /// The values in A; empty if no run of it has one.
    pub a: Vec<String>,
    /// The values in B.
    pub b: Vec<String>,
}

/// The setup of one or several runs: paths with all values that occurred.
#[derive(Debug, Clone, Default)]
pub(crate) struct Setup(BTreeMap<String, BTreeSet<String>>);

impl Setup {
    pub(crate) fn add(&mut self, record: &Record) {
        // Titles are meant to differ.
        let plan = weir_model::plan::Plan { title: None, ..record.plan.clone() };
        self.put("plan", &plan);
        self.put("version", &record.version);
        self.put("build", &record.build);
        self.put("peer", &record.peer);
        self.put("clock.method", &record.clock.as_ref().map(|c| &c.method));
        self.put("impairment", &record.impairment.as_ref().map(|i| &i.config));
        let servers = record.servers.iter().map(|s| (format!("servers[{}]", s.name), &s.host));
        let ends = [("local".to_owned(), &record.local), ("remote".to_owned(), &record.remote)];
        for (end, host) in ends.into_iter().chain(servers) {
            let Some(host) = host else { continue };
            self.put(&format!("{end}.host"), &host.host);
            self.put(&format!("{end}.version"), &host.version);
            self.put(&format!("{end}.os"), &host.os);
            self.put(&format!("{end}.kernel"), &host.kernel);
            self.put(&format!("{end}.cpu"), &host.cpu);
            self.put(&format!("{end}.virtual"), &host.virtual_machine);
            self.put(&format!("{end}.sysctls"), &host.sysctls);
            for (number, interface) in host.interfaces.iter().enumerate() {
                let path = format!("{end}.interfaces[{number}]");
                self.put(&format!("{path}.name"), &interface.name);
                self.put(&format!("{path}.driver"), &interface.driver);
                self.put(&format!("{path}.mtu_bytes"), &interface.mtu_bytes);
                self.put(&format!("{path}.offloads"), &interface.offloads);
                self.put(&format!("{path}.qdisc"), &interface.qdisc);
            }
        }
    }

    fn put<T: Serialize>(&mut self, path: &str, value: &T) {
        self.walk(path.to_string(), serde_json::to_value(value).unwrap_or_default());
    }

    fn walk(&mut self, path: String, value: Value) {
        let text = match value {
            Value::Object(map) => {
                for (key, value) in map {
                    self.walk(format!("{path}.{key}"), value);
                }
                return;
            }
            Value::Array(items) => {
                for (number, value) in items.into_iter().enumerate() {
                    self.walk(format!("{path}[{number}]"), value);
                }
                return;
            }
            Value::Null => return,
            Value::String(text) => text,
            other => other.to_string(),
        };
        self.0.entry(path).or_default().insert(text);
    }

    /// The paths whose values differ.
    pub(crate) fn differences(&self, other: &Setup) -> Vec<SetupDifference> {
        let paths: BTreeSet<&String> = self.0.keys().chain(other.0.keys()).collect();
        let values = |setup: &Setup, path: &String| -> Vec<String> {
            setup.0.get(path).into_iter().flatten().cloned().collect()
        };
        paths
            .into_iter()
            .filter(|path| self.0.get(*path) != other.0.get(*path))
            .map(|path| SetupDifference {
                path: path.clone(),
                a: values(self, path),
                b: values(other, path),
            })
            .collect()
    }
}
