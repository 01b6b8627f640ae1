//! Every refusal names the field, what was given and what is accepted: of all that the document describes, nothing is left out.

use crate::http;
use crate::served;
use std::collections::BTreeSet;

use http::{ask, get};
use serde_json::{Value, json};
use served::{Served, keep, serve};
use weir_model::document::DocumentError;
use weir_model::plan::Plan;
use weir_model::{ModelError, Refusal};

/// A refusal that says all of it; `field` or what is beneath it.
#[track_caller]
fn says_all(reply: &http::Reply, field: &str, what: &str) {
    assert!(
        matches!(reply.status, 400 | 404 | 409 | 422),
        "{what}: {} {}",
        reply.status,
        reply.text()
    );
    assert_eq!(reply.header("content-type"), "application/problem+json", "{what}");
    let problem = reply.json();
    let error = &problem["errors"][0];
    let at = error["field"].as_str().unwrap_or_else(|| panic!("{what}: {problem}"));
    assert!(at == field || at.starts_with(&format!("{field}/")), "{what}: {field}: {problem}");
    for part in ["given", "accepted", "message"] {
        let text = error[part].as_str().unwrap_or_default();
        assert!(!text.is_empty(), "{what}: {part} of {field}: {problem}");
    }
    let text = problem.to_string();
    // Neither paths of the server nor commands that the client can't run.
    assert!(!text.contains("/tmp") && !text.contains("'weir "), "{what}: {problem}");
}

/// A schema with its reference followed.
fn resolved<'a>(document: &'a Value, mut schema: &'a Value) -> &'a Value {
    loop {
        if let Some(one) = schema["anyOf"].as_array().and_then(|all| all.first()) {
            schema = one;
        }
        let Some(at) = schema["$ref"].as_str() else { return schema };
        schema = document.pointer(at.trim_start_matches('#')).unwrap();
    }
}

fn properties(document: &Value, schema: &Value) -> Vec<String> {
    let fields = resolved(document, schema)["properties"].as_object();
    fields.unwrap_or_else(|| panic!("{schema}")).keys().cloned().collect()
}

