//! The lines of a script, and the words of a line.

use weir_model::ModelError;

use super::{MAX_SCRIPT_BYTES, refused};

/// Maximum length of a line with its continuations, bytes: that of MGEN.
const MAX_LINE_BYTES: usize = 8192;

/// The lines that are not empty and no comments, each with its number. A line that ends with a backslash is continued.
///
/// # Errors
/// A script or a line that is too long.
pub(super) fn lines(text: &str) -> Result<Vec<(usize, String)>, ModelError> {
    if text.len() > MAX_SCRIPT_BYTES {
        return Err(refused(1, "script", format!("{} bytes", text.len()), "up to 1M"));
    }
    let mut lines: Vec<(usize, String)> = vec![];
    let mut open: Option<(usize, String)> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let (line, is_continued) = match line.trim_end().strip_suffix('\\') {
            Some(line) => (line, true),
            None => (line, false),
        };
        let (first, mut whole) = open.take().unwrap_or((number, String::new()));
        if !whole.is_empty() {
            whole.push(' ');
        }
        whole.push_str(line);
        if whole.len() > MAX_LINE_BYTES {
            let given = format!("{} bytes", whole.len());
            return Err(refused(first, "line", given, "up to 8192 bytes"));
        }
        match is_continued {
            true => open = Some((first, whole)),
            false => lines.push((first, whole)),
        }
    }
    lines.extend(open);
    lines.retain(|(_, line)| {
        let line = line.trim_start();
        !line.is_empty() && !line.starts_with('#')
    });
    Ok(lines)
}

/// The words of a line that have not been read.
pub(super) struct Words<'a> {
    pub(super) line: usize,
    rest: &'a str,
}

impl<'a> Words<'a> {
    pub(super) fn new(line: usize, text: &'a str) -> Self {
        Words { line, rest: text.trim() }
    }

    /// The next word; `None` at the end of the line.
    pub(super) fn next(&mut self) -> Option<&'a str> {
        let end = self.rest.find(char::is_whitespace).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        (!word.is_empty()).then_some(word)
    }

    /// The value of `word`.
    ///
    /// # Errors
    /// The line has none.
    pub(super) fn value(&mut self, word: &str, accepted: &str) -> Result<&'a str, ModelError> {
        let line = self.line;
        self.next().ok_or_else(|| refused(line, word, "nothing", accepted))
    }

    /// The parameters of `word` within square brackets, which may be nested.
    ///
    /// # Errors
    /// There are none, or they do not end.
    pub(super) fn parameters(&mut self, word: &str) -> Result<&'a str, ModelError> {
        let Some(inner) = self.rest.strip_prefix('[') else {
            return Err(refused(self.line, word, self.rest, "parameters within [ and ]"));
        };
        let mut depth = 1_u32;
        for (at, c) in inner.char_indices() {
            match c {
                '[' => depth += 1,
                ']' => depth -= 1,
                _ => continue,
            }
            if depth == 0 {
                self.rest = inner[at + 1..].trim_start();
                return Ok(inner[..at].trim());
            }
        }
        Err(refused(self.line, word, self.rest, "parameters that end with ]"))
    }

    /// The error of `word` with this value.
    pub(super) fn refused(&self, word: &str, given: &str, accepted: &str) -> ModelError {
        refused(self.line, word, given, accepted)
    }

    /// The value of `word` as a number from `least` to `most`.
    ///
    /// # Errors
    /// None, or no such number.
    pub(super) fn number(
        &mut self,
        word: &str,
        least: f64,
        most: f64,
        accepted: &str,
    ) -> Result<f64, ModelError> {
        let text = self.value(word, accepted)?;
        match text.parse::<f64>() {
            Ok(value) if value >= least && value <= most => Ok(value),
            _ => Err(self.refused(word, text, accepted)),
        }
    }

    /// The value of `word` as a whole number up to `most`: decimal, octal after `0` or hexadecimal after `0x`, as C reads it.
    ///
    /// # Errors
    /// None, or no such number.
    pub(super) fn whole(
        &mut self,
        word: &str,
        most: u64,
        accepted: &str,
    ) -> Result<u64, ModelError> {
        let text = self.value(word, accepted)?;
        let value =
            match (text.strip_prefix("0x").or(text.strip_prefix("0X")), text.strip_prefix('0')) {
                (Some(digits), _) => u64::from_str_radix(digits, 16),
                (None, Some(digits)) if !digits.is_empty() => u64::from_str_radix(digits, 8),
                _ => text.parse(),
            };
        match value {
            Ok(value) if value <= most => Ok(value),
            _ => Err(self.refused(word, text, accepted)),
        }
    }
}

/// The only one of `names` that `word` is, or that it begins, whatever their case.
pub(super) fn meant<'a>(word: &str, names: &[&'a str]) -> Option<&'a str> {
    let begins = |name: &&&str| {
        word.len() <= name.len()
            && name.is_char_boundary(word.len())
            && name[..word.len()].eq_ignore_ascii_case(word)
    };
    if let Some(name) = names.iter().find(|name| name.eq_ignore_ascii_case(word)) {
        return Some(name);
    }
    let mut found = names.iter().filter(begins);
    let first = found.next()?;
    found.next().is_none().then_some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_joined_and_comments_omitted() {
        let text = "# a\n\n0.0 ON 1 \\\n  UDP\n  # b\nTOS 4\nlast \\";
        let got = lines(text).unwrap();
        let words: Vec<(usize, Vec<&str>)> =
            got.iter().map(|(n, line)| (*n, line.split_whitespace().collect())).collect();
        let expected =
            vec![(3, vec!["0.0", "ON", "1", "UDP"]), (6, vec!["TOS", "4"]), (7, vec!["last"])];
        assert_eq!(words, expected);
        assert!(lines(&"x".repeat(8193)).is_err());
        assert!(lines(&"x\n".repeat(MAX_SCRIPT_BYTES)).is_err());
    }

    #[test]
    fn parameters_are_nested_and_numbers_are_those_of_c() {
        let mut words = Words::new(1, "BURST [a [b c] d] TOS 0x10 010 9");
        let word = words.next().unwrap();
        assert_eq!(words.parameters(word).unwrap(), "a [b c] d");
        assert_eq!(words.next(), Some("TOS"));
        assert_eq!([(); 3].map(|()| words.whole("TOS", 255, "").unwrap()), [16, 8, 9]);
        assert!(words.whole("TOS", 255, "").is_err());
        assert!(Words::new(1, "[a").parameters("x").is_err());
        assert!(Words::new(1, "a]").parameters("x").is_err());
    }

    #[test]
    fn names_may_be_shortened_as_long_as_they_are_unique() {
        let names = ["PERIODIC", "POISSON", "ON"];
        assert_eq!(meant("per", &names), Some("PERIODIC"));
        assert_eq!((meant("P", &names), meant("on", &names)), (None, Some("ON")));
        assert_eq!((meant("ONE", &names), meant("é", &names)), (None, None));
    }
}
