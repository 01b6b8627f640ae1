//! The interface of a law, implemented in its own file, and the macros that register laws: `impairment/loss`,
//! `impairment/delay`, `impairment/time`, `impairment/count`, `plan/size`, `plan/spacing`. `distribution` has the laws
//! that they share.
//!
//! A law is one type: its parameters with their schema. The same file has the check of its parameters, its
//! short one-line form, its decision for a packet, and its moments. Everything else (the table in files, the
//! form on the page, `name(key=value, …)`, the choice between laws) follows from the type.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use weir_laws::Draws;

use crate::ModelError;

pub(crate) mod distribution;
mod general;
#[cfg(test)]
mod page;
mod words;

pub(crate) use general::{form_of_words, written_words};
pub(crate) use words::{MeanAndSpread, Words, parenthesised, split_list, words_of};

/// The name under which a law is deserialized.
pub(crate) const LAW: &str = "Law";

/// The parameters of a law. Its name is that of its module.
pub trait Law: Serialize + DeserializeOwned + JsonSchema {
    /// Its short one-line forms, without the slot's name. Empty: only `name(key=value, …)`.
    const SHORT_FORMS: &'static [&'static str] = &[];
    /// Whether its arguments are one list, `name(ITEM, …)`.
    const IS_LIST: bool = false;
    /// Whether it is Weir's summary of values that only the sender knows: lists of the laws to choose from leave it out.
    const IS_SUMMARY: bool = false;

    /// Reads one of its short forms; `None` if the words belong to another law.
    ///
    /// # Errors
    /// [`ModelError::Value`] if they belong to this law but are invalid.
    fn read_short(_: &mut Words<'_>) -> Result<Option<Self>, ModelError> {
        Ok(None)
    }

    /// The short form of these parameters; `None` if they have none.
    fn short(&self) -> Option<String> {
        None
    }

    /// Checks the parameters; `at` is their path in the document.
    ///
    /// # Errors
    /// [`ModelError::Field`] naming the first one that can't be run.
    fn check(&self, at: &str) -> Result<(), ModelError>;

    /// The running law.
    type Running;

    /// The law before its first packet; the parameters have been checked.
    fn start(&self) -> Self::Running;
}

/// A running law: its state depends only on the packets before.
pub trait Running {
    /// Its decision for a packet.
    type Outcome;

    /// Decides for the next packet; `draws` are those of its position. Make it `#[inline]`, so that it is
    /// compiled for speed in the packet path: this crate is compiled for size.
    fn next(&mut self, draws: &mut Draws<'_>) -> Self::Outcome;
}

/// What a law may know about a packet in addition to its position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketFacts {
    /// Time at which it reaches the stage, ns since the first packet under these laws did.
    pub elapsed_ns: u64,
    /// Bytes of its frame, without check sequence.
    pub bytes: u32,
}

/// A running law of the emulator.
pub(crate) trait Deciding {
    /// Its decision for a packet.
    type Outcome;

    /// Decides for the next packet; `#[inline]`, as for [`Running`].
    fn decide(&mut self, packet: &PacketFacts, draws: &mut Draws<'_>) -> Self::Outcome;
}

impl<L: Running> Deciding for L {
    type Outcome = L::Outcome;

    #[inline]
    fn decide(&mut self, _: &PacketFacts, draws: &mut Draws<'_>) -> L::Outcome {
        self.next(draws)
    }
}

/// A running law without state: its decision follows from the packet's position alone.
pub trait Stateless {
    /// Its decision for a packet.
    type Outcome;

    /// Decides for the packet to which `draws` belong; `#[inline]`, as for [`Running`].
    fn at(&self, draws: &mut Draws<'_>) -> Self::Outcome;
}

impl<L: Stateless> Running for L {
    type Outcome = L::Outcome;

