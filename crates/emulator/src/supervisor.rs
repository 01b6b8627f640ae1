//! Checks the directions and the interfaces every half second, and raises alarms.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use weir_model::counted;
use weir_net::interface::{self, Interface};

use crate::alarm::{AlarmKind, Alarms};
use crate::direction::DirectionStatus;
use crate::emulator::NAMES;
use crate::lateness::LATE_NS;
use crate::recording::RecordingState;
use crate::remote::{Remote, lock};

/// Between two looks.
const WATCH: Duration = Duration::from_millis(500);

/// What the last look found.
#[derive(Default)]
struct Seen {
    /// Of each direction: unplanned and late packets, steps of the clock, frames without a slot.
    directions: [[u64; 4]; 2],
    packet_trace_dropped: u64,
    /// Of each incomplete recording: what it lacks, and its state.
    recordings: HashMap<u64, (u64, RecordingState)>,
}

impl Remote {
    /// The supervisor's life.
    pub(crate) fn watch(&self) {
        let mut seen = Seen::default();
        self.each_time(|| self.look(&mut seen));
    }

    /// Does something twice a second until the emulator ends.
    fn each_time(&self, mut look: impl FnMut()) {
        let (over, bell) = &self.shared.over;
        let mut ended = lock(over);
        while !*ended {
            ended = match bell.wait_timeout(ended, WATCH) {
                Ok((guard, _)) => guard,
                Err(poisoned) => poisoned.into_inner().0,
            };
            if !*ended {
                look();
            }
        }
    }

    fn look(&self, last: &mut Seen) {
        let now = self.seconds();
        let mut alarms = lock(&self.shared.alarms);
        let thresholds = alarms.thresholds;
        for ((workers, name), seen) in
            self.shared.statuses.iter().zip(NAMES).zip(&mut last.directions)
        {
            let values = |of: fn(&DirectionStatus) -> &AtomicU64| {
                workers.iter().map(move |status| of(status).load(Ordering::Relaxed))
            };
            let sum = |of| values(of).sum::<u64>();
            let max = |of| values(of).max().unwrap_or_default();
            let load = max(|status| &status.load_permille);
            alarms.set(
                AlarmKind::CpuHigh,
                name,
                load > u64::from(thresholds.cpu_percentage) * 10,
                now,
                || format!("a thread of {name} uses {} % of a processor", load / 10),
            );
            let held = sum(|status| &status.held_bytes);
            let most = max(|status| &status.memory_bytes);
            let refused = sum(|status| &status.memory_dropped_packets);
            // Slots larger than their frames may be used up before the frames reach the limit.
            let near =
                held > most / 100 * u64::from(thresholds.memory_percentage) || refused > seen[3];
            alarms.set(AlarmKind::MemoryCapNear, name, near, now, || {
                let beyond = match refused {
                    0 => String::new(),
                    count => format!("; {} without a slot so far", counted(count, "frame")),
                };
                format!("{name} holds {held} of {most} bytes; further packets are dropped{beyond}")
            });
            let unplanned = sum(|status| &status.unplanned_packets);
            let late = sum(|status| &status.late_packets);
            let steps = max(|status| &status.clock_steps);
            let grown = [
                unplanned.saturating_sub(seen[0]) > u64::from(thresholds.unplanned_packets),
                late.saturating_sub(seen[1]) > u64::from(thresholds.late_packets),
                steps > seen[2],
            ];
            alarms.set(AlarmKind::UnplannedDrop, name, grown[0], now, || {
                format!("{name}: packets are lost without a law, {unplanned} so far")
            });
            alarms.set(AlarmKind::DeadlineLate, name, grown[1], now, || {
                let count = late - seen[1];
                format!(
                    "{name}: {} left more than {} ms late",
                    counted(count, "packet"),
                    LATE_NS / 1_000_000
                )
            });
            alarms.set(AlarmKind::ClockStepped, name, grown[2], now, || {
                format!(
                    "{name}: the realtime clock was stepped; delays of packets that arrived \
                    within 10 ms of it may be wrong by the step"
                )
            });
            *seen = [unplanned, late, steps, refused];
        }
        if let Some(packet_trace) = &self.shared.packet_trace {
            let dropped = packet_trace.report().dropped_records;
            alarms.set(
                AlarmKind::PacketTraceDropped,
                "packet_trace",
                dropped > last.packet_trace_dropped,
                now,
                || {
                    format!(
                        "the packet trace lacks {}",
                        counted(dropped - last.packet_trace_dropped, "verdict")
                    )
                },
            );
            last.packet_trace_dropped = dropped;
        }
        for (id, report) in lock(&self.shared.recordings).incomplete() {
            let now_lacks = (report.dropped_records, report.state);
            let is_new = last.recordings.insert(id, now_lacks) != Some(now_lacks);
            let object = report.recording.path.clone();
            alarms.set(AlarmKind::RecordingIncomplete, &object, is_new, now, || {
                format!("{} {object}: {}", report.recording.kind.name(), report.lack())
            });
        }
        if let Some(indices) = self.shared.indices
            && let Ok(all) = interface::interfaces()
        {
            for (name, index) in self.shared.interfaces.iter().zip(indices) {
                self.look_at(name, index, &all, &mut alarms);
            }
        }
    }

    /// Watches an interface of the calling thread's network namespace until the emulator ends: that of `--local`, which is in
    /// another namespace than the emulator's own.
    pub(crate) fn watch_interface(&self, name: &str, index: u32) {
        self.each_time(|| {
            if let Ok(all) = interface::interfaces() {
                self.look_at(name, index, &all, &mut lock(&self.shared.alarms));
            }
        });
    }

    /// Raises an alarm if an interface is down, and ends the emulator if it was removed.
    fn look_at(&self, name: &str, index: u32, all: &[Interface], alarms: &mut Alarms) {
        let found = all.iter().find(|found| found.index == index);
        let down = !found.is_some_and(|found| found.up && found.carrier);
        alarms.set(AlarmKind::LinkDown, name, down, self.seconds(), || {
            format!("{name} is {}", if found.is_some() { "down" } else { "gone" })
        });
        if found.is_none() {
            // A socket is notified when an interface goes down, but perhaps not when it is removed.
            *lock(&self.shared.gone) = Some(name.to_owned());
            self.abort();
        }
    }
}