#[test]
fn every_parameter_of_a_query_is_named() {
    let s = serve(|_| {});
    keep(&s, "run-one", "words");
    let wrong = [
        ("/events", "rate", "rate=fast"),
        ("/events", "rate", "rate=1000"),
        ("/events", "topics", "topics=weather"),
        ("/events", "samples", "samples=weather"),
        ("/runs", "limit", "limit=x"),
        ("/runs", "limit", "limit=-1"),
        ("/runs", "limit", "limit=0.5"),
        ("/runs", "limit", "limit=1&limit=2"),
        ("/runs", "since", "since=soon"),
        ("/runs", "until", "until=soon"),
        ("/runs", "host", "host=a&host=b"),
        ("/runs", "title", "title=a&title=b"),
        ("/runs", "where", "where=wrong"),
        ("/runs/{id}/report", "format", "format=pdf"),
        ("/runs/{id}/report", "figure", "format=svg&figure=none-such"),
        ("/runs/{id}/report", "figure", "format=csv&figure=none-such"),
        ("/runs/{id}/report", "from_zero", "from_zero=1"),
        ("/report", "from_zero", "run=run-one&from_zero=1"),
        ("/report", "run", ""),
        ("/report", "run", "run=nope"),
        ("/report", "run", "run=run-one&run=run-one"),
        ("/report", "run", "run=run-one&run=run-on"),
        ("/report", "experiment", "experiment=one&experiment=one"),
        ("/report", "experiment", "experiment=one&run=run-one"),
        ("/report", "format", "run=run-one&format=pdf"),
        ("/report", "format", "run=run-one&format=json"),
        ("/report", "figure", "run=run-one&format=svg&figure=none-such"),
        ("/comparison", "runs", ""),
        ("/comparison", "runs", "runs=run-one"),
        ("/comparison", "runs", "runs=run-one,nope"),
        ("/comparison", "runs", "runs=run-one,run-one"),
        ("/comparison", "runs", "runs=run-one,run-on"),
        ("/comparison", "runs", "runs=run-one%2Brun-one,x"),
        ("/comparison", "confidence", "runs=run-one,run-two&confidence=sure"),
        ("/comparison", "confidence", "runs=run-one,run-two&confidence=100"),
        ("/runs", "kind", "kind=some"),
        ("/tests/{id}/record", "parts", "parts=some"),
        ("/tests/{id}/history", "after", "after=soon"),
        ("/emulators/{id}/history", "after", "after=soon"),
        ("/experiments/{id}/report", "format", "format=pdf"),
        ("/experiments/{id}/report", "from_zero", "from_zero=yes"),
        ("/meshes/{mesh}/pairs/{from}/{to}", "since", "since=soon"),
        ("/meshes/{mesh}/pairs/{from}/{to}", "until", "until=soon"),
    ];
    let filled = |path: &str| {
        ["{id}", "{mesh}", "{from}", "{to}"]
            .iter()
            .fold(path.to_owned(), |path, name| path.replace(name, "run-one"))
    };
    for (path, key, query) in wrong {
        let path = filled(path);
        let asked = format!("{path}?{query}");
        says_all(&get(s.address, &asked), &format!("?{key}"), &asked);
    }
    // What takes any text, or what is there.
    let free = [("/runs", "tag"), ("/experiments/{id}/report", "figure"), ("/report", "label")];
    let known: BTreeSet<(&str, &str)> =
        wrong.iter().map(|(path, key, _)| (*path, *key)).chain(free).collect();
    let document = weir_api::openapi();
    for (path, methods) in document["paths"].as_object().unwrap() {
        let path = path.trim_start_matches("/api/v1");
        let parameters = methods["get"]["parameters"].as_array().into_iter().flatten();
        let mut queried = false;
        for parameter in parameters.filter(|p| p["in"] == "query") {
            let key = parameter["name"].as_str().unwrap();
            assert!(known.contains(&(path, key)), "no wrong value for {path}?{key}");
            queried = true;
        }
        if queried {
            let asked = format!("{}?nonsense=1", filled(path));
            says_all(&get(s.address, &asked), "?nonsense", &asked);
        }
    }
}

fn plan() -> Value {
    json!({ "schema": "weir.plan/1", "connection": [{ "transport": "udp", "rate": "1M" }] })
}

fn scenario() -> Value {
    json!({
        "schema": "weir.scenario/1", "name": "x", "host": { "b": { "address": "127.0.0.1" } },
        "step": [{ "wait": { "time": "1s" } }],
    })
}

/// What is asked with each field in turn wrong: a good body, and where in it the fields are.
fn bodies() -> Vec<(&'static str, Value)> {
    let impairment = json!({
        "schema": "weir.impair/1",
        "flow": [{ "name": "f", "a_to_b": { "loss": { "percentage": 1 } } }],
    });
    vec![
        ("/tests", json!({ "host": "h", "plan": plan() })),
        ("/experiments", json!({ "document": scenario() })),
        ("/sweeps", json!({ "host": "h", "plan": plan(), "over": ["rate=1M,2M"] })),
        ("/emulators", json!({ "interfaces": ["a", "b"], "configuration": impairment })),
        ("/laws/preview", json!({ "configuration": impairment })),
        ("/labs", json!({ "name": "x" })),
        ("/demo", json!({})),
        ("/calibration", json!({})),
        ("/session", json!({ "token": "x" })),
    ]
}

fn post(s: &Served, path: &str, body: &Value) -> http::Reply {
    ask(s.address, "POST", path, &[], Some(body))
}

