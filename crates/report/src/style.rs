//! Colours of terminal text, and escaping of untrusted text.

use std::borrow::Cow;

/// Whether escape sequences are written. The caller checks for a terminal and `NO_COLOR`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Style {
    colour: bool,
}

impl Style {
    /// No escape sequences.
    pub const PLAIN: Style = Style { colour: false };
    /// Bold headings, yellow warnings, red errors.
    pub const COLOUR: Style = Style { colour: true };

    /// A heading.
    pub fn bold(&self, text: &str) -> String {
        self.wrap("1", text)
    }

    /// A warning.
    pub fn yellow(&self, text: &str) -> String {
        self.wrap("33", text)
    }

    /// An error.
    pub fn red(&self, text: &str) -> String {
        self.wrap("31", text)
    }

    fn wrap(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }
}

/// Replaces everything in untrusted text that could control a terminal by U+FFFD: control characters (escape sequences,
/// newlines) and directional marks, which reorder text.
pub fn clean(text: &str) -> Cow<'_, str> {
    let unsafe_char = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if text.contains(unsafe_char) {
        Cow::Owned(text.replace(unsafe_char, "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_do_not_pass() {
        assert_eq!(clean("a\x1b[31mb\nc\u{202e}d"), "a\u{fffd}[31mb\u{fffd}c\u{fffd}d");
        assert_eq!(clean("plain ± text"), "plain ± text");
    }

    #[test]
    fn colour_is_by_flag() {
        assert_eq!(Style::PLAIN.red("x"), "x");
        assert_eq!(Style::COLOUR.red("x"), "\x1b[31mx\x1b[0m");
    }
}
