//! Checks a sweep before it starts: every refusal names its field, and none follows after 201.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde_json::Value;
use weir_model::ModelError;
use weir_model::experiment::{
    EmulatorSpec, HostSpec, ImpairStep, Impairing, LabSetup, Metric, Rule, SCENARIO_SCHEMA,
    Scenario, Step, SweepStep, TestStep, Variables, check_axes, expand, set_parameters,
};
use weir_model::names::Host;
use weir_model::plan::Plan;

use crate::problem::Problem;
use crate::types::SweepRequest;

/// Maximum number of points: each is at least one run.
const MAX_POINTS: u64 = 10_000;

/// Checks everything that can be checked without a network.
pub(crate) fn check(request: &SweepRequest) -> Result<(), Problem> {
    let mut axes = vec![];
    for (axis, i) in request.over.iter().zip(0..) {
        let at = |e: ModelError| at(&format!("/over/{i}"), &e);
        axes.extend(check_axes(std::slice::from_ref(axis), "over").map_err(at)?);
        if axes[..i].iter().any(|(name, _)| *name == axes[i].0) {
            return Err(Problem::field(format!("/over/{i}"), axes[i].0.as_str(), "each axis once"));
        }
    }
    let points = axes.iter().fold(1u64, |n, (_, values)| n.saturating_mul(values.len() as u64));
    if points > MAX_POINTS {
        let accepted = format!("at most {MAX_POINTS} of all axes together");
        return Err(Problem::field("/over", format!("{points} points"), accepted));
    }
    for (metric, i) in request.metrics.iter().zip(0..) {
        metric.parse::<Metric>().map_err(|e| at(&format!("/metrics/{i}"), &e))?;
    }
    for (rule, i) in request.expect.iter().zip(0..) {
        let rule = rule.parse::<Rule>().map_err(|e| at(&format!("/expect/{i}"), &e))?;
        if let Some((name, _)) = rule.at.iter().find(|(n, _)| !axes.iter().any(|(a, _)| a == n)) {
            let names: Vec<&str> = axes.iter().map(|(n, _)| n.as_str()).collect();
            return Err(Problem::field(format!("/expect/{i}"), name.as_str(), names.join(", ")));
        }
    }
    if let Some(percent) = request.confidence_percentage.filter(|c| !(50.0..100.0).contains(c)) {
        let given = percent.to_string();
        return Err(Problem::field("/confidence_percentage", given, "50 to below 100"));
    }
    if request.both.is_some() && !request.lab && request.emulator.is_none() {
        return Err(Problem::field("/both", "laws", "requires a lab or an emulator"));
    }
    if request.lab
        && let Some(id) = &request.emulator
    {
        return Err(Problem::field("/emulator", id.as_str(), "none with a lab"));
    }
    // Each value of each axis once, with the first values of the others.
    let first: Vec<(String, String)> =
        axes.iter().filter_map(|(n, values)| Some((n.clone(), values.first()?.clone()))).collect();
    if let Some(laws) = &request.both {
        laws_at(laws, &first)?;
    }
    let is_of_laws =
        |name: &str| request.both.as_ref().is_some_and(|b| b.contains(&format!("{{{name}}}")));
    for ((name, values), i) in axes.iter().zip(0..) {
        for value in values {
            if is_of_laws(name) {
                let mut point = first.clone();
                point[i].1.clone_from(value);
                laws_at(request.both.as_deref().unwrap_or_default(), &point)?;
            } else {
                let point = first.iter().zip(0..).filter(|((name, _), _)| !is_of_laws(name));
                let point = point.map(|((name, first), j)| {
                    (name.as_str(), if j == i { value.as_str() } else { first.as_str() })
                });
                set_parameters(&request.plan, point).map_err(|e| at(&format!("/over/{i}"), &e))?;
            }
        }
    }
    Ok(())
}

