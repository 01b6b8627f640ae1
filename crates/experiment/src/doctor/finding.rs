//! A finding, and the diagnosis of all findings.

use serde::{Deserialize, Serialize};

/// Severity of a finding.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[schemars(rename = "FindingSeverity")]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// As it should be.
    Ok,
    /// Information; figures are unaffected.
    Info,
    /// Figures may be limited by it.
    Warning,
    /// A test can't run without it.
    Error,
}

/// The subject of a finding: its heading in the text.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[schemars(rename = "FindingGroup")]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// Permissions of this process.
    Permissions,
    /// Cores, load, frequency, virtualisation.
    Cpu,
    /// Clocks, timers, waking.
    Time,
    /// Buffers, descriptors, ports.
    Sockets,
    /// Interfaces and their queues.
    Interfaces,
    /// Packet filters and connection tracking.
    Firewall,
    /// Build options of the kernel.
    Kernel,
}

impl Group {
    /// The heading.
    pub fn title(self) -> &'static str {
        match self {
            Group::Permissions => "Permissions",
            Group::Cpu => "CPU",
            Group::Time => "Clocks and timers",
            Group::Sockets => "Sockets",
            Group::Interfaces => "Interfaces",
            Group::Firewall => "Firewall",
            Group::Kernel => "Kernel",
        }
    }
}

/// One finding about this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Finding {
    /// Stable name for scripts: `receive-buffer-limit`; that of an interface has its name after a colon.
    pub id: String,
    /// What it is about.
    pub group: Group,
    /// Its severity.
    pub severity: Severity,
    /// The finding in a few words.
    pub title: String,
    /// What was read, and where.
    pub evidence: String,
    /// The effect on a measurement.
    pub effect: String,
    /// The exact command that changes it; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
}

impl Finding {
    pub(crate) fn new(
        group: Group,
        severity: Severity,
        id: impl Into<String>,
        title: impl Into<String>,
        evidence: impl Into<String>,
        effect: impl Into<String>,
    ) -> Self {
        Finding {
            id: id.into(),
            group,
            severity,
            title: title.into(),
            evidence: evidence.into(),
            effect: effect.into(),
            change: None,
        }
    }

    pub(crate) fn change(mut self, command: impl Into<String>) -> Self {
        self.change = Some(command.into());
        self
    }
}

/// All findings, by group, the most severe of each group first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Diagnosis {
    /// `weir.doctor/1`.
    pub schema: String,
    /// A summary in one line.
    pub verdict: String,
    /// The findings.
    pub findings: Vec<Finding>,
}

impl Diagnosis {
    /// The schema's name.
    pub(crate) const SCHEMA: &str = "weir.doctor/1";

    /// Sorts the findings and derives the verdict.
    pub fn new(mut findings: Vec<Finding>) -> Self {
        findings.sort_by_key(|f| (f.group, std::cmp::Reverse(f.severity)));
        let of = |severity| findings.iter().filter(move |f| f.severity == severity);
        let titles = |severity| {
            let titles: Vec<_> = of(severity).map(|f| f.title.as_str()).collect();
            titles.join("; ")
        };
        let verdict = match (of(Severity::Error).count(), of(Severity::Warning).count()) {
            (0, 0) => "ready: no setting found that affects measurements".to_owned(),
            (0, 1) => format!("ready, with one warning: {}", titles(Severity::Warning)),
            (0, n) => format!("ready, with {n} warnings, each with its effect above"),
            (_, _) => format!("not ready: {}", titles(Severity::Error)),
        };
        Diagnosis { schema: Self::SCHEMA.into(), verdict, findings }
    }

    /// Exit code of the command: 0, or 4 if something essential is not available.
    pub fn exit_code(&self) -> i32 {
        if self.findings.iter().any(|f| f.severity == Severity::Error) { 4 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(group: Group, severity: Severity, title: &str) -> Finding {
        Finding::new(group, severity, "x", title, "", "")
    }

    #[test]
    fn verdict_and_exit_code_follow_the_gravest() {
        let none = Diagnosis::new(vec![finding(Group::Cpu, Severity::Info, "i")]);
        assert_eq!((none.exit_code(), &none.verdict[..6]), (0, "ready:"));
        let one = Diagnosis::new(vec![finding(Group::Cpu, Severity::Warning, "small buffer")]);
        assert_eq!((one.exit_code(), one.verdict.contains("small buffer")), (0, true));
        let error = Diagnosis::new(vec![
            finding(Group::Kernel, Severity::Ok, "k"),
            finding(Group::Cpu, Severity::Warning, "w"),
            finding(Group::Cpu, Severity::Error, "no loopback"),
        ]);
        assert_eq!((error.exit_code(), error.verdict.as_str()), (4, "not ready: no loopback"));
        let order: Vec<_> = error.findings.iter().map(|f| f.title.as_str()).collect();
        assert_eq!(order, ["no loopback", "w", "k"]);
    }
}
