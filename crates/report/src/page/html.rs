//! A page as one self-contained HTML file. It loads nothing and can be read without scripts; its only script sorts tables. A
//! content security policy permits only its style sheet and its script, by their hashes.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use weir_model::warning::Severity;

use super::document::{Block, Document, Headline, Notice, Section};
use super::grid::Grid;
use crate::markup::escape;
use crate::plot::STYLE;

const PAGE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// From this number on, notices of severity "info" are folded.
const FOLDED: usize = 4;

/// Cells with more bytes are wrapped.
const LONG: usize = 42;

/// The page as one HTML file.
pub fn html(document: &Document) -> String {
    let style = format!("{STYLE}{PAGE}");
    let mut out = String::with_capacity(1 << 16);
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n<meta name=\"generator\" content=\"{}\">\n<title>{}</title>\n<style>{style}</style>\n</head>\n<body>\n",
        hash(&style),
        hash(SCRIPT),
        escape(&document.generator),
        escape(&document.title)
    );
    head(&mut out, document);
    out.push_str("<main>\n");
    notices(&mut out, &document.notices);
    headlines(&mut out, &document.headlines);
    let mut writer = Writer { out, charts: 0, tables: 0 };
    for section in &document.sections {
        writer.section(section);
    }
    let mut out = writer.out;
    let _ = write!(
        out,
        "</main>\n<footer>Written by {}. – stands for what was not measured. Figures with full precision are in the record: weir runs show RUN --json.</footer>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
        escape(&document.generator)
    );
    out
}

fn hash(text: &str) -> String {
    STANDARD.encode(Sha256::digest(text.as_bytes()))
}

fn head(out: &mut String, document: &Document) {
    let _ = write!(out, "<header>\n<h1>{}", escape(&document.title));
    match document.passed {
        Some(true) => out.push_str(" <span class=\"chip good\">passed</span>"),
        Some(false) => out.push_str(" <span class=\"chip bad\">failed</span>"),
        None => {}
    }
    let _ = writeln!(out, "</h1>\n<p class=\"sub\">{}</p>", escape(&document.subtitle));
    if !document.sentence.is_empty() {
        let _ = writeln!(out, "<p class=\"lead\">{}</p>", escape(&document.sentence));
    }
    out.push_str("<nav aria-label=\"Sections\">");
    for section in &document.sections {
        let _ =
            write!(out, "<a href=\"#{}\">{}</a> ", escape(&section.id), escape(&section.heading));
    }
    out.push_str("</nav>\n</header>\n");
}

fn notices(out: &mut String, notices: &[Notice]) {
    if notices.is_empty() {
        return;
    }
    let informs = |n: &&Notice| n.severity == Severity::Info;
    out.push_str("<section class=\"notices\" aria-label=\"Warnings\">\n");
    let information: Vec<&Notice> = notices.iter().filter(informs).collect();
    for n in notices.iter().filter(|n| !informs(n)) {
        notice(out, n);
    }
    if information.len() >= FOLDED {
        let _ = writeln!(out, "<details><summary>{} notes</summary>", information.len());
        information.iter().for_each(|n| notice(out, n));
        out.push_str("</details>\n");
    } else {
        information.iter().for_each(|n| notice(out, n));
    }
    out.push_str("</section>\n");
}

fn notice(out: &mut String, n: &Notice) {
    let (class, word) = match n.severity {
        Severity::Info => ("note", "Note"),
        Severity::Warning => ("warning", "Warning"),
        Severity::Error => ("error", "Error"),
    };
    let about = if n.about.is_empty() { String::new() } else { format!(", {}", escape(&n.about)) };
    let _ = writeln!(
        out,
        "<p class=\"notice {class}\"><strong>{word}{about}:</strong> {} <code>{}</code></p>",
        escape(&n.text),
        escape(&n.code)
    );
}

fn headlines(out: &mut String, headlines: &[Headline]) {
    if headlines.is_empty() {
        return;
    }
    out.push_str("<dl class=\"headlines\">\n");
    for h in headlines {
        let value = match &h.value {
            Some(value) => unit_apart(value),
            None => "<span class=\"none\">not measured</span>".into(),
        };
        let _ = writeln!(
            out,
            "<div><dt>{}</dt><dd>{value}<small>{}</small></dd></div>",
            escape(&h.label),
            escape(&h.note)
        );
    }
    out.push_str("</dl>\n");
}

/// A figure with its unit in a smaller font.
fn unit_apart(value: &str) -> String {
    match value.split_once('\u{a0}') {
        Some((figure, unit)) => {
            format!("{}<span class=\"unit\">\u{a0}{}</span>", escape(figure), escape(unit))
        }
        None => escape(value).into_owned(),
    }
}

struct Writer {
    out: String,
    charts: usize,
    tables: usize,
}

impl Writer {
    fn section(&mut self, section: &Section) {
        let id = escape(&section.id);
        let _ = writeln!(
            self.out,
            "<section aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{}</h2>",
            escape(&section.heading)
        );
        for block in &section.blocks {
            self.block(block);
        }
        self.out.push_str("</section>\n");
    }

