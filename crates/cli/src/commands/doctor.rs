//! `weir doctor`: checks this host's settings for measurements and recommends changes.

use std::fmt::Write as _;
use std::io::{self, IsTerminal};

use clap::Args;
use weir_experiment::doctor::{Diagnosis, Finding, Options, Severity, examine};
use weir_report::{Style, clean};

use crate::error::CliError;
use crate::output::{print, print_object};

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
        print(&text(&diagnosis, &style()))?;
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

/// Colour on a terminal, unless `NO_COLOR` is set.
pub(crate) fn style() -> Style {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    if io::stdout().is_terminal() && !plain { Style::COLOUR } else { Style::PLAIN }
}

/// The findings by group, then the verdict.
fn text(diagnosis: &Diagnosis, style: &Style) -> String {
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
        one(&mut out, finding, style);
    }
    let _ = writeln!(out, "\n{} {}", style.bold("Verdict:"), clean(&diagnosis.verdict));
    out
}

fn one(out: &mut String, finding: &Finding, style: &Style) {
    // Padded before it is coloured: escape sequences have no width.
    let mark = match finding.severity {
        Severity::Ok => format!("{:<8}", "ok"),
        Severity::Info => format!("{:<8}", "info"),
        Severity::Warning => style.yellow(&format!("{:<8}", "warning")),
        Severity::Error => style.red(&format!("{:<8}", "error")),
    };
    // Writing to a String does not fail.
    if finding.severity == Severity::Ok {
        let _ = writeln!(out, "  {mark} {} ({})", clean(&finding.title), clean(&finding.evidence));
        return;
    }
    let _ = writeln!(out, "  {mark} {}", clean(&finding.title));
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(out, "           {name:<9} {}", clean(value));
    };
    line("seen:", &finding.evidence);
    line("effect:", &finding.effect);
    if let Some(change) = &finding.change {
        line("change:", change);
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
        let text = text(&Diagnosis::new(check(&facts)), &Style::PLAIN);
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
