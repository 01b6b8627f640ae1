//! Prints the progress of an experiment.

use std::time::Duration;

use weir_experiment::scenario::estimate::{Estimate, minutes};
use weir_experiment::scenario::{Options, ScenarioEvent, text};
use weir_model::experiment::Scenario;
use weir_report::clean;

use crate::app::note;
use crate::job::notice;
use crate::output::print;
use crate::terminal::wrapped;

/// Removes terminal control sequences from lines that may quote a scenario, a program or a peer.
pub(crate) fn cleaned(text: &str) -> String {
    text.split_inclusive('\n')
        .map(|line| match line.strip_suffix('\n') {
            Some(line) => format!("{}\n", clean(line)),
            None => clean(line).into_owned(),
        })
        .collect()
}

/// The heading printed before an experiment runs.
pub(super) fn head(
    scenario: &Scenario,
    options: &Options<'_>,
    estimate_line: Option<&str>,
) -> String {
    cleaned(&heading(scenario, options, estimate_line))
}

/// Number of runs and estimated time of an experiment, and how many runs are done if it is resumed. A simulated experiment
/// has no estimated time. Absent for a single run.
pub(super) fn estimate_text(
    estimate: &Estimate,
    is_simulated: bool,
    done: Option<u64>,
) -> Option<String> {
    let mut estimate = *estimate;
    if is_simulated {
        estimate.sending = Duration::ZERO;
        estimate.waiting = Duration::ZERO;
        estimate.searching = Duration::ZERO;
    }
    estimate.is_worth_showing().then(|| estimate.text(done))
}

fn heading(scenario: &Scenario, options: &Options<'_>, estimate_line: Option<&str>) -> String {
    let mut out = format!("{}\n", scenario.title.as_ref().unwrap_or(&scenario.name));
    if let Some(words) = estimate_line {
        out += &format!("{words}\n");
    }
    if let Some(method) = &scenario.method {
        out += &format!("{}\n", method.trim());
    }
    if options.quick {
        out += "quick: fewer and shorter runs than the method asks for; not for publication\n";
    }
    out.push('\n');
    wrapped(&out)
}

/// Reports events: progress on stderr, results on stdout unless they come as JSON at the end.
pub(super) fn print_event(happening: &ScenarioEvent<'_>, json: bool, verbose: bool) {
    match happening {
        ScenarioEvent::Began { name, action, depth } => {
            if *action != "wait" {
                note(&clean(&format!("{}{name} …", "  ".repeat(*depth))));
            }
        }
        ScenarioEvent::Ran { run, is_old, done, of, point, around, rates, left, .. } => {
            let around = around.iter().map(|(name, value)| (name, value));
            let around = around.filter(|(name, _)| !run.at.contains_key(*name));
            let at: Vec<String> = around.chain(&run.at).map(|(n, v)| format!("{n}={v}")).collect();
            let figure = match &run.error {
                Some(error) => error.clone(),
                None => [rates.1, rates.0, "loss"]
                    .iter()
                    .filter_map(|n| {
                        Some(format!("{n} {}", text::unit_of(n).show(*run.metrics.get(*n)?)))
                    })
                    .chain(run.crossing.map(|c| c.word().to_owned()))
                    .collect::<Vec<_>>()
                    .join(", "),
            };
            let mut line = match (point, of) {
                (Some((place, of)), _) => format!("  point {place}/{of}, trial {done}"),
                (None, 0) => format!("  trial {done}"),
                (None, of) => format!("  {done}/{of}"),
            };
            for part in [at.join(" "), figure] {
                if !part.is_empty() {
                    line += &format!("  {part}");
                }
            }
            if *is_old {
                line += "  (done before)";
            }
            if run.host_limited {
                line += if run.superseded { "  host-limited, again" } else { "  host-limited" };
            }
            if let Some(left) = left.filter(|l| *l >= Duration::from_secs(1)) {
                line += &format!("  {} left", minutes(left));
            }
            notice(if *is_old { "done-before" } else { "ran" }, &clean(&line));
        }
        ScenarioEvent::Planned { at, text, .. } => {
            let at: Vec<String> = at.iter().map(|(n, v)| format!("{n}={v}")).collect();
            let at = if at.is_empty() { String::new() } else { format!("{}: ", at.join(" ")) };
            note(&clean(&format!("  {at}{text}")));
        }
        ScenarioEvent::Ended { step, depth } => {
            if *depth == 0 && !json {
                // If stdout is closed, that is reported at the end.
                let _ = print(&cleaned(&text::whole(step, 0, verbose)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_scenario_can_not_control_the_terminal() {
        assert_eq!(
            cleaned("a\x1b[2Jb\nc\u{9b}d\r\n\te"),
            "a\u{fffd}[2Jb\nc\u{fffd}d\u{fffd}\n\u{fffd}e"
        );
        assert_eq!(cleaned("x ± 1\n\n"), "x ± 1\n\n");
    }
}
