//! Scenarios on the virtual clock: what is judged, where, and what is not taken for a verdict.

use std::collections::BTreeMap;
use std::sync::Mutex;

use weir_experiment::scenario::checkpoint::Checkpoint;
use weir_experiment::scenario::{Ended, Files, Options, ScenarioError, ScenarioEvent, check, run};
use weir_model::Refusal;
use weir_model::experiment::{Outcome, Scenario, StepOutcome, Variables};
use weir_model::units::Seed;

fn scenario(text: &str) -> Scenario {
    let text = format!("schema = \"weir.scenario/1\"\nname = \"s\"\n{text}");
    Scenario::parse(&text, false, &Variables::new(), &BTreeMap::new()).unwrap()
}

fn simulated(text: &str) -> Result<Ended, ScenarioError> {
    told(text).map(|(ended, _)| ended)
}

/// The same with the messages about the runs that a precision needs.
fn told(text: &str) -> Result<(Ended, Vec<String>), ScenarioError> {
    let words = Mutex::new(vec![]);
    let options = Options {
        program: "weir".into(),
        id: "20260101T000000.000Z-000000".into(),
        started_at: "2026-01-01T00:00:00Z".into(),
        version: "0".into(),
        command: vec![],
        seed: Seed(7),
        quick: false,
        simulate: true,
        no_store: true,
        files: Files::default(),
        parse_flags: &|_| Err(Box::new(Refusal::new("usage", "no flags here", 2))),
        is_stopped: &|| false,
        tell: &|happening| {
            let mut words = words.lock().unwrap();
            match happening {
                ScenarioEvent::Planned { text: told, .. } => words.push((*told).to_owned()),
                ScenarioEvent::Ran { done, of, .. } => words.push(format!("{done}/{of}")),
                _ => {}
            }
        },
        monotonic_ns: &|| 0,
        remote: None,
        warnings: vec![],
    };
    let ended = run(&scenario(text), &options, Checkpoint::default())?;
    drop(options);
    Ok((ended, words.into_inner().unwrap()))
}

const PLAN: &str = "plan = { connection = [{ transport = \"udp\", rate = \"1000pps\", payload = 100, packets = 200 }] }";

/// Every step, those inside of others behind theirs.
fn flat(steps: &[StepOutcome]) -> Vec<&StepOutcome> {
    steps.iter().flat_map(|s| std::iter::once(s).chain(flat(&s.steps))).collect()
}

#[test]
fn an_expectation_of_an_axis_around_is_judged_there_alone() {
    let text = format!(
        "[lab]\nmiddle = true\n[emulator.m]\n[[step]]\nname = \"each\"\n[step.repeat]\nover = [\"every=2,4\"]\n\
         [[step.repeat.step]]\nimpair = {{ both = \"loss every {{every}}\" }}\n\
         [[step.repeat.step]]\nname = \"t\"\ntest = {{ {PLAN} }}\n\
         expect = [\"loss == 50 % where every=2\", \"loss == 25 % where every=4\"]\n\
         [[step.repeat.step]]\nname = \"s\"\nsweep = {{ over = [\"payload=100,200\"], test = {{ {PLAN} }} }}\n\
         expect = [\"loss == 25 % where payload=200, every=4\"]\n"
    );
    let ended = simulated(&text).unwrap();
    let steps = flat(&ended.experiment.steps);
    let judged = |name: &str| {
        let step = steps.iter().find(|s| s.name == name).unwrap();
        step.expectations.iter().map(|j| (j.text.as_str(), j.outcome)).collect::<Vec<_>>()
    };
    assert_eq!(judged("t [every=2]"), [("loss == 50 % where every=2", Outcome::Passed)]);
    assert_eq!(judged("t [every=4]"), [("loss == 25 % where every=4", Outcome::Passed)]);
    assert_eq!(judged("s [every=2]"), []);
    let wanted = "loss == 25 % where payload=200, every=4";
    assert_eq!(judged("s [every=4]"), [(wanted, Outcome::Passed)]);
    assert_eq!(ended.experiment.outcome, Outcome::Passed);
}

