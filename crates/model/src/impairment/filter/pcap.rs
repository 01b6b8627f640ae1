//! Conditions by pcap filter expressions.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Filter;
use crate::ModelError;
use crate::impairment::{Impairment, Laws, TriggerCondition, refuse};

const FORM: &str = "an expression of pcap-filter(7) such as tcp port 80 and not host 10.0.0.1: at most 1024 printable ASCII \
    characters, no commas, balanced parentheses";
/// libpcap's time to compile grows with the cube of the length: tenths of a second at this length, ten seconds at four times
/// that.
const MAX_LENGTH: usize = 1024;
/// Maximum number of pcap expressions of an impairment.
pub const MAX_PCAP_EXPRESSIONS: usize = 256;

/// An instruction of classic BPF (McCanne and Jacobson 1993): opcode, jump offsets and constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BpfInstruction {
    /// Class, size, mode, operation and source of the operand.
    pub code: u16,
    /// Number of instructions to skip if the comparison is true.
    pub jt: u8,
    /// Number of instructions to skip if it is false.
    pub jf: u8,
    /// The constant.
    pub k: u32,
}

/// An expression of pcap-filter(7). Only libpcap knows its language, so that it is compiled where system libraries may be
/// used, and its program is added here. Two expressions with the same text are equal, compiled or not.
#[derive(Debug, Clone)]
pub struct PcapExpression {
    text: String,
    program: OnceLock<Vec<BpfInstruction>>,
}

impl PcapExpression {
    /// The expression.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The compiled program; `None` before [`Self::set_program`].
    #[must_use]
    pub fn program(&self) -> Option<&[BpfInstruction]> {
        self.program.get().map(Vec::as_slice)
    }

    /// Adds the compiled program, unless there is one.
    pub fn set_program(&self, program: Vec<BpfInstruction>) {
        self.program.get_or_init(|| program);
    }
}

impl PartialEq for PcapExpression {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// Whether each parenthesis has its partner, so that an expression ends where the `match(…)` around it does.
fn is_balanced(text: &str) -> bool {
    let depth = text.chars().try_fold(0_usize, |depth, c| match c {
        '(' => Some(depth + 1),
        ')' => depth.checked_sub(1),
        _ => Some(depth),
    });
    depth == Some(0)
}

impl FromStr for PcapExpression {
    type Err = ModelError;
    fn from_str(given: &str) -> Result<Self, ModelError> {
        let words: Vec<&str> = given.split_whitespace().collect();
        // In laws in one line, `+-` is another spelling of ±.
        let text = words.join(" ").replace("+-", "+ -");
        let is_printable = text.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b',');
        if !(1..=MAX_LENGTH).contains(&text.len()) || !is_printable || !is_balanced(&text) {
            return Err(ModelError::Value { what: "pcap", given: given.into(), accepted: FORM });
        }
        Ok(PcapExpression { text, program: OnceLock::new() })
    }
}

impl fmt::Display for PcapExpression {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for PcapExpression {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for PcapExpression {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct V;
        impl Visitor<'_> for V {
            type Value = PcapExpression;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str(FORM)
            }
            fn visit_str<E: de::Error>(self, v: &str) -> Result<PcapExpression, E> {
                v.parse().map_err(crate::document::refused)
            }
        }
        deserializer.deserialize_str(V)
    }
}

impl JsonSchema for PcapExpression {
    fn schema_name() -> Cow<'static, str> {
        "PcapExpression".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": FORM,
            "examples": ["tcp port 80 and not host 10.0.0.1", "icmp or udp portrange 5000-5010", "ip[8] < 5"],
        })
    }
}

/// Expressions, each with its path in the document.
#[derive(Default)]
struct Found<'a>(Vec<(String, &'a PcapExpression)>);

impl<'a> Found<'a> {
    fn add(&mut self, filter: Option<&'a Filter>, at: impl Fn() -> String) {
        let expression = filter.and_then(|filter| filter.pcap.as_ref());
        self.0.extend(expression.map(|expression| (format!("{}.pcap", at()), expression)));
    }

    fn add_laws(&mut self, laws: Option<&'a Laws>, at: impl Fn() -> String) {
        let Some(trigger) = laws.and_then(|laws| laws.trigger.as_ref()) else { return };
        for (field, condition) in [("start", &trigger.start), ("stop", &trigger.stop)] {
            if let Some(TriggerCondition::Match(filter)) = condition {
                self.add(Some(filter), || format!("{}.trigger.{field}", at()));
            }
        }
    }
}

impl Impairment {
    /// The pcap expressions of all filters, those of groups, triggers and the timeline included, each with its path in the
    /// document.
    #[must_use]
    pub fn pcap_expressions(&self) -> Vec<(String, &PcapExpression)> {
        let mut found = Found::default();
        for (i, group) in self.filter_groups.iter().enumerate() {
            for (n, filter) in group.filters.iter().enumerate() {
                found.add(Some(filter), || format!("filter_group[{i}].filters[{n}]"));
            }
        }
        for (i, flow) in self.flows.iter().enumerate() {
            found.add(flow.filter.as_ref(), || format!("flow[{i}].filter"));
            found.add(flow.filter_a.as_ref(), || format!("flow[{i}].filter_a"));
            found.add(flow.filter_b.as_ref(), || format!("flow[{i}].filter_b"));
            found.add_laws(Some(&flow.a_to_b), || format!("flow[{i}].a_to_b"));
            found.add_laws(Some(&flow.b_to_a), || format!("flow[{i}].b_to_a"));
        }
        found.add_laws(Some(&self.other.a_to_b), || "other.a_to_b".into());
        found.add_laws(Some(&self.other.b_to_a), || "other.b_to_a".into());
        let changes = self.timeline.iter().flat_map(|timeline| &timeline.changes);
        for (i, change) in changes.enumerate() {
            found.add_laws(change.a_to_b.as_ref(), || format!("timeline.change[{i}].a_to_b"));
            found.add_laws(change.b_to_a.as_ref(), || format!("timeline.change[{i}].b_to_a"));
        }
        found.0
    }

    /// Checks the number of pcap expressions.
    pub(in crate::impairment) fn check_pcap_expressions(&self) -> Result<(), ModelError> {
        let count = self.pcap_expressions().len();
        if count > MAX_PCAP_EXPRESSIONS {
            let accepted = format!("at most {MAX_PCAP_EXPRESSIONS} pcap expressions");
            return refuse("flow".into(), &format!("{count} of them"), &accepted);
        }
        Ok(())
    }
}
