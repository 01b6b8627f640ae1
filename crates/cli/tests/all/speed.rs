//! The speed test shows the impairment of the path.

use crate::common;
use crate::impair_path;
use common::{Running, run, signal, until};
use impair_path::Path;
use serde_json::Value;

/// With 40 Mbit/s in one direction, 20 Mbit/s in the other and 10 ms more delay in each, the page measures these values.
#[test]
fn a_speed_test_shows_the_impairment() {
    let Some(path) = Path::up("a_speed_test_shows_the_impairment", &["python3"]) else { return };
    let emulator = path.emulator(&[
        "--a-to-b",
        "rate 20M queue 100ms, delay 10ms",
        "--b-to-a",
        "rate 40M queue 100ms, delay 10ms",
    ]);
    let weir = |words: &[&str]| {
        let mut command = path.weir("b", words);
        command.env("WEIR_DATA_DIR", path.file("data"));
        command
    };
    let log = path.file("serve.log");
    let words = ["serve", "--speed-test", ":9349", "--logfile", log.to_str().unwrap()];
    let server = Running::start(weir(&words));
    until("the speed test listens", || {
        std::fs::read_to_string(&log).is_ok_and(|t| t.contains("http://"))
    });
    let b = path.lab.host("b").unwrap().ipv4.to_string();
    let client = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/speed_client.py");
    // 20 and 40 Mbit/s on the wire. With the headers of Ethernet, IP and TCP on 1500 bytes, 95 % is payload. On a busy machine the
    // client may measure less and repeats the test; it never measures more.
    let mut tries = 0;
    let result = loop {
        let told = path.tool("a", &["python3", client, &b, "9349"]).good();
        let result: Value = serde_json::from_str(&told).unwrap();
        let rate = |direction: &str| result[direction]["bits_per_second"].as_f64().unwrap();
        let (up, down) = (rate("upload"), rate("download"));
        assert!(up <= 20e6 && down <= 40e6, "{up} up, {down} down");
        if up >= 18e6 && down >= 36e6 {
            break result;
        }
        tries += 1;
        assert!(tries < 3, "{up} of 20e6 up, {down} of 40e6 down");
    };
    let trips = &result["round_trips"];
    let idle = trips["idle"]["min_seconds"].as_f64().unwrap();
    assert!((0.020..0.040).contains(&idle), "{idle} s idle, 20 ms asked");
    // The full queue delays every request.
    let loaded = trips["upload"]["median_seconds"].as_f64().unwrap();
    assert!(loaded > idle + 0.01, "{loaded} s loaded");
    assert!(trips["idle"]["jitter_seconds"].is_f64(), "{trips}");

    let show = run(weir(&["runs", "show", "last", "--json"])).good();
    let record: Value = serde_json::from_str(&show).unwrap();
    assert_eq!(record["peer"], "browser");
    assert_eq!(record["round_trips"][0]["phase"], "idle");
    // As text: the run is listed and shown.
    let id = record["id"].as_str().unwrap();
    let list = run(weir(&["runs", "list"])).good();
    assert!(list.contains(id) && list.contains("browser"), "{list}");
    let text = run(weir(&["runs", "show", "last"])).good();
    assert!(text.contains("browser"), "{text}");
    signal("INT", server.child());
    assert_eq!(server.finish().status.code(), Some(130));
    emulator.interrupt();
}
