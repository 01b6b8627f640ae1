//! What is said of an experiment while it runs.

use std::time::Duration;

use weir_experiment::scenario::{Happening, Options, text};
use weir_model::experiment::Scenario;

use crate::app::note;
use crate::output::print;

/// What is about to be done.
pub(super) fn head(scenario: &Scenario, options: &Options<'_>) -> String {
    let mut out = format!("{}\n", scenario.title.as_ref().unwrap_or(&scenario.name));
    if let Some(method) = &scenario.method {
        out += &format!("{}\n", method.trim());
    }
    if options.quick {
        out += "quick: fewer and shorter runs than the method asks for; not for publication\n";
    }
    out.push('\n');
    out
}

/// Tells of what happened: progress on stderr, results on stdout unless they come as JSON at the end.
pub(super) fn told(happening: &Happening<'_>, json: bool) {
    match happening {
        Happening::Began { name, action, depth } => {
            if *action != "wait" {
                note(&format!("{}{name} …", "  ".repeat(*depth)));
            }
        }
        Happening::Ran { run, is_old, done, of, left, .. } => {
            let at: Vec<String> = run.at.iter().map(|(n, v)| format!("{n}={v}")).collect();
            let figure = match &run.error {
                Some(error) => error.clone(),
                None => ["throughput", "loss"]
                    .iter()
                    .filter_map(|n| {
                        Some(format!("{n} {}", text::unit_of(n).show(*run.metrics.get(*n)?)))
                    })
                    .collect::<Vec<_>>()
                    .join(", "),
            };
            let mut line = match of {
                0 => format!("  {done}"),
                of => format!("  {done}/{of}"),
            };
            for part in [at.join(" "), figure] {
                if !part.is_empty() {
                    line += &format!("  {part}");
                }
            }
            if *is_old {
                line += "  (done before)";
            }
            if run.disturbed {
                line += if run.superseded { "  disturbed, again" } else { "  disturbed" };
            }
            if let Some(left) = left.filter(|l| *l >= Duration::from_secs(1)) {
                line += &format!("  {} left", minutes(left));
            }
            note(&line);
        }
        Happening::Ended { step, depth } => {
            if *depth == 0 && !json {
                // A reader that is gone is told at the end.
                let _ = print(&text::whole(step, 0));
            }
        }
    }
}

fn minutes(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}
