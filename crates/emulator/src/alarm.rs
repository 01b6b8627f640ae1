//! Alarms: conditions that a user of the emulator must know about. Each is raised once until it clears.

use serde::{Deserialize, Serialize};

use crate::error::EmulatorError;

/// The subject of an alarm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AlarmKind {
    /// An interface is down or has no carrier.
    LinkDown,
    /// A direction's thread uses more of a processor than the threshold.
    CpuHigh,
    /// More of the memory for queued packets is in use than the threshold, or a frame found no room.
    MemoryCapNear,
    /// More packets than the threshold were lost without a law.
    UnplannedDrop,
    /// More packets than the threshold left more than 1 ms late.
    DeadlineLate,
    /// The realtime clock, which the kernel's stamps use, was stepped.
    ClockStepped,
    /// The packet trace's queue overflowed, or writing failed.
    PacketTraceDropped,
    /// A capture or log lacks packets, or has ended by its limit or an error.
    RecordingIncomplete,
}

impl AlarmKind {
    /// All kinds.
    pub const ALL: [AlarmKind; 8] = [
        AlarmKind::LinkDown,
        AlarmKind::CpuHigh,
        AlarmKind::MemoryCapNear,
        AlarmKind::UnplannedDrop,
        AlarmKind::DeadlineLate,
        AlarmKind::ClockStepped,
        AlarmKind::PacketTraceDropped,
        AlarmKind::RecordingIncomplete,
    ];

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
            AlarmKind::RecordingIncomplete => "recording-incomplete",
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
    /// When a user acknowledged it, s since the start; absent until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged_at_seconds: Option<f64>,
    /// In words.
    pub text: String,
}

/// Selects alarms; without a field: all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AlarmSelection {
    /// Those of this kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<AlarmKind>,
    /// Those of this interface or direction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
}

impl AlarmSelection {
    /// Whether it selects an alarm.
    #[must_use]
    pub fn has(&self, alarm: &Alarm) -> bool {
        self.kind.is_none_or(|kind| kind == alarm.kind)
            && self.object.as_ref().is_none_or(|object| *object == alarm.object)
    }
}

/// Values above which alarms are raised; the emulator checks every half second. An absent field has its default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AlarmThresholds {
    /// CPU use of a direction's thread, per cent of a processor.
    #[schemars(range(min = 1, max = 100))]
    pub cpu_percentage: u32,
    /// Memory in use for queued packets, per cent of its limit.
    #[schemars(range(min = 1, max = 100))]
    pub memory_percentage: u32,
    /// Packets lost without a law in half a second.
    #[schemars(range(max = 1_000_000_000))]
    pub unplanned_packets: u32,
    /// Packets that left more than 1 ms late in half a second.
    #[schemars(range(max = 1_000_000_000))]
    pub late_packets: u32,
}

impl Default for AlarmThresholds {
    fn default() -> Self {
        AlarmThresholds {
            cpu_percentage: 90,
            memory_percentage: 90,
            unplanned_packets: 0,
            late_packets: 0,
        }
    }
}

impl AlarmThresholds {
    /// Checks the ranges that the schema states.
    pub(crate) fn check(&self) -> Result<(), EmulatorError> {
        for (name, value, range) in [
            ("cpu_percentage", self.cpu_percentage, 1..=100),
            ("memory_percentage", self.memory_percentage, 1..=100),
            ("unplanned_packets", self.unplanned_packets, 0..=1_000_000_000),
            ("late_packets", self.late_packets, 0..=1_000_000_000),
        ] {
            if !range.contains(&value) {
                return Err(EmulatorError::Refusal {
                    what: name.into(),
                    given: value.to_string(),
                    accepted: format!("{} to {}", range.start(), range.end()),
                });
            }
        }
        Ok(())
    }
}

/// Maximum number of alarms stored; the oldest cleared ones are dropped first.
const MAX: usize = 256;

