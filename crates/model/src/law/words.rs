//! The words of a law's one-line form, read from left to right.

use std::str::FromStr;

use super::{Law, general};
use crate::ModelError;
use crate::units::Span;

/// A number without a unit is refused: tc reads it as microseconds, flags as seconds, people as milliseconds.
const SPAN_FORM: &str = "times with their unit (ns, us, ms, s, m, h), such as 20ms, 100us or 1.5s";
const PERCENTAGE_FORM: &str =
    "percentages with their sign, such as loss 5%, duplicate 0.1% or corrupt 1% repair";
/// Maximum number of characters of a term that an error repeats.
const MAX_GIVEN: usize = 200;
/// Units that may be separated from their number, as in printed values.
const UNITS: [&str; 28] = [
    "%", "ns", "us", "µs", "μs", "ms", "s", "packet", "packets", "B", "KiB", "MiB", "GiB", "bit/s",
    "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s", "bit", "kbit", "mbit", "Mbit", "Gbit", "k", "K", "M",
    "G", "T",
];

/// A mean and what varies around it.
pub(crate) struct MeanAndSpread {
    pub(crate) mean: Span,
    pub(crate) spread: Span,
    /// Whether the spread has its sign `±`, which netem omits.
    pub(crate) has_sign: bool,
}

/// The words of one term, read from left to right.
#[derive(Clone)]
pub struct Words<'a> {
    /// The kind of value, for errors: `impairment`.
    what: &'static str,
    /// The term as given, for errors.
    term: &'a str,
    form: &'static str,
    words: &'a [String],
    /// The text in parentheses after the first word.
    arguments: Option<&'a str>,
    /// Words that may follow a law.
    following: &'static [&'static str],
}

impl<'a> Words<'a> {
    /// The words of `term`: `words` without the arguments in parentheses. `form` is the accepted form.
    pub(crate) fn new(
        what: &'static str,
        term: &'a str,
        form: &'static str,
        words: &'a [String],
        arguments: Option<&'a str>,
    ) -> Self {
        Words { what, term, form, words, arguments, following: &[] }
    }

    /// Sets the accepted form.
    pub(crate) fn set_form(&mut self, form: &'static str) {
        self.form = form;
    }

    /// The error of the term, with the accepted form.
    pub(crate) fn bad(&self) -> ModelError {
        self.refused(self.form)
    }

    /// The error of the term, with what is accepted instead.
    pub(crate) fn refused(&self, accepted: &'static str) -> ModelError {
        // A list may be long.
        let given = self.term.chars().take(MAX_GIVEN).collect();
        ModelError::Value { what: self.what, given, accepted }
    }