/// Points of a repetition have its axes, so that a table can have rows for them.
#[test]
fn points_of_a_repetition_have_the_axes_around() {
    let text = format!(
        "[lab]\nmiddle = true\n[emulator.m]\n[[step]]\nname = \"each\"\n[step.repeat]\nover = [\"every=2,4\"]\n\
         [[step.repeat.step]]\nimpair = {{ both = \"loss every {{every}}\" }}\n\
         [[step.repeat.step]]\nname = \"s\"\nsweep = {{ over = [\"payload=100,200\"], test = {{ {PLAN} }} }}\n\
         [[table]]\nname = \"t\"\nsteps = [\"s\"]\nrows = [\"every\"]\ncolumns = [\"payload\"]\nfigures = [\"loss\"]\ncells = [\"%\"]\n"
    );
    let ended = simulated(&text).unwrap();
    let steps = flat(&ended.experiment.steps);
    let step = steps.iter().find(|s| s.name == "s [every=4]").unwrap();
    let at = |payload: &str| {
        let at = [("every", "4"), ("payload", payload)];
        at.map(|(axis, value)| (axis.to_owned(), value.to_owned())).into()
    };
    assert!(step.points.iter().map(|p| &p.at).eq(&[at("100"), at("200")]));
    assert!(step.runs.iter().all(|run| step.points.iter().any(|point| point.at == run.at)));
    let [table] = &ended.experiment.tables[..] else { panic!("one table") };
    let losses: Vec<(&str, Vec<Option<f64>>)> = table
        .rows
        .iter()
        .map(|row| (row.labels[0].as_str(), row.cells.iter().map(|c| c.figures[0]).collect()))
        .collect();
    assert_eq!(losses, [("2", vec![Some(0.5); 2]), ("4", vec![Some(0.25); 2])]);
}

/// Two stages: the first five runs tell how many are needed, what they are later does not; the table's interval and the verdict's
/// are of the first five runs' deviation. A cap leaves the precision unreached, and says so.
#[test]
fn a_precision_is_reached_by_the_number_that_its_first_stage_reported() {
    let repeated = |most: u32| {
        told(&format!(
            "[lab]\nmiddle = true\n[emulator.m]\nboth = \"loss 10%\"\n[[step]]\nname = \"s\"\n\
             sweep = {{ over = [], runs = 5, max_runs = {most}, precision_percentage = 15, metrics = [\"loss\"], test = {{ {PLAN} }} }}\n\
             expect = [\"loss <= 50 %\"]\n"
        ))
        .unwrap()
    };
    let (ended, words) = repeated(1000);
    let step = &ended.experiment.steps[0];
    assert_eq!(step.action, "test", "of one point it is no sweep");
    let values: Vec<f64> = step.runs.iter().map(|r| r.metrics["loss"]).collect();
    let first = weir_stats::Sample::of(&values[..5]).unwrap();
    let needed = first.repetitions_for(0.15 * first.mean, 0.95).unwrap();
    assert!((6..1000).contains(&needed), "{needed}: this seed shows nothing");
    assert_eq!((values.len() as u64, step.points[0].runs), (needed, needed));
    let summed = step.points[0].metrics["loss"];
    let interval = summed.interval.unwrap();
    let half = first.half_width_over(needed, 0.95).unwrap();
    assert!(((interval.high - interval.low) / 2.0 - half).abs() < 1e-12);
    assert!(half <= 0.15 * first.mean);
    assert_eq!(step.expectations[0].interval, Some(interval));
    let reason = step.reason.as_deref().unwrap();
    for part in ["± 15 %", &format!(" {needed} runs")] {
        assert!(reason.contains(part), "{reason}");
    }
    assert_eq!(words[..4], ["1/5", "2/5", "3/5", "4/5"]);
    assert_eq!(words[4], format!("5/{needed}"));
    assert!(words[5].ends_with(&format!(" {needed} runs")), "{}", words[5]);
    assert_eq!(words.last(), Some(&format!("{needed}/{needed}")));

    assert_eq!(ended.experiment.outcome, Outcome::Passed);
    assert!(step.points[0].precision.as_ref().unwrap().reached);

    let (ended, words) = repeated(6);
    let step = &ended.experiment.steps[0];
    // All that was expected came true, and still the figure is not as precise as it was to be.
    assert_eq!(step.expectations[0].outcome, Outcome::Passed);
    assert_eq!((step.runs.len(), step.outcome), (6, Outcome::Inconclusive));
    assert_eq!(ended.experiment.outcome, Outcome::Inconclusive);
    let precision = step.points[0].precision.as_ref().unwrap();
    assert_eq!(
        (precision.needed_count, precision.count, precision.reached),
        (Some(needed), 6, false)
    );
    let stage = step.expectations[0].interval.unwrap().first_stage_count;
    assert_eq!(stage, Some(5));
    let reason = step.reason.as_deref().unwrap();
    for part in ["± 15 %", &format!(" {needed} runs"), " 6 "] {
        assert!(reason.contains(part), "{part}: {reason}");
    }
    assert!(words[5].contains(" 6 "), "the maximum: {}", words[5]);
}

#[test]
fn what_is_to_be_judged_somewhere_can_fail_there() {
    let text = format!(
        "[lab]\nmiddle = true\n[emulator.m]\nboth = \"loss every 10\"\n\
         [[step]]\nname = \"s\"\nsweep = {{ over = [\"payload=100,200\"], runs = 2, test = {{ {PLAN} }} }}\n\
         expect = [\"loss <= 0.1 % where payload=200\"]\n"
    );
    let ended = simulated(&text).unwrap();
    let [judged] = &ended.experiment.steps[0].expectations[..] else { panic!("{ended:?}") };
    assert_eq!((judged.outcome, judged.count), (Outcome::Failed, 2));
    assert_eq!(judged.at["payload"], "200");
    assert_eq!(ended.experiment.outcome, Outcome::Failed);
}