/// The alarms of a running emulator.
#[derive(Debug, Default)]
pub(crate) struct Alarms {
    list: Vec<Alarm>,
    /// The number of each, from 1 in the order in which they were raised.
    numbers: Vec<u64>,
    /// Alarms ever raised.
    raised: u64,
    /// Thresholds above which they are raised.
    pub(crate) thresholds: AlarmThresholds,
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
                    self.numbers.remove(oldest);
                }
                self.raised += 1;
                let (object, text) = (object.to_owned(), text());
                self.numbers.push(self.raised);
                self.list.push(Alarm {
                    kind,
                    object,
                    at_seconds,
                    active: true,
                    acknowledged_at_seconds: None,
                    text,
                });
            }
            _ => {}
        }
    }

    /// Acknowledges alarms; returns the number of those that were not acknowledged before.
    pub(crate) fn acknowledge(&mut self, which: &AlarmSelection, at_seconds: f64) -> usize {
        let mut count = 0;
        for alarm in self.list.iter_mut().filter(|alarm| which.has(alarm)) {
            if alarm.acknowledged_at_seconds.is_none() {
                alarm.acknowledged_at_seconds = Some(at_seconds);
                count += 1;
            }
        }
        count
    }

    /// Removes alarms whose condition has passed; returns their number.
    pub(crate) fn clear(&mut self, which: &AlarmSelection) -> usize {
        let before = self.list.len();
        let goes = |alarm: &Alarm| !alarm.active && which.has(alarm);
        let mut alarms = self.list.iter();
        self.numbers.retain(|_| !alarms.next().is_some_and(goes));
        self.list.retain(|alarm| !goes(alarm));
        before - self.list.len()
    }

    pub(crate) fn list(&self) -> &[Alarm] {
        &self.list
    }

    /// The alarms raised after the first `seen`, and the total number raised.
    pub(crate) fn after(&self, seen: u64) -> (Vec<Alarm>, u64) {
        let from = self.numbers.partition_point(|&number| number <= seen);
        (self.list[from..].to_vec(), self.raised)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarms_are_acknowledged_and_cleared() {
        let mut alarms = Alarms::default();
        let mut set = |kind, object: &str, holds, at| {
            alarms.set(kind, object, holds, at, String::new);
        };
        set(AlarmKind::LinkDown, "eth0", true, 1.0);
        set(AlarmKind::LinkDown, "eth1", true, 2.0);
        set(AlarmKind::LinkDown, "eth0", false, 3.0);
        set(AlarmKind::CpuHigh, "forward", true, 4.0);
        let of =
            |kind, object: Option<&str>| AlarmSelection { kind, object: object.map(Into::into) };
        let eth0 = of(Some(AlarmKind::LinkDown), Some("eth0"));
        assert_eq!(alarms.acknowledge(&eth0, 5.0), 1);
        assert_eq!(alarms.acknowledge(&eth0, 6.0), 0, "the first time stays");
        assert_eq!(alarms.acknowledge(&of(None, Some("eth2")), 6.0), 0);
        assert_eq!(alarms.acknowledge(&of(Some(AlarmKind::LinkDown), None), 7.0), 1);
        let times: Vec<_> = alarms.list().iter().map(|a| a.acknowledged_at_seconds).collect();
        assert_eq!(times, [Some(5.0), Some(7.0), None]);
        // Only passed ones; those raised later keep their numbers.
        assert_eq!(alarms.clear(&of(Some(AlarmKind::CpuHigh), None)), 0);
        assert_eq!(alarms.clear(&AlarmSelection::default()), 1);
        assert_eq!(alarms.list().iter().map(|a| a.at_seconds).collect::<Vec<_>>(), [2.0, 4.0]);
        assert_eq!(alarms.after(2).0.len(), 1);
        assert!(alarms.after(3).0.is_empty());
        // Raised again, it is not acknowledged.
        alarms.set(AlarmKind::LinkDown, "eth0", true, 8.0, String::new);
        assert_eq!(alarms.after(3).0[0].acknowledged_at_seconds, None);
    }

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