/// The scenario of a sweep that [`check`] has accepted; `host` is the server without a lab, and `emulator` is the
/// control socket of the emulator that gets the laws.
pub(crate) fn scenario(
    request: SweepRequest,
    host: Option<String>,
    emulator: Option<PathBuf>,
    key_file: Option<PathBuf>,
) -> Result<Scenario, Problem> {
    const NAME: &str = "sweep";
    let plan = Plan { host: None, ..request.plan };
    let mut hosts = BTreeMap::new();
    if let Some(host) = host {
        let host = Host::parse(&host).map_err(|e| at("/host", &e))?;
        let spec = HostSpec {
            address: host.name,
            port: host.port.or(plan.port),
            key_file: key_file.map(|path| path.display().to_string()),
        };
        hosts.insert("peer".to_owned(), spec);
    }
    let mut emulators = BTreeMap::new();
    if request.both.is_some() {
        let control_socket = emulator.map(|path| path.display().to_string());
        let spec = EmulatorSpec { control_socket, ..EmulatorSpec::default() };
        emulators.insert("middle".to_owned(), spec);
    }
    let middle = request.lab && request.both.is_some();
    let to = Impairing { both: request.both, ..Impairing::default() };
    let sweep = SweepStep {
        over: request.over,
        runs: request.runs,
        max_runs: None,
        precision_percentage: None,
        compare_content: false,
        in_order: request.in_order,
        repeat_host_limited: 0,
        pause: None,
        metrics: request.metrics,
        impair: (!to.is_empty()).then(|| ImpairStep { to, ..ImpairStep::default() }),
        test: TestStep {
            plan: Some(serde_json::to_value(&plan).map_err(Problem::internal)?),
            ..TestStep::default()
        },
    };
    Ok(Scenario {
        schema: SCENARIO_SCHEMA.into(),
        name: NAME.into(),
        title: plan.title.or_else(|| Some(NAME.into())),
        method: None,
        tags: vec![],
        seed: None,
        timeout: None,
        confidence_percentage: request.confidence_percentage.unwrap_or(95.0),
        variables: BTreeMap::new(),
        quick: BTreeMap::new(),
        lab: request.lab.then(|| LabSetup { middle, ..LabSetup::default() }),
        hosts,
        agents: BTreeMap::new(),
        emulators,
        tables: vec![],
        steps: vec![Step {
            name: Some(NAME.into()),
            expect: request.expect,
            sweep: Some(Box::new(sweep)),
            ..Step::default()
        }],
    })
}

fn laws_at(laws: &str, point: &[(String, String)]) -> Result<(), Problem> {
    let named: Variables =
        point.iter().map(|(n, v)| (n.clone(), Value::String(v.clone()))).collect();
    let text = expand(&Value::String(laws.into()), &named, &BTreeSet::new(), "both");
    let text = text.map_err(|e| at("/both", &e))?;
    let laws = Impairing { both: text.as_str().map(Into::into), ..Impairing::default() };
    laws.impairment("both", "").map(drop).map_err(|e| at("/both", &e))
}

/// An error of the model, at the request's field.
fn at(field: &str, error: &ModelError) -> Problem {
    let mut problem = Problem::of_model("", error);
    for error in &mut problem.errors {
        error.field = field.into();
    }
    problem
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_refusal_names_its_field() {
        let check = |change: Value| {
            let mut request = json!({
                "host": "h", "over": ["rate=1M,2M"],
                "plan": { "schema": "weir.plan/1", "connection": [{ "transport": "udp" }] },
            });
            for (key, value) in change.as_object().unwrap() {
                request[key] = value.clone();
            }
            let request: SweepRequest = serde_json::from_value(request).unwrap();
            check(&request).map_err(|p| p.errors[0].field.clone()).err().unwrap_or_default()
        };
        assert_eq!(check(json!({})), "");
        assert_eq!(check(json!({ "over": ["length=100..500:100", "rate=1M"] })), "");
        let lab = json!({ "lab": true, "over": ["l=1,2", "rate=1M"], "both": "loss {l}%" });
        assert_eq!(check(lab), "");
        for (change, field) in [
            (json!({ "over": ["rate=1M", "nonsense"] }), "/over/1"),
            (json!({ "over": ["rate=1M", "rate=2M"] }), "/over/1"),
            (json!({ "over": ["nonsense=1"] }), "/over/0"),
            (json!({ "over": ["rate=1M,fast"] }), "/over/0"),
            (json!({ "over": ["length=1..101:1", "mss=1000..1101:1"] }), "/over"),
            (json!({ "metrics": ["loss", "luck"] }), "/metrics/1"),
            (json!({ "expect": ["loss is low"] }), "/expect/0"),
            (json!({ "expect": ["loss < 1 % where size=3"] }), "/expect/0"),
            (json!({ "confidence_percentage": 10.0 }), "/confidence_percentage"),
            (json!({ "both": "loss 1%" }), "/both"),
            (json!({ "lab": true, "both": "loss {x}%" }), "/both"),
            (json!({ "lab": true, "over": ["l=1,no"], "both": "loss {l}%" }), "/both"),
            (json!({ "lab": true, "emulator": "x" }), "/emulator"),
        ] {
            assert_eq!(check(change.clone()), field, "{change}");
        }
    }
}
