//! The end of a test: exchange of reports, and the record.

use super::*;

impl Test<'_> {
    /// Exchanges reports and makes the record.
    pub(super) async fn finish(
        mut self,
        reader: &mut crate::channel::Reader,
        (ended, intervals): (Ended, IntervalClock),
        intervals_shown: usize,
        before: &host::Before,
        notes_before: usize,
        stop: &Stop,
    ) -> (Record, Option<TrafficError>) {
        let clock = self.engine.clock().clone();
        let Ended { mut status, mut reason, mut error } = ended;
        // Before the reports are made, which takes processor time too.
        let cpu = self.cpu.report();
        let mut remote = None;
        if error.is_none() {
            let exchange = self.exchange(reader);
            let outcome = tokio::select! {
                outcome = exchange => outcome,
                reason = stop.asked(2) => Err(TrafficError::Stopped(reason.text(), reason.exit_code())),
            };
            match outcome {
                Ok(report) => remote = Some(report),
                Err(e) => {
                    if status == Status::Complete {
                        status = Status::Partial;
                        reason = e.to_string();
                    }
                    error = Some(e);
                }
            }
        }
        // A missing route explains more than the silence that it caused.
        let is_lost = status == Status::Partial && matches!(error, Some(TrafficError::Lost { .. }));
        if is_lost && let Some(cause) = self.no_route() {
            reason = cause.to_string();
            error = Some(cause);
        }
        if error.is_none() && status == Status::Partial {
            error = self.first_failed();
        }
        let now = clock.monotonic_ns();
        let relation = self.clock_relation(intervals.start_ns);
        let latency = self.latency();
        let mut warnings = std::mem::take(&mut self.warnings);
        warnings.extend(self.engine.notes().into_iter().skip(notes_before));
        let mut local = EndReport {
            host: host::after(before),
            cpu,
            warnings,
            flows: self.flows.iter().map(|f| f.report(&self.engine, now)).collect(),
        };
        let nominal = match self.config.plan.nominal {
            Some(rate) => Some((rate.0, "stated".to_string())),
            None if self.config.nominal_auto => {
                self.remote.ip().and_then(|remote| host::nominal(remote.ip()))
            }
            None => None,
        };
        if nominal.is_none() && self.config.nominal_auto {
            local.warnings.push(Warning::new(
                "nominal-unknown",
                Severity::Warning,
                "the interface towards the server is virtual or reports no speed, so that no link usage was computed: set the nominal rate, such as 1G",
            ));
        }
        let mut record = assemble(Parts {
            plan: weir_model::plan::Plan {
                host: Some(self.config.host.clone()),
                ..self.config.plan.clone()
            },
            specs: self.specs.clone(),
            family: self.family,
            local,
            remote,
            peer: NATIVE_PEER.into(),
            one_sided: false,
            peer_reports: std::mem::take(&mut self.live.peer_reports),
            clock: relation,
            intervals,
            intervals_shown,
            status,
            end_reason: reason,
            nominal,
            latency,
            loss_threshold_ns: self.facts.loss_threshold_ns,
            control_bytes: self.meter.bytes(),
            path_mtu_bytes: Some(self.path_mtu_bytes),
        });
        if error.is_none() {
            let files = self.stored_files(reader, &mut record);
            let outcome = tokio::select! {
                outcome = files => outcome,
                reason = stop.asked(2) => Err(TrafficError::Stopped(reason.text(), reason.exit_code())),
            };
            error = outcome.err();
        }
        let _ = self.send(&ClientMessage::Close).await;
        if error.is_none() && status == Status::Interrupted {
            let reason = stop.reason().unwrap_or(StopReason::Interrupted);
            error = Some(TrafficError::Stopped(reason.text(), reason.exit_code()));
        }
        (record, error)
    }

    pub(super) async fn exchange(
        &mut self,
        reader: &mut crate::channel::Reader,
    ) -> Result<EndReport, TrafficError> {
        self.send(&ClientMessage::Report).await?;
        let mut flows: Vec<FlowReport> = vec![];
        let mut waiting = Waiting::begin(self.config.report, Instant::now());
        let most = self.meter.bytes().saturating_add(REPORT_BYTES);
        loop {
            if self.meter.bytes() > most {
                let reason = "a report of more than 1 GiB".into();
                return Err(TrafficError::Protocol { address: self.remote, reason });
            }
            // Part of a message counts as activity: over a link of some kbit/s a message takes longer than the idle
            // timeout.
            waiting.moved(reader.heard());
            match waiting.over(Instant::now()) {
                None => {}
                Some(TimedOut::Idle(silence)) => {
                    return Err(self.silent("the exchange of results", silence));
                }
                Some(TimedOut::Incomplete(whole)) => {
                    let reason =
                        format!("the report was incomplete after {} s", whole.as_secs_f64());
                    let during = "the exchange of results";
                    return Err(TrafficError::Lost { address: self.remote, during, reason });
                }
            }
            let reading = reader.read::<ServerMessage>();
            let Ok(message) = tokio::time::timeout_at(waiting.until(), reading).await else {
                continue;
            };
            match message {
                Ok(ServerMessage::Flow(flow)) => {
                    // A server reports each flow once.
                    if flows.len() < self.specs.len() {
                        flows.push(*flow);
                    }
                }
                Ok(ServerMessage::End(end)) => return Ok(EndReport { flows, ..*end }),
                Ok(ServerMessage::Refused { code, text }) => {
                    return Err(refused(self.remote, &code, &text));
                }
                Ok(_) => {}
                Err(e) => return Err(broken(self.remote, "the exchange of results", &e)),
            }
        }
    }

    pub(super) fn latency(&mut self) -> Option<Latency> {
        let Some(probes) = self.probes.take() else {
            // A Unix socket offers no datagrams to measure with.
            if self.config.plan.latency && self.remote.ip().is_some() {
                let port = self.udp_port;
                self.warnings.push(Warning::new(
                    "latency-missing",
                    Severity::Warning,
                    format!("no UDP hello came back from port {port}: round trips, idle and under load, were not measured; open UDP {port} on the path, or switch latency measurement off"),
                ));
            }
            return None;
        };
        let (latency, steps) = probes.finish();
        if let (Some(step), false) = (steps.first(), self.shared_clock) {
            self.warnings.push(
                Warning::new(
                    "clock-stepped",
                    Severity::Warning,
                    format!("the two hosts' clocks shifted relative to each other by {:.6} s during the run: one-way delays around that time are off by as much", step.by_ns as f64 / 1e9),
                )
                .with_value(step.by_ns as f64 / 1e9, 0.0),
            );
        }
        self.config.plan.latency.then_some(latency)
    }
}
