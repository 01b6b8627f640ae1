//! A scenario, its hosts and its emulators.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Step, TableSpec, inside, refuse};
use crate::ModelError;
use crate::document;
use crate::impairment::{Impairment, Laws, TWICE, TWICE_ACCEPTED};
use crate::units::{Seed, Span};

/// A whole scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// `weir.scenario/1`.
    #[schemars(extend("const" = "weir.scenario/1"))]
    pub schema: String,
    /// Short name: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// Title of its report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The method, in words, printed with every result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Tags, stored as labels of its runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Seed of the order of points. Absent: chosen at random and printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<Seed>,
    /// The whole experiment stops after this time; completed runs are stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// Confidence of intervals over repetitions, percent. Default 95.
    #[serde(default = "default_confidence")]
    pub confidence_percentage: f64,
    /// Names for `{name}`, with their values. `weir run --set NAME=VALUE` replaces them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, Value>,
    /// Values of variables with `--quick`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub quick: BTreeMap<String, Value>,
    /// Hosts made of namespaces for this experiment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lab: Option<LabSetup>,
    /// Hosts by name. The hosts of the lab need no entry; `local` is this machine.
    #[serde(default, rename = "host", skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<String, HostSpec>,
    /// Agents of a fleet by name: names and labels of agents, separated by commas, as `weir fleet run --on`. A name of several
    /// agents stands for all of them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub agents: BTreeMap<String, String>,
    /// Emulators by name.
    #[serde(default, rename = "emulator", skip_serializing_if = "BTreeMap::is_empty")]
    pub emulators: BTreeMap<String, EmulatorSpec>,
    /// Tables of the results, printed with them.
    #[serde(default, rename = "table", skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<TableSpec>,
    /// The steps, in order.
    #[serde(rename = "step")]
    pub steps: Vec<Step>,
}

fn default_confidence() -> f64 {
    95.0
}

/// A lab for the experiment, removed at its end.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LabSetup {
    /// Whether an emulator (`m`) is between the hosts `a`, `c`, `e`, … and the hosts `b`, `d`, `f`, …; else all are
    /// connected directly.
    pub middle: bool,
    /// Hosts, 2 to 16: `a`, `b`, `c` … No host is named `m` with `middle`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts: Option<u32>,
    /// MTU of its links.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu_bytes: Option<u32>,
    /// Disables offloads, so that datagrams cross per-packet.
    pub no_offload: bool,
    /// Kernel settings of each host by name, as in sysctl(8): `net.ipv4.tcp_timestamps = "0"`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctls: BTreeMap<String, String>,
}

/// A host with a server.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HostSpec {
    /// Name or address of a host where `weir serve` runs already.
    pub address: String,
    /// Its port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// File with its key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<String>,
}

/// An emulator, which this experiment starts between two interfaces or in the lab's middle, or which is already
/// running.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(transform = both_alone)]
pub struct EmulatorSpec {
    /// The two interfaces, each also `tap:NAME`. Absent: the lab's middle, or a running emulator with `control_socket`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interfaces: Option<[String; 2]>,
    /// The control socket of a running emulator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_socket: Option<String>,
    /// The name in `[agents]` of the agent where it runs, between two of its interfaces. Absent: this machine or the lab.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Its initial laws.
    #[serde(flatten)]
    pub initial: Impairing,
}

/// A table that contains the fields of an [`Impairing`] and its own. They are repeated here, so that an error
/// has the field's path and the names of all fields.
macro_rules! impairing_fields {
    ($fields:ident -> $table:ident { $($own:ident: $type:ty,)* } $inner:ident) => {
        #[derive(Default, serde::Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub(super) struct $fields {
            $($own: $type,)*
            both: Option<String>,
            a_to_b: Option<String>,
            b_to_a: Option<String>,
            profile: Option<String>,
            config: Option<serde_json::Value>,
            config_file: Option<String>,
            seed: Option<crate::units::Seed>,
        }

        impl<'de> serde::Deserialize<'de> for $table {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let $fields { $($own,)* both, a_to_b, b_to_a, profile, config, config_file, seed } =
                    $fields::deserialize(deserializer)?;
                let $inner = Impairing { both, a_to_b, b_to_a, profile, config, config_file, seed };
                Ok($table { $($own,)* $inner })
            }
        }
    };
}
pub(super) use impairing_fields;