#[test]
fn every_field_of_a_body_is_named() {
    let s = serve(|_| {});
    let document = weir_api::openapi();
    // What is of no field's type; one that takes any value is refused by what reads it.
    let wrong_of = |schema: &Value, field: &str| -> Value {
        let schema = resolved(&document, &resolved(&document, schema)["properties"][field]);
        if schema["type"] == "boolean" { json!("neither") } else { json!(true) }
    };
    for (path, body) in bodies() {
        let schema = &document["paths"][format!("/api/v1{path}")]["post"]["requestBody"]["content"]
            ["application/json"]["schema"];
        for field in properties(&document, schema) {
            let mut bad = body.clone();
            bad[&field] = wrong_of(schema, &field);
            says_all(&post(&s, path, &bad), &format!("/{field}"), &format!("{path} {bad}"));
        }
        let mut bad = body.clone();
        bad["nonsense"] = 1.into();
        says_all(&post(&s, path, &bad), "/nonsense", &format!("{path} {bad}"));
    }
    for (path, body, at, schema) in [
        ("/tests", &bodies()[0].1, "/plan", "Plan"),
        ("/tests", &bodies()[0].1, "/plan/connection/0", "Connection"),
        ("/emulators", &bodies()[3].1, "/configuration", "Impairment"),
        ("/emulators", &bodies()[3].1, "/configuration/flow/0", "ImpairFlow"),
        ("/emulators", &bodies()[3].1, "/configuration/flow/0/a_to_b", "Laws"),
    ] {
        let schema = &document["components"]["schemas"][schema];
        for field in properties(&document, schema) {
            let mut bad = body.clone();
            let object = bad.pointer_mut(at).unwrap().as_object_mut().unwrap();
            if field == "both" {
                object.remove("a_to_b");
            }
            object.insert(field.clone(), wrong_of(schema, &field));
            says_all(&post(&s, path, &bad), &format!("{at}/{field}"), &format!("{path} {bad}"));
        }
    }
}

