//! Wrapping of sentences at a width.

/// Breaks `text` at spaces so that lines stay within `width` columns; lines after the first are indented.
/// A word longer than a line stays whole. Ends with a newline.
pub(super) fn wrap(text: &str, width: usize, indent: usize) -> String {
    let width = width.max(indent + 20);
    let mut out = String::new();
    let mut column = 0;
    for word in text.split(' ').filter(|w| !w.is_empty()) {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > width {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out.push('\n');
    out
}

/// Breaks `text` into lines that all start at column `indent`, in a terminal of `width` columns. The caller has filled the
/// columns before the first line. Ends with a newline.
pub fn hanging(text: &str, width: usize, indent: usize) -> String {
    let lines = wrap(text, width.saturating_sub(indent), 0);
    let mut out = lines.trim_end().replace('\n', &format!("\n{}", " ".repeat(indent)));
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn breaks_at_spaces_and_indents() {
        assert_eq!(
            wrap("warning: one two three four five", 24, 4),
            "warning: one two three\n    four five\n"
        );
    }

    #[test]
    fn lines_start_at_one_column() {
        assert_eq!(hanging("one two three four five", 24, 4), "one two three four\n    five\n");
        assert_eq!(hanging("", 24, 4), "\n");
    }

    proptest! {
        #[test]
        fn no_word_is_lost_and_no_line_is_too_long(text in "[a-z ]{0,200}", width in 30usize..90) {
            let wrapped = wrap(&text, width, 5);
            prop_assert_eq!(wrapped.split_whitespace().collect::<Vec<_>>(), text.split_whitespace().collect::<Vec<_>>());
            for line in wrapped.lines() {
                prop_assert!(line.len() <= width || line.split_whitespace().count() == 1);
            }
        }
    }
}
