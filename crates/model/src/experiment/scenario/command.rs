//! Commands of a scenario, and expectations of what they print, return and take.

use std::str::FromStr;

use regex_lite::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{inside, refuse};
use crate::ModelError;
use crate::experiment::{Comparison, Unit};

/// A command of the person who runs the scenario.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CommandStep {
    /// Program and arguments; no shell reads them.
    pub run: Vec<String>,
    /// The host of the lab that runs it. Absent: this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The expected exit code. Default 0; of a command in the background that is stopped, any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Runs while later steps do, until a step stops it (`stop = { command = "NAME" }`) or the scenario ends.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
    /// In the background: the step is done when this is the case. Absent: when the command has started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<Readiness>,
}

/// When a command in the background is ready, within the step's `timeout` (default 20 s). One of them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Readiness {
    /// A socket on its host listens on this TCP port, or is bound to this UDP port.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub port: Option<u16>,
    /// A line of its output contains this text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
}

impl CommandStep {
    pub(super) fn check(
        &self,
        expect: &[String],
        at: &str,
        expect_at: &str,
    ) -> Result<(), ModelError> {
        if self.run.first().is_none_or(String::is_empty) {
            return refuse(&format!("{at}.run"), "nothing", "a program and its arguments");
        }
        if let Some(ready) = &self.ready {
            let at = format!("{at}.ready");
            if !self.background {
                return refuse(&at, "without background", "background = true with it");
            }
            match (ready.port, ready.line.as_deref()) {
                (Some(0), _) => return refuse(&format!("{at}.port"), "0", "1 to 65535"),
                (Some(_), None) => {}
                (None, Some(line)) if !line.is_empty() => {}
                _ => return refuse(&at, "neither or both", "one of port and line"),
            }
        }
        let rules: Result<Vec<CommandRule>, _> = expect.iter().map(|text| text.parse()).collect();
        let rules = rules.map_err(|e| inside(expect_at, e))?;
        let judges_code = rules.iter().any(|rule| rule.figure == CommandFigure::ExitCode);
        if judges_code && self.exit_code.is_some() {
            return refuse(
                &format!("{at}.exit_code"),
                "with an expectation of exit_code",
                "one of them",
            );
        }
        Ok(())
    }
}

/// What an expectation of a command is about.
#[derive(Debug, Clone, PartialEq)]
pub enum CommandFigure {
    /// The time that it ran.
    Duration,
    /// Its exit code.
    ExitCode,
    /// The number of such lines of its output.
    Lines(LineTest),
}

/// Which lines of a command's output count.
#[derive(Debug, Clone)]
pub enum LineTest {
    /// Those that contain this text.
    Text(String),
    /// Those in which this pattern matches.
    Pattern(Regex),
}

impl LineTest {
    /// Whether this line counts.
    #[must_use]
    pub fn is_met(&self, line: &str) -> bool {
        match self {
            LineTest::Text(text) => line.contains(text.as_str()),
            LineTest::Pattern(pattern) => pattern.is_match(line),
        }
    }
}

impl PartialEq for LineTest {
    fn eq(&self, other: &LineTest) -> bool {
        match (self, other) {
            (LineTest::Text(this), LineTest::Text(other)) => this == other,
            (LineTest::Pattern(this), LineTest::Pattern(other)) => this.as_str() == other.as_str(),
            _ => false,
        }
    }
}

/// One expectation of a command: `duration < 2 s`, `exit_code == 1`, or of its output.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandRule {
    /// As it was written.
    pub text: String,
    /// The figure.
    pub figure: CommandFigure,
    /// The comparison.
    pub comparison: Comparison,
    /// The bound, in seconds for a duration.
    pub bound: f64,
}

