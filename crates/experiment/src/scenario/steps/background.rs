//! Background tests: they run while other steps do.

use super::runs::no_record;
use super::*;

/// For a background test to start, and to answer a command.
const ANSWER: Duration = Duration::from_secs(10);

impl<'d> Inner<'d, '_, '_> {
    /// Starts a test in the background.
    pub(super) fn begin<'s>(
        &self,
        test: &TestStep,
        scope: &'s std::thread::Scope<'s, '_>,
    ) -> Result<(), ScenarioError>
    where
        'd: 's,
    {
        let execution = self.execution;
        let options = execution.options;
        let at = &self.around.at;
        let own: BTreeSet<String> = at.iter().map(|(n, _)| n.clone()).collect();
        let plan = plans::plan(test, at, &own, &options.files, options.parse_flags, self.name)?;
        let Backend::Real(environment) = &execution.backend else {
            return Err(ScenarioError::program(self.name, "a background test can't be simulated"));
        };
        let running = |b: &Background| b.name == self.name && lock(&b.state.0).ended.is_none();
        if lock(&execution.background).iter().any(running) {
            return Err(ScenarioError::program(self.name, "it runs already"));
        }
        let (sender, orders) = mpsc::channel();
        let key = format!("{}#1", self.path);
        let one =
            SingleRun { test, plan: &plan, at, repetition: 1, key, metrics: &[], is_first: true };
        let plan = plans::seeded(plan.clone(), options.seed.0, &one.key);
        let paths = plans::paths(test, at, execution.agents(), self.name)?;
        let [path] = &paths[..] else {
            return Err(ScenarioError::program(self.name, "a background test has one sender"));
        };
        let job = Job { orders: Some(Arc::new(Mutex::new(orders))), ..self.job(&one, path, plan) };
        let stop = Arc::new(AtomicBool::new(false));
        let state = Arc::new((Mutex::new(BackgroundState::default()), Condvar::new()));
        lock(&execution.background).push(Background {
            name: self.name.into(),
            orders: sender,
            stop: stop.clone(),
            state: state.clone(),
            rules: self.rules.clone(),
            at: at.clone(),
        });
        let name = self.name.to_owned();
        scope.spawn(move || {
            let stopped = || stop.load(Ordering::Relaxed) || execution.is_stopped();
            let progress = |progress| {
                lock(&state.0).progress = progress;
                state.1.notify_all();
            };
            let ended =
                catch_unwind(AssertUnwindSafe(|| environment.test(&job, &stopped, &progress)));
            // Else a step that waits for it would wait forever.
            let ended = ended.unwrap_or_else(|payload| {
                Err(ScenarioError::Internal(execution.panicked(&name, payload.as_ref())))
            });
            lock(&state.0).ended = Some(ended);
            state.1.notify_all();
        });
        Ok(())
    }

    /// Waits for `enough` of a background test, or for its end; takes its record then.
    pub(super) fn follow(
        &self,
        name: &str,
        out: &mut StepOutcome,
        enough: &dyn Fn(Progress) -> bool,
    ) -> Result<(), ScenarioError> {
        let state = self.execution.in_background(name, |test| test.state.clone())?;
        let mut now = lock(&state.0);
        loop {
            if let Some(ended) = now.ended.take() {
                drop(now);
                let mut all = lock(&self.execution.background);
                let own = all.iter().position(|test| Arc::ptr_eq(&test.state, &state));
                let test = own.map(|i| all.remove(i));
                drop(all);
                let rules = test.as_ref().map_or(&[][..], |test| &test.rules);
                let mut metrics = self.metrics(&[])?;
                metrics.extend(rules.iter().map(|rule| rule.metric.clone()));
                let is_interrupted =
                    test.as_ref().is_some_and(|test| test.stop.load(Ordering::Relaxed));
                let mut run = self.execution.measured(ended?, &metrics, is_interrupted);
                self.tell_cut(&mut run);
                self.ran(&run, false, 1, 1, None);
                out.runs.push(run);
                self.close(out);
                let own = Inner { rules: rules.to_vec(), path: self.path.clone(), ..*self };
                own.expect(out, self.execution.confidence().into());
                return Ok(());
            }
            if enough(now.progress) {
                return Ok(());
            }
            if self.until.is_some_and(|u| Instant::now() >= u) {
                return Err(ScenarioError::program(self.name, "its time was over"));
            }
            let waited = state.1.wait_timeout(now, Duration::from_millis(20));
            now = waited.unwrap_or_else(|e| e.into_inner()).0;
        }
    }

    pub(super) fn wait(&self, wait: &WaitStep, out: &mut StepOutcome) -> Result<(), ScenarioError> {
        if let Some(time) = wait.time {
            let is_done =
                self.execution.options.simulate || self.sleep(Duration::from_nanos(time.0));
            match (is_done, self.is_interrupted()) {
                (true, _) => {}
                (false, true) => interrupted(out, "interrupted".into()),
                (false, false) => {
                    return Err(ScenarioError::program(self.name, "its time was over"));
                }
            }
            return Ok(());
        }
        let Some(test) = &wait.test else { return Ok(()) };
        let asked = wait.bytes.is_some() || wait.packets.is_some();
        self.follow(test, out, &|progress| {
            asked
                && wait.bytes.is_none_or(|b| progress.bytes >= b.0)
                && wait.packets.is_none_or(|p| progress.packets >= p)
        })
    }

    pub(super) fn start(&self, which: &StopStep) -> Result<(), ScenarioError> {
        let connection = which.connection.clone();
        self.order(&which.test, Command::StartConnection { connection })
    }

    pub(super) fn stop(
        &self,
        which: &StopStep,
        out: &mut StepOutcome,
    ) -> Result<(), ScenarioError> {
        let connection = which.connection.clone();
        let is_whole = connection.is_none();
        let stopped = self.order(&which.test, Command::StopConnection { connection });
        if !is_whole {
            return stopped;
        }
        // Without connections the test ends normally, with a complete record.
        if stopped.is_err() {
            let stop = self.execution.in_background(&which.test, |test| test.stop.clone())?;
            stop.store(true, Ordering::Relaxed);
        }
        self.follow(&which.test, out, &|_| false)
    }

    /// Has a command carried out by a background test, once it runs.
    fn order(&self, test: &str, command: Command) -> Result<(), ScenarioError> {
        let (orders, state) =
            self.execution.in_background(test, |test| (test.orders.clone(), test.state.clone()))?;
        let failed = |reason: &str| ScenarioError::program(test, reason);
        let (reply, answer) = mpsc::sync_channel(1);
        orders.send(Order { command, reply }).map_err(|_| failed("it has ended"))?;
        let end = Instant::now() + ANSWER;
        loop {
            match answer.recv_timeout(Duration::from_millis(20)) {
                Ok(done) => return done.map_err(|reason| failed(&reason)),
                Err(mpsc::RecvTimeoutError::Disconnected) => return Err(failed("it has ended")),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
            if lock(&state.0).ended.is_some() {
                return Err(failed("it has ended"));
            }
            if Instant::now() >= end || self.execution.is_stopped() {
                return Err(failed("it does not answer"));
            }
        }
    }
}

