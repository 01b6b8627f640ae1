//! A page as GitHub-flavoured Markdown, short enough for a ticket: warnings, figures and tables, without background and charts.
//! Every text from a record is escaped, so that it can't create a link, markup or a mention.

use std::fmt::Write as _;

use weir_model::warning::Severity;

use super::document::{Block, Document};
use super::grid::{Grid, LaidCell};
use crate::style::clean;

/// Maximum number of rows of a table.
const ROWS: usize = 20;

/// The page as Markdown.
pub fn markdown(document: &Document) -> String {
    let mut out = format!("## {}\n\n{}", text(&document.title), text(&document.subtitle));
    match document.passed {
        Some(true) => out += " · **passed**",
        Some(false) => out += " · **FAILED**",
        None => {}
    }
    out += "\n";
    if !document.sentence.is_empty() {
        let _ = writeln!(out, "\n{}", text(&document.sentence));
    }
    if !document.notices.is_empty() {
        out += "\n";
    }
    for n in &document.notices {
        let word = match n.severity {
            Severity::Info => "Note",
            Severity::Warning => "Warning",
            Severity::Error => "Error",
        };
        let about =
            if n.about.is_empty() { String::new() } else { format!(", {}", text(&n.about)) };
        let _ = writeln!(out, "- **{word}{about}:** {} {}", text(&n.text), code(&n.code));
    }
    if !document.headlines.is_empty() {
        out += "\n| figure | value | |\n| --- | ---: | --- |\n";
        for h in &document.headlines {
            let value = h.value.as_deref().map_or("not measured".into(), text);
            let _ = writeln!(out, "| {} | {value} | {} |", text(&h.label), text(&h.note));
        }
    }
    for section in document.sections.iter().filter(|s| !s.background) {
        let mut body = String::new();
        for block in &section.blocks {
            self::block(&mut body, block);
        }
        if !body.is_empty() {
            let _ = write!(out, "\n### {}\n{body}", text(&section.heading));
        }
    }
    // The command that repeats the run is included, although it is background.
    let background = document.sections.iter().filter(|s| s.background).flat_map(|s| &s.blocks);
    for command in background.filter_map(|b| if let Block::Command(c) = b { Some(c) } else { None })
    {
        let _ = writeln!(out, "\nTo repeat: {}", code(command));
    }
    let _ = writeln!(
        out,
        "\n<sub>{}; – stands for what was not measured</sub>",
        text(&document.generator)
    );
    out
}

fn block(out: &mut String, block: &Block) {
    match block {
        Block::Text(words) => {
            let _ = writeln!(out, "\n{}", text(words));
        }
        Block::Command(words) => {
            let _ = writeln!(out, "\n{}", code(words));
        }
        Block::Facts(facts) => {
            out.push_str("\n| | |\n| --- | --- |\n");
            for (name, value) in facts {
                let _ = writeln!(out, "| {} | {} |", text(name), text(value));
            }
        }
        Block::Grid(grid) => self::grid(out, grid),
        Block::Definitions(definitions) => {
            out.push('\n');
            for d in definitions {
                let source =
                    if d.source.is_empty() { String::new() } else { format!(" ({})", d.source) };
                let _ = writeln!(out, "- **{}**{source}: {}", text(d.term), text(d.text));
            }
        }
        // Charts and long texts are only on the HTML page.
        Block::Figures(_) | Block::Verbatim { .. } => {}
    }
}

fn grid(out: &mut String, grid: &Grid) {
    let laid = grid.laid();
    let _ = writeln!(out, "\n{}\n", text(&grid.caption));
    let heads: Vec<String> = laid
        .heads
        .iter()
        .zip(&grid.columns)
        .map(|((head, unit, _), column)| {
            let words = [column.over.as_str(), head.as_str()].into_iter();
            let head = words.filter(|w| !w.is_empty()).collect::<Vec<_>>().join(": ");
            if unit.is_empty() { text(&head) } else { format!("{}, {unit}", text(&head)) }
        })
        .collect();
    let _ = writeln!(out, "| {} |", heads.join(" | "));
    let rules: Vec<&str> = laid.heads.iter().map(|h| if h.2 { "---:" } else { "---" }).collect();
    let _ = writeln!(out, "| {} |", rules.join(" | "));
    let body = laid.rows.len().saturating_sub(grid.sums);
    let shown = |i: &usize| *i < ROWS || *i >= body;
    for (_, row) in laid.rows.iter().enumerate().filter(|(i, _)| shown(i)) {
        let words = |c: &LaidCell| {
            if c.code {
                // In a table a bar ends a cell even within code, unless it is escaped.
                code(&c.text).replace('|', "\\|")
            } else {
                text(&c.text)
            }
        };
        let _ = writeln!(out, "| {} |", row.iter().map(words).collect::<Vec<_>>().join(" | "));
    }
    if body > ROWS {
        let _ = writeln!(out, "\n…and {} more rows", body - ROWS);
    }
}

/// Escapes text: characters special in Markdown or HTML get a backslash or become references. Characters that would start a
/// mention of a user or an issue are followed by an invisible joiner.
fn text(words: &str) -> String {
    let words = clean(words);
    let mut out = String::with_capacity(words.len() + 8);
    for c in words.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '$' | '!' => {
                out.push('\\');
                out.push(c);
            }
            // Mentions of users and issues.
            '@' | '#' => {
                out.push(c);
                out.push('\u{2060}');
            }
            c => out.push(c),
        }
    }
    let out = out.replace("://", ":\u{2060}//").replace("www.", "www\u{2060}.");
    // A line must not start a list or be a rule.
    let behind_digits = out.trim_start_matches(|c: char| c.is_ascii_digit());
    let numbered = behind_digits.len() < out.len()
        && (behind_digits.starts_with(". ") || behind_digits.starts_with(") "));
    let bullet = out.starts_with("- ") || out.starts_with("+ ");
    let rule = !out.is_empty() && (out.chars().all(|c| c == '-') || out.chars().all(|c| c == '='));
    if numbered || bullet || rule { format!("\u{2060}{out}") } else { out }
}

/// A code span, with a fence longer than any sequence of backticks in the text.
fn code(words: &str) -> String {
    let words = clean(words);
    if words.is_empty() {
        return String::new();
    }
    let longest = words.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let pad = if words.starts_with('`') || words.ends_with('`') { " " } else { "" };
    format!("{fence}{pad}{words}{pad}{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_markup() {
        assert_eq!(
            text("a|b *c* <img> @you #1"),
            "a\\|b \\*c\\* &lt;img&gt; @\u{2060}you #\u{2060}1"
        );
        assert_eq!(text("see https://x.example"), "see https:\u{2060}//x.example");
        assert_eq!(text("[x](y)"), "\\[x\\](y)");
        assert_eq!(text("- item"), "\u{2060}- item");
        assert_eq!(text("1. item"), "\u{2060}1. item");
        assert_eq!(text("10.0 s"), "10.0 s");
        assert_eq!(text("line\nbreak"), "line\u{fffd}break");
        assert_eq!(code("a`b``c"), "```a`b``c```");
        assert_eq!(code("`"), "`` ` ``");
    }
}