impl FromStr for CommandRule {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        const FORM: &str = "an expectation of a command: 'duration < 2 s', 'exit_code == 1' or \
                            'output contains TEXT'";
        const VERBS: [(&str, bool, bool); 4] = [
            ("contains", false, true),
            ("lacks", false, false),
            ("matches", true, true),
            ("does not match", true, false),
        ];
        let refuse = |given: &str, accepted: &str| ModelError::Field {
            field: format!("expectation '{text}'"),
            given: given.into(),
            accepted: accepted.into(),
        };
        let rule = |figure, comparison, bound| {
            Ok(CommandRule { text: text.into(), figure, comparison, bound })
        };
        if let Some(rest) = text.trim().strip_prefix("output ").map(str::trim) {
            let found = VERBS.iter().find_map(|(verb, is_pattern, is_wanted)| {
                let wanted = rest.strip_prefix(verb)?;
                let ends = wanted.is_empty() || wanted.starts_with(char::is_whitespace);
                ends.then(|| (unquoted(wanted.trim()), *is_pattern, *is_wanted))
            });
            let Some((wanted, is_pattern, is_wanted)) = found else {
                let accepted =
                    "output contains TEXT, lacks TEXT, matches PATTERN or does not match PATTERN";
                return Err(refuse(rest.split(' ').next().unwrap_or_default(), accepted));
            };
            if wanted.is_empty() {
                return Err(refuse("no text", FORM));
            }
            let test =
                match is_pattern {
                    false => LineTest::Text(wanted.into()),
                    true => LineTest::Pattern(Regex::new(wanted).map_err(|error| {
                        refuse(wanted, &format!("a regular expression ({error})"))
                    })?),
                };
            let (comparison, bound) =
                if is_wanted { (Comparison::AtLeast, 1.0) } else { (Comparison::Equal, 0.0) };
            return rule(CommandFigure::Lines(test), comparison, bound);
        }
        let (name, comparison, bound) =
            Comparison::split(text).ok_or_else(|| refuse("no comparison", FORM))?;
        match name.trim() {
            "duration" => {
                let seconds = Unit::Seconds.read(bound);
                let accepted = Unit::Seconds.accepted();
                rule(
                    CommandFigure::Duration,
                    comparison,
                    seconds.ok_or_else(|| refuse(bound, accepted))?,
                )
            }
            "exit_code" => {
                let code: i32 = bound.parse().map_err(|_| refuse(bound, "a whole number"))?;
                rule(CommandFigure::ExitCode, comparison, code.into())
            }
            other => Err(refuse(other, FORM)),
        }
    }
}

/// A text without the quotes around it, if it has them.
fn unquoted(text: &str) -> &str {
    let within = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    within('\'').or_else(|| within('"')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Refusal;

    #[test]
    fn expectations_of_commands_are_parsed() {
        use Comparison::{AtLeast, Equal, Less, NotEqual};
        let lines = |text: &str| CommandFigure::Lines(LineTest::Text(text.into()));
        let matches =
            |text: &str| CommandFigure::Lines(LineTest::Pattern(Regex::new(text).unwrap()));
        for (text, figure, comparison, bound) in [
            ("duration < 1500 ms", CommandFigure::Duration, Less, 1.5),
            ("exit_code != 0", CommandFigure::ExitCode, NotEqual, 0.0),
            ("exit_code==-1", CommandFigure::ExitCode, Equal, -1.0),
            ("output contains 0 errors", lines("0 errors"), AtLeast, 1.0),
            ("output  contains ' a < b '", lines(" a < b "), AtLeast, 1.0),
            ("output lacks \"panic\"", lines("panic"), Equal, 0.0),
            (r"output matches ^rtt \d+ ms$", matches(r"^rtt \d+ ms$"), AtLeast, 1.0),
            ("output does not match '[1-9] errors'", matches("[1-9] errors"), Equal, 0.0),
        ] {
            let rule: CommandRule = text.parse().unwrap();
            assert_eq!((rule.figure, rule.comparison, rule.bound), (figure, comparison, bound));
        }
        for (text, given) in [
            ("throughput > 1 M", "throughput"),
            ("output contains", "no text"),
            ("output equals x", "equals"),
            ("output containsx y", "containsx"),
            ("output matches", "no text"),
            ("output matches 'a(b'", "a(b"),
            ("output does not match [z-a]", "[z-a]"),
            ("duration < 2", "2"),
            ("exit_code == x", "x"),
            ("done", "no comparison"),
        ] {
            let refusal = Refusal::from(&text.parse::<CommandRule>().unwrap_err());
            assert_eq!(refusal.given.as_deref(), Some(given), "{text}");
        }
    }

    #[test]
    fn what_a_command_can_not_have_is_refused() {
        let run = vec!["true".to_owned()];
        let field = |step: CommandStep, expect: &[&str]| {
            let expect: Vec<String> = expect.iter().map(ToString::to_string).collect();
            Refusal::from(&step.check(&expect, "c", "e").unwrap_err()).field.unwrap()
        };
        let ready = |port, line: Option<&str>| {
            let ready = Some(Readiness { port, line: line.map(Into::into) });
            CommandStep { run: run.clone(), background: true, ready, ..CommandStep::default() }
        };
        assert_eq!(field(CommandStep::default(), &[]), "c.run");
        assert_eq!(field(ready(None, None), &[]), "c.ready");
        assert_eq!(field(ready(Some(80), Some("x")), &[]), "c.ready");
        assert_eq!(field(ready(None, Some("")), &[]), "c.ready");
        assert_eq!(field(ready(Some(0), None), &[]), "c.ready.port");
        let fore = CommandStep { background: false, ..ready(Some(80), None) };
        assert_eq!(field(fore, &[]), "c.ready");
        let coded = CommandStep { run: run.clone(), exit_code: Some(1), ..CommandStep::default() };
        assert_eq!(field(coded, &["exit_code == 1"]), "c.exit_code");
        assert!(ready(Some(80), None).check(&["duration < 1 s".into()], "c", "e").is_ok());
    }
}
