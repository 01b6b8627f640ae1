//! `weir doctor`: checks this host's settings for measurements and recommends changes.

use std::fmt::Write as _;

use clap::Args;
use weir_experiment::doctor::{Diagnosis, Finding, Options, Severity, examine};
use weir_report::{TextOptions, clean, hanging};

use crate::error::CliError;
use crate::output::{print, print_object};
use crate::terminal::text_options;

/// Flags of `weir doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Check only this interface and loopback [default: all that are up]
    #[arg(long, value_name = "IF")]
    interface: Option<String>,
    /// Print JSON
    #[arg(long, short = 'J')]
    json: bool,
}

/// Runs the command. Exit code: 0, or 4 when something essential is unavailable.
///
/// # Errors
/// An interface that does not exist, or facts that can't be read.
pub(crate) fn run(args: DoctorArgs) -> Result<i32, CliError> {
    let interface = args.interface;
    let diagnosis = examine(&Options { interface: interface.clone(), ..Options::default() })
        .map_err(|e| match e {
            weir_experiment::Error::NoInterface { .. } => CliError::flag(
                "--interface",
                interface.unwrap_or_default(),
                "an interface of this host (`ip link` lists them)",
            ),
            other => CliError::Unavailable(other.to_string()),
        })?;
    if args.json {
        print_object(&diagnosis)?;
    } else {
        print(&text(&diagnosis, &text_options()))?;
    }
    Ok(diagnosis.exit_code())
}

/// Runs a job of `weir job`.
///
/// # Errors
/// As [`run`].
pub(crate) fn run_job() -> Result<i32, CliError> {
    crate::job::listen(|reason| std::process::exit(reason.exit_code()))?;
    run(DoctorArgs { interface: None, json: true })
}

/// The findings by group, then the verdict.
fn text(diagnosis: &Diagnosis, options: &TextOptions) -> String {
    let style = &options.style;
    let mut out = String::new();
    let mut group = None;
    for finding in &diagnosis.findings {
        if group != Some(finding.group) {
            if group.is_some() {
                out.push('\n');
            }
            let _ = writeln!(out, "{}", style.bold(finding.group.title()));
            group = Some(finding.group);
        }
        one(&mut out, finding, options);
    }
    let verdict = hanging(&clean(&diagnosis.verdict), options.width, "Verdict: ".len());
    let _ = write!(out, "\n{} {verdict}", style.bold("Verdict:"));
    out
}

fn one(out: &mut String, finding: &Finding, options: &TextOptions) {
    /// Column of the findings, and of the facts about one.
    const COLUMNS: [usize; 2] = [11, 21];
    let (style, width) = (&options.style, options.width);
    // Padded before it is coloured: escape sequences have no width.
    let mark = match finding.severity {
        Severity::Ok => format!("{:<8}", "ok"),
        Severity::Info => format!("{:<8}", "info"),
        Severity::Warning => style.yellow(&format!("{:<8}", "warning")),
        Severity::Error => style.red(&format!("{:<8}", "error")),
    };
    // Writing to a String does not fail.
    if finding.severity == Severity::Ok {
        let text = format!("{} ({})", clean(&finding.title), clean(&finding.evidence));
        let _ = write!(out, "  {mark} {}", hanging(&text, width, COLUMNS[0]));
        return;
    }
    let _ = write!(out, "  {mark} {}", hanging(&clean(&finding.title), width, COLUMNS[0]));
    for (name, value) in [("seen:", &finding.evidence), ("effect:", &finding.effect)] {
        let _ = write!(out, "           {name:<9} {}", hanging(&clean(value), width, COLUMNS[1]));
    }
    // A command to copy is not broken.
    if let Some(change) = &finding.change {
        let _ = writeln!(out, "           {:<9} {}", "change:", clean(change));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_experiment::doctor::{Fact, Facts, check};

    #[test]
    fn a_warning_shows_what_was_seen_its_effect_and_the_command() {
        let facts = Facts {
            rmem_max: Fact::read("net.core.rmem_max", 212_992),
            gso_segments: Fact::read("UDP_SEGMENT", 128),
            ..Facts::default()
        };
        let text = text(&Diagnosis::new(check(&facts)), &TextOptions::default());
        assert!(
            text.starts_with("Sockets\n  warning  limit of receive buffers is 208 KiB\n"),
            "{text}"
        );
        assert!(text.contains("           seen:     net.core.rmem_max = 212992\n"), "{text}");
        assert!(
            text.contains("           change:   sysctl -w net.core.rmem_max=16777216\n"),
            "{text}"
        );
        assert!(
            text.contains(
                "\n\nKernel\n  ok       UDP_SEGMENT works (UDP_SEGMENT: 128 segments in one send)\n\nVerdict: ready, with one warning"
            ),
            "{text}"
        );
    }
}