#[test]
fn the_load_of_a_comparison_is_the_same_for_every_tool() {
    let refusal = |with: &str| {
        let text = format!(
            "[lab]\n[[step]]\nname = \"c\"\ncompare = {{ over = [\"size=100\"], with = {{ {with} }} }}\n"
        );
        check(&scenario(&text), &Files::default(), &|_| Ok(Default::default()))
    };
    for setting in ["mss = 536", "congestion = \"reno\""] {
        match refusal(&format!("transport = \"udp\", {setting}")) {
            Err(ScenarioError::Refused { field, .. }) => {
                assert!(setting.starts_with(field.trim_start_matches("c.")), "{field}");
            }
            other => panic!("{other:?}"),
        }
        assert!(refusal(&format!("transport = \"tcp\", {setting}")).is_ok());
    }
    for transport in ["tcp", "udp"] {
        assert!(refusal(&format!("transport = \"{transport}\", rate = \"10M\"")).is_ok());
    }
}

/// Streams are not for the virtual clock: their points are left out, also where they come first.
#[test]
fn what_is_not_simulated_is_left_out_and_the_rest_is_judged() {
    let plan = PLAN.replace("\"udp\"", "\"{transport}\"");
    let text = format!(
        "[lab]\nmiddle = true\n[emulator.m]\nboth = \"loss every 10\"\n\
         [[step]]\nsweep = {{ over = [\"transport=tcp,udp\", \"payload=100,200,300\"], in_order = true, test = {{ {plan} }} }}\n\
         expect = [\"throughput > 1k\", \"loss < 20 % where transport=udp, payload=300\"]\n"
    );
    let ended = simulated(&text).unwrap();
    let step = &ended.experiment.steps[0];
    assert_eq!(step.runs.len(), 6, "{step:?}");
    let judged: Vec<_> =
        step.expectations.iter().map(|j| (&*j.at["transport"], j.outcome)).collect();
    assert_eq!(judged, [("udp", Outcome::Passed); 4]);
    assert_eq!(ended.experiment.outcome, Outcome::Passed);
}

/// Repetitions of one test are a test, beside others too: its runs are in the sums. What has axes has no partner.
#[test]
fn a_sweep_without_axes_counts_in_the_sums_of_a_parallel_step() {
    let sums = |over: &str| {
        let text = format!(
            "[lab]\nmiddle = true\n[emulator.m]\n[[step]]\nname = \"both\"\nexpect = [\"sum packets == 400\"]\n\
             [[step.parallel]]\nname = \"a\"\ntest = {{ runs = 2, {PLAN} }}\n\
             [[step.parallel]]\nname = \"b\"\nsweep = {{ over = [{over}], runs = 2, test = {{ {PLAN} }} }}\n"
        );
        let ended = simulated(&text).unwrap();
        let step = ended.experiment.steps[0].clone();
        let runs: Vec<f64> =
            step.runs.iter().filter_map(|r| r.metrics.get("sum packets").copied()).collect();
        // The first run of each starts at a time given, and its first packet is set against the others'; later ones do not.
        assert_eq!(step.together.unwrap().tests, 2);
        (runs, step.expectations[0].outcome)
    };
    assert_eq!(sums(""), (vec![400.0, 400.0], Outcome::Passed));
    assert_eq!(sums("\"payload=100,200\""), (vec![], Outcome::Inconclusive));
}

/// It is neither failed nor tried again: the virtual clock would say the same.
#[test]
fn what_is_not_simulated_is_no_failure_and_is_not_tried_again() {
    let plan = PLAN.replace("\"udp\"", "\"{transport}\"");
    let text = format!(
        "[lab]\n[[step]]\nsweep = {{ over = [\"transport=udp,tcp\"], runs = 2, repeat_host_limited = 3, test = {{ {plan} }} }}\n"
    );
    let ended = simulated(&text).unwrap();
    let step = &ended.experiment.steps[0];
    let counts: Vec<_> = step.points.iter().map(|p| (p.runs, p.failed)).collect();
    assert_eq!((counts, step.runs.len()), (vec![(2, 0), (0, 0)], 4));
    assert_eq!(step.code.as_deref(), Some(weir_model::experiment::StepOutcome::NOT_SIMULATED));
    assert_eq!(step.runs.iter().filter(|run| run.not_simulated).count(), 2);
    assert!(step.reason.as_deref().unwrap().contains("2 of 4"), "{:?}", step.reason);
}
