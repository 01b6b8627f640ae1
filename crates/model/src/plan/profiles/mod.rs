//! Traffic profiles: plans of applications' traffic that connections of other plans name by `profile`.
//!
//! Each is a file of `weir.plan/1`, in the program (`crates/model/profiles`) or in a directory of the user's. Its first comment
//! names the source of its figures.

mod given;

use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::de::{Deserializer, Error as _, Unexpected};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Connection, ConnectionFields, Plan};
use crate::ModelError;
use crate::document::{self, DocumentError};
use given::Given;

/// Limits of a connection's duration, of which one is set.
const LIMITS: [&str; 3] = ["duration", "bytes", "packets"];
/// Maximum number of connections of a plan that name profiles.
const MAX_PROFILED: usize = 1000;
/// The field that names a profile.
const FIELD: &str = "profile";

/// Declares the profiles of the program: their names and files.
macro_rules! profiles {
    ($($name:literal,)*) => {
        const BUILT_IN: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../profiles/", $name, ".toml")))),*];
    };
}

profiles! {
    "voip-g711",
    "voip-g711-10ms",
    "voip-g711-vad",
    "voip-g711-crtp",
    "voip-g729",
    "voip-g729-30ms",
    "voip-g729-vad",
    "voip-g729-crtp",
    "voip-g723",
    "voip-g723-vad",
    "voip-g723-crtp",
    "ditg-g723",
    "counter-strike-active",
    "counter-strike-idle",
    "quake3",
    "dns",
    "telnet",
    "imix",
    "video",
    "web",
}

/// The name of a profile that exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct ProfileName(String);

impl std::fmt::Display for ProfileName {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de> Deserialize<'de> for ProfileName {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let name = String::deserialize(source)?;
        if TrafficProfile::named(&name).is_some() {
            return Ok(ProfileName(name));
        }
        let accepted = TrafficProfile::accepted();
        Err(D::Error::invalid_value(Unexpected::Str(&name), &accepted.as_str()))
    }
}

/// A traffic profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrafficProfile {
    /// Its name.
    pub name: Cow<'static, str>,
    /// Its file, `weir.plan/1` in TOML.
    pub text: Cow<'static, str>,
    /// Whether it is the user's.
    pub is_users: bool,
    /// Why its file can't be read, with the file's name. The text is then empty.
    pub unreadable: Option<String>,
}

/// The user's profiles: how they are found, since this crate reads no files.
#[derive(Debug, Clone, Copy)]
pub struct UserProfiles {
    /// The file of a profile, or the file's name and why it can't be read; `None` if there is none of this name.
    pub text: fn(&str) -> Option<Result<String, String>>,
    /// The names of all.
    pub names: fn() -> Vec<String>,
}

static USERS: OnceLock<UserProfiles> = OnceLock::new();

impl TrafficProfile {
    /// Sets how the user's profiles are found. The first call counts.
    pub fn find_users(users: UserProfiles) {
        let _ = USERS.set(users);
    }

    /// Whether this may be a name: lower-case letters, digits, `-`, `_` and `.`, not first.
    #[must_use]
    pub fn is_name(name: &str) -> bool {
        let is_inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        name.len() <= 64
            && name.bytes().next().is_some_and(is_inner)
            && name.bytes().all(|b| is_inner(b) || matches!(b, b'-' | b'_' | b'.'))
    }

    /// The profile of a name: the user's, else the program's.
    #[must_use]
    pub fn named(name: &str) -> Option<TrafficProfile> {
        let users =
            USERS.get().filter(|_| Self::is_name(name)).and_then(|users| (users.text)(name));
        let is_users = users.is_some();
        let (text, unreadable) = match users {
            Some(Ok(text)) => (text.into(), None),
            // The program's profile of the same name is other traffic.
            Some(Err(reason)) => ("".into(), Some(reason)),
            None => (BUILT_IN.iter().find(|(known, _)| *known == name)?.1.into(), None),
        };
        Some(TrafficProfile { name: name.to_owned().into(), text, is_users, unreadable })
    }

    /// All profiles: the program's in their order, each replaced by the user's of the same name, then the user's others.
    #[must_use]
    pub fn all() -> Vec<TrafficProfile> {
        let known = BUILT_IN.iter().map(|(name, _)| (*name).to_owned());
        let mut names: Vec<String> = known.collect();
        let mut of_user = USERS.get().map(|users| (users.names)()).unwrap_or_default();
        of_user.retain(|name| Self::is_name(name) && !names.contains(name));
        of_user.sort_unstable();
        names.append(&mut of_user);
        names.iter().filter_map(|name| Self::named(name)).collect()
    }

    /// The names of all profiles, for errors.
    #[must_use]
    pub fn accepted() -> String {
        let all = Self::all();
        crate::phrases::one_of(all.iter().map(|profile| &*profile.name))
    }

    /// Its plan.
    ///
    /// # Errors
    /// Those of [`Plan::parse`]; [`ModelError::Document`] for a connection that names a profile; [`ModelError::Field`] for a
    /// file that can't be read.
    pub fn plan(&self) -> Result<Plan, ModelError> {
        if let Some(reason) = &self.unreadable {
            return Err(ModelError::Field {
                field: FIELD.into(),
                given: reason.clone(),
                accepted: "a readable file of `weir.plan/1`, UTF-8, of up to 1 MiB".into(),
            });
        }
        let tree = document::tree(&self.text)?;
        let connections = tree.get("connection").and_then(Value::as_array);
        let nested = connections.and_then(|all| all.iter().position(|c| c.get(FIELD).is_some()));
        if let Some(index) = nested {
            let error = ModelError::Field {
                field: format!("connection[{index}].{FIELD}"),
                given: "set in a profile".into(),
                accepted: "the fields of the connection: profiles can't name profiles".into(),
            };
            return Err(DocumentError::of_check(error, super::PLAN_SCHEMA, &self.text));
        }
        Plan::parse(&self.text)
    }

