//! Concurrent steps: the sums of their tests, and the skew of their starts.

use weir_jobs::RemoteHosts;
use weir_model::experiment::{FirstPacket, Together};

use super::*;

/// Of runs with several senders, how closely they started where that was worst.
pub(super) fn worst(runs: &[RunRef]) -> Option<Together> {
    let each = runs.iter().filter_map(|run| run.together);
    each.max_by(|a, b| a.first_packet_skew_seconds.total_cmp(&b.first_packet_skew_seconds))
}

impl Inner<'_, '_, '_> {
    /// Runs concurrent steps. Their runs are repeated together: interrupting one interrupts all.
    pub(super) fn parallel(&self, steps: &[Step], out: &mut StepOutcome) {
        let execution = self.execution;
        let begun_at = Instant::now();
        lock(&execution.units).push(Unit { path: self.path.clone(), runs: vec![] });
        let now = (execution.options.monotonic_ns)();
        let around = StepContext {
            path: self.path.clone(),
            depth: self.around.depth + 1,
            start_at_ns: Some(now + TOGETHER.as_nanos() as u64),
            metrics: self.rules.iter().map(|rule| rule.metric.part()).collect(),
            ..self.around.clone()
        };
        let around = &around;
        out.steps = std::thread::scope(|own| {
            let branch = |step| {
                std::thread::scope(|inner| {
                    execution.steps(std::slice::from_ref(step), around, inner)
                })
            };
            let each: Vec<_> = steps.iter().map(|step| own.spawn(move || branch(step))).collect();
            let joined = each.into_iter().zip(steps).flat_map(|(thread, step)| {
                thread.join().unwrap_or_else(|payload| {
                    let name = step.name.clone().unwrap_or_default();
                    let action = step.action().map_or("", |a| a.name());
                    let error = execution.panicked(&name, payload.as_ref());
                    vec![StepOutcome {
                        outcome: Outcome::Error,
                        reason: Some(error),
                        ..begun(&name, action)
                    }]
                })
            });
            joined.collect()
        });
        out.outcome = out.steps.iter().fold(out.outcome, |all, s| all.and(s.outcome));
        out.interrupted = out.steps.iter().any(|s| s.interrupted);
        let unit = {
            let mut units = lock(&execution.units);
            let own = units.iter().position(|unit| unit.path == self.path);
            own.map(|i| units.remove(i))
        };
        // A nested group is stored with the outer one.
        let runs = unit.map(|unit| unit.runs).unwrap_or_default();
        let is_whole = out.outcome != Outcome::Error
            && runs.iter().all(|kept| kept.run.error.is_none())
            && !execution.is_stopped();
        if is_whole && !runs.is_empty() {
            let seconds = begun_at.elapsed().as_secs_f64();
            execution.write(|checkpoint| checkpoint.keep_unit(&self.path, runs, seconds));
        }
        self.together(out);
    }

    /// Sums of concurrent steps, one run per repetition, and the skew of the first packets.
    fn together(&self, out: &mut StepOutcome) {
        let runs = out.steps.iter().flat_map(|s| &s.runs);
        out.together = skew(runs.filter_map(|r| r.first_packet));
        out.runs = sums(&out.steps);
        if out.runs.is_empty() {
            return;
        }
        out.runs.iter_mut().for_each(|run| run.at = self.around.at.iter().cloned().collect());
        let at = &self.around.at;
        out.axes = at.iter().map(|(name, _)| name.clone()).collect();
        out.points =
            self.points(std::slice::from_ref(at), &out.runs, self.execution.confidence().into());
    }
}

/// The first packet of a test with a given start time. Its arrival is measured; the record's start of the sender is
/// only planned.
pub(super) fn first_packet(record: &Record) -> Option<FirstPacket> {
    // A test that was not ready in time starts late by this much.
    let late = record.warnings.iter().find(|w| w.code == "start-late").and_then(|w| w.value);
    let arrived = record.flows.iter().filter_map(|f| f.receiver.as_ref()?.start_seconds);
    Some(FirstPacket {
        arrived_seconds: arrived.reduce(f64::min)? + late.unwrap_or(0.0),
        error_seconds: Some(record.clock.as_ref().map_or(0.0, |c| c.error_seconds)),
    })
}

/// The same of a test that an agent ran, whose clock has its own error.
pub(super) fn first_packet_of_agent(
    record: &Record,
    agent: &str,
    remote: &dyn RemoteHosts,
) -> Option<FirstPacket> {
    let first = first_packet(record)?;
    let bound = remote.clock_bound_ns(agent).map(|ns| ns as f64 / 1e9);
    Some(FirstPacket { error_seconds: first.error_seconds.zip(bound).map(|(a, b)| a + b), ..first })
}

/// The time between the earliest and the latest first packet of several tests; absent for fewer than two.
pub(super) fn skew(first: impl Iterator<Item = FirstPacket>) -> Option<Together> {
    let first: Vec<FirstPacket> = first.collect();
    let arrived = || first.iter().map(|f| f.arrived_seconds);
    let width = arrived().reduce(f64::max)? - arrived().reduce(f64::min)?;
    let errors: Option<Vec<f64>> = first.iter().map(|f| f.error_seconds).collect();
    let two_worst = |mut errors: Vec<f64>| {
        errors.sort_by(|a, b| b.total_cmp(a));
        errors.iter().take(2).sum()
    };
    (first.len() > 1).then(|| Together {
        tests: first.len() as u64,
        first_packet_skew_seconds: width,
        error_seconds: errors.map(two_worst),
    })
}