impairing_fields! {
    EmulatorFields -> EmulatorSpec {
        interfaces: Option<[String; 2]>,
        control_socket: Option<String>,
        agent: Option<String>,
    } initial
}

/// An impairment, in one of its forms.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(default)]
pub struct Impairing {
    /// Laws for both directions, as in `weir impair --both`; instead of `a_to_b` and `b_to_a`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub both: Option<String>,
    /// Laws from A to B.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a_to_b: Option<String>,
    /// Laws from B to A.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b_to_a: Option<String>,
    /// A profile by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// A whole `weir.impair/1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<Value>,
    /// A file with a whole `weir.impair/1`, in the scenario's directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_file: Option<String>,
    /// Seed of its draws.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<Seed>,
}

/// Adds to the schema of a table with laws that `both` excludes those of one direction.
pub(super) fn both_alone(schema: &mut schemars::Schema) {
    let has_string = |name: &str| serde_json::json!({ "required": [name], "properties": { name: { "type": "string" } } });
    let both = has_string("both");
    let one_way = [has_string("a_to_b"), has_string("b_to_a")];
    schema.insert("not".into(), serde_json::json!({ "allOf": [both, { "anyOf": one_way }] }));
}

impl Impairing {
    /// Whether it has no laws in any form.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Impairing { seed: self.seed, ..Impairing::default() }
    }

    pub(super) fn check(&self, at: &str, is_later: bool) -> Result<(), ModelError> {
        if is_later || self.config_file.is_some() {
            return self.forms(at);
        }
        self.forms(at)?;
        self.impairment(at, "").map(drop)
    }

    fn forms(&self, at: &str) -> Result<(), ModelError> {
        if self.both.is_some() && (self.a_to_b.is_some() || self.b_to_a.is_some()) {
            // As in weir.impair/1: which of the two applies to a direction would be ambiguous.
            return refuse(&format!("{at}.both"), TWICE, TWICE_ACCEPTED);
        }
        let has_laws = self.both.is_some() || self.a_to_b.is_some() || self.b_to_a.is_some();
        let forms =
            [has_laws, self.profile.is_some(), self.config.is_some(), self.config_file.is_some()];
        if forms.iter().filter(|f| **f).count() > 1 {
            return refuse(
                at,
                "several",
                "one of laws (both, a_to_b, b_to_a), profile, config and config_file",
            );
        }
        Ok(())
    }

    /// The whole impairment; `file` is the text of `config_file`.
    ///
    /// # Errors
    /// [`ModelError`] for invalid laws or documents.
    pub fn impairment(&self, at: &str, file: &str) -> Result<Impairment, ModelError> {
        let mut impairment = if let Some(name) = &self.profile {
            Impairment::of_profile(name).map_err(|e| inside(&format!("{at}.profile"), e))?
        } else if let Some(config) = &self.config {
            let config: Impairment =
                document::read(config).map_err(|e| e.inside(&format!("{at}.config")))?;
            config.check().map_err(|e| inside(&format!("{at}.config"), e))?;
            config
        } else if self.config_file.is_some() {
            Impairment::parse(file).map_err(|e| inside(&format!("{at}.config_file"), e))?
        } else {
            let laws = |text: &Option<String>, name: &str| match text {
                Some(text) => text.parse::<Laws>().map_err(|e| inside(&format!("{at}.{name}"), e)),
                None => Ok(Laws::default()),
            };
            let mut impairment = Impairment::of_both(laws(&self.both, "both")?);
            if self.a_to_b.is_some() || self.b_to_a.is_some() {
                impairment.other.a_to_b = laws(&self.a_to_b, "a_to_b")?;
                impairment.other.b_to_a = laws(&self.b_to_a, "b_to_a")?;
            }
            impairment.check().map_err(|e| inside(at, e))?;
            impairment
        };
        if let Some(seed) = self.seed {
            impairment.seed = seed;
        }
        Ok(impairment)
    }
}
