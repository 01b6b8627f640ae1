//! JUnit XML of an experiment: a test case for each expectation and for each step that failed to run.

use std::fmt::Write as _;

use weir_model::experiment::{Experiment, Outcome, StepOutcome};

use super::grid::key;

/// The document. Inconclusive cases are reported as skipped, with their reason.
#[must_use]
pub fn junit(experiment: &Experiment) -> String {
    let mut cases = vec![];
    for step in &experiment.steps {
        collect(step, "", &mut cases);
    }
    let count = |outcome| cases.iter().filter(|c| c.outcome == outcome).count();
    let skipped = count(Outcome::Skipped) + count(Outcome::Inconclusive);
    let sums = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{skipped}\" time=\"{:.3}\"",
        cases.len(),
        count(Outcome::Failed),
        count(Outcome::Error),
        experiment.seconds,
    );
    let name = escape(&experiment.name);
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    // Writing into a string cannot fail.
    let _ = writeln!(out, "<testsuites name=\"weir\" {sums}>");
    let _ = writeln!(
        out,
        "  <testsuite name=\"{name}\" {sums} timestamp=\"{}\" id=\"{}\">",
        escape(experiment.started_at.trim_end_matches('Z')),
        escape(&experiment.id)
    );
    for case in &cases {
        let _ = write!(
            out,
            "    <testcase classname=\"{name}.{}\" name=\"{}\" time=\"{:.3}\"",
            escape(&case.step),
            escape(&case.name),
            case.seconds
        );
        let reason = escape(&case.reason);
        let element = match case.outcome {
            Outcome::Done | Outcome::Passed => String::new(),
            Outcome::Failed => format!("<failure message=\"{reason}\"/>"),
            Outcome::Error => format!("<error message=\"{reason}\"/>"),
            Outcome::Inconclusive => format!("<skipped message=\"inconclusive: {reason}\"/>"),
            Outcome::Skipped => format!("<skipped message=\"{reason}\"/>"),
        };
        let printed = match case.printed {
            None => String::new(),
            Some(step) => {
                stream("system-out", step.output.as_deref())
                    + &stream("system-err", step.stderr.as_deref())
            }
        };
        let _ = match element.is_empty() && printed.is_empty() {
            true => writeln!(out, "/>"),
            false => writeln!(out, ">{element}{printed}</testcase>"),
        };
    }
    out += "  </testsuite>\n</testsuites>\n";
    out
}

/// The element of a stream that has text.
fn stream(element: &str, text: Option<&str>) -> String {
    match text {
        None | Some("") => String::new(),
        Some(text) => format!("<{element}>{}</{element}>", escape_lines(text)),
    }
}

struct Case<'a> {
    step: String,
    name: String,
    outcome: Outcome,
    reason: String,
    seconds: f64,
    /// The step, if its output belongs to this case.
    printed: Option<&'a StepOutcome>,
}

fn collect<'a>(step: &'a StepOutcome, around: &str, cases: &mut Vec<Case<'a>>) {
    let path =
        if around.is_empty() { step.name.clone() } else { format!("{around}/{}", step.name) };
    for (i, judged) in step.expectations.iter().enumerate() {
        let at: Vec<(String, String)> = judged.at.clone().into_iter().collect();
        let name = if at.is_empty() {
            judged.text.clone()
        } else {
            format!("{} [{}]", judged.text, key(&at))
        };
        cases.push(Case {
            step: path.clone(),
            name,
            outcome: judged.outcome,
            reason: judged.reason.clone(),
            // The step's time once: a sum would count it for each expectation.
            seconds: if i == 0 { step.seconds } else { 0.0 },
            // Likewise.
            printed: (i == 0).then_some(step),
        });
    }
    let own = matches!(step.outcome, Outcome::Error | Outcome::Skipped)
        || (step.reason.is_some() && !matches!(step.outcome, Outcome::Done | Outcome::Passed));
    if own || (step.expectations.is_empty() && step.steps.is_empty()) {
        cases.push(Case {
            step: path.clone(),
            name: step.action.clone(),
            outcome: step.outcome,
            reason: step.reason.clone().unwrap_or_default(),
            seconds: if step.expectations.is_empty() { step.seconds } else { 0.0 },
            printed: step.expectations.is_empty().then_some(step),
        });
    }
    for inner in &step.steps {
        collect(inner, &path, cases);
    }
}

/// Escapes the text of an attribute; characters that XML 1.0 forbids are removed.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\n' | '\t' | '\r' => out.push(' '),
            c if (c as u32) < 0x20 || matches!(c, '\u{fffe}' | '\u{ffff}') => {}
            // XML allows it, but it would control a terminal.
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Escapes a text of several lines for the content of an element.
fn escape_lines(text: &str) -> String {
    text.lines().map(|line| escape(line) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_name_gets_out_of_its_attribute() {
        assert_eq!(escape("a<b>&\"c\"\u{1}\n"), "a&lt;b&gt;&amp;&quot;c&quot; ");
        assert_eq!(escape_lines("a\u{1b}[2J<b>\r\n]]>"), "a[2J&lt;b&gt;\n]]&gt;\n");
        assert_eq!(escape("a\u{9b}31m\u{1b}[2J\u{7f}"), "a\u{fffd}31m[2J\u{fffd}");
    }
}
