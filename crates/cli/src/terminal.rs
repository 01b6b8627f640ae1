//! What the terminal at standard output shows: its width and colours.

use std::ffi::OsStr;
use std::io::{IsTerminal, stdout};

use terminal_size::{Width, terminal_size_of};
use weir_report::{Style, TextOptions, hanging};

/// Columns of output that goes to a file or a pipe.
const WITHOUT_TERMINAL: usize = 80;

/// Colour on a terminal, unless it is a dumb one or NO_COLOR is set to something (no-color.org).
pub(crate) fn style() -> Style {
    let set = |name: &str| std::env::var_os(name);
    style_of(stdout().is_terminal(), set("TERM").as_deref(), set("NO_COLOR").as_deref())
}

fn style_of(is_terminal: bool, term: Option<&OsStr>, no_color: Option<&OsStr>) -> Style {
    let is_dumb = term.is_some_and(|term| term == "dumb");
    let is_refused = no_color.is_some_and(|value| !value.is_empty());
    if is_terminal && !is_dumb && !is_refused { Style::COLOUR } else { Style::PLAIN }
}

/// Columns of the terminal at standard output; `None` if it is a file or a pipe, or has no known size.
pub(crate) fn columns() -> Option<usize> {
    terminal_size_of(stdout()).map(|(Width(columns), _)| columns.into()).filter(|n| *n > 0)
}

/// Columns at which text is wrapped: those of the terminal, else `COLUMNS`, else 80.
pub(crate) fn width() -> usize {
    let of_environment = || std::env::var("COLUMNS").ok()?.parse().ok().filter(|n| *n > 0);
    columns().or_else(of_environment).unwrap_or(WITHOUT_TERMINAL)
}

/// The options of text on standard output.
pub(crate) fn text_options() -> TextOptions {
    TextOptions { style: style(), width: width(), ..TextOptions::default() }
}

/// Text whose sentences are wrapped at [`width`]; lines that fit are unchanged.
pub(crate) fn wrapped(text: &str) -> String {
    wrapped_at(text, width())
}

fn wrapped_at(text: &str, width: usize) -> String {
    text.lines()
        .map(|line| match line.chars().count() > width {
            true => hanging(line, width, 0),
            false => format!("{line}\n"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_terminal_that_can_and_may_show_colours_gets_them() {
        for (is_terminal, term, no_color, style) in [
            (true, Some("xterm"), None, Style::COLOUR),
            (true, None, Some(""), Style::COLOUR),
            (true, Some("dumb"), None, Style::PLAIN),
            (true, Some("xterm"), Some("1"), Style::PLAIN),
            (false, Some("xterm"), None, Style::PLAIN),
        ] {
            let of = style_of(is_terminal, term.map(OsStr::new), no_color.map(OsStr::new));
            assert_eq!(of, style, "{is_terminal} {term:?} {no_color:?}");
        }
    }

    #[test]
    fn long_lines_are_wrapped_and_others_unchanged() {
        let text = "a  table  row\n\none two three four five six\n";
        assert_eq!(wrapped_at(text, 20), "a  table  row\n\none two three four\nfive six\n");
    }
}
