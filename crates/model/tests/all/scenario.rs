//! Validation of scenarios, with the text of errors.
// Clippy knows test functions, not their helpers.

use std::collections::BTreeMap;

use weir_model::experiment::{Scenario, Variables};
use weir_model::{ModelError, Refusal};

fn parse(steps: &str) -> Result<Scenario, ModelError> {
    let text = format!(
        "schema = \"weir.scenario/1\"\nname = \"s\"\n[lab]\nmiddle = true\n[emulator.m]\n{steps}"
    );
    Scenario::parse(&text, false, &Variables::new(), &BTreeMap::new())
}

/// The refusal of a scenario: its field, what was given and what is accepted.
fn refused(steps: &str) -> Refusal {
    match parse(steps) {
        Err(error) => Refusal::from(&error),
        Ok(_) => panic!("accepted: {steps}"),
    }
}

fn is(refusal: &Refusal, field: &str, given: &str, accepted: &str) {
    let found = (refusal.field.as_deref(), refusal.given.as_deref(), refusal.accepted.as_deref());
    assert_eq!(found, (Some(field), Some(given), Some(accepted)), "{refusal}");
}

/// Axes and values in `where` must exist; otherwise the expectation would apply to nothing and never fail.
#[test]
fn expectations_need_existing_axes_and_values() {
    let sweep = |rule: &str| {
        format!(
            "[[step]]\nsweep = {{ over = [\"size=100,300\", \"transport=tcp,udp\"], test = {{}} }}\nexpect = [\"{rule}\"]\n"
        )
    };
    const AT: &str = "step[0].expect: where ";
    for (rule, term, given, accepted) in [
        (
            "loss <= 0.1 % where size=200",
            "size=200",
            "no such value",
            "100, 300 (did you mean 100?)",
        ),
        (
            "loss <= 0.1 % where sise=100",
            "sise=100",
            "no such axis",
            "size, transport (did you mean size?)",
        ),
        ("loss <= 0.1 % where transport=udp, size=1", "size=1", "no such value", "100, 300"),
        (
            "loss <= 0.1 % where transport=upd",
            "transport=upd",
            "no such value",
            "tcp, udp (did you mean udp?)",
        ),
    ] {
        is(&refused(&sweep(rule)), &format!("{AT}{term}"), given, accepted);
    }
    parse(&sweep("loss <= 0.1 % where transport=udp, size=300")).unwrap();
    let alone = refused("[[step]]\ntest = {}\nexpect = [\"loss <= 1 % where size=1\"]\n");
    assert_eq!(alone.field, Some(format!("{AT}size=1")));
    // Axes of enclosing steps count too.
    let repeat = |rule: &str| {
        format!(
            "[[step]]\n[step.repeat]\nover = [\"x=1,2\"]\n[[step.repeat.step]]\ntest = {{}}\nexpect = [\"{rule}\"]\n"
        )
    };
    parse(&repeat("loss <= 1 % where x=2")).unwrap();
    assert_eq!(refused(&repeat("loss <= 1 % where x=3")).accepted.as_deref(), Some("1, 2"));
    let compare = "[[step]]\ncompare = { over = [\"size=1\"], tools = [\"weir\", \"iperf3\"] }\n";
    parse(&format!("{compare}expect = [\"throughput > 1M where tool=iperf3\"]")).unwrap();
    let said = refused(&format!("{compare}expect = [\"throughput > 1M where tool=iperf\"]"));
    is(&said, &format!("{AT}tool=iperf"), "no such value", "weir, iperf3 (did you mean iperf3?)");
}

#[test]
fn runs_are_limited() {
    let billions = "4000000000";
    for (step, field) in [
        (format!("test = {{ runs = {billions} }}"), "test.runs"),
        (
            format!("sweep = {{ over = [\"size=1\"], runs = {billions}, test = {{}} }}"),
            "sweep.runs",
        ),
        (
            format!("sweep = {{ over = [\"size=1\"], max_runs = {billions}, test = {{}} }}"),
            "sweep.max_runs",
        ),
        (format!("compare = {{ over = [\"size=1\"], runs = {billions} }}"), "compare.runs"),
        (
            format!(
                "search = {{ high = \"1M\", low = \"1k\", trial = 1, runs = {billions}, test = {{}} }}"
            ),
            "search.runs",
        ),
    ] {
        is(
            &refused(&format!("[[step]]\n{step}\n")),
            &format!("step[0].{field}"),
            billions,
            "1 to 10000",
        );
    }
    let said = refused(
        "[[step]]\nsweep = { over = [\"size=1\"], repeat_host_limited = 4000000000, test = {} }\n",
    );
    is(&said, "step[0].sweep.repeat_host_limited", billions, "at most 100");
    // The sum is limited too.
    let many = "[[step]]\nsweep = { over = [\"size=1..20\"], runs = 5000, test = {} }\n";
    parse(many).unwrap();
    is(&refused(&format!("{many}{many}")), "step", "200000 runs", "at most 100000 runs in all");
    let said = refused(
        "[[step]]\n[step.repeat]\ntimes = 100\n[[step.repeat.step]]\ntest = { runs = 2000 }\n",
    );
    is(&said, "step", "200000 runs", "at most 100000 runs in all");
}

