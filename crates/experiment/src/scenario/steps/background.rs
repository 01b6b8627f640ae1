//! Tests that run while other steps do.

use super::*;

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
        let doing = self.doing;
        let options = doing.options;
        let at = &self.around.at;
        let own: BTreeSet<String> = at.iter().map(|(n, _)| n.clone()).collect();
        let plan = plans::plan(test, at, &own, &options.files, options.words, self.name)?;
        let Place::Real(world) = &doing.place else {
            return Err(ScenarioError::program(
                self.name,
                "a test in the background is not on the virtual clock",
            ));
        };
        let socket = world.socket();
        let key = format!("{}#1", self.path);
        let one = OneRun { test, plan: &plan, at, repetition: 1, key, metrics: &[] };
        let plan = plans::seeded(plan.clone(), options.seed.0, &one.key);
        let job = self.job(&one, plan, Some(socket.clone()));
        let stop = Arc::new(AtomicBool::new(false));
        let state = Arc::new((Mutex::new(BackgroundState::default()), Condvar::new()));
        let background = Background { socket, stop: stop.clone(), state: state.clone() };
        lock(&doing.background).insert(self.name.into(), background);
        scope.spawn(move || {
            let stopped = || stop.load(Ordering::Relaxed) || doing.is_stopped();
            let progress = |progress| {
                lock(&state.0).progress = progress;
                state.1.notify_all();
            };
            let ended = world.test(&job, &stopped, &progress);
            lock(&state.0).ended = Some(ended);
            state.1.notify_all();
        });
        Ok(())
    }

    /// Waits until `enough` of a test in the background, or its end; takes its record at its end.
    pub(super) fn follow(
        &self,
        name: &str,
        out: &mut StepOutcome,
        enough: &dyn Fn(Progress) -> bool,
    ) -> Result<(), ScenarioError> {
        let state = match lock(&self.doing.background).get(name) {
            Some(background) => background.state.clone(),
            None => {
                return Err(ScenarioError::program(
                    name,
                    "it was not started, or has been waited for",
                ));
            }
        };
        let mut now = lock(&state.0);
        loop {
            if let Some(ended) = now.ended.take() {
                drop(now);
                lock(&self.doing.background).remove(name);
                let metrics = self.metrics(&[])?;
                let run = match ended? {
                    Ok(Tested { record, unkept }) => {
                        if let Some(reason) = unkept {
                            self.doing.unkept(&reason);
                        }
                        run_ref(&record, &metrics)
                    }
                    Err(reason) => RunRef { error: Some(reason), ..RunRef::default() },
                };
                self.ran(&run, false, 1, 1, None);
                out.runs.push(RunRef { repetition: 1, ..run });
                self.close(out);
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
            if !self.doing.options.simulate {
                self.sleep(Duration::from_nanos(time.0));
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
        control(&self.socket(&which.test)?, "start", which.connection.as_deref())
    }

    pub(super) fn stop(
        &self,
        which: &StopStep,
        out: &mut StepOutcome,
    ) -> Result<(), ScenarioError> {
        let socket = self.socket(&which.test)?;
        if let Some(connection) = &which.connection {
            return control(&socket, "stop", Some(connection));
        }
        // All connections: the test ends in order by itself, with a whole record.
        if control(&socket, "stop", None).is_err()
            && let Some(background) = lock(&self.doing.background).get(&which.test)
        {
            background.stop.store(true, Ordering::Relaxed);
        }
        self.follow(&which.test, out, &|_| false)
    }

    /// The control socket of a test in the background, once it listens.
    pub(super) fn socket(&self, test: &str) -> Result<std::path::PathBuf, ScenarioError> {
        let (socket, state) = match lock(&self.doing.background).get(test) {
            Some(background) => (background.socket.clone(), background.state.clone()),
            None => {
                return Err(ScenarioError::program(
                    test,
                    "it was not started, or has been waited for",
                ));
            }
        };
        let end = Instant::now() + Duration::from_secs(10);
        while !socket.exists()
            && lock(&state.0).ended.is_none()
            && Instant::now() < end
            && !self.doing.is_stopped()
        {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(socket)
    }
}
