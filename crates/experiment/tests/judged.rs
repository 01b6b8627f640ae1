//! Scenarios on the virtual clock: what is judged, where, and what is not taken for a verdict.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use weir_experiment::scenario::journal::Journal;
use weir_experiment::scenario::{Ended, Files, Options, ScenarioError, check, run};
use weir_model::experiment::{Outcome, Scenario, StepOutcome, Variables};
use weir_model::units::Seed;

fn scenario(text: &str) -> Scenario {
    let text = format!("schema = \"weir.scenario/1\"\nname = \"s\"\n{text}");
    Scenario::parse(&text, false, &Variables::new(), &BTreeMap::new()).unwrap()
}

fn simulated(text: &str) -> Result<Ended, ScenarioError> {
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
        words: &|_| Err("no flags here".into()),
        is_stopped: &|| false,
        tell: &|_| {},
        monotonic_ns: &|| 0,
    };
    run(&scenario(text), &options, Journal::default())
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
        check(&scenario(&text), &Files::default(), &|_| Err(String::new()))
            .map_err(|e| e.to_string())
    };
    let said = refusal("transport = \"tcp\", rate = \"10M\"").unwrap_err();
    assert!(said.contains("c.rate: it is UDP's"), "{said}");
    assert!(refusal("transport = \"udp\", rate = \"10M\"").is_ok());
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
