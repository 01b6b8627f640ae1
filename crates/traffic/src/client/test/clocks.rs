//! Relates the clocks of the two ends during a test, by probes and by time services.

use super::*;

impl Test<'_> {
    /// The reference of this end's time service; `None` without probes to check it against.
    pub(super) fn own_reference(&self) -> Option<ClockReference> {
        reference::read(self.references.as_ref()?)
    }

    /// Sends a keepalive, and requests the other end's reference while this end has one.
    pub(super) async fn probe_control(&mut self) -> Result<(), TrafficError> {
        let reference = self.own_reference().is_some();
        let t1_ns = self.engine.clock().monotonic_ns();
        self.send(&ClientMessage::Probe { t1_ns, reference }).await
    }

    /// The current relation of the clocks, by probes.
    pub(super) fn clock_state(&self) -> Option<ClockState> {
        self.clock_state_for(Duration::ZERO)
    }

    /// The relation to use for `valid` from now, with the services' names if it is theirs.
    pub(super) fn related(&mut self, valid: Duration) -> Option<(ClockState, Option<String>)> {
        let probes = self.clock_state_for(valid)?;
        let ends = self.own_reference().filter(|_| !self.shared_clock);
        let Some((own, other)) = ends.zip(self.remote_reference.as_ref()) else {
            return Some((probes, None));
        };
        let until_ns = probes.reference_ns.saturating_add(valid.as_nanos() as u64);
        let by_services = reference::relation(&own, other, probes.reference_ns, until_ns);
        match (reference::choose(&probes, by_services.as_ref()), by_services) {
            (Choice::References, Some(state)) => Some((state, Some(reference::names(&own, other)))),
            (Choice::Contradiction, Some(state)) => {
                let by = (state.offset_ns as f64 - probes.offset_ns as f64) / 1e9;
                let text = format!(
                    "{} at both ends relates the clocks differently from the probes, by {by:.6} s, more than both bounds allow: a time service is wrong, and is not used",
                    reference::names(&own, other)
                );
                let bound = (state.error_ns as f64 + probes.error_ns as f64) / 1e9;
                self.warnings.push(
                    Warning::new("clock-reference", Severity::Warning, text).with_value(by, bound),
                );
                self.references = None;
                Some((probes, None))
            }
            _ => Some((probes, None)),
        }
    }

    /// The relation by probes, with a bound for packets that arrive within `valid` from now.
    pub(super) fn clock_state_for(&self, valid: Duration) -> Option<ClockState> {
        let now = self.engine.clock().monotonic_ns();
        if self.shared_clock {
            let error_ns = weir_net::clock::monotonic_resolution_ns();
            return Some(ClockState { offset_ns: 0, skew_ppb: 0, reference_ns: now, error_ns });
        }
        self.probes.as_ref()?.clock_state(now, now + valid.as_nanos() as u64)
    }

    /// Gives the receivers at both ends the relation of the clocks, which is updated after `period`.
    pub(super) async fn relate_clocks(&mut self, period: Duration) -> Result<(), TrafficError> {
        // Half a period of margin: the next update may be late, and takes time to arrive.
        let valid = period + period / 2;
        let Some((state, services)) = self.related(valid) else { return Ok(()) };
        if self.worst_clock.as_ref().is_none_or(|(worst, _)| worst.error_ns <= state.error_ns) {
            self.worst_clock = Some((state, services));
        }
        let now = self.engine.clock().monotonic_ns();
        let server = SenderClock {
            offset_ns: state.offset_at_client(now),
            skew_ppb: state.skew_ppb,
            reference_ns: now,
            error_ns: state.error_ns,
        };
        for flow in &self.flows {
            flow.set_clock(server);
        }
        self.send(&ClientMessage::Clock(state)).await
    }

    pub(super) fn clock_relation(&self, start_ns: u64) -> Option<ClockRelation> {
        if self.shared_clock {
            return Some(ClockRelation {
                method: "shared".into(),
                error_seconds: weir_net::clock::monotonic_resolution_ns() as f64 / 1e9,
                ..ClockRelation::default()
            });
        }
        let worst = self.worst_clock.as_ref();
        let worst_ns = worst.map_or(0, |(state, _)| state.error_ns);
        let by_probes = self.probes.as_ref()?.clock_relation(start_ns, worst_ns)?;
        let Some((state, Some(services))) = worst else { return Some(by_probes) };
        Some(ClockRelation {
            source: Some(services.clone()),
            offset_seconds: state.offset_at_client(start_ns) as f64 / 1e9,
            skew_ratio: 0.0,
            error_seconds: worst_ns as f64 / 1e9,
            ..by_probes
        })
    }
}
