//! Triggers: when the laws of a flow and direction are applied.
//!
//! Before the start condition is met, and from the stop condition on, packets are counted and forwarded without
//! laws. The packet that meets a condition is the first in the new state.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::value::{whole, word_serde};
use super::{Filter, Impairment};
use crate::ModelError;
use crate::document;
use crate::law::{refuse, split_list, words_of};
use crate::units::{ByteSize, Span};

/// Name of the term and of the field.
pub(super) const TERM: &str = "trigger";
/// The accepted form of the term.
pub(super) const FORM: &str = "trigger [CONDITION] [stop CONDITION [rearm [repeat N]]], with CONDITION after Npackets, after B \
    (bytes), after T, match(FIELD=VALUE, …) or command, such as trigger after 100packets stop after 5s";
const CONDITION_FORM: &str = "after 100packets, after 64K (bytes; K is 1024), after 10s, match(protocol=udp, destination_port=5001) \
    or command";
/// Stands for a space within a word.
const JOINT: char = '\u{1f}';
/// Maximum number of conditions of an impairment that match packets: each has classification tables of its own, and a bit
/// in what the engine knows of a packet.
pub const MAX_MATCH_CONDITIONS: usize = 32;

/// What starts or stops the application of laws. It counts from the time at which the trigger waits for it: the
/// start of the emulator or of this configuration, or the change to this state.
#[derive(Debug, Clone, PartialEq)]
pub enum TriggerCondition {
    /// After this number of packets: the next one meets it.
    Packets(u64),
    /// After packets of this total length: the next one meets it. Frames without check sequence.
    Bytes(ByteSize),
    /// After this time, whether or not a packet arrives.
    Time(Span),
    /// A packet that matches, as it travels in this direction: source and destination are not swapped.
    Match(Box<Filter>),
    /// A command to the running emulator.
    Command,
}

/// State of a trigger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TriggerState {
    /// The laws are not applied before the start condition is met.
    Waiting,
    /// The laws are applied.
    Applying,
    /// The laws were applied and will not be applied again.
    Done,
}

impl TriggerState {
    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            TriggerState::Waiting => "waiting",
            TriggerState::Applying => "applying",
            TriggerState::Done => "done",
        }
    }
}

/// When the laws of a flow and direction are applied.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(transform = crate::schema::in_order::<Trigger>)]
pub struct Trigger {
    /// Condition that starts the application. Absent: it starts immediately.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<TriggerCondition>,
    /// Condition that stops it, counted from its start. Absent: it does not stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<TriggerCondition>,
    /// `true`: after a stop, the trigger waits for the start condition again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(title = "Re-arm")]
    pub rearm: bool,
    /// How many times the laws are applied at most, at least 1. Absent: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), example = 3)]
    pub repeat: Option<u32>,
}

impl Trigger {
    /// Reads the term, with its name.
    pub(super) fn read(term: &str) -> Result<Self, ModelError> {
        let bad = || ModelError::Value { what: "impairment", given: term.into(), accepted: FORM };
        let words = words(term);
        let mut rest = words.iter().map(String::as_str).skip(1).peekable();
        if rest.peek().is_none() {
            return Err(bad());
        }
        let mut trigger = Trigger::default();
        if rest.peek() != Some(&"stop") {
            trigger.start = Some(TriggerCondition::read(&mut rest, term, FORM)?);
        }
        if rest.next_if_eq(&"stop").is_some() {
            trigger.stop = Some(TriggerCondition::read(&mut rest, term, FORM)?);
            trigger.rearm = rest.next_if_eq(&"rearm").is_some();
            if trigger.rearm && rest.next_if_eq(&"repeat").is_some() {
                let times = rest.next().and_then(whole).ok_or_else(bad)?;
                trigger.repeat = Some(times);
            }
        }
        if rest.next().is_some() {
            return Err(bad());
        }
        Ok(trigger)
    }

    /// Checks it; `at` is its path in the document.
    ///
    /// # Errors
    /// [`ModelError::Field`] naming the first field that can't be run.
    pub(super) fn check(&self, at: &str) -> Result<(), ModelError> {
        for (field, condition) in [("start", &self.start), ("stop", &self.stop)] {
            match condition {
                Some(
                    TriggerCondition::Packets(0)
                    | TriggerCondition::Bytes(ByteSize(0))
                    | TriggerCondition::Time(Span(0)),
                ) => {
                    return refuse(at, field, "after 0", "1 or more");
                }
                Some(TriggerCondition::Match(filter)) => filter.check(&format!("{at}.{field}"))?,
                _ => {}
            }
        }
        if self.rearm && (self.start.is_none() || self.stop.is_none()) {
            return refuse(at, "rearm", "true", "false without both start and stop");
        }
        if self.repeat.is_some() && !self.rearm {
            return refuse(at, "repeat", self.repeat.unwrap_or_default(), "nothing without rearm");
        }
        if self.repeat == Some(0) {
            return refuse(at, "repeat", 0, "1 or more");
        }
        Ok(())
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(TERM)?;
        if let Some(start) = &self.start {
            write!(f, " {start}")?;
        }
        if let Some(stop) = &self.stop {
            write!(f, " stop {stop}")?;
        }
        if self.rearm {
            f.write_str(" rearm")?;
        }
        if let Some(times) = self.repeat {
            write!(f, " repeat {times}")?;
        }
        Ok(())
    }
}