/// Unknown keys of emulators are refused, as all unknown keys.
#[test]
fn unknown_emulator_keys_are_refused() {
    for (text, field, nearest) in [
        ("bth = \"loss 1%\"\n[[step]]\ntest = {}\n", "emulator.m.bth", "both"),
        (
            "control_sokcet = \"x\"\n[[step]]\ntest = {}\n",
            "emulator.m.control_sokcet",
            "control_socket",
        ),
        ("[[step]]\nimpair = { bth = \"loss 1%\", clear = true }\n", "step[0].impair.bth", "both"),
        (
            "[[step]]\nsweep = { over = [\"size=1\"], test = {}, impair = { both = \"loss 1%\", sed = 5 } }\n",
            "step[0].sweep.impair.sed",
            "seed",
        ),
    ] {
        let said = refused(text);
        assert_eq!(said.code, "unknown-field", "{text}");
        assert_eq!(said.field.as_deref(), Some(field), "{text}");
        assert_eq!(said.nearest.as_deref(), Some(nearest), "{text}");
    }
    parse("both = \"loss 1%\"\nseed = 5\n[[step]]\nimpair = { emulator = \"m\", a_to_b = \"loss 2%\" }\n")
        .unwrap();
}

#[test]
fn errors_name_field_and_line() {
    let whole = "a whole number, 0 to 4294967295";
    let command = "a table of run, host, exit_code, background, ready";
    for (text, field, given, accepted) in [
        ("[[step]]\ncommand = \"ls\"", "step[0].command", "ls", command),
        ("[[step]]\ncommand = { run = \"ls -l\" }", "step[0].command.run", "ls -l", "a list"),
        ("[[step]]\ntest = { runs = \"x\" }", "step[0].test.runs", "x", whole),
        ("[[step]]\ntest = { runs = -1 }", "step[0].test.runs", "-1", whole),
        ("[[step]]\ntest = { background = 1 }", "step[0].test.background", "1", "true or false"),
        ("[[step]]\ntest = { args = [\"-u\"] }", "step[0].test.args", "[\"-u\"]", "a string"),
        ("[[step]]\nexpect = \"loss < 1 %\"\ntest = {}", "step[0].expect", "loss < 1 %", "a list"),
    ] {
        let said = refused(text);
        is(&said, field, given, accepted);
        assert_eq!(said.line, Some(7), "{text}");
    }
    for (text, field, given, accepted, line) in [
        ("both = 3", "emulator.m.both", "3", "a string", 6),
        ("interfaces = [\"a\"]", "emulator.m.interfaces", "[\"a\"]", "a list of 2", 6),
    ] {
        let said = refused(text);
        is(&said, field, given, accepted);
        assert_eq!(said.line, Some(line), "{text}");
    }
    let kind = refused("[[step]]\nsearch = { kind = \"thruput\" }");
    assert_eq!(kind.field.as_deref(), Some("step[0].search.kind"));
    assert_eq!(kind.nearest.as_deref(), Some("throughput"));
    let unknown = refused("[[step]]\ntset = {}");
    assert_eq!(unknown.field.as_deref(), Some("step[0].tset"));
    assert_eq!(unknown.nearest.as_deref(), Some("test"));
    let none = refused("");
    assert_eq!((none.code.as_str(), none.field.as_deref()), ("missing-field", Some("step")));
    is(&refused("[[step]]\nparallel = []"), "step[0].parallel", "no steps", "at least one step");
    is(
        &refused("[[step]]\nrepeat = { times = 1 }"),
        "step[0].repeat.step",
        "none",
        "at least one step",
    );
}

#[test]
fn precision_limits_repetitions() {
    let sweep = |more: &str| {
        format!(
            "[[step]]\nsweep = {{ over = [], precision_percentage = 2.0, test = {{}}{more} }}\n"
        )
    };
    let field = |more: &str| refused(&sweep(more)).field.unwrap();
    assert_eq!(field(""), "step[0].sweep.precision_percentage");
    assert_eq!(field(", runs = 5, max_runs = 3"), "step[0].sweep.precision_percentage");
    parse(&sweep(", runs = 3, max_runs = 30")).unwrap();
}

/// A short name is often the flag's, which is not a field of a plan.
#[test]
fn an_unknown_parameter_is_refused_with_the_nearest_short_name() {
    let plan = weir_model::experiment::test_plan(
        &serde_json::json!({ "connection": [{ "transport": "udp" }] }),
    )
    .unwrap();
    let accepted = |name: &str| {
        let error = weir_model::experiment::set_parameters(&plan, [(name, "64")]).unwrap_err();
        let refusal = Refusal::from(&error);
        assert_eq!(refusal.field.as_deref(), Some(name));
        refusal.accepted.unwrap()
    };
    assert!(accepted("sise").ends_with("size?)"));
    assert!(!accepted("qqqqqq").ends_with('?'));
}

/// Errors in a range name its axis, even if an expectation reads the axes first.
#[test]
fn range_errors_name_their_axis() {
    let sweep = |expect: &str| {
        refused(&format!(
            "[[step]]\n{expect}sweep = {{ over = [\"size=64..256\"], test = {{}} }}\n"
        ))
    };
    let alone = sweep("");
    assert_eq!(alone.field.as_deref(), Some("step[0].sweep.over size"));
    let judged = sweep("expect = [\"loss < 1 %\"]\n");
    assert_eq!((judged.field, judged.given), (alone.field, alone.given));
}