impl Execution<'_> {
    /// The newest background test of this name.
    fn in_background<T>(
        &self,
        name: &str,
        of: impl FnOnce(&Background) -> T,
    ) -> Result<T, ScenarioError> {
        let all = lock(&self.background);
        let found = all.iter().rfind(|test| test.name == name).map(of);
        found.ok_or_else(|| {
            ScenarioError::program(name, "it was not started, or has been waited for")
        })
    }

    /// The outcome of a background test that no step waited for. `is_interrupted`: it ran until the end of the
    /// scenario.
    pub(super) fn unwaited(&self, test: Background, is_interrupted: bool) -> StepOutcome {
        let name = format!("{} (at the end)", test.name);
        let mut out = begun(&name, "test");
        let around = StepContext { at: test.at, ..StepContext::default() };
        let inner = Inner {
            execution: self,
            around: &around,
            name: &name,
            path: name.clone(),
            until: None,
            rules: test.rules,
        };
        let ended = lock(&test.state.0).ended.take();
        let done = match (inner.metrics(&[]), ended) {
            (Err(error), _) => Err(error),
            (_, None) => Err(ScenarioError::program(&name, "it has no time limit")),
            (Ok(metrics), Some(ended)) => {
                ended.map(|ended| self.measured(ended, &metrics, is_interrupted))
            }
        };
        match done {
            Err(error) => {
                (out.outcome, out.reason) = (Outcome::Error, Some(error.to_string()));
            }
            Ok(run) => {
                out.runs.push(run);
                inner.close(&mut out);
                if is_interrupted && out.outcome == Outcome::Error {
                    // It was stopped before it could report anything.
                    out.outcome = Outcome::Inconclusive;
                }
            }
        }
        inner.expect(&mut out, self.confidence().into());
        (self.options.tell)(&ScenarioEvent::Ended { step: &out, depth: 0 });
        out
    }

    /// Handles a panic in a thread: no further step starts. Returns the message.
    pub(super) fn panicked(&self, what: &str, payload: &(dyn Any + Send)) -> String {
        let words = payload
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let text = format!("step {what}: {}", words.unwrap_or("a thread panicked"));
        lock(&self.fatal).get_or_insert_with(|| ScenarioError::Internal(text.clone()));
        text
    }

    /// The run of a background test. One that was stopped on purpose counts as complete.
    fn measured(
        &self,
        ended: Result<Tested, NoRecord>,
        metrics: &[Metric],
        is_interrupted: bool,
    ) -> RunRef {
        let run = match ended {
            Ok(Tested { record, peer_unreachable, interrupted, unkept }) => {
                if let Some(reason) = unkept {
                    self.unkept(&reason);
                }
                let is_whole =
                    is_interrupted || record.status == weir_model::record::Status::Complete;
                let error = (!is_whole).then(|| match record.end_reason.as_str() {
                    "" => "it ended early".into(),
                    reason => reason.to_owned(),
                });
                RunRef {
                    error,
                    peer_unreachable,
                    interrupted: interrupted && !is_interrupted,
                    ..run_ref(&[&*record], metrics)
                }
            }
            Err(failed) => no_record(&failed),
        };
        RunRef { repetition: 1, ..run }
    }
}
