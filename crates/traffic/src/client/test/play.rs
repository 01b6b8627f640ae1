//! The running part of a test: the server's messages, flow events, shown intervals, and requests on the control
//! socket.

use super::*;

/// A start later than requested, as a warning.
pub(in crate::client) fn start_late(by_ns: u64) -> Warning {
    let late = by_ns as f64 / 1e9;
    let text =
        format!("sending was to start {late:.3} s before both ends were ready: it started late");
    Warning::new("start-late", Severity::Warning, text).with_value(late, 0.0)
}

impl Test<'_> {
    /// Runs from time zero to the end of the last flow.
    pub(super) async fn play(
        &mut self,
        reader: &mut crate::channel::Reader,
        flow_events: &mut mpsc::UnboundedReceiver<FlowEvent>,
        asked: &mut mpsc::UnboundedReceiver<PendingRequest>,
        stop: &Stop,
        observe: &mut dyn FnMut(Event),
    ) -> (Ended, IntervalClock) {
        let clock = self.engine.clock().clone();
        let now = clock.monotonic_ns();
        let soonest_ns = now + START_NS;
        let start_ns = soonest_ns.max(self.start_at_ns.unwrap_or(0));
        if let Some(asked_ns) = self.start_at_ns.filter(|asked| *asked < soonest_ns) {
            self.warnings.push(start_late(soonest_ns - asked_ns));
        }
        let intervals = IntervalClock {
            start_ns,
            interval_ns: self.config.plan.interval.0,
            omit_ns: self.config.plan.omit.0,
        };
        let done = |status, reason: &str| Ended { status, reason: reason.into(), error: None };
        let fail = |error: TrafficError| Ended {
            status: Status::Partial,
            reason: error.to_string(),
            error: Some(error),
        };
        let alive = Duration::from_nanos(self.stated.keepalive_ns());
        let more_silence = Duration::from_nanos(self.stated.more_silence_ns());
        let unreachable = UNREACHABLE + more_silence;
        let silence = self.config.silence + more_silence;
        let clock_last = Duration::from_nanos(self.stated.clock_ns(1.0));
        let mut clock_period = Duration::from_nanos(self.stated.clock_ns(CLOCK_FIRST));
        if let Err(e) = self.relate_clocks(clock_period).await {
            return (fail(e), intervals);
        }
        let at_ns =
            self.clock_state().map_or(0, |s| start_ns.wrapping_add_signed(s.offset_at_client(now)));
        for flow in &self.flows {
            flow.begin_intervals(intervals);
        }
        if let Err(e) = self.send(&ClientMessage::Start { at_ns }).await {
            return (fail(e), intervals);
        }
        for flow in self.flows.iter().filter(|f| f.sends() && f.spec.connection.autostart) {
            let at = start_ns.saturating_add(flow.spec.connection.start_after.0);
            flow.start(&self.engine, at, intervals);
        }
        let autostarted = self.specs.iter().filter(|s| s.connection.autostart).map(|s| s.id);
        self.started.extend(autostarted);
        self.report_states(observe);
        let mut states_at = Instant::now() + STATES_INTERVAL;
        let mut next_alive = Instant::now() + alive;
        let mut last_message = Instant::now();
        let mut last_message_ns = start_ns;
        let mut is_unreachable = false;
        let mut next_clock = Instant::now() + clock_period;
        let mut interrupted: Option<StopReason> = None;
        let mut give_up: Option<Instant> = None;
        let until_start = start_ns.saturating_sub(clock.monotonic_ns());
        let mut start_at = Some(Instant::now() + Duration::from_nanos(until_start));
        loop {
            if self.is_over() {
                let ended = match (interrupted, self.failure_text()) {
                    (Some(reason), _) => done(Status::Interrupted, reason.text()),
                    (None, Some(words)) => done(Status::Partial, &words),
                    (None, None) => done(Status::Complete, "all flows ended"),
                };
                return (ended, intervals);
            }
            // Once all senders have finished, each receiver ends its own wait. After an interrupt, streams wait no
            // longer than datagrams: for the loss threshold.
            if give_up.is_none() && self.senders_over() {
                let most = if interrupted.is_some() { 0 } else { MAX_DRAIN_NS };
                let wait = Duration::from_nanos(self.facts.loss_threshold_ns.max(most));
                give_up = Some(Instant::now() + wait + GRACE);
            }
            let over = self.senders_over();
            let all_started = self.started.len() == self.specs.len();
            self.cpu.set_sending(!over && (all_started || self.is_sending()));
            if let Some(probes) = &self.probes {
                probes.set_loaded(self.is_sending() && clock.monotonic_ns() >= start_ns);
            }
            let cpu_starts = async {
                match start_at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let show_at = self.live.look_again(&intervals, clock.monotonic_ns()).filter(|_| !over);
            let show_at = show_at.map(|wait| Instant::now() + wait);
            let show_due = async {
                match show_at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let give_up_due = async {
                match give_up {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                reason = stop.asked(if interrupted.is_some() { 2 } else { 1 }) => {
                    if interrupted.is_some() {
                        return (done(Status::Interrupted, reason.text()), intervals);
                    }
                    interrupted = Some(reason);
                    give_up = None;
                    for flow in &self.flows {
                        flow.stop(&self.engine);
                    }
                    if let Err(e) = self.send(&ClientMessage::StopFlow { flow: None }).await {
                        return (fail(e), intervals);
                    }
                    // Flows that were never started report no end.
                    for spec in &self.specs {
                        if !self.started.contains(&spec.id) && !self.sender_done.contains_key(&spec.id) {
                            self.receiver_done.insert(spec.id);
                            self.sender_done.entry(spec.id).or_insert(SenderTotal { flow: spec.id, packets: 0, bytes: 0, omitted_packets: 0, end_ns: None });
                        }
                    }
                }
                message = reader.read::<ServerMessage>() => match message {
                    Ok(message) => {
                        last_message = Instant::now();
                        last_message_ns = clock.monotonic_ns();
                        if std::mem::take(&mut is_unreachable) {
                            observe(Event::Peer(PeerStatus::default()));
                        }
                        if let Err(e) = self.on_message(message, &clock, &intervals) {
                            return (fail(e), intervals);
                        }
                        self.show(&intervals, clock.monotonic_ns(), observe);
                    }
                    Err(e) => {
                        for flow in &self.flows {
                            flow.stop(&self.engine);
                        }
                        return (fail(broken(self.remote, "the test", &e)), intervals);
                    }
                },
                Some(event) = flow_events.recv() => {
                    if let Err(e) = self.on_event(event).await {
                        return (fail(e), intervals);
                    }
                }
                Some((request, reply)) = asked.recv() => {
                    let answer = self.command(&request, intervals).await;
                    let _ = reply.send(answer);
                }
                () = cpu_starts => {
                    start_at = None;
                    self.cpu.start();
                }
                () = show_due => {
                    let now = clock.monotonic_ns();
                    self.show(&intervals, now, observe);
                }
                () = tokio::time::sleep_until(next_clock) => {
                    clock_period = (clock_period * 2).min(clock_last);
                    next_clock += clock_period;
                    if !self.shared_clock && let Err(e) = self.relate_clocks(clock_period).await {
                        return (fail(e), intervals);
                    }
                }
                () = tokio::time::sleep_until(next_alive) => {
                    next_alive = Instant::now() + alive;
                    if let Err(e) = self.probe_control().await {
                        return (fail(e), intervals);
                    }
                }
                () = tokio::time::sleep_until(states_at), if self.states_changed => {
                    self.report_states(observe);
                    states_at = Instant::now() + STATES_INTERVAL;
                }
                () = tokio::time::sleep_until(last_message + unreachable), if !is_unreachable => {
                    is_unreachable = true;
                    let since = last_message_ns.saturating_sub(start_ns) as f64 / 1e9;
                    observe(Event::Peer(PeerStatus { unreachable_since_seconds: Some(since) }));
                }
                () = tokio::time::sleep_until(last_message + silence) => {
                    for flow in &self.flows {
                        flow.stop(&self.engine);
                    }
                    return (fail(self.silent("the test", silence)), intervals);
                }
                () = give_up_due => {
                    self.note_unfinished();
                    return match interrupted {
                        Some(reason) => (done(Status::Interrupted, reason.text()), intervals),
                        None => (done(Status::Complete, "the wait for the remaining data ended"), intervals),
                    };
                }
            }
        }
    }

    /// Warns of datagram flows whose receivers had not finished when the wait ended. A stream's report states what is
    /// missing.
    fn note_unfinished(&mut self) {
        let unfinished = self
            .specs
            .iter()
            .filter(|s| s.connection.transport.datagrams() && !self.receiver_done.contains(&s.id));
        let ids: Vec<u32> = unfinished.map(|s| s.id).collect();
        let Some(first) = ids.first().and_then(|id| self.flow(*id)) else { return };
        let text = format!(
            "{} flows were still receiving when the wait ended (first: {}): datagrams that arrived later count as lost",
            ids.len(),
            first.spec.name
        );
        self.warnings.push(
            Warning::new("receiving-unfinished", Severity::Warning, text)
                .with_value(ids.len() as f64, 0.0),
        );
    }

    /// The error of a server that was silent for too long.
    pub(super) fn silent(&self, during: &'static str, silence: Duration) -> TrafficError {
        let reason = format!("no message from it for {} s", silence.as_secs_f64());
        TrafficError::Lost { address: self.remote, during, reason }
    }

    /// The first flow that failed.
    pub(super) fn first_failed(&self) -> Option<TrafficError> {
        let (&flow, reason) = self.failed.iter().min_by_key(|f| f.0)?;
        let name = self.flow(flow).map(|f| f.spec.name.clone()).unwrap_or_default();
        Some(TrafficError::Flow { code: "flow", flow, name, reason: reason.clone() })
    }

    /// The first flow that had no route to its receiver.
    pub(super) fn no_route(&self) -> Option<TrafficError> {
        let (&flow, reason) =
            self.failed.iter().filter(|f| f.1.starts_with(NO_ROUTE)).min_by_key(|f| f.0)?;
        let name = self.flow(flow).map(|f| f.spec.name.clone()).unwrap_or_default();
        Some(TrafficError::Flow { code: "no-route", flow, name, reason: reason.clone() })
    }

    pub(super) fn failure_text(&self) -> Option<String> {
        self.first_failed().map(|e| e.to_string())
    }

    pub(super) fn is_ended(&self, id: u32) -> bool {
        self.failed.contains_key(&id)
            || (self.sender_done.contains_key(&id) && self.receiver_done.contains(&id))
    }

    pub(super) fn is_over(&self) -> bool {
        self.all(&self.ended_before, |id| self.is_ended(id))
    }

    pub(super) fn senders_over(&self) -> bool {
        let is_over = |id| self.failed.contains_key(&id) || self.sender_done.contains_key(&id);
        self.all(&self.sent_before, is_over)
    }

    /// Whether something that stays true once it is true of a flow is true of all. It is of the flows before `known`, which
    /// are not looked at again: with ten thousand flows, every event asks.
    fn all(&self, known: &Cell<usize>, is_true: impl Fn(u32) -> bool) -> bool {
        let rest = self.specs.get(known.get()..).unwrap_or_default();
        let more = rest.iter().take_while(|spec| is_true(spec.id)).count();
        known.set(known.get() + more);
        more == rest.len()
    }

    /// Whether any started flow is still sending.
    fn is_sending(&self) -> bool {
        self.started.iter().any(|id| !self.sends_no_more(*id))
    }

    pub(super) fn flow(&self, id: u32) -> Option<&Arc<Flow>> {
        // Flows are sorted by id, and ids start at 1.
        self.flows.get(id.checked_sub(1)? as usize)
    }

    /// Handles a message from the server.
    pub(super) fn on_message(
        &mut self,
        message: ServerMessage,
        clock: &weir_net::clock::Clock,
        intervals: &IntervalClock,
    ) -> Result<(), TrafficError> {
        self.states_changed |=
            matches!(message, ServerMessage::SenderDone(_) | ServerMessage::FlowFailed { .. });
        match message {
            ServerMessage::SenderDone(total) => {
                if let Some(flow) = self.flow(total.flow) {
                    flow.sender_done(&self.engine, &total, self.facts.loss_threshold_ns);
                    self.sender_done.insert(total.flow, total);
                }
            }
            ServerMessage::ReceiverDone { flow } if self.flow(flow).is_some() => {
                self.receiver_done.insert(flow);
            }
            ServerMessage::Live { interval, flows, of } => {
                let most = self.specs.len() as u32;
                let seconds = intervals.seconds(interval as usize);
                let flows = flows
                    .into_iter()
                    .filter(|(id, _)| *id <= most)
                    .map(|(id, count)| (id, count.over(seconds)));
                self.live.take(
                    intervals,
                    interval as usize,
                    flows,
                    of.min(most),
                    clock.monotonic_ns(),
                );
            }
            // Once per existing flow: the peer may repeat the message.
            ServerMessage::FlowFailed { flow, text }
                if self.flow(flow).is_some() && !self.failed.contains_key(&flow) =>
            {
                let text = clean(&text);
                self.warnings.push(
                    Warning::new("flow-failed", Severity::Error, format!("the other side: {text}"))
                        .for_flow(flow),
                );
                self.failed.insert(flow, text);
            }
            // Used until its bound, which grows, is no longer useful.
            ServerMessage::ProbeReply { reference: Some(reference), .. } => {
                self.remote_reference = Some(reference);
            }
            ServerMessage::Refused { code, text } => {
                return Err(refused(self.remote, &code, &text));
            }
            _ => {}
        }
        Ok(())
    }

    /// Handles an event of a worker.
    pub(super) async fn on_event(&mut self, event: FlowEvent) -> Result<(), TrafficError> {
        self.states_changed = true;
        match event {
            FlowEvent::SenderDone(total) => {
                let flow = self.flow(total.flow).filter(|flow| flow.is_stopped_by_command());
                if let Some(spec) = flow.map(|flow| flow.spec.clone()) {
                    // Perhaps by a command that named another receiver of the stream.
                    self.note_stopped(&[spec]);
                }
                self.sender_done.insert(total.flow, total);
                self.send(&ClientMessage::SenderDone(total)).await?;
            }
            FlowEvent::ReceiverDone(flow) => {
                self.receiver_done.insert(flow);
            }
            FlowEvent::Failed(flow, text) => {
                if let Some(f) = self.flow(flow) {
                    f.fail(text.clone());
                }
                self.warnings.push(
                    Warning::new("flow-failed", Severity::Error, text.clone()).for_flow(flow),
                );
                self.failed.insert(flow, text);
            }
            FlowEvent::Ready(_) | FlowEvent::SenderEnded(_) => {}
        }
        Ok(())
    }

    /// Whether a flow has finished sending.
    fn sends_no_more(&self, id: u32) -> bool {
        self.is_ended(id) || self.sender_done.contains_key(&id)
    }

    /// The state of a flow.
    fn state(&self, id: u32) -> FlowState {
        if self.failed.contains_key(&id) {
            FlowState::Failed
        } else if self.sends_no_more(id) {
            FlowState::Finished
        } else if self.stopping.contains(&id) {
            FlowState::Stopping
        } else if self.started.contains(&id) {
            FlowState::Started
        } else {
            FlowState::Waiting
        }
    }

    /// Reports the states that have changed since the last report.
    pub(super) fn report_states(&mut self, observe: &mut dyn FnMut(Event)) {
        self.states_changed = false;
        let all = self.specs.iter().map(|s| FlowProgress { id: s.id, state: self.state(s.id) });
        let changed: Vec<_> =
            all.filter(|f| self.reported_states.get(&f.id) != Some(&f.state)).collect();
        self.reported_states.extend(changed.iter().map(|flow| (flow.id, flow.state)));
        if !changed.is_empty() {
            observe(Event::Flows(changed));
        }
    }

    /// Notes for the record that connections are stopped by request.
    fn note_stopped(&mut self, named: &[FlowSpec]) {
        let new: Vec<&FlowSpec> = named
            .iter()
            .filter(|s| !self.sends_no_more(s.id) && !self.stopping.contains(&s.id))
            .collect();
        let Some(first) = new.first() else { return };
        let text = match new.len() {
            1 => format!("{} was stopped over the control socket", first.name),
            n => format!("{n} flows were stopped over the control socket (first: {})", first.name),
        };
        let warning = Warning::new("stopped-by-request", Severity::Info, text);
        self.warnings.push(if new.len() == 1 { warning.for_flow(first.id) } else { warning });
    }

    /// A request on the control socket.
    pub(super) async fn command(&mut self, request: &Request, intervals: IntervalClock) -> Reply {
        let named: Vec<FlowSpec> =
            self.specs.iter().filter(|spec| request.names(spec)).cloned().collect();
        if named.is_empty() {
            return unknown(request, self.specs.iter());
        }
        let now = self.engine.clock().monotonic_ns();
        let is_rate = request.verb == "rate";
        if request.verb == "stop" {
            self.note_stopped(&named);
        }
        for spec in &named {
            let Some(flow) = self.flow(spec.id).cloned() else { continue };
            let sent = match request.verb.as_str() {
                "status" => Ok(()),
                "start" if self.sends_no_more(spec.id) => {
                    if request.connection.is_some() {
                        return has_ended(&spec.name);
                    }
                    Ok(())
                }
                "stop" if self.sends_no_more(spec.id) => Ok(()),
                "stop" if flow.sends() => {
                    self.stopping.insert(spec.id);
                    // One sender, whichever of its receivers the command names.
                    flow.stop_by_command(&self.engine);
                    Ok(())
                }
                "start" if self.started.insert(spec.id) => {
                    // Sent for a flow of this end too: the server measures its processors while flows send.
                    flow.start(&self.engine, now, intervals);
                    self.send(&ClientMessage::StartFlow { flow: spec.id }).await
                }
                "start" => Ok(()),
                "stop" => {
                    self.stopping.insert(spec.id);
                    self.send(&ClientMessage::StopFlow { flow: Some(spec.id) }).await
                }
                "rate" if self.sends_no_more(spec.id) => Ok(()),
                "rate" => {
                    let Some(rate) = request.rate else {
                        return Reply::error(
                            "rate: none; accepted: a rate such as 10M, 50000pps or 0",
                        );
                    };
                    if let Err(e) = spec.connection.check_rate(rate) {
                        return Reply::error(e.to_string());
                    }
                    if flow.sends() && !flow.set_rate(&self.engine, rate) {
                        return Reply::error(format!(
                            "rate: {} has changed its rate too often; accepted: up to 1000 changes",
                            spec.name
                        ));
                    }
                    match flow.sends() {
                        true => Ok(()),
                        false => self.send(&ClientMessage::SetRate { flow: spec.id, rate }).await,
                    }
                }
                other => {
                    return Reply::error(format!(
                        "verb: {other}; accepted: start, stop, rate, status"
                    ));
                }
            };
            if let Err(e) = sent {
                return Reply::error(e.to_string());
            }
        }
        self.states_changed = true;
        Reply {
            ok: true,
            flows: named
                .iter()
                .map(|s| NamedFlow {
                    id: s.id,
                    name: s.name.clone(),
                    state: self.state(s.id),
                    rate: request.rate.filter(|_| is_rate && !self.sends_no_more(s.id)),
                })
                .collect(),
            error: None,
        }
    }
}