    pub(crate) fn peek(&self) -> Option<&'a str> {
        self.words.first().map(String::as_str)
    }

    pub(crate) fn next(&mut self) -> Result<&'a str, ModelError> {
        let (first, rest) = self.words.split_first().ok_or_else(|| self.bad())?;
        self.words = rest;
        Ok(first)
    }

    /// Reads the next word as a value.
    pub(crate) fn value<T: FromStr>(&mut self) -> Result<T, ModelError> {
        let word = self.next()?;
        word.parse().map_err(|_| self.bad())
    }

    /// Reads a percentage with its sign: without it, 5 may mean 5 % or a ratio.
    pub(crate) fn percent(&mut self) -> Result<f64, ModelError> {
        self.percent_if_number()?.ok_or_else(|| self.bad())
    }

    /// Reads a percentage with its sign; `None` if the next word is not a number.
    pub(crate) fn percent_if_number(&mut self) -> Result<Option<f64>, ModelError> {
        let word = self.next()?;
        let number = word.strip_suffix('%');
        let Ok(value) = number.unwrap_or(word).parse::<f64>() else { return Ok(None) };
        if number.is_none() && value != 0.0 {
            return Err(self.refused(PERCENTAGE_FORM));
        }
        Ok(Some(value))
    }

    /// Reads a time with its unit from a word or a part of one.
    pub(crate) fn span(&self, word: &str) -> Result<Span, ModelError> {
        if word.bytes().all(|b| b.is_ascii_digit() || b == b'.') && word.parse() != Ok(0.0) {
            return Err(self.refused(SPAN_FORM));
        }
        word.parse().map_err(|_| self.bad())
    }

    /// Reads `T ±T`, or `T T` as netem writes it; `None` for other words.
    pub(crate) fn mean_and_spread(&mut self) -> Result<Option<MeanAndSpread>, ModelError> {
        let first = self.next()?;
        let Some(second) = self.peek() else { return Ok(None) };
        let is_time = second.starts_with(|c: char| c.is_ascii_digit()) && !second.ends_with('%');
        let spread = match second.strip_prefix('±') {
            Some(spread) => spread,
            None if is_time => second,
            None => return Ok(None),
        };
        self.next()?;
        let spread = if spread.is_empty() { self.next()? } else { spread };
        let (mean, spread) = (self.span(first)?, self.span(spread)?);
        Ok(Some(MeanAndSpread { mean, spread, has_sign: !is_time }))
    }

    /// Consumes the name of a distribution: `normal`, or `distribution normal` as netem writes it.
    pub(crate) fn took_distribution(&mut self, name: &str) -> bool {
        let mut ahead = self.clone();
        ahead.took("distribution");
        let found = ahead.took(name);
        if found {
            *self = ahead;
        }
        found
    }

    /// Consumes the next word if it is `word`.
    pub(crate) fn took(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(word);
        if found {
            self.words = &self.words[1..];
        }
        found
    }

    /// Consumes the last word if it is `word`.
    pub(crate) fn took_last(&mut self, word: &str) -> bool {
        self.words.len() == 1 && self.took(word)
    }

    /// Consumes the next word if it is one of a list.
    pub(crate) fn took_one<T: Copy>(
        &mut self,
        list: &[T],
        name: fn(T) -> &'static str,
    ) -> Option<T> {
        list.iter().copied().find(|item| self.took(name(*item)))
    }

    /// Sets the words that may follow a law.
    pub(crate) fn may_follow(&mut self, words: &'static [&'static str]) {
        self.following = words;
    }

    /// Whether no further word belongs to the law.
    pub(crate) fn is_law_complete(&self) -> bool {
        self.peek().is_none_or(|word| self.following.contains(&word))
    }

    /// Whether the first word has arguments in parentheses.
    pub(crate) fn has_arguments(&self) -> bool {
        self.arguments.is_some()
    }

    /// Takes the text in parentheses after the first word.
    pub(crate) fn take_arguments(&mut self) -> Option<&'a str> {
        self.arguments.take()
    }

    /// Reads the law `name` from the arguments; `at` is the path of its slot.
    pub(crate) fn arguments<L: Law>(
        &mut self,
        name: &'static str,
        at: &str,
    ) -> Result<L, ModelError> {
        general::read(self.arguments.take().unwrap_or_default(), at, name)
    }

    /// Reads the parameters of the law `name` as words, `key value …`; `at` is the path of its slot.
    pub(crate) fn parameters<L: Law>(
        &mut self,
        name: &'static str,
        at: &str,
    ) -> Result<L, ModelError> {
        general::read_words(self, at, name)
    }

    /// Checks that no words are left.
    ///
    /// # Errors
    /// [`ModelError::Value`] if there are more.
    pub(crate) fn end(&self) -> Result<(), ModelError> {
        match self.peek() {
            None if self.arguments.is_none() => Ok(()),
            _ => Err(self.bad()),
        }
    }
}

/// The words of a term, with units joined to their number: `1 %` is `1%`.
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

/// Maximum depth of parentheses: laws within laws.
const MAX_DEPTH: usize = 8;

/// A term in three parts: before its first parenthesis, within it, and after it. A parenthesis that is not
/// closed, or has too many others within, belongs to the first part.
pub(crate) fn parenthesised(term: &str) -> (&str, Option<&str>, &str) {
    let parts = term.split_once('(').and_then(|(before, rest)| {
        let mut depth = 1;
        for (at, c) in rest.char_indices() {
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Some((before, Some(&rest[..at]), &rest[at + 1..]));
            }
            if depth > MAX_DEPTH {
                return None;
            }
        }
        None
    });
    parts.unwrap_or((term, None, ""))
}

/// The parts of a list between commas that are in no parenthesis.
pub(crate) fn split_list(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0usize;
    let parts = text.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    parts.map(str::trim)
}