    /// Its first comment: the source of its figures.
    #[must_use]
    pub fn source(&self) -> String {
        let comment = self.text.lines().map_while(|line| line.strip_prefix('#'));
        comment.map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
    }

    /// Its connections, with the `given` fields of `own` instead of theirs.
    ///
    /// # Errors
    /// Those of [`plan`](Self::plan).
    pub fn connections(
        &self,
        own: &ConnectionFields,
        given: &[&str],
    ) -> Result<Vec<ConnectionFields>, ModelError> {
        replaced(&self.plan()?.connections, own, given)
    }
}

/// A profile's connections, with the `given` fields of `own` instead of theirs.
fn replaced(
    connections: &[Connection],
    own: &ConnectionFields,
    given: &[&str],
) -> Result<Vec<ConnectionFields>, ModelError> {
    let is_only = connections.len() == 1;
    let is_given = |field: &str| given.contains(&field);
    let own_values = table(own);
    let replaced = connections.iter().map(|connection| {
        let mut fields = table(&ConnectionFields::from(connection.clone()));
        if LIMITS.iter().any(|limit| is_given(limit)) {
            LIMITS.iter().for_each(|limit| drop(fields.remove(*limit)));
        }
        // A rate and intervals with a mean of their own exclude each other.
        let is_timed = connection.spacing.packets_per_second().is_some();
        if is_timed && (is_given("rate") || is_given("rate_schedule")) {
            fields.remove("spacing");
        }
        if is_given("spacing") && own.spacing.packets_per_second().is_some() {
            fields.remove("rate");
            fields.remove("rate_schedule");
        }
        let theirs = fields.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        for field in given.iter().filter(|field| **field != FIELD) {
            // What is absent from the table has its default.
            match own_values.get(*field) {
                Some(value) => fields.insert((*field).into(), value.clone()),
                None => fields.remove(*field),
            };
        }
        if is_given("name") && !is_only && !theirs.is_empty() {
            fields.insert("name".into(), format!("{} {theirs}", own.name).into());
        }
        Ok(document::read(&Value::Object(fields))?)
    });
    replaced.collect()
}

/// The fields of a connection that are not at their default, and some that are.
fn table(fields: &ConnectionFields) -> Map<String, Value> {
    match serde_json::to_value(fields) {
        Ok(Value::Object(table)) => table,
        _ => Map::new(),
    }
}

/// Reads a plan's connections: one that names a profile becomes those of the profile, whose fields the other fields of the
/// connection replace.
pub(super) fn expanded<'de, D: Deserializer<'de>>(source: D) -> Result<Vec<Connection>, D::Error> {
    let entries: Vec<Given> = Deserialize::deserialize(source)?;
    if entries.iter().all(|entry| entry.fields.profile.is_none()) {
        return Ok(entries.into_iter().map(|entry| entry.fields.into()).collect());
    }
    let profiled = entries.iter().filter(|entry| entry.fields.profile.is_some()).count();
    if profiled > MAX_PROFILED {
        return Err(D::Error::custom(format_args!(
            "{profiled} connections with a profile: at most {MAX_PROFILED}; `count` makes several alike"
        )));
    }
    let mut names: HashSet<String> = entries
        .iter()
        .filter(|entry| entry.fields.profile.is_none())
        .map(|entry| entry.fields.name.clone())
        .collect();
    let mut out = vec![];
    let mut known: HashMap<String, Vec<Connection>> = HashMap::new();
    for Given { fields, keys } in entries {
        let Some(name) = &fields.profile else {
            out.push(fields.into());
            continue;
        };
        let failed = |error: ModelError| {
            D::Error::custom(format_args!("traffic profile {}: {error}", name.0))
        };
        let connections = match known.entry(name.0.clone()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                // Unless the user removed it since the name was read.
                let profile = TrafficProfile::named(&name.0).ok_or_else(|| {
                    D::Error::custom(format_args!("traffic profile {}: no such file", name.0))
                })?;
                entry.insert(profile.plan().map_err(failed)?.connections)
            }
        };
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let connections = replaced(connections, &fields, &keys).map_err(failed)?;
        for mut fields in connections {
            if !fields.name.is_empty() {
                fields.name = unused(&fields.name, &mut names);
            }
            out.push(fields.into());
        }
    }
    Ok(out)
}

/// Reads a plan whose connections name no profiles: that of a session to open, whose client expanded them.
///
/// # Errors
/// Those of a plan; a connection with a profile.
pub fn without_profiles<'de, D: Deserializer<'de>>(source: D) -> Result<Plan, D::Error> {
    let tree = Value::deserialize(source)?;
    let connections = tree.get("connection").and_then(Value::as_array);
    let is_named = |c: &Value| c.get(FIELD).is_some_and(|profile| !profile.is_null());
    if let Some(index) = connections.and_then(|all| all.iter().position(is_named)) {
        return Err(D::Error::custom(format_args!(
            "connection[{index}].{FIELD}: set; accepted: the connections of the profile, since servers have none"
        )));
    }
    Plan::deserialize(tree).map_err(D::Error::custom)
}

/// `name`, or with the first number behind it that makes it unique.
fn unused(name: &str, names: &mut HashSet<String>) -> String {
    let mut candidates = (1u32..).map(|n| match n {
        1 => name.to_owned(),
        n => format!("{name} {n}"),
    });
    let free = candidates.find(|candidate| !names.contains(candidate)).unwrap_or_default();
    names.insert(free.clone());
    free
}

#[cfg(test)]
mod tests;
