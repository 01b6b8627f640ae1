//! What routes answer, over real connections.

use crate::http;
use crate::served;
use http::{ask, get};
use serde_json::{Value, json};
use served::{keep, serve};

fn plan(rate: &str) -> Value {
    json!({ "schema": "weir.plan/1", "title": "t", "connection": [{ "transport": "udp", "rate": rate }] })
}

#[test]
fn the_server_reports_what_it_is() {
    let s = serve(|_| {});
    let system = get(s.address, "/system").expect(200);
    assert_eq!(system["version"], "0.0.0");
    assert_eq!(system["may"]["emulate"], false);
    assert_eq!(system["limits"]["body_bytes"], 8 << 20);
    let document = get(s.address, "/openapi.json").expect(200);
    assert_eq!(document, weir_api::openapi());
    let names = get(s.address, "/schemas").expect(200);
    for entry in names["schemas"].as_array().unwrap() {
        let schema = get(s.address, &format!("/schemas/{}", entry["name"].as_str().unwrap()));
        assert_eq!(schema.header("content-type"), "application/schema+json");
        assert!(schema.expect(200)["properties"].is_object());
    }
    let schema = &document["components"]["schemas"]["Metric"];
    let always: Vec<&str> =
        schema["required"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    for metric in get(s.address, "/metrics").expect(200)["metrics"].as_array().unwrap() {
        assert!(always.iter().all(|field| metric[*field] != Value::Null), "{metric}");
    }
    let interfaces = get(s.address, "/interfaces").expect(200);
    let lo = interfaces["interfaces"].as_array().unwrap().iter().find(|i| i["name"] == "lo");
    assert!(
        lo.is_some_and(|lo| lo["loopback"] == true && lo["in_use"].is_string()),
        "{interfaces}"
    );
    for path in [
        "/tests",
        "/experiments",
        "/scenarios",
        "/plans",
        "/runs",
        "/clients",
        "/audit",
        "/profiles",
        "/calibration",
        "/meshes",
    ] {
        get(s.address, path).expect(200);
    }
}

/// Profiles are plans, by themselves and by name.
#[test]
fn traffic_profiles_are_valid_plans() {
    let s = serve(|_| {});
    let list = get(s.address, "/profiles").expect(200);
    let traffic = list["traffic"].as_array().unwrap();
    assert!(traffic.len() > 10 && traffic.iter().all(|one| one["own"] == false));
    for one in traffic {
        let named = json!({ "schema": "weir.plan/1", "connection": [{ "profile": one["name"], "count": 2 }] });
        for plan in [&one["plan"], &named] {
            let found = ask(s.address, "POST", "/validate/plan", &[], Some(plan)).expect(200);
            assert_eq!(found["valid"], true, "{plan}: {found}");
        }
    }
    let unknown = json!({ "schema": "weir.plan/1", "connection": [{ "profile": "voip-g712" }] });
    let found = ask(s.address, "POST", "/validate/plan", &[], Some(&unknown)).expect(200);
    assert_eq!(found["errors"][0]["field"], "/connection/0/profile", "{found}");
}

#[test]
fn what_is_not_there_is_said_as_a_problem() {
    let s = serve(|_| {});
    for (method, path, status) in [
        ("GET", "/nothing", 404),
        ("GET", "/tests/x", 404),
        ("GET", "/runs/x", 404),
        ("GET", "/plans/x", 404),
        ("GET", "/schemas/x", 404),
        ("GET", "/emulators/x", 404),
        ("GET", "/emulators/..%2Fx", 404),
        ("PATCH", "/plans/x", 405),
        ("GET", "/runs?limit=0", 422),
        ("GET", "/runs?limt=1", 422),
        ("GET", "/runs?where=wrong", 422),
        ("GET", "/comparison?runs=a", 422),
        ("GET", "/events?rate=0", 422),
        ("GET", "/events?topics=x", 422),
    ] {
        let reply = ask(s.address, method, path, &[], None);
        assert_eq!(reply.status, status, "{method} {path}: {}", reply.text());
        assert_eq!(reply.header("content-type"), "application/problem+json", "{path}");
        let problem = reply.json();
        assert_eq!(problem["status"], status);
        assert!(problem["detail"].as_str().is_some_and(|d| !d.is_empty()), "{problem}");
    }
    // Nothing can be started without a launcher, and that is said.
    let request = json!({ "host": "127.0.0.1", "plan": plan("1M") });
    ask(s.address, "POST", "/tests", &[], Some(&request)).expect(503);
}

#[test]
fn a_wrong_value_is_refused_beside_its_field() {
    let s = serve(|_| {});
    let refused = |path: &str, body: Value| -> String {
        let method = if path.starts_with("/plans") { "PUT" } else { "POST" };
        let problem = ask(s.address, method, path, &[], Some(&body)).expect(422);
        problem["errors"][0]["field"].as_str().unwrap().to_owned()
    };
    assert_eq!(refused("/plans/x", plan("fast")), "/connection/0/rate");
    let mut mss = plan("1M");
    mss["connection"][0]["mss"] = 7.into();
    assert_eq!(refused("/tests", json!({ "host": "h", "plan": mss })), "/plan/connection/0/mss");
    assert_eq!(refused("/tests", json!({ "plan": plan("1M") })), "/host");
    assert_eq!(refused("/tests", json!({ "host": "--json", "plan": plan("1M") })), "/host");
    let unknown = json!({ "host": "h", "plan": plan("1M"), "key_name": "../x" });
    let unknown = ask(s.address, "POST", "/tests", &[], Some(&unknown)).expect(409);
    assert_eq!(unknown["errors"][0]["field"], "/key_name");
    let laws = json!({ "schema": "weir.impair/1", "other": { "a_to_b": { "loss": { "percentage": 101.0 } } } });
    let field = refused("/laws/preview", json!({ "configuration": laws }));
    assert!(field.starts_with("/configuration/other/a_to_b/loss"), "{field}");
    let looked = ask(s.address, "POST", "/validate/impairment", &[], Some(&laws)).expect(200);
    assert_eq!(looked["valid"], false);
    assert!(
        looked["errors"][0]["field"].as_str().unwrap().starts_with("/other/a_to_b/loss"),
        "{looked}"
    );
    // A timeline alone, from its file: CSV or TOML. The second is that which the first is printed as.
    let file = |text: &str| {
        ask(s.address, "POST", "/validate/timeline", &[], Some(&json!(text))).expect(200)
    };
    let series = file("time,loss\n0,1%\n10,\n");
    assert_eq!(series["document"]["change"][1]["at"], "10s");
    let lines = file(series["toml"].as_str().unwrap());
    assert_eq!((&lines["document"], &lines["toml"]), (&series["document"], &series["toml"]));
    let table = &series["document"];
    let looked = ask(s.address, "POST", "/validate/timeline", &[], Some(table)).expect(200);
    assert_eq!((&looked["toml"], &looked["document"]), (&series["toml"], &Value::Null));
    assert_eq!(file("time,loss\n0,101%\n")["valid"], false);
    let looked = ask(s.address, "POST", "/validate/plan", &[], Some(&plan("10M"))).expect(200);
    assert_eq!(
        (&looked["valid"], looked["toml"].as_str().map(|t| t.contains("10M"))),
        (&json!(true), Some(true))
    );
    let looked = ask(s.address, "POST", "/validate/scenario", &[], Some(&json!({}))).expect(200);
    assert_eq!(looked["valid"], false);
    let wait = json!({
        "schema": "weir.scenario/1", "name": "x", "step": [{ "wait": { "time": "5s" } }],
    });
    let looked = ask(s.address, "POST", "/validate/scenario", &[], Some(&wait)).expect(200);
    assert_eq!(looked["notes"], json!(["1 step", "no runs, 5 s of pauses"]), "{looked}");
}

#[test]
fn a_second_editor_is_refused_with_the_name_of_the_first() {
    let s = serve(|_| {});
    let put = |rate: &str, tag: Option<&str>| {
        let headers: Vec<(&str, &str)> = tag.iter().map(|t| ("If-Match", *t)).collect();
        ask(s.address, "PUT", "/plans/two%20editors", &headers, Some(&plan(rate)))
    };
    let new = |rate: &str| {
        let headers = [("If-None-Match", "*")];
        ask(s.address, "PUT", "/plans/two%20editors", &headers, Some(&plan(rate)))
    };
    put("1M", None).expect(428);
    let both = [("If-Match", "*"), ("If-None-Match", "*")];
    ask(s.address, "PUT", "/plans/both", &both, Some(&plan("1M"))).expect(412);
    let made = new("1M");
    made.expect(201);
    // Who thinks that it is new does not overwrite it, and neither does who says nothing.
    new("9M").expect(412);
    assert_eq!(put("9M", None).expect(428)["errors"][0]["field"], "If-Match");
    ask(s.address, "DELETE", "/plans/two%20editors", &[], None).expect(428);
    assert_eq!(get(s.address, "/plans/two%20editors").expect(200)["connection"][0]["rate"], "1M");
    let first = made.etag();
    assert_eq!(get(s.address, "/plans/two%20editors").etag(), first);
    // A proxy that packs answers makes the tag weak.
    let second = put("2M", Some(&format!("W/{first}")));
    second.expect(200);
    let late = put("3M", Some(&first)).expect(412);
    assert_eq!(late["changed"]["by"], "127.0.0.1", "{late}");
    assert_eq!(format!("\"{}\"", late["changed"]["etag"].as_str().unwrap()), second.etag());
    let kept = get(s.address, "/plans/two%20editors").expect(200);
    assert_eq!(kept["connection"][0]["rate"], "2M", "the late change was not made");
    let path = "/plans/two%20editors";
    ask(s.address, "DELETE", path, &[("If-Match", &first)], None).expect(412);
    ask(s.address, "DELETE", path, &[("If-Match", &second.etag())], None).expect(204);
    assert_eq!(put("3M", Some(&first)).expect(412)["changed"]["by"], "127.0.0.1");
    assert_eq!(get(s.address, "/plans").expect(200)["plans"], json!([]));
    // Names that would lead elsewhere.
    for name in ["..", ".x", "%2e%2e%2fx", "a%2fb", "-x", "x%00"] {
        let path = format!("/plans/{name}");
        let reply = ask(s.address, "PUT", &path, &[("If-Match", "*")], Some(&plan("1M")));
        assert!(matches!(reply.status, 400 | 404 | 405 | 422), "{name}: {}", reply.status);
    }
    assert!(!s.directory.path().join("x.toml").exists());
    // Every change is on record, and no question.
    ask(s.address, "POST", "/validate/plan", &[], Some(&plan("1M"))).expect(200);
    let audit = get(s.address, "/audit").expect(200);
    assert!(!audit.to_string().contains("/validate/"), "{audit}");
    let statuses: Vec<u64> = audit["entries"]
        .as_array()
        .unwrap()
        .iter()
        .rev()
        .filter(|e| e["path"].as_str().unwrap().contains("two"))
        .map(|e| e["status"].as_u64().unwrap())
        .collect();
    assert_eq!(statuses, [428, 201, 412, 428, 428, 200, 412, 412, 204, 412]);
    let file = std::fs::read_to_string(audit["file"].as_str().unwrap()).unwrap();
    assert!(file.lines().count() >= 6, "{file}");
}

#[test]
fn a_plan_that_another_program_makes_meanwhile_is_not_overwritten() {
    let s = serve(|_| {});
    let plans = s.directory.path().join("plans");
    std::fs::create_dir(&plans).unwrap();
    let another = std::fs::File::create(plans.join(".lock")).unwrap();
    another.try_lock().unwrap();
    let new = || ask(s.address, "PUT", "/plans/x", &[("If-None-Match", "*")], Some(&plan("1M")));
    std::thread::scope(|scope| {
        let asked = scope.spawn(new);
        // One that did not wait for the lock would be answered now.
        let end = std::time::Instant::now() + std::time::Duration::from_millis(500);
        while !asked.is_finished() && std::time::Instant::now() < end {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        std::fs::write(plans.join("x.toml"), "schema = \"weir.plan/1\"\n").unwrap();
        drop(another);
        asked.join().unwrap().expect(412);
    });
    let kept = std::fs::read_to_string(plans.join("x.toml")).unwrap();
    assert_eq!(kept, "schema = \"weir.plan/1\"\n");
    let all = std::fs::read_dir(&plans).unwrap().flatten().map(|entry| entry.file_name());
    let mut names: Vec<_> = all.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, [".lock", "x.toml"], "nothing of a part is left");
}

#[test]
fn a_run_from_elsewhere_is_kept_once_and_looked_at() {
    let (from, to) = (serve(|_| {}), serve(|_| {}));
    keep(&from, "20261122-1", "first");
    let record = get(from.address, "/runs/20261122-1").expect(200);
    let import = |record: &Value| ask(to.address, "POST", "/runs", &[], Some(record));
    let told = json!({ "id": "20261122-1", "added": true });
    assert_eq!(import(&record).expect(201), told);
    assert_eq!(get(to.address, "/runs/20261122-1").expect(200), record);
    // What is there stays as it is.
    let mut other = record.clone();
    other["plan"]["title"] = "second".into();
    assert_eq!(import(&other).expect(200)["added"], false);
    assert_eq!(get(to.address, "/runs/20261122-1").expect(200), record);
    for (change, at) in [
        (json!({ "id": "x", "schema": "weir.run/9" }), ""),
        (json!({ "id": "x", "labels": { "a=b": "x" } }), ""),
        (json!({ "id": "x", "started_at": 7 }), "/started_at"),
    ] {
        let mut bad = record.clone();
        bad.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let refused = import(&bad).expect(422);
        assert_eq!(refused["errors"][0]["field"], at, "{refused}");
        get(to.address, "/runs/x").expect(404);
    }
    let long = json!({ "schema": "weir.run/1", "id": "x".repeat(9 << 20) });
    import(&long).expect(413);
}

#[test]
fn runs_are_listed_tagged_reported_compared_and_removed() {
    let s = serve(|_| {});
    keep(&s, "run-one", "first words");
    keep(&s, "run-two", "other words");
    let list = get(s.address, "/runs?limit=1&tag=site%3Dlab").expect(200);
    assert_eq!((list["total"].as_u64(), list["runs"].as_array().unwrap().len()), (Some(2), 1));
    let list = get(s.address, "/runs?title=FIRST").expect(200);
    assert_eq!(list["runs"][0]["id"], "run-one");
    assert_eq!(list["runs"][0]["tags"]["site"], "lab");
    assert_eq!(get(s.address, "/runs/run-one").expect(200)["plan"]["title"], "first words");
    let tag = get(s.address, "/runs/run-one/tags").etag();
    let new = json!({ "kind": "night" });
    let put = ask(s.address, "PUT", "/runs/run-one/tags", &[("If-Match", &tag)], Some(&new));
    assert_eq!(put.expect(200), new);
    ask(s.address, "PUT", "/runs/run-one/tags", &[("If-Match", &tag)], Some(&new)).expect(412);
    for (format, kind) in [
        ("html", "text/html"),
        ("md", "text/markdown"),
        ("csv", "text/csv"),
        ("json", "application/json"),
    ] {
        let reply = get(s.address, &format!("/runs/run-one/report?format={format}"));
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert!(reply.header("content-type").starts_with(kind), "{format}");
    }
    let html = get(s.address, "/runs/run-one/report");
    assert!(html.header("content-security-policy").contains("sandbox"), "{:?}", html.headers);
    assert!(get(s.address, "/runs/run-one/figures").expect(200)["figures"].is_array());
    let summary = get(s.address, "/runs/run-one/summary").expect(200);
    assert!(summary["subtitle"].as_str().unwrap().contains("run-one"), "{summary}");
    for text in ["title", "sentence"] {
        assert!(!summary[text].as_str().unwrap().is_empty(), "{text}: {summary}");
    }
    assert!(!summary["paragraphs"].as_array().unwrap().is_empty());
    get(s.address, "/runs/run-none/summary").expect(404);
    let diff = get(s.address, "/comparison?runs=run-one,run-two").expect(200);
    assert_eq!(diff["a"], json!(["run-one"]));
    ask(s.address, "DELETE", "/runs/run-", &[], None).expect(409);
    ask(s.address, "DELETE", "/runs/run-o", &[], None).expect(404);
    ask(s.address, "DELETE", "/runs/run-one", &[], None).expect(204);
    get(s.address, "/runs/run-one").expect(404);
}

#[test]
fn a_preview_is_what_the_engine_does() {
    let s = serve(|_| {});
    let laws = json!({
        "schema": "weir.impair/1", "seed": "0x7",
        "other": { "a_to_b": { "loss": { "percentage": 5.0 }, "delay": { "constant": "20ms" } } },
    });
    let request = json!({ "configuration": laws, "packets": 5000 });
    let shown = ask(s.address, "POST", "/laws/preview", &[], Some(&request)).expect(200);
    let impairment: weir_model::impairment::Impairment = serde_json::from_value(laws).unwrap();
    let ingress = (0..5000).map(|i| weir_sim::Ingress {
        at_ns: i * 1_000_000,
        length_bytes: 1000,
        is_control: false,
    });
    let dispositions =
        weir_sim::predict(&impairment, "other", weir_laws::Direction::Forward, ingress).unwrap();
    let lost = dispositions.iter().filter(|f| f.verdict == weir_impair::Verdict::Lost).count();
    assert_eq!(shown["lost_packets"], lost);
    assert_eq!(shown["delay"]["p99_seconds"], 0.02);
    let mut reverse = request;
    reverse["direction"] = "reverse".into();
    let shown = ask(s.address, "POST", "/laws/preview", &[], Some(&reverse)).expect(200);
    assert_eq!(shown["lost_packets"], 0);
}

#[test]
fn scenarios_in_requests_start_no_commands() {
    let s = serve(|c| {
        std::fs::create_dir_all(&c.scenarios[0]).unwrap();
        let text = "schema = \"weir.scenario/1\"\nname = \"kept\"\n[host.b]\naddress = \"127.0.0.1\"\n[[step]]\ncommand = { run = [\"id\"] }\n";
        std::fs::write(c.scenarios[0].join("kept.toml"), text).unwrap();
    });
    let list = get(s.address, "/scenarios").expect(200);
    assert_eq!(list["scenarios"][0]["runs_commands"], true, "{list}");
    assert!(get(s.address, "/scenarios/kept").expect(200)["text"].as_str().unwrap().contains("id"));
    let refused = |body: Value| {
        let problem = ask(s.address, "POST", "/experiments", &[], Some(&body)).expect(422);
        problem["errors"][0]["field"].as_str().unwrap().to_owned()
    };
    assert_eq!(refused(json!({ "scenario": "kept" })), "/scenario/step/0/command/run/0");
    let step = json!({ "command": { "run": ["id"] } });
    let document = json!({
        "schema": "weir.scenario/1", "name": "x", "host": { "b": { "address": "127.0.0.1" } }, "step": [step],
    });
    assert_eq!(refused(json!({ "document": document })), "/document/step/0/command/run/0");
    assert_eq!(refused(json!({})), "/scenario");
}

#[test]
fn every_refusal_names_a_field() {
    let s = serve(|_| {});
    keep(&s, "run-one", "words");
    let step = json!([{ "wait": { "time": "soon" } }]);
    let document = json!({
        "schema": "weir.scenario/1", "name": "x", "host": { "b": { "address": "127.0.0.1" } }, "step": step,
    });
    let sweep = json!({ "host": "127.0.0.1", "plan": plan("1M"), "over": ["nonsense"] });
    let exists = [("If-Match", "*")];
    for (method, path, body, status, field) in [
        ("GET", "/runs/x%ff", None, 400, "path"),
        ("PUT", "/runs/run-one/tags", Some(json!({ "a=b": "c" })), 422, "/a"),
        (
            "POST",
            "/experiments",
            Some(json!({ "document": document })),
            422,
            "/document/step/0/wait/time",
        ),
        ("POST", "/sweeps", Some(sweep), 422, "/over/0"),
        ("POST", "/labs", Some(json!({ "name": "bad name" })), 422, "/name"),
        ("GET", &format!("/runs?{}x=1", "tag=a%3Db&".repeat(100)), None, 422, "?"),
    ] {
        let problem = ask(s.address, method, path, &exists, body.as_ref()).expect(status);
        assert_eq!(problem["errors"][0]["field"], field, "{method} {path}: {problem}");
    }
    let looked = ask(s.address, "POST", "/validate/scenario", &[], Some(&document)).expect(200);
    assert_eq!(looked["errors"][0]["field"], "/step/0/wait/time", "{looked}");
}

#[test]
fn runs_are_reported_side_by_side_in_the_order_in_which_they_were_named() {
    let s = serve(|_| {});
    for (id, title) in [("run-a", "first <b>"), ("run-b", "second"), ("run-c", "third")] {
        keep(&s, id, title);
    }
    let html = get(s.address, "/report?run=run-b&run=run-a");
    assert_eq!(html.header("content-type"), "text/html; charset=utf-8");
    assert!(html.header("content-security-policy").contains("default-src 'none'"));
    let page = html.text();
    let (b, a) = (page.find("run-b").unwrap(), page.find("run-a").unwrap());
    assert!(b < a && !page.contains("run-c"), "the order in which they were named");
    assert!(page.contains("first &lt;b&gt;") && !page.contains("first <b>"));
    let md = get(s.address, "/report?run=run-a&run=run-b&run=run-c&format=md");
    assert_eq!(md.header("content-type"), "text/markdown; charset=utf-8");
    assert!(["run-a", "run-b", "run-c"].iter().all(|id| md.text().contains(id)));
    // The same page that the command line makes.
    let store = weir_runs::Store::open_at(&served::data(s.directory.path())).unwrap();
    let records = ["run-a", "run-b", "run-c"].map(|id| store.get(id).unwrap());
    let made = weir_report::page::of_runs(&records);
    assert_eq!(md.text(), weir_report::page::markdown(&made));
    // One is its own report.
    let one = get(s.address, "/report?run=run-a&format=md").text();
    assert_eq!(one, get(s.address, "/runs/run-a/report?format=md").text());
    let many = "&run=run-a".repeat(51);
    for (query, field, given, accepted) in [
        ("", "?run", "0 runs", "1 to 50"),
        (&*format!("?{}", &many[1..]), "?run", "51 runs", "1 to 50"),
        ("?run=run-a&format=json", "?format", "json", "html, md, csv, svg"),
        ("?run=run-a&run=run-b&format=svg&figure=none-such", "?figure", "none-such", ""),
        ("?run=run-a&run=run-b&format=csv&figure=none-such", "?figure", "none-such", ""),
        ("?runs=run-a", "?runs", "", ""),
    ] {
        let status = if field == "?figure" { 404 } else { 422 };
        let refused = get(s.address, &format!("/report{query}")).expect(status);
        let error = &refused["errors"][0];
        assert_eq!(error["field"], field, "{query}: {refused}");
        let of = |part: &str| error[part].as_str().unwrap_or_default();
        assert!(of("given").contains(given), "{query}: {refused}");
        assert!(of("accepted").contains(accepted), "{query}: {refused}");
    }
    let missing = get(s.address, "/report?run=run-a&run=nothing").expect(404);
    assert_eq!(missing["errors"][0]["field"], "?run");
    assert_eq!(missing["errors"][0]["given"], "nothing");
}
