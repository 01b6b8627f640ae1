//! Options of a protocol's command: declarations and given values.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use weir_model::Refusal;

/// How an option is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// By a letter: `-n`.
    Letter(char),
    /// By its name: `--tcp-info`. For what the tool has no letter for.
    Long,
    /// By its place.
    Positional,
}

/// One option of a command.
#[derive(Debug)]
pub struct Opt {
    /// Name, as used in jobs and refusals.
    pub name: &'static str,
    /// How it is typed.
    pub form: Form,
    /// Name of its value in the help; absent: it has no value.
    pub value: Option<&'static str>,
    /// One line of help.
    pub help: &'static str,
}

/// The refusal of an option.
pub(crate) fn refuse(name: &str, given: &str, accepted: impl Into<String>) -> Box<Refusal> {
    Box::new(Refusal::of_field("usage", name, given, accepted))
}

/// The given options, by name. An option without a value has an empty one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Given(BTreeMap<String, String>);

impl Given {
    /// Checks the given options against the declared ones.
    ///
    /// # Errors
    /// An undeclared name.
    pub fn new(
        options: impl IntoIterator<Item = (String, String)>,
        declared: &[Opt],
    ) -> Result<Given, Box<Refusal>> {
        let given: BTreeMap<_, _> = options.into_iter().collect();
        match given.iter().find(|(name, _)| declared.iter().all(|opt| opt.name != *name)) {
            None => Ok(Given(given)),
            Some((name, value)) => {
                let names: Vec<&str> = declared.iter().map(|opt| opt.name).collect();
                Err(refuse(name, value, names.join(", ")))
            }
        }
    }

    /// Whether an option was given.
    #[must_use]
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The value of an option.
    #[must_use]
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The value of an option as a number.
    ///
    /// # Errors
    /// A value that is not a number in `range`.
    pub(crate) fn number<T>(
        &self,
        name: &str,
        range: RangeInclusive<T>,
    ) -> Result<Option<T>, Box<Refusal>>
    where
        T: FromStr + PartialOrd + Display,
    {
        let Some(text) = self.text(name) else { return Ok(None) };
        match text.parse() {
            Ok(value) if range.contains(&value) => Ok(Some(value)),
            _ => {
                let accepted = format!("{} to {}", range.start(), range.end());
                Err(refuse(name, text, accepted))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECLARED: &[Opt] = &[
        Opt { name: "port", form: Form::Letter('p'), value: Some("PORT"), help: "" },
        Opt { name: "host", form: Form::Positional, value: Some("HOST"), help: "" },
    ];

    fn given(name: &str, value: &str) -> Result<Given, Box<Refusal>> {
        Given::new([(name.into(), value.into())], DECLARED)
    }

    #[test]
    fn an_undeclared_option_is_refused_by_name() {
        let refusal = given("prot", "1").unwrap_err();
        assert_eq!(refusal.field.as_deref(), Some("prot"));
        assert_eq!(refusal.accepted.as_deref(), Some("port, host"));
    }

    #[test]
    fn numbers_have_a_range() {
        assert_eq!(given("port", "7").unwrap().number("port", 1..=9_u16), Ok(Some(7)));
        assert_eq!(given("host", "h").unwrap().number("port", 1..=9_u16), Ok(None));
        for wrong in ["", "0", "10", "-1", "x", "99999999999999999999"] {
            let refusal = given("port", wrong).unwrap().number("port", 1..=9_u16).unwrap_err();
            assert_eq!(refusal.field.as_deref(), Some("port"), "{wrong}");
            assert_eq!(refusal.given.as_deref(), Some(wrong));
            assert_eq!(refusal.accepted.as_deref(), Some("1 to 9"));
        }
    }
}
