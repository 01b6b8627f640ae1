//! Alarms: conditions that a user of the emulator must know about. Each is raised once until it clears.

use serde::{Deserialize, Serialize};

/// The subject of an alarm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AlarmKind {
    /// An interface is down or has no carrier.
    LinkDown,
    /// A direction's thread uses more than 90 % of a processor.
    CpuHigh,
    /// More than 90 % of the memory for queued packets is in use, or a frame found no room.
    MemoryCapNear,
    /// Packets were lost without a law.
    UnplannedDrop,
    /// Packets left more than 1 ms late.
    DeadlineLate,
    /// The realtime clock, which the kernel's stamps use, was stepped.
    ClockStepped,
    /// The packet trace's queue overflowed, or writing failed.
    PacketTraceDropped,
}

impl AlarmKind {
    /// Its name in a report.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            AlarmKind::LinkDown => "link-down",
            AlarmKind::CpuHigh => "cpu-high",
            AlarmKind::MemoryCapNear => "memory-cap-near",
            AlarmKind::UnplannedDrop => "unplanned-drop",
            AlarmKind::DeadlineLate => "deadline-late",
            AlarmKind::ClockStepped => "clock-stepped",
            AlarmKind::PacketTraceDropped => "packet-trace-dropped",
        }
    }
}

/// An alarm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Alarm {
    /// About what.
    pub kind: AlarmKind,
    /// The interface or direction.
    pub object: String,
    /// When it was raised, s since the start.
    pub at_seconds: f64,
    /// Whether the condition persists.
    pub active: bool,
    /// In words.
    pub text: String,
}

/// Maximum number of alarms stored; the oldest cleared ones are dropped first.
const MAX: usize = 256;

/// The alarms of a running emulator.
#[derive(Debug, Default)]
pub(crate) struct Alarms {
    list: Vec<Alarm>,
    /// Alarms ever raised.
    raised: u64,
}

impl Alarms {
    /// Sets the condition of an alarm; `text` is evaluated when it is raised.
    pub(crate) fn set(
        &mut self,
        kind: AlarmKind,
        object: &str,
        holds: bool,
        at_seconds: f64,
        text: impl FnOnce() -> String,
    ) {
        let active =
            self.list.iter_mut().find(|a| a.active && a.kind == kind && a.object == object);
        match (active, holds) {
            (Some(alarm), false) => alarm.active = false,
            (None, true) => {
                if self.list.len() >= MAX
                    && let Some(oldest) = self.list.iter().position(|a| !a.active)
                {
                    self.list.remove(oldest);
                }
                self.raised += 1;
                let (object, text) = (object.to_owned(), text());
                self.list.push(Alarm { kind, object, at_seconds, active: true, text });
            }
            _ => {}
        }
    }

    pub(crate) fn list(&self) -> &[Alarm] {
        &self.list
    }

    /// The alarms raised after the first `seen`, and the total number raised.
    pub(crate) fn after(&self, seen: u64) -> (Vec<Alarm>, u64) {
        let new = usize::try_from(self.raised - seen.min(self.raised)).unwrap_or(usize::MAX);
        let from = self.list.len().saturating_sub(new);
        (self.list[from..].to_vec(), self.raised)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_is_reported_once_until_it_has_passed() {
        let mut alarms = Alarms::default();
        let mut set = |holds, at| {
            alarms.set(AlarmKind::LinkDown, "eth0", holds, at, || format!("down at {at}"));
        };
        set(true, 1.0);
        set(true, 2.0);
        set(false, 3.0);
        set(false, 4.0);
        set(true, 5.0);
        let (all, raised) = alarms.after(0);
        assert_eq!(raised, 2);
        assert_eq!(
            all.iter().map(|a| (a.at_seconds, a.active)).collect::<Vec<_>>(),
            [(1.0, false), (5.0, true)]
        );
        assert_eq!(alarms.after(1).0.len(), 1);
        assert!(alarms.after(2).0.is_empty());
        for i in 0..1000 {
            let object = i.to_string();
            alarms.set(AlarmKind::CpuHigh, &object, true, 6.0, String::new);
            alarms.set(AlarmKind::CpuHigh, &object, false, 6.0, String::new);
        }
        assert!(alarms.list().len() <= MAX);
        assert!(alarms.list().iter().any(|a| a.object == "eth0" && a.active));
    }
}
