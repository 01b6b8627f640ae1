//! Who is let in, and what a page may do.

use crate::http;
use crate::served;
use http::{ask, ask_on, connect, get};
use serde_json::json;
use served::serve;

#[test]
fn other_names_and_other_pages_are_refused() {
    let s = serve(|_| {});
    let status = |headers: &[(&str, &str)]| ask(s.address, "GET", "/system", headers, None).status;
    assert_eq!(status(&[("Host", "127.0.0.1")]), 200);
    assert_eq!(status(&[("Host", "lab.example:9348")]), 200);
    assert_eq!(status(&[("Host", "evil.example")]), 421);
    assert_eq!(status(&[("Host", "localhost"), ("Origin", "http://localhost")]), 200);
    assert_eq!(status(&[("Host", "localhost"), ("Origin", "http://evil.example")]), 403);
    assert_eq!(status(&[("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "no-cors")]), 403);
    // A form of another page can't be JSON.
    let body = json!({}).to_string();
    let kind = [("Content-Type", "text/plain")];
    let reply =
        ask_on(connect(s.address), "POST", "/api/v1/calibration", &kind, Some(body.as_bytes()));
    assert_eq!(reply.unwrap().status, 415);
}

#[test]
fn answers_allow_a_page_nothing_from_elsewhere() {
    let s = serve(|_| {});
    for path in ["/", "/system", "/nothing", "/api/v1/x/y"] {
        let reply = get(s.address, path);
        let policy = reply.header("content-security-policy");
        assert!(policy.starts_with("default-src 'self'"), "{path}: {policy}");
        assert_eq!(reply.header("x-content-type-options"), "nosniff", "{path}");
        assert!(reply.header("access-control-allow-origin").is_empty(), "{path}");
    }
}

#[test]
fn without_its_token_no_client_gets_anything() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tokens");
    let token = weir_api::make_token_file(&path, "anna").unwrap();
    let s = serve(|c| c.token_file = Some(path.clone()));
    let plan = json!({ "schema": "weir.plan/1", "connection": [{}] });
    for (method, at) in [
        ("GET", "/system"),
        ("GET", "/events"),
        ("GET", "/openapi.json"),
        ("PUT", "/plans/x"),
        ("DELETE", "/runs/x"),
    ] {
        let reply = ask(s.address, method, at, &[], (method == "PUT").then_some(&plan));
        assert_eq!(reply.status, 401, "{method} {at}");
    }
    let begun = std::time::Instant::now();
    let bearer = format!("Bearer {token}");
    let with = [("Authorization", bearer.as_str()), ("If-None-Match", "*")];
    ask(s.address, "PUT", "/plans/x", &with, Some(&plan)).expect(201);
    let audit = ask(s.address, "GET", "/audit", &with, None).expect(200);
    assert_eq!(audit["entries"][0]["user"], "anna", "{audit}");
    // Those without one are on record too; guesses in a row do not fill it.
    let failed = |audit: &serde_json::Value| {
        let entries = audit["entries"].as_array().unwrap();
        entries.iter().filter(|e| e["status"] == 401).count()
    };
    let before = failed(&audit);
    assert!(before >= 1, "{audit}");
    for _ in 0..100 {
        ask(s.address, "GET", "/system", &[("Authorization", "Bearer x")], None).expect(401);
    }
    let audit = ask(s.address, "GET", "/audit", &with, None).expect(200);
    // A few at once, then one a second, however long all this took.
    let most = before as f64 + 4.0 + begun.elapsed().as_secs_f64();
    assert!(failed(&audit) as f64 <= most, "{most}: {audit}");
    // A page gets it as a cookie that its scripts can't read.
    ask(s.address, "POST", "/session", &[], Some(&json!({ "token": "wrong" }))).expect(401);
    let begun = ask(s.address, "POST", "/session", &[], Some(&json!({ "token": token })));
    begun.expect(204);
    let cookie = begun.header("set-cookie").to_owned();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap();
    assert_eq!(ask(s.address, "GET", "/system", &[("Cookie", cookie)], None).status, 200);
    assert_eq!(ask(s.address, "GET", "/system", &[("Cookie", "weir_token=x")], None).status, 401);
}

#[test]
fn an_address_that_others_reach_needs_a_token() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let s = serve(|_| {});
    let config = |address: &str| weir_api::Config {
        address: address.parse().unwrap(),
        host_names: vec![],
        token_file: None,
        version: String::new(),
        build: Default::default(),
        data: served::data(s.directory.path()),
        plans: s.directory.path().into(),
        scenarios: vec![],
        keys: s.directory.path().into(),
        scripts: None,
        parse_flags: |_| Err(Default::default()),
        may_emulate: false,
        may_make_labs: false,
        limits: Default::default(),
    };
    let bind = |address: &str| {
        let dir = tempfile::tempdir().unwrap();
        runtime.block_on(weir_api::Server::bind(config(address), dir, None))
    };
    assert!(matches!(bind("0.0.0.0:0"), Err(weir_api::ApiError::Open(_))));
    assert!(matches!(bind("[::]:0"), Err(weir_api::ApiError::Open(_))));
    assert!(bind("127.0.0.1:0").is_ok());
}
