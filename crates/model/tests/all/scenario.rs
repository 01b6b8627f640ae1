//! What a scenario may say, and the words of each refusal.
// Clippy knows test functions, not their helpers.

use std::collections::BTreeMap;

use weir_model::experiment::{Scenario, Variables};

fn parse(steps: &str) -> Result<Scenario, String> {
    let text = format!(
        "schema = \"weir.scenario/1\"\nname = \"s\"\n[lab]\nmiddle = true\n[emulator.m]\n{steps}"
    );
    Scenario::parse(&text, false, &Variables::new(), &BTreeMap::new()).map_err(|e| e.to_string())
}

fn refusal(steps: &str) -> String {
    parse(steps).err().unwrap_or_else(|| panic!("taken: {steps}"))
}

/// What `where` names has to be there: else nothing would be judged, and nothing could fail.
#[test]
fn expectations_are_about_axes_and_values_that_are_there() {
    let sweep = |rule: &str| {
        format!(
            "[[step]]\nsweep = {{ over = [\"size=100,300\", \"transport=tcp,udp\"], test = {{}} }}\nexpect = [\"{rule}\"]\n"
        )
    };
    for (rule, words) in [
        ("loss <= 0.1 % where size=200", "no such value; accepted: 100, 300"),
        (
            "loss <= 0.1 % where sise=100",
            "no such axis; accepted: size, transport (did you mean size?)",
        ),
        ("loss <= 0.1 % where transport=udp, size=1", "no such value"),
        ("loss <= 0.1 % where transport=upd", "(did you mean udp?)"),
    ] {
        let said = refusal(&sweep(rule));
        assert!(said.contains(words), "{rule}\n  said: {said}\n  wanted: {words}");
    }
    parse(&sweep("loss <= 0.1 % where transport=udp, size=300")).unwrap();
    let said = refusal("[[step]]\ntest = {}\nexpect = [\"loss <= 1 % where size=1\"]\n");
    assert!(said.contains("no axis is around this step"), "{said}");
    // Those of the steps around count as well.
    let repeat = |rule: &str| {
        format!(
            "[[step]]\n[step.repeat]\nover = [\"x=1,2\"]\n[[step.repeat.step]]\ntest = {{}}\nexpect = [\"{rule}\"]\n"
        )
    };
    parse(&repeat("loss <= 1 % where x=2")).unwrap();
    assert!(refusal(&repeat("loss <= 1 % where x=3")).contains("accepted: 1, 2"));
    let compare = "[[step]]\ncompare = { over = [\"size=1\"], tools = [\"weir\", \"iperf3\"] }\n";
    parse(&format!("{compare}expect = [\"throughput > 1M where tool=iperf3\"]")).unwrap();
    let said = refusal(&format!("{compare}expect = [\"throughput > 1M where tool=iperf\"]"));
    assert!(said.contains("did you mean iperf3?"), "{said}");
}

#[test]
fn runs_have_an_end() {
    let billions = "4000000000";
    for step in [
        format!("test = {{ runs = {billions} }}"),
        format!("sweep = {{ over = [\"size=1\"], runs = {billions}, test = {{}} }}"),
        format!("sweep = {{ over = [\"size=1\"], max_runs = {billions}, test = {{}} }}"),
        format!("compare = {{ over = [\"size=1\"], runs = {billions} }}"),
        format!(
            "search = {{ high = \"1M\", low = \"1k\", trial = 1, runs = {billions}, test = {{}} }}"
        ),
    ] {
        let said = refusal(&format!("[[step]]\n{step}\n"));
        assert!(said.contains(&format!("{billions}; accepted: 1 to 10000")), "{said}");
    }
    let said = refusal(
        "[[step]]\nsweep = { over = [\"size=1\"], repeat_host_limited = 4000000000, test = {} }\n",
    );
    assert!(said.contains("at most 100"), "{said}");
    // Together too.
    let many = "[[step]]\nsweep = { over = [\"size=1..20\"], runs = 5000, test = {} }\n";
    parse(many).unwrap();
    assert!(refusal(&format!("{many}{many}")).contains("200000 runs; accepted: at most 100000"));
    let said = refusal(
        "[[step]]\n[step.repeat]\ntimes = 100\n[[step.repeat.step]]\ntest = { runs = 2000 }\n",
    );
    assert!(said.contains("200000 runs"), "{said}");
}

#[test]
fn keys_of_emulators_are_known_as_all_others() {
    for (text, words) in [
        ("bth = \"loss 1%\"\n[[step]]\ntest = {}\n", "a key 'bth'; accepted: both, a_to_b, "),
        ("control_sokcet = \"x\"\n[[step]]\ntest = {}\n", "did you mean control_socket?"),
        ("[[step]]\nimpair = { bth = \"loss 1%\", clear = true }\n", "did you mean both?"),
        (
            "[[step]]\nsweep = { over = [\"size=1\"], test = {}, impair = { both = \"loss 1%\", sed = 5 } }\n",
            "did you mean seed?",
        ),
    ] {
        let said = refusal(text);
        assert!(said.contains("a key '") && said.contains(words), "{text}\n  said: {said}");
    }
    parse("both = \"loss 1%\"\nseed = 5\n[[step]]\nimpair = { emulator = \"m\", a_to_b = \"loss 2%\" }\n")
        .unwrap();
}

#[test]
fn precision_says_how_far_it_may_repeat() {
    let sweep = |more: &str| {
        format!(
            "[[step]]\nsweep = {{ over = [], precision_percentage = 2.0, test = {{}}{more} }}\n"
        )
    };
    assert!(refusal(&sweep("")).contains("without enough max_runs"));
    assert!(refusal(&sweep(", runs = 5, max_runs = 3")).contains("no less than runs"));
    parse(&sweep(", runs = 3, max_runs = 30")).unwrap();
}

/// The name that people mean is often the flag's, which is no field of a plan.
#[test]
fn an_unknown_parameter_is_reported_with_the_nearest_short_name() {
    let plan = weir_model::experiment::test_plan(
        &serde_json::json!({ "connection": [{ "transport": "udp" }] }),
    )
    .unwrap();
    let said = |name: &str| {
        weir_model::experiment::set_parameters(&plan, [(name, "64")]).unwrap_err().to_string()
    };
    assert!(said("sise").contains("(did you mean size?)"), "{}", said("sise"));
    assert!(!said("qqqqqq").contains("did you mean"), "{}", said("qqqqqq"));
}

/// The place of a range is that of its axis, also where an expectation asks for the axes first.
#[test]
fn a_range_that_is_refused_is_named_where_it_stands() {
    let sweep = |expect: &str| {
        refusal(&format!(
            "[[step]]\n{expect}sweep = {{ over = [\"size=64..256\"], test = {{}} }}\n"
        ))
    };
    let alone = sweep("");
    assert!(alone.starts_with("step[0].sweep.over size: "), "{alone}");
    assert_eq!(sweep("expect = [\"loss < 1 %\"]\n"), alone);
}