/// Words of a text. Text in parentheses belongs to the word before it, with [`JOINT`] for its spaces.
fn words(text: &str) -> Vec<String> {
    let mut depth = 0_usize;
    let join = |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > 0 && c.is_whitespace() { JOINT } else { c }
    };
    words_of(&text.chars().map(join).collect::<String>())
}

impl TriggerCondition {
    /// Reads a condition of `term`; `form` is the accepted form of that.
    fn read<'a>(
        words: &mut impl Iterator<Item = &'a str>,
        term: &str,
        form: &'static str,
    ) -> Result<Self, ModelError> {
        let bad = || ModelError::Value { what: "impairment", given: term.into(), accepted: form };
        match words.next() {
            Some("command") => Ok(TriggerCondition::Command),
            Some("after") => words.next().and_then(TriggerCondition::after).ok_or_else(bad),
            Some(word) => {
                let arguments = word.strip_prefix("match(").and_then(|rest| rest.strip_suffix(')'));
                let arguments = arguments.filter(|text| !text.is_empty()).ok_or_else(bad)?;
                let arguments = arguments.replace(JOINT, " ");
                Ok(TriggerCondition::Match(Box::new(filter(&arguments)?)))
            }
            None => Err(bad()),
        }
    }

    /// A number of packets, a size or a time with its unit.
    fn after(word: &str) -> Option<Self> {
        if let Some(number) = word.strip_suffix("packets").or_else(|| word.strip_suffix("packet")) {
            return number
                .parse()
                .ok()
                .filter(|_| !number.starts_with('+'))
                .map(TriggerCondition::Packets);
        }
        // A time ends with a lower-case letter; a size with a digit or an upper-case letter.
        if word.ends_with(|c: char| c.is_ascii_lowercase()) {
            return word.parse().ok().map(TriggerCondition::Time);
        }
        word.parse().ok().map(TriggerCondition::Bytes)
    }
}

/// A filter from `field=value, …`. A part without a field continues the value before it, as in `vlan=1,5`.
fn filter(arguments: &str) -> Result<Filter, ModelError> {
    let at = |key: &str| format!("impairment.{TERM}.match.{key}");
    let mut fields: Vec<(&str, String)> = vec![];
    for part in split_list(arguments) {
        match (part.split_once('='), fields.last_mut()) {
            (Some((key, value)), _) => fields.push((key.trim(), value.trim().to_owned())),
            (None, Some((_, value))) => *value += &format!(",{part}"),
            (None, None) => {
                let accepted = "FIELD=VALUE, such as protocol=udp".to_owned();
                let field = format!("impairment.{TERM}.match");
                return Err(ModelError::Field { field, given: part.into(), accepted });
            }
        }
    }
    let mut tree = Map::new();
    for (key, value) in fields {
        if tree.insert(key.to_owned(), Value::String(value)).is_some() {
            let accepted = "each field once".to_owned();
            return Err(ModelError::Field { field: at(key), given: key.into(), accepted });
        }
    }
    document::read(&Value::Object(tree)).map_err(|error| ModelError::Field {
        field: at(&error.field).trim_end_matches('.').to_owned(),
        accepted: error.accepted_with_hint(),
        given: error.given,
    })
}

impl FromStr for TriggerCondition {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let words = words(text);
        let mut rest = words.iter().map(String::as_str);
        let condition = TriggerCondition::read(&mut rest, text, CONDITION_FORM)?;
        match rest.next() {
            None => Ok(condition),
            Some(_) => Err(ModelError::Value {
                what: "impairment",
                given: text.into(),
                accepted: CONDITION_FORM,
            }),
        }
    }
}

impl fmt::Display for TriggerCondition {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            TriggerCondition::Packets(1) => f.write_str("after 1packet"),
            TriggerCondition::Packets(n) => write!(f, "after {n}packets"),
            TriggerCondition::Bytes(size) => write!(f, "after {size}"),
            TriggerCondition::Time(span) => write!(f, "after {span}"),
            TriggerCondition::Match(filter) => {
                // A filter is a table of plain values.
                let value = serde_json::to_value(filter).unwrap_or_default();
                let fields = value.as_object().into_iter().flatten();
                let text = |value: &Value| match value {
                    Value::String(text) => text.clone(),
                    value => value.to_string(),
                };
                let fields = fields.map(|(key, value)| format!("{key}={}", text(value)));
                write!(f, "match({})", fields.collect::<Vec<_>>().join(", "))
            }
            TriggerCondition::Command => f.write_str("command"),
        }
    }
}