/// For each repetition that every test completed, the sums of additive metrics.
///
/// A sweep without axes counts as a test with repetitions; a sweep with axes does not, since its points have no
/// counterpart. A repeated run was not concurrent with the others, nor is any after it: these have no sums.
fn sums(steps: &[StepOutcome]) -> Vec<RunRef> {
    let tests: Vec<&StepOutcome> = steps.iter().filter(|s| s.action == "test").collect();
    let most = tests.iter().map(|t| t.runs.len()).max().unwrap_or(0) as u32;
    let again = tests.iter().flat_map(|t| &t.runs).filter(|r| r.superseded);
    let most = again.map(|r| r.repetition.saturating_sub(1)).fold(most, u32::min);
    let mut out = vec![];
    for repetition in 1..=most {
        let runs: Option<Vec<&RunRef>> =
            tests.iter().map(|t| t.counted_runs().find(|r| r.repetition == repetition)).collect();
        let Some(runs) = runs.filter(|r| r.len() > 1) else { continue };
        let mut metrics = BTreeMap::new();
        for name in runs[0].metrics.keys() {
            let summed = name.parse::<Metric>().ok().and_then(|m| m.summed());
            // A metric that one of them lacks has no sum.
            let values: Option<Vec<f64>> =
                runs.iter().map(|r| r.metrics.get(name).copied()).collect();
            if let (Some(metric), Some(values)) = (summed, values) {
                metrics.insert(metric.to_string(), values.iter().sum());
            }
        }
        let mut warnings: Vec<String> = runs.iter().flat_map(|r| r.warnings.clone()).collect();
        warnings.sort_unstable();
        warnings.dedup();
        out.push(RunRef {
            repetition,
            metrics,
            crossing: Crossing::all(runs.iter().map(|r| r.crossing)),
            warnings,
            host_limited: runs.iter().any(|r| r.host_limited),
            ..RunRef::default()
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use weir_model::record::{ClockRelation, Flow, Receiver};
    use weir_model::warning::{Severity, Warning};

    use super::*;

    fn test(runs: &[RunRef]) -> StepOutcome {
        StepOutcome { outcome: Outcome::Passed, runs: runs.to_vec(), ..begun("", "test") }
    }

    fn run(repetition: u32, metrics: &[(&str, f64)]) -> RunRef {
        let metrics = metrics.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect();
        RunRef { repetition, metrics, ..RunRef::default() }
    }

    #[test]
    fn what_adds_up_is_summed_where_every_test_has_it() {
        let a = test(&[
            run(1, &[("throughput", 3.0), ("loss", 0.5), ("packets", 1.0)]),
            run(2, &[("throughput", 4.0)]),
        ]);
        let mut failed = run(2, &[("throughput", 9.0)]);
        failed.error = Some("gone".into());
        let mut shaped = run(1, &[("throughput", 5.0), ("loss", 0.1)]);
        (shaped.host_limited, shaped.warnings) = (true, vec!["cpu-stolen".into()]);
        let b = test(&[shaped, failed]);
        let found = sums(&[a.clone(), b]);
        assert_eq!(found.len(), 1, "the second repetition is not whole");
        assert_eq!(found[0].metrics, [("sum throughput".to_owned(), 8.0)].into());
        assert!(found[0].host_limited && found[0].warnings == ["cpu-stolen"]);
        assert!(sums(&[a]).is_empty(), "one test is no sum");
    }

    #[test]
    fn what_was_made_again_and_all_behind_it_is_beside_nothing() {
        let of = |n| run(n, &[("throughput", 3.0)]);
        let a = test(&[of(1), of(2), of(3)]);
        let again = RunRef { superseded: true, host_limited: true, ..of(2) };
        let b = test(&[of(1), again, of(2), of(3)]);
        let of_repetitions = |steps: &[StepOutcome]| -> Vec<u32> {
            sums(steps).iter().map(|r| r.repetition).collect()
        };
        assert_eq!(of_repetitions(&[a.clone(), a.clone()]), [1, 2, 3]);
        assert_eq!(of_repetitions(&[a, b]), [1]);
    }

    #[test]
    fn the_skew_is_from_the_earliest_to_the_latest_first_packet() {
        let of = |arrived_seconds, error_seconds| FirstPacket {
            arrived_seconds,
            error_seconds: Some(error_seconds),
        };
        let found = skew([of(0.001, 0.1), of(0.005, 0.05), of(0.004, 0.2)].into_iter()).unwrap();
        assert_eq!(found.tests, 3);
        assert!((found.first_packet_skew_seconds - 0.004).abs() < 1e-12);
        assert!((found.error_seconds.unwrap() - 0.3).abs() < 1e-12);
        let unknown = FirstPacket { error_seconds: None, ..of(0.002, 0.1) };
        let found = skew([of(0.001, 0.1), unknown].into_iter()).unwrap();
        assert_eq!(found.error_seconds, None);
        assert_eq!(skew([of(0.0, 0.0)].into_iter()), None);
    }

    #[test]
    fn a_test_that_started_late_has_its_lateness_in_it() {
        let flow = |arrived| Flow {
            receiver: Some(Receiver { start_seconds: Some(arrived), ..Receiver::default() }),
            ..Flow::default()
        };
        let mut record = Record {
            flows: vec![flow(0.03), flow(0.04)],
            clock: Some(ClockRelation { error_seconds: 0.005, ..ClockRelation::default() }),
            ..Record::default()
        };
        let wanted = FirstPacket { arrived_seconds: 0.03, error_seconds: Some(0.005) };
        assert_eq!(first_packet(&record), Some(wanted));
        record.warnings =
            vec![Warning::new("start-late", Severity::Warning, "").with_value(0.5, 0.0)];
        assert_eq!(first_packet(&record).unwrap().arrived_seconds, 0.53);
        assert_eq!(first_packet(&Record::default()), None);
    }
}
