//! ICMP echo against a host without a server of Weir.

use crate::common;

use common::Bench;
use weir_model::record::{Record, Status, Transactions};

fn transactions(record: &Record) -> &Transactions {
    record.flows[0].transactions.as_ref().unwrap()
}

#[test]
fn a_host_without_a_server_answers_echo_requests() {
    let Some(bench) = Bench::up("a_host_without_a_server_answers_echo_requests", &[]) else {
        return;
    };
    let host = bench.lab.host("b").unwrap();
    for address in [host.ipv4.to_string(), host.ipv6.to_string()] {
        let words = ["--icmp", "-b", "200pps", "-k", "20", "-l", "100"];
        let record = bench.test_to(&address, &words);
        assert_eq!((record.status, &*record.peer), (Status::Complete, "icmp"));
        let t = transactions(&record);
        assert_eq!((t.completed, t.failed, t.request_bytes), (20, 0, Some(100)));
        assert_eq!((t.duplicate_responses, t.invalid_responses), (Some(0), Some(0)));
        let times = t.response_time.as_ref().unwrap();
        assert!(times.min_seconds > 0.0 && times.max_seconds < 1.0, "{times:?}");
        // Nothing of the far end is known.
        let flow = &record.flows[0];
        assert!(flow.receiver.is_none() && record.clock.is_none() && record.latency.is_none());
        assert!(record.control_bytes.is_none());
        assert!(record.warnings.iter().any(|w| w.code == "one-sided"));
    }
}

#[test]
fn an_icmp_error_is_a_failure_of_its_kind() {
    let test = "an_icmp_error_is_a_failure_of_its_kind";
    let Some(bench) = Bench::up(test, &["ip", "sysctl"]) else { return };
    let router = bench.lab.host("b").unwrap().ipv4.to_string();
    bench.tool("b", "sysctl", &["-qw", "net.ipv4.ip_forward=1"]);
    bench.tool("b", "ip", &["route", "add", "prohibit", "192.0.2.0/24"]);
    bench.tool("a", "ip", &["route", "add", "192.0.2.0/24", "via", &router]);
    // One request: routers limit the rate of errors.
    let record = bench.test_to("192.0.2.1", &["--icmp", "-k", "1"]);
    let t = transactions(&record);
    assert_eq!((t.completed, t.failed), (0, 1));
    assert_eq!(t.failures.get("prohibited"), Some(&1), "{:?}", t.failures);
}
