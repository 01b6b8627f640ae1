//! What a law states in its own file, and the lists that register laws: `impairment/loss`, `impairment/delay`.
//!
//! A law is one type: its parameters with their schema. In the same file it says how its parameters are checked, which
//! short one-line form it has, how it decides for a packet, and what it does on average. Everything else (the table in
//! files, the form on the page, `name(key=value, …)`, the choice between laws) follows from the type.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use weir_laws::Draws;

use crate::ModelError;

mod general;
mod words;

pub(crate) use words::{Language, Words, parenthesised, words_of};

/// The parameters of a law. Its name is that of its module.
pub trait Law: Serialize + DeserializeOwned + JsonSchema {
    /// Its short one-line forms, without the slot's name. None: only `name(key=value, …)`.
    const SHORT_FORMS: &'static [&'static str] = &[];

    /// Reads one of its short forms; `None` when the words are another law's.
    ///
    /// # Errors
    /// [`ModelError::Value`] when they are this law's, but not acceptable.
    fn read_short(_: &mut Words<'_>) -> Result<Option<Self>, ModelError> {
        Ok(None)
    }

    /// The short form of these parameters; `None` when they have none.
    fn short(&self) -> Option<String> {
        None
    }

    /// Checks the parameters; `at` is their path in the document.
    ///
    /// # Errors
    /// [`ModelError::Field`] naming the first one that can't be run.
    fn check(&self, at: &str) -> Result<(), ModelError>;

    /// The law at work.
    type Running: Running;

    /// The law before its first packet; the parameters have been checked.
    fn start(&self) -> Self::Running;
}

/// A law at work: a function of the order in which packets come to it.
pub trait Running {
    /// What it decides for a packet.
    type Outcome;

    /// Decides for the next packet; `draws` are those of its place.
    fn next(&mut self, draws: &mut Draws<'_>) -> Self::Outcome;
}

/// What is asked of the one law that a slot holds, whichever it is.
pub(crate) trait Stated {
    fn check(&self, at: &str) -> Result<(), ModelError>;
    /// Its one-line form: the short one, else the general one.
    fn text(&self, name: &str) -> String;
}

impl<L: Law> Stated for L {
    fn check(&self, at: &str) -> Result<(), ModelError> {
        Law::check(self, at)
    }

    fn text(&self, name: &str) -> String {
        self.short().unwrap_or_else(|| general::written(name, self))
    }
}

/// A law's description, for the property that holds it.
pub(crate) fn description<L: JsonSchema>() -> String {
    let schema = L::json_schema(&mut SchemaGenerator::default());
    let text = schema.get("description").and_then(|text| text.as_str());
    text.unwrap_or_default().to_owned()
}

/// Puts the examples of a law of a single value where those of a property are looked for: beside its description.
pub(crate) fn raise_examples(slot: &mut Schema) {
    let properties = slot.get_mut("properties").and_then(Value::as_object_mut);
    for property in properties.into_iter().flat_map(|properties| properties.values_mut()) {
        let inner = property.pointer_mut("/anyOf/0").and_then(Value::as_object_mut);
        let Some(inner) = inner.filter(|inner| inner.contains_key("examples")) else { continue };
        inner.remove("description");
        let examples = inner.remove("examples").unwrap_or_default();
        property["examples"] = examples;
    }
}

/// The forms that a slot accepts: every law's short ones, and the general one with the laws' names.
pub(crate) fn forms(slot: &str, short: &[&[&str]], names: &[&str]) -> String {
    let mut out = String::new();
    for form in short.iter().copied().flatten() {
        out += &format!("{slot} {form}, ");
    }
    out + &format!("or {slot} LAW(KEY=VALUE, …) with LAW one of {}", names.join(", "))
}

/// The slot of a choice of laws, each registered by a line `module: Law`: the table with a property for each, and what all of them have in common.
macro_rules! slot_of_laws {
    (
        $(#[$doc:meta])*
        $slot:ident($term:literal): $rule:ident;
        $(#[$running_doc:meta])*
        $running:ident;
        $(#[$method_doc:meta])*
        $method:ident -> $outcome:ty;
        { $($module:ident: $law:ident,)* }
        { $($extra:tt)* }
    ) => {
        $(mod $module; pub use $module::$law;)*

        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        #[schemars(extend("x-one-of" = Self::NAMES), transform = crate::law::raise_examples)]
        #[allow(missing_docs, reason = "each law describes itself")]
        pub struct $slot {
            $(
                #[serde(skip_serializing_if = "Option::is_none")]
                #[schemars(description = crate::law::description::<$law>())]
                pub $module: Option<$law>,
            )*
            $($extra)*
        }

        impl $slot {
            /// The laws that it may hold, in the order in which they are offered.
            pub const NAMES: [&'static str; [$(stringify!($module)),*].len()] = [$(stringify!($module)),*];
            const SHORT_FORMS: [&'static [&'static str]; Self::NAMES.len()] = [$(<$law as Law>::SHORT_FORMS),*];

            /// The laws that are set, with their names.
            fn stated(&self) -> Vec<(&'static str, &dyn Stated)> {
                let mut out: Vec<(&'static str, &dyn Stated)> = vec![];
                $(if let Some(law) = &self.$module { out.push((stringify!($module), law)); })*
                out
            }

            /// The law that is set, as the rule that it follows.
            fn rule(&self) -> Option<&dyn $rule> {
                $(if let Some(law) = &self.$module { return Some(law); })*
                None
            }

            /// Reads a law in one of its one-line forms.
            fn read_law(words: &mut Words) -> Result<Self, ModelError> {
                if words.has_arguments() {
                    let name = words.next()?;
                    $(if name == stringify!($module) {
                        let law = words.arguments(stringify!($module), concat!("impairment.", $term))?;
                        return Ok(Self { $module: Some(law), ..Self::default() });
                    })*
                    return Err(words.bad());
                }
                $({
                    let mut ahead = words.clone();
                    if let Some(law) = <$law as Law>::read_short(&mut ahead)? {
                        *words = ahead;
                        return Ok(Self { $module: Some(law), ..Self::default() });
                    }
                })*
                Err(words.no_form())
            }
        }

        $(#[$running_doc])*
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs, reason = "each law describes itself")]
        pub enum $running {
            $($law(<$law as Law>::Running),)*
        }

        impl $running {
            /// The law of a configuration that has been checked, at its start; `None` when it holds none.
            #[must_use]
            pub fn of(config: &$slot) -> Option<Self> {
                $(if let Some(law) = &config.$module { return Some(Self::$law(law.start())); })*
                None
            }

            $(#[$method_doc])*
            #[inline]
            pub fn $method(&mut self, draws: &mut Draws<'_>) -> $outcome {
                match self { $(Self::$law(running) => running.next(draws),)* }
            }
        }
    };
}
pub(crate) use slot_of_laws;

/// A refusal of a field; `field` may be empty for the object at `at` itself.
pub(crate) fn refuse(
    at: &str,
    field: &str,
    given: impl ToString,
    accepted: &str,
) -> Result<(), ModelError> {
    let field = if field.is_empty() { at.into() } else { format!("{at}.{field}") };
    Err(ModelError::Field { field, given: given.to_string(), accepted: accepted.into() })
}

pub(crate) fn check_percentage(at: &str, field: &str, value: f64) -> Result<(), ModelError> {
    // A NaN is in no range.
    if (0.0..=100.0).contains(&value) {
        return Ok(());
    }
    refuse(at, field, value, "0 to 100 percent")
}

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