word_serde!(
    TriggerCondition,
    "after 100packets, after 64K (bytes), after 10s, match(FIELD=VALUE, …) with fields of a filter, or command",
    [
        "after 100packets",
        "after 64K",
        "after 10s",
        "match(protocol=udp, destination_port=5001)",
        "command"
    ]
);

impl Impairment {
    /// The triggers of all flows and directions, those of the timeline included.
    fn triggers(&self) -> impl Iterator<Item = &Trigger> {
        self.all_laws().filter_map(|laws| laws.trigger.as_ref())
    }

    /// Whether the laws of any flow have a trigger.
    #[must_use]
    pub fn has_triggers(&self) -> bool {
        self.triggers().next().is_some()
    }

    /// The filters of all conditions that match packets, in any order.
    pub fn match_filters(&self) -> impl Iterator<Item = &Filter> {
        let conditions = self.triggers().flat_map(|trigger| [&trigger.start, &trigger.stop]);
        conditions.flatten().filter_map(|condition| match condition {
            TriggerCondition::Match(filter) => Some(&**filter),
            _ => None,
        })
    }

    /// Checks the number of conditions that match packets.
    pub(super) fn check_match_conditions(&self) -> Result<(), ModelError> {
        let count = self.match_filters().count();
        if count > MAX_MATCH_CONDITIONS {
            let accepted = format!("at most {MAX_MATCH_CONDITIONS} conditions that match packets");
            return super::refuse("flow".into(), &format!("{count} of them"), &accepted);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Refusal;
    use crate::impairment::Laws;

    #[test]
    fn triggers_are_printed_in_canonical_form() {
        for (given, printed) in [
            ("trigger after 100 packets", "trigger after 100packets"),
            ("trigger after 1packets", "trigger after 1packet"),
            ("trigger after 64K stop after 2.5s", "trigger after 64K stop after 2.5s"),
            ("loss 5%, trigger stop after 1m", "loss 5%, trigger stop after 60s"),
            (
                "trigger match( destination_port=80, 443,protocol=tcp ) stop command rearm loss 5%",
                "loss 5%, trigger match(destination_port=80,443, protocol=tcp) stop command rearm",
            ),
            (
                "trigger match(bytes=40/f0 at l4+12, tcp_flags=syn/syn,ack, source_port=not 22,80)",
                "trigger match(bytes=40/f0 at l4+12, source_port=not 22,80, tcp_flags=syn/syn,ack)",
            ),
            (
                "trigger command stop match(dscp=46, vlan=1-5) rearm repeat 3",
                "trigger command stop match(dscp=ef, vlan=1-5) rearm repeat 3",
            ),
        ] {
            let laws: Laws = given.parse().unwrap_or_else(|e| panic!("{given}: {e}"));
            let text = laws.to_string();
            assert_eq!(text, printed);
            assert_eq!(text.parse::<Laws>().as_ref(), Ok(&laws), "{text}");
            let tree = serde_json::to_value(&laws).unwrap();
            assert_eq!(document::read::<Laws>(&tree).as_ref(), Ok(&laws), "{tree}");
        }
    }

    #[test]
    fn an_invalid_trigger_is_refused_by_its_field() {
        for (given, named) in [
            ("trigger", "trigger"),
            ("trigger soon", "trigger soon"),
            ("trigger after", "trigger after"),
            ("trigger after +5packets", "trigger after +5packets"),
            ("trigger after 0s", "trigger.start"),
            ("trigger stop after 0packets", "trigger.stop"),
            ("trigger match()", "trigger match()"),
            ("trigger match(udp)", "trigger.match"),
            ("trigger match(vlan=1, vlan=2)", "trigger.match.vlan"),
            ("trigger match(vlan=x)", "trigger.match.vlan"),
            ("trigger match(vlan=4096)", "trigger.start.vlan"),
            ("trigger match(colour=red)", "colour"),
            ("trigger after 5s rearm", "rearm"),
            ("trigger stop after 5s rearm", "trigger.rearm"),
            ("trigger after 5s stop after 5s rearm repeat 0", "trigger.repeat"),
            ("trigger after 5s, trigger command", "trigger twice"),
        ] {
            let refusal = Refusal::from(&given.parse::<Laws>().unwrap_err());
            let all = [refusal.field, refusal.given].map(Option::unwrap_or_default).join(" ");
            assert!(all.contains(named), "{given}: {all}");
        }
    }

    #[test]
    fn conditions_that_match_packets_are_limited() {
        let with = |n: usize| {
            let flows = (0..n).map(|i| {
                format!("[[flow]]\nname = \"f{i}\"\na_to_b = \"trigger match(vlan={i})\"\n")
            });
            let flows: String = flows.collect();
            Impairment::parse(&format!("schema = \"weir.impair/1\"\n{flows}"))
        };
        assert!(with(MAX_MATCH_CONDITIONS).is_ok());
        assert!(with(MAX_MATCH_CONDITIONS + 1).is_err());
    }
}