#[test]
fn what_has_the_right_type_and_is_wrong_is_named_too() {
    let s = serve(|c| {
        std::fs::create_dir_all(&c.scenarios[0]).unwrap();
        let broken = "schema = \"weir.scenario/1\"\nname = \"broken\"\n[[step]]\nwait = = 1\n";
        std::fs::write(c.scenarios[0].join("broken.toml"), broken).unwrap();
        let good = "schema = \"weir.scenario/1\"\nname = \"good\"\n[host.b]\naddress = \"::1\"\n[variables]\nt = \"1s\"\n[[step]]\nwait = { time = \"{t}\" }\n";
        std::fs::write(c.scenarios[0].join("good.toml"), good).unwrap();
        let lacking = "schema = \"weir.scenario/1\"\nname = \"lacking\"\n[host.b]\naddress = \"::1\"\n[[step]]\ntest = { to = \"b\", plan_file = \"none.toml\" }\n";
        std::fs::write(c.scenarios[0].join("lacking.toml"), lacking).unwrap();
        c.parse_flags = |_| Err(Box::new(Refusal::of_field("value", "--rate", "fast", "10M")));
    });
    let with = |path: &str, pointer: &str, value: Value| -> Value {
        let mut body = bodies().into_iter().find(|(p, _)| *p == path).unwrap().1;
        let (parent, last) = pointer.rsplit_once('/').unwrap();
        match body.pointer_mut(parent).unwrap() {
            Value::Array(list) => list[last.parse::<usize>().unwrap()] = value,
            parent => parent[last] = value,
        }
        body
    };
    let step = |step: Value| {
        let mut document = scenario();
        document["step"][0] = step;
        document
    };
    for (path, pointer, value, field) in [
        ("/tests", "/host", json!("--json"), "/host"),
        ("/tests", "/host", json!("h:0"), "/host"),
        ("/tests", "/host", json!("h:65536"), "/host"),
        ("/tests", "/host", json!("h:port"), "/host"),
        ("/tests", "/host", json!("[::1]:99999"), "/host"),
        ("/tests", "/plan/connection/0/rate", json!("fast"), "/plan/connection/0/rate"),
        ("/tests", "/plan/connection/0/mss", json!(7), "/plan/connection/0/mss"),
        ("/tests", "/plan/schema", json!("weir.plan/9"), "/plan/schema"),
        ("/tests", "/tags", json!({ "a=b": "c" }), "/tags/a=b"),
        ("/tests", "/key_name", json!("none"), "/key_name"),
        ("/tests", "/from", json!("a"), "/from"),
        ("/tests", "/from", json!("no-such-lab-of-this-test/a"), "/from"),
        ("/emulators", "/lab", json!("no-such-lab-of-this-test/m"), "/lab"),
        ("/emulators", "/lab", json!("x"), "/lab"),
        ("/emulators", "/interfaces/1", json!("--force"), "/interfaces/1"),
        ("/emulators", "/keepalive_timeout_seconds", json!(0), "/keepalive_timeout_seconds"),
        ("/emulators", "/duration_seconds", json!(9_999_999), "/duration_seconds"),
        ("/emulators", "/link", json!("magic"), "/link"),
        (
            "/emulators",
            "/configuration/flow/0/a_to_b/loss/percentage",
            json!(101),
            "/configuration/flow/0/a_to_b/loss/percentage",
        ),
        (
            "/emulators",
            "/configuration/flow/0/a_to_b",
            json!("los 1%"),
            "/configuration/flow/0/a_to_b",
        ),
        ("/experiments", "/document", json!("text"), "/document"),
        ("/experiments", "/document/schema", json!("weir.plan/1"), "/document/schema"),
        ("/experiments", "/document", step(json!({})), "/document/step/0"),
        (
            "/experiments",
            "/document",
            step(json!({ "wait": { "time": "soon" } })),
            "/document/step/0/wait/time",
        ),
        ("/experiments", "/document", step(json!({ "wiat": 1 })), "/document/step/0"),
        (
            "/experiments",
            "/document",
            step(json!({ "test": { "args": "-b fast" } })),
            "/document/step/0/test/args",
        ),
        (
            "/experiments",
            "/document",
            step(json!({ "test": { "args": "'" } })),
            "/document/step/0/test/args",
        ),
        ("/experiments", "/set", json!({ "x": 1 }), "/set"),
        ("/experiments", "/hosts", json!({ "c": "h" }), "/hosts"),
        ("/experiments", "/hosts", json!({ "b": "h:0" }), "/hosts/b"),
        ("/experiments", "/hosts", json!({ "b": "-x" }), "/hosts/b"),
        ("/experiments", "/seed", json!("x"), "/seed"),
        ("/experiments", "/key_name", json!("none"), "/key_name"),
        ("/sweeps", "/host", json!("h:0"), "/host"),
        ("/sweeps", "/over/0", json!("nonsense"), "/over/0"),
        ("/sweeps", "/over/0", json!("rate=fast"), "/over/0"),
        ("/sweeps", "/metrics", json!(["luck"]), "/metrics/0"),
        ("/sweeps", "/expect", json!(["loss is low"]), "/expect/0"),
        ("/sweeps", "/emulator", json!("unknown"), "/emulator"),
        ("/sweeps", "/emulator", json!("../x"), "/emulator"),
        ("/sweeps", "/runs", json!(0), "/runs"),
        ("/sweeps", "/both", json!("loss 1%"), "/both"),
        ("/sweeps", "/confidence_percentage", json!(100.0), "/confidence_percentage"),
        ("/labs", "/name", json!("a b"), "/name"),
        ("/labs", "/hosts", json!(99), "/hosts"),
        ("/labs", "/mtu_bytes", json!(1), "/mtu_bytes"),
        ("/labs", "/impair", json!("loss 300%"), "/impair"),
        ("/laws/preview", "/packets", json!(0), "/packets"),
        ("/laws/preview", "/flow", json!("unknown"), "/flow"),
        ("/laws/preview", "/direction", json!("up"), "/direction"),
        ("/demo", "/seconds", json!(0), "/seconds"),
    ] {
        let body = with(path, pointer, value);
        says_all(&post(&s, path, &body), field, &format!("{path} {body}"));
    }
    // Scenarios of the server, by name: an error in the text has its line.
    let broken = post(&s, "/experiments", &json!({ "scenario": "broken" }));
    says_all(&broken, "/scenario", "a broken text");
    let message = broken.json()["errors"][0]["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("line 4: "), "{message}");
    for (body, field) in [
        (json!({ "scenario": "good", "set": { "t": "never" } }), "/set/t"),
        (json!({ "scenario": "good", "set": { "x": 1 } }), "/set/x"),
        (json!({ "scenario": "good", "hosts": { "z": "h" } }), "/hosts/z"),
        (json!({ "scenario": "good", "document": {} }), "/scenario"),
        (json!({ "scenario": "lacking" }), "/scenario"),
        (json!({ "scenario": "unknown" }), "/scenario"),
    ] {
        says_all(&post(&s, "/experiments", &body), field, &body.to_string());
    }
    // No JSON at all, and a body of another kind.
    let text =
        http::ask_on(http::connect(s.address), "POST", "/api/v1/labs", &[], Some(b"{\"name\": }"));
    says_all(&text.unwrap(), "", "no JSON");
}

/// The same table as the command line's and the plan files': a plan that is kept, looked at, run and swept.
#[test]
fn a_plan_is_refused_as_the_command_line_refuses_it() {
    let s = serve(|_| {});
    let table: Vec<Value> =
        serde_json::from_str(include_str!("../../../model/tests/refused_plans.json")).unwrap();
    for row in &table {
        let mut plan = row["plan"].clone();
        plan["schema"] = "weir.plan/1".into();
        let Err(ModelError::Document(error)) = Plan::parse(&plan.to_string()) else {
            panic!("{row}")
        };
        let DocumentError { field, given, accepted, .. } = *error;
        let pointer = format!("/{}", field.replace('[', "/").replace("].", "/").replace('.', "/"));
        let kept = ask(s.address, "PUT", "/plans/x", &[], Some(&plan));
        says_all(&kept, &pointer, &row.to_string());
        let error = &kept.json()["errors"][0];
        assert_eq!((&error["given"], &error["accepted"]), (&json!(given), &json!(accepted)));
        let looked = ask(s.address, "POST", "/validate/plan", &[], Some(&plan)).expect(200);
        assert_eq!(looked["valid"], false, "{row}");
        assert_eq!(looked["errors"][0]["field"], json!(pointer), "{row}");

        // Who runs it may name the host: the plan's own, if it has one.
        let of_request = plan["host"].is_null().then_some("h");
        let test = json!({ "host": of_request, "plan": plan });
        let reply = ask(s.address, "POST", "/tests", &[], Some(&test));
        // A port that is written with the host replaces the plan's, as HOST:PORT does on a command line.
        if row["field"] == "port" && row["plan"]["host"].is_string() {
            reply.expect(503);
            continue;
        }
        says_all(&reply, &format!("/plan{pointer}"), &row.to_string());
        if let Some(host) = of_request {
            let sweep = json!({ "host": host, "plan": plan, "over": ["tos=0,1"] });
            let reply = ask(s.address, "POST", "/sweeps", &[], Some(&sweep));
            says_all(&reply, &format!("/plan{pointer}"), &row.to_string());
        }
    }
    // The host of the request is checked with the plan.
    let plan = json!({ "schema": "weir.plan/1", "family": "ipv6", "connection": [{}] });
    for path in ["/tests", "/sweeps"] {
        let mut request = json!({ "host": "192.0.2.1", "plan": plan });
        if path == "/sweeps" {
            request["over"] = json!(["tos=0,1"]);
        }
        let reply = ask(s.address, "POST", path, &[], Some(&request));
        says_all(&reply, "/plan/family", path);
    }
}
