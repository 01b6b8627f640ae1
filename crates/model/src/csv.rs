//! Cells of CSV, as every table of this program writes them.

/// A text as a cell: an apostrophe before what a spreadsheet would run as a formula, quoted where RFC 4180 asks.
#[must_use]
pub fn text_cell(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠']);
    let text = if formula { format!("'{text}") } else { text.to_string() };
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_and_never_formulas() {
        assert_eq!(text_cell("plain"), "plain");
        assert_eq!(text_cell("a,b"), "\"a,b\"");
        assert_eq!(text_cell("say \"x\""), "\"say \"\"x\"\"\"");
        assert_eq!(text_cell("=1+1"), "'=1+1");
        assert_eq!(text_cell("@SUM(A1,B1)"), "\"'@SUM(A1,B1)\"");
        assert_eq!(text_cell("\r\n=1"), "\"'\r\n=1\"");
    }
}