    #[inline]
    fn next(&mut self, draws: &mut Draws<'_>) -> L::Outcome {
        self.at(draws)
    }
}

/// Functions of a slot's law that do not depend on its type.
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

/// A law's description, for its property in the schema.
pub(crate) fn description<L: JsonSchema>() -> String {
    let schema = L::json_schema(&mut SchemaGenerator::default());
    let text = schema.get("description").and_then(|text| text.as_str());
    text.unwrap_or_default().to_owned()
}

/// Moves the examples of a law of a single value to its property, next to the description.
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

/// The accepted forms of a slot: every law's short forms, and the general one with the laws' names. `slot`
/// precedes each form; it may be empty.
pub(crate) fn forms(slot: &str, short: &[&[&str]], names: &[&str]) -> String {
    let mut out = String::new();
    for form in short.iter().copied().flatten() {
        out += format!("{slot} {form}, ").trim_start();
    }
    let general = format!("{slot} LAW(KEY=VALUE, …)");
    out + &format!("or {} with LAW one of {}", general.trim_start(), names.join(", "))
}

/// Declares the slot of a choice of laws, each registered by a line `module: Law`: its own ones, then those of
/// `law::distribution`. The slot is a table with a property for each law and the common fields.
macro_rules! slot_of_laws {
    (
        $(#[$doc:meta])*
        $slot:ident($term:literal): $rule:ident;
        $(#[$running_doc:meta])*
        $running:ident;
        $(#[$method_doc:meta])*
        $method:ident -> $outcome:ty;
        { $($own:ident: $own_law:ident,)* }
        $(of $quantity:ident { $($shared:ident: $shared_law:ident,)* })?
        { $($extra:tt)* }
    ) => {
        $(mod $own; pub use $own::$own_law;)*
        $($(type $shared_law = crate::law::distribution::$shared_law<$quantity>;)*)?

        crate::law::slot_of_laws! {
            @ $(#[$doc])* $slot($term): $rule;
            $(#[$running_doc])* $running;
            $(#[$method_doc])* $method -> $outcome;
            { $($own: $own_law,)* $($($shared: $shared_law,)*)? }
            { $($extra)* }
        }
    };
    (
        @ $(#[$doc:meta])*
        $slot:ident($term:literal): $rule:ident;
        $(#[$running_doc:meta])*
        $running:ident;
        $(#[$method_doc:meta])*
        $method:ident -> $outcome:ty;
        { $($module:ident: $law:ident,)* }
        { $($extra:tt)* }
    ) => {
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
            /// The names of its laws, in display order.
            pub(crate) const NAMES: [&'static str; [$(stringify!($module)),*].len()] = [$(stringify!($module)),*];
            pub(crate) const SHORT_FORMS: [&'static [&'static str]; Self::NAMES.len()] = [$(<$law as Law>::SHORT_FORMS),*];

            /// The schema of each law.
            #[cfg(test)]
            pub(crate) fn laws() -> Vec<(&'static str, schemars::Schema)> {
                let mut generator = schemars::SchemaGenerator::default();
                vec![$((stringify!($module), <$law as JsonSchema>::json_schema(&mut generator)),)*]
            }

            /// The laws that are set, with their names.
            fn stated(&self) -> Vec<(&'static str, &dyn Stated)> {
                let mut out: Vec<(&'static str, &dyn Stated)> = vec![];
                $(if let Some(law) = &self.$module { out.push((stringify!($module), law)); })*
                out
            }

            /// The properties of the law that is set.
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
                Err(words.bad())
            }
        }

        $(#[$running_doc])*
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs, reason = "each law describes itself")]
        pub enum $running {
            $($law(<$law as Law>::Running),)*
        }

        impl $running {
            /// The running law of a checked configuration, before its first packet; `None` without a law.
            #[must_use]
            pub fn of(config: &$slot) -> Option<Self> {
                $(if let Some(law) = &config.$module { return Some(Self::$law(law.start())); })*
                None
            }

            $(#[$method_doc])*
            #[inline]
            pub fn $method(&mut self, packet: &PacketFacts, draws: &mut Draws<'_>) -> $outcome {
                match self { $(Self::$law(running) => running.decide(packet, draws),)* }
            }
        }
    };
}
pub(crate) use slot_of_laws;

/// Examples of a law in its one-line form: the required parameters alone, then with all others that have an example. Not
/// every combination is valid.
pub(crate) fn examples<L: Law>(name: &str) -> Vec<String> {
    let schema = L::json_schema(&mut SchemaGenerator::default());
    let first = |of: &Value| of.get("examples")?.get(0).map(general::word);
    if let Some(value) = first(schema.as_value()) {
        return vec![value];
    }
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return vec![];
    };
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |key: &str| required.is_some_and(|all| all.iter().any(|one| one == key));
    let form = |with_optional: bool| {
        let wanted = properties.iter().filter(|(key, _)| with_optional || is_required(key));
        let pairs = wanted.filter_map(|(key, of)| Some(format!("{key}={}", first(of)?)));
        let pairs = pairs.collect::<Vec<_>>().join(", ");
        if pairs.is_empty() { name.into() } else { format!("{name}({pairs})") }
    };
    vec![form(false), form(true)]
}

/// Declares a choice of laws that documents write as a word, each registered by a line `module: Law`: its own ones,
/// then those of `law::distribution`.
macro_rules! choice_of_laws {
    // All laws that quantities share.
    (
        $(#[$doc:meta])*
        $choice:ident($term:literal);
        $(#[$running_doc:meta])*
        $running:ident: $method:ident(&$($mutable:ident)?) -> $outcome:ty;
        all of $quantity:ident
    ) => {
        crate::law::choice_of_laws! {
            $(#[$doc])* $choice($term): Rule;
            $(#[$running_doc])* $running: $method(&$($mutable)?) -> $outcome;
            {}
            of $quantity {
                constant: Constant,
                uniform: Uniform,
                exponential: Exponential,
                pareto: Pareto,
                cauchy: Cauchy,
                normal: Normal,
                log_normal: LogNormal,
                poisson: Poisson,
                gamma: Gamma,
                weibull: Weibull,
                student: Student,
                alternate: Alternate,
                increasing: Increasing,
                decreasing: Decreasing,
                histogram: Histogram,
                quantiles: Quantiles,
                table: Table,
                mixture: Mixture,
                values: Values,
            }
        }

        impl $choice {
            /// Its moments after clamping, in the unit of its values.
            pub(crate) fn moments(&self) -> crate::law::distribution::Moments {
                self.rule().moments()
            }

            /// Checks the law; `at` is its path in the document.
            pub(crate) fn check(&self, at: &str) -> Result<(), ModelError> {
                self.check_parameters(at)
            }

            /// The number of tables that it draws from.
            pub(crate) fn tables(&self) -> usize {
                self.rule().tables()
            }
        }
    };
    (
        $(#[$doc:meta])*
        $choice:ident($term:literal): $rule:ident;
        $(#[$running_doc:meta])*
        $running:ident: $method:ident(&$($mutable:ident)?) -> $outcome:ty;
        { $($own:ident: $own_law:ident,)* }
        of $quantity:ident { $($shared:ident: $shared_law:ident,)* }
    ) => {
        $(mod $own; use $own::$own_law;)*
        $(type $shared_law = crate::law::distribution::$shared_law<$quantity>;)*

        crate::law::choice_of_laws! {
            @ $(#[$doc])* $choice($term): $rule;
            $(#[$running_doc])* $running: $method(&$($mutable)?) -> $outcome;
            { $($own: $own_law,)* $($shared: $shared_law,)* }
        }
    };
    (
        @ $(#[$doc:meta])*
        $choice:ident($term:literal): $rule:ident;
        $(#[$running_doc:meta])*
        $running:ident: $method:ident(&$($mutable:ident)?) -> $outcome:ty;
        { $($module:ident: $law:ident,)* }
    ) => {

        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq)]
        #[allow(missing_docs, reason = "each law describes itself")]
        pub enum $choice {
            $($law($law),)*
        }

        static FORM: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
            crate::law::forms("", &[$(<$law as Law>::SHORT_FORMS),*], &$choice::names())
        });

        impl $choice {
            fn stated(&self) -> (&'static str, &dyn crate::law::Stated) {
                match self { $(Self::$law(law) => (stringify!($module), law),)* }
            }

            fn rule(&self) -> &dyn $rule {
                match self { $(Self::$law(law) => law,)* }
            }

            fn read(words: &mut crate::law::Words) -> Result<Self, ModelError> {
                if words.has_arguments() {
                    let name = words.next()?;
                    $(if name == stringify!($module) {
                        return words.arguments(stringify!($module), $term).map(Self::$law);
                    })*
                    return Err(words.bad());
                }
                $({
                    let mut ahead = words.clone();
                    if let Some(law) = <$law as Law>::read_short(&mut ahead)? {
                        *words = ahead;
                        return Ok(Self::$law(law));
                    }
                })*
                // The name alone: what the law requires is refused by its key.
                $(if words.took_last(stringify!($module)) {
                    return words.arguments(stringify!($module), $term).map(Self::$law);
                })*
                Err(words.bad())
            }

            /// The schema of each law.
            #[cfg(test)]
            pub(crate) fn laws() -> Vec<(&'static str, schemars::Schema)> {
                let mut generator = schemars::SchemaGenerator::default();
                vec![$((stringify!($module), <$law as JsonSchema>::json_schema(&mut generator)),)*]
            }

            /// Checks the law's parameters; `at` is its path in the document.
            fn check_parameters(&self, at: &str) -> Result<(), ModelError> {
                let (name, law) = self.stated();
                law.check(&format!("{at}.{name}"))
            }

            /// The names of the laws to choose from, in display order.
            #[must_use]
            pub fn names() -> Vec<&'static str> {
                let all = [$((stringify!($module), <$law as Law>::IS_SUMMARY)),*];
                all.into_iter().filter(|(_, is_summary)| !is_summary).map(|(name, _)| name).collect()
            }

            /// The accepted forms in documents and flags.
            #[must_use]
            pub fn form() -> &'static str {
                &FORM
            }

            /// The law before its first packet.
            #[must_use]
            pub fn start(&self) -> $running {
                match self { $(Self::$law(law) => $running::$law(law.start()),)* }
            }
        }

        impl std::str::FromStr for $choice {
            type Err = ModelError;
            fn from_str(text: &str) -> Result<Self, ModelError> {
                let (before, arguments, behind) = crate::law::parenthesised(text);
                let list = crate::law::words_of(&format!("{before} {behind}"));
                let mut words = crate::law::Words::new($term, text, &FORM, &list, arguments);
                let law = Self::read(&mut words)?;
                words.end()?;
                law.check_parameters($term)?;
                Ok(law)
            }
        }

        impl std::fmt::Display for $choice {
            fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                let (name, law) = self.stated();
                f.pad(&law.text(name))
            }
        }

        crate::law::word_of_laws!($choice, $($law = $module),*);

        $(#[$running_doc])*
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs, reason = "each law describes itself")]
        pub enum $running {
            $($law(<$law as Law>::Running),)*
        }

        impl $running {
            /// The decision for the next packet; `draws` are those of its position.
            #[inline]
            pub fn $method(&$($mutable)? self, draws: &mut Draws<'_>) -> $outcome {
                match self { $(Self::$law(running) => running.$method(draws),)* }
            }
        }
    };
}
pub(crate) use choice_of_laws;

/// Reads and writes a choice of laws in documents: a word, or a number as a word.
macro_rules! word_of_laws {
    ($choice:ident, $($law:ident = $module:ident),*) => {
        impl Serialize for $choice {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $choice {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Word;
                impl<'de> serde::de::Visitor<'de> for Word {
                    type Value = $choice;
                    fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                        f.write_str(&FORM)
                    }
                    fn visit_newtype_struct<D>(self, deserializer: D) -> Result<$choice, D::Error>
                    where
                        D: serde::Deserializer<'de>,
                    {
                        deserializer.deserialize_any(self)
                    }
                    fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<$choice, E> {
                        word.parse().map_err(crate::document::refused)
                    }
                    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<$choice, E> {
                        self.visit_str(&number.to_string())
                    }
                    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<$choice, E> {
                        self.visit_str(&number.to_string())
                    }
                    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<$choice, E> {
                        self.visit_str(&number.to_string())
                    }
                }
                // As a named newtype, so that a law within a law may be a number.
                deserializer.deserialize_newtype_struct(crate::law::LAW, Word)
            }
        }

        impl JsonSchema for $choice {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                concat!(stringify!($choice), "Law").into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let examples = [$(crate::law::examples::<$law>(stringify!($module))),*];
                let examples = examples.into_iter().filter_map(|forms| {
                    forms.into_iter().find_map(|text| text.parse::<$choice>().ok())
                });
                let examples: Vec<String> = examples.map(|law| law.to_string()).collect();
                schemars::json_schema!({
                    "type": ["string", "number"],
                    "description": FORM.as_str(),
                    "examples": examples,
                })
            }
        }
    };
}
pub(crate) use word_of_laws;

/// The error of a field; an empty `field` is the object at `at` itself.
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
