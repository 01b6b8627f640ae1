//! The words of a law's one-line form, read from left to right.

use std::str::FromStr;

use super::{Law, general};
use crate::ModelError;
use crate::units::Span;

/// tc takes a bare number for microseconds, flags for seconds, people for milliseconds.
const UNIT: &str = "times with their unit (ns, us, ms, s, m, h), such as delay 10ms, delay 100us or delay 20ms ±5ms";
const SHARE: &str =
    "shares in per cent, with the sign, such as loss 5%, duplicate 0.1% or corrupt 1% repair";
/// Units that may stand apart from their number, as they are printed.
const UNITS: [&str; 28] = [
    "%", "ns", "us", "µs", "μs", "ms", "s", "packet", "packets", "B", "KiB", "MiB", "GiB", "bit/s",
    "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s", "bit", "kbit", "mbit", "Mbit", "Gbit", "k", "K", "M",
    "G", "T",
];

/// The language that a law's words belong to.
pub(crate) struct Language {
    /// What the value is, for refusals: `impairment`.
    pub(crate) what: &'static str,
    /// Whether a word begins a term of its own, in a language of several terms.
    pub(crate) is_term: fn(&str) -> bool,
    /// What is accepted between two terms.
    pub(crate) separator: &'static str,
}

/// The words of one term, read from left to right.
#[derive(Clone)]
pub struct Words<'a> {
    language: &'static Language,
    /// The term as it was given, for refusals.
    term: &'a str,
    form: &'static str,
    words: &'a [String],
    /// What is between the parentheses behind the first word.
    arguments: Option<&'a str>,
    /// Words that may follow a law.
    following: &'static [&'static str],
}

impl<'a> Words<'a> {
    /// The words of `term`: `words` without the arguments in parentheses. `form` is what is accepted.
    pub(crate) fn new(
        language: &'static Language,
        term: &'a str,
        form: &'static str,
        words: &'a [String],
        arguments: Option<&'a str>,
    ) -> Self {
        Words { language, term, form, words, arguments, following: &[] }
    }

    /// Sets what is accepted from here on.
    pub(crate) fn set_form(&mut self, form: &'static str) {
        self.form = form;
    }

    /// A refusal of the term, with the form that is accepted.
    pub(crate) fn bad(&self) -> ModelError {
        self.refused(self.form)
    }

    fn refused(&self, accepted: &'static str) -> ModelError {
        ModelError::Value { what: self.language.what, given: self.term.to_owned(), accepted }
    }

    /// A refusal of words that are no law's form: perhaps they are two terms.
    pub(crate) fn no_form(&self) -> ModelError {
        let is_term = self.words.iter().any(|word| (self.language.is_term)(word));
        self.refused(if is_term { self.language.separator } else { self.form })
    }

    pub(crate) fn peek(&self) -> Option<&'a str> {
        self.words.first().map(String::as_str)
    }

    pub(crate) fn next(&mut self) -> Result<&'a str, ModelError> {
        let (first, rest) = self.words.split_first().ok_or_else(|| self.bad())?;
        self.words = rest;
        Ok(first)
    }

    /// The next word as a value; a value's own complaint is the better one.
    pub(crate) fn value<T: FromStr>(&mut self) -> Result<T, ModelError> {
        let word = self.next()?;
        word.parse().map_err(|_| self.bad())
    }

    /// A percentage, never without its sign: 5 may be meant as 5 % or as all.
    pub(crate) fn percent(&mut self) -> Result<f64, ModelError> {
        self.percent_if_number()?.ok_or_else(|| self.bad())
    }

    /// The same; `None` when the next word is not a number.
    pub(crate) fn percent_if_number(&mut self) -> Result<Option<f64>, ModelError> {
        let word = self.next()?;
        let number = word.strip_suffix('%');
        let Ok(value) = number.unwrap_or(word).parse::<f64>() else { return Ok(None) };
        if number.is_none() && value != 0.0 {
            return Err(self.refused(SHARE));
        }
        Ok(Some(value))
    }

    /// A time, as a word or a part of one: never without its unit.
    pub(crate) fn span(&self, word: &str) -> Result<Span, ModelError> {
        if word.bytes().all(|b| b.is_ascii_digit() || b == b'.') && word.parse() != Ok(0.0) {
            return Err(self.refused(UNIT));
        }
        word.parse().map_err(|_| self.bad())
    }

    /// `T ±T`; `None` when the words are others.
    pub(crate) fn mean_and_spread(&mut self) -> Result<Option<(Span, Span)>, ModelError> {
        let first = self.next()?;
        let Some(spread) = self.peek().and_then(|word| word.strip_prefix('±')) else {
            return Ok(None);
        };
        self.next()?;
        let spread = if spread.is_empty() { self.next()? } else { spread };
        Ok(Some((self.span(first)?, self.span(spread)?)))
    }

    /// Takes the next word if it is this one.
    pub(crate) fn took(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(word);
        if found {
            self.words = &self.words[1..];
        }
        found
    }

    /// Takes the next word if it is one of a list.
    pub(crate) fn took_one<T: Copy>(
        &mut self,
        list: &[T],
        name: fn(T) -> &'static str,
    ) -> Option<T> {
        list.iter().copied().find(|item| self.took(name(*item)))
    }

    /// Names the words that may follow a law.
    pub(crate) fn may_follow(&mut self, words: &'static [&'static str]) {
        self.following = words;
    }

    /// Whether nothing more belongs to a law.
    pub(crate) fn is_law_complete(&self) -> bool {
        self.peek().is_none_or(|word| self.following.contains(&word))
    }

    /// Whether the next word is a name with arguments in parentheses.
    pub(crate) fn has_arguments(&self) -> bool {
        self.arguments.is_some()
    }

    /// The law that the arguments say; `name` is that of the law, `at` the path of its slot.
    pub(crate) fn arguments<L: Law>(
        &mut self,
        name: &'static str,
        at: &str,
    ) -> Result<L, ModelError> {
        general::read(self.arguments.take().unwrap_or_default(), at, name)
    }

    /// Whether the words end here.
    ///
    /// # Errors
    /// [`ModelError::Value`] when there are more.
    pub(crate) fn end(&self) -> Result<(), ModelError> {
        match self.peek() {
            None if self.arguments.is_none() => Ok(()),
            Some(word) if (self.language.is_term)(word) => {
                Err(self.refused(self.language.separator))
            }
            _ => Err(self.bad()),
        }
    }
}

/// The words of a term, a unit at its number: `1 %` is `1%`.
pub(crate) fn words_of(term: &str) -> Vec<String> {
    let mut words: Vec<String> = vec![];
    for word in term.split_whitespace() {
        let is_number = |w: &String| w.ends_with(|c: char| c.is_ascii_digit());
        match words.last_mut().filter(|last| UNITS.contains(&word) && is_number(last)) {
            Some(last) => last.push_str(word),
            None => words.push(word.to_owned()),
        }
    }
    words
}

/// A term in three parts: before its first parenthesis, within it, and behind it. A parenthesis that is not closed is a
/// part of what is before.
pub(crate) fn parenthesised(term: &str) -> (&str, Option<&str>, &str) {
    let parts = term.split_once('(').and_then(|(before, rest)| {
        let (within, behind) = rest.split_once(')')?;
        Some((before, Some(within), behind))
    });
    parts.unwrap_or((term, None, ""))
}