    fn block(&mut self, block: &Block) {
        match block {
            Block::Text(text) => {
                let _ = writeln!(self.out, "<p>{}</p>", escape(text));
            }
            Block::Command(text) => {
                let _ = writeln!(
                    self.out,
                    "<pre class=\"command\"><code>{}</code></pre>",
                    escape(text)
                );
            }
            Block::Facts(facts) => {
                self.out.push_str("<dl class=\"facts\">\n");
                for (name, value) in facts {
                    let _ =
                        writeln!(self.out, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(value));
                }
                self.out.push_str("</dl>\n");
            }
            Block::Grid(grid) => self.grid(grid),
            Block::Figures(figures) => {
                self.out.push_str("<div class=\"figures\">\n");
                for figure in figures {
                    self.charts += 1;
                    let id = format!("c{}-{}", self.charts, figure.id);
                    let _ = writeln!(
                        self.out,
                        "<figure>\n<div class=\"wide\">{}</div><figcaption>{}</figcaption>\n</figure>",
                        figure.inline_svg(&id),
                        escape(&figure.caption)
                    );
                }
                self.out.push_str("</div>\n");
            }
            Block::Definitions(definitions) => {
                self.out.push_str("<dl class=\"definitions\">\n");
                for d in definitions {
                    let source = if d.source.is_empty() {
                        String::new()
                    } else {
                        format!(" <span class=\"source\">{}</span>", escape(d.source))
                    };
                    let _ = writeln!(
                        self.out,
                        "<dt>{}{source}</dt><dd>{}</dd>",
                        escape(d.term),
                        escape(d.text)
                    );
                }
                self.out.push_str("</dl>\n");
            }
            Block::Verbatim { title, text } => {
                let _ =
                    write!(self.out, "<details><summary>{}</summary><pre><code>", escape(title));
                for line in text.lines() {
                    self.out.push_str(&escape(line));
                    self.out.push('\n');
                }
                self.out.push_str("</code></pre></details>\n");
            }
        }
    }

    fn grid(&mut self, grid: &Grid) {
        let laid = grid.laid();
        self.tables += 1;
        let id = format!("t{}", self.tables);
        let _ = write!(
            self.out,
            "<div class=\"table\" role=\"region\" aria-labelledby=\"{id}\" tabindex=\"0\"><table{}>\n<caption id=\"{id}\">{}</caption>\n<thead>",
            if grid.rows.len() > grid.sums + 1 && !grid.in_order {
                " class=\"sortable\""
            } else {
                ""
            },
            escape(&grid.caption)
        );
        if grid.columns.iter().any(|c| !c.over.is_empty()) {
            self.out.push_str("<tr>");
            for columns in grid.columns.chunk_by(|a, b| a.over == b.over) {
                let _ = match columns[0].over.as_str() {
                    "" => write!(self.out, "<td colspan=\"{}\"></td>", columns.len()),
                    over => write!(
                        self.out,
                        "<th scope=\"colgroup\" colspan=\"{}\">{}</th>",
                        columns.len(),
                        escape(over)
                    ),
                };
            }
            self.out.push_str("</tr>\n");
        }
        self.out.push_str("<tr>");
        for (head, unit, figures) in &laid.heads {
            let class = if *figures { " class=\"n\"" } else { "" };
            let unit = if unit.is_empty() {
                String::new()
            } else {
                format!(" <span class=\"unit\">{}</span>", escape(unit))
            };
            let _ = write!(self.out, "<th scope=\"col\"{class}>{}{unit}</th>", escape(head));
        }
        self.out.push_str("</tr></thead>\n<tbody>\n");
        let body = laid.rows.len().saturating_sub(grid.sums);
        for (n, row) in laid.rows.iter().enumerate() {
            if n == body {
                self.out.push_str("</tbody>\n<tfoot>\n");
            }
            self.out.push_str("<tr>");
            for (i, cell) in row.iter().enumerate() {
                let figures = laid.heads.get(i).is_some_and(|h| h.2);
                let (tag, scope) =
                    if i == 0 && grid.row_heads { ("th", " scope=\"row\"") } else { ("td", "") };
                let mut class = if figures { "n".to_string() } else { String::new() };
                if cell.absent {
                    class += if class.is_empty() { "none" } else { " none" };
                }
                let _ = write!(self.out, "<{tag}{scope}");
                if cell.text.len() > LONG {
                    class += if class.is_empty() { "long" } else { " long" };
                }
                if !class.is_empty() {
                    let _ = write!(self.out, " class=\"{class}\"");
                }
                if let Some(value) = cell.value.filter(|v| v.is_finite()) {
                    let _ = write!(self.out, " data-v=\"{value:e}\"");
                }
                if cell.absent {
                    self.out.push_str(" title=\"not measured\"");
                }
                let text = escape(&cell.text);
                let _ = match cell.code {
                    true => write!(self.out, "><code>{text}</code></{tag}>"),
                    false => write!(self.out, ">{text}</{tag}>"),
                };
            }
            self.out.push_str("</tr>\n");
        }
        self.out.push_str(if grid.sums > 0 && body < laid.rows.len() {
            "</tfoot>\n"
        } else {
            "</tbody>\n"
        });
        self.out.push_str("</table></div>\n");
    }
}
