//! ICMP echo against a host without a server of Weir, and a server that sends back what it receives.

use crate::common;

use common::{Bench, run};
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
        assert_eq!(flow.destination, address);
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
    let ended = run(bench.command_to("192.0.2.1", &["--json", "--icmp", "-k", "1"]));
    // Nothing answered: unreachable.
    assert_eq!(ended.status.code(), Some(3), "{}", ended.stderr);
    let record = ended.record();
    let t = transactions(&record);
    assert_eq!((t.completed, t.failed), (0, 1));
    assert_eq!(t.failures.get("prohibited"), Some(&1), "{:?}", t.failures);
}

#[test]
fn a_server_sends_back_what_it_receives() {
    let Some(mut bench) = Bench::up("a_server_sends_back_what_it_receives", &[]) else { return };
    bench.serve(&[]);
    let host = bench.lab.host("b").unwrap();
    let (v4, v6) = (host.ipv4.to_string(), host.ipv6.to_string());
    let datagrams = ["-b", "1000pps", "-k", "200", "-l", "300", "--verify"];
    for (to, words, bytes) in [
        (&v4, &["-u", "--echo"][..], 300),
        (&v6, &["-u", "--echo=100"], 100),
        (&v4, &["--udp-lite", "--echo", "--checksum-coverage", "20"], 300),
        (&v4, &["--ethernet", "--echo=64"], 64),
    ] {
        let record = bench.test_to(to, &[words, &datagrams].concat());
        let flow = &record.flows[0];
        let echo = flow.echo.as_ref().unwrap();
        assert_eq!((echo.packets, echo.bytes), (200, 200 * bytes), "{words:?}");
        assert_eq!((echo.lost_back_packets, echo.lost_forward_packets), (Some(0), Some(0)));
        assert_eq!((echo.bit_errors, echo.corrupted_packets), (Some(0), Some(0)), "{words:?}");
        assert_eq!(flow.round_trip.as_ref().unwrap().count, 200);
    }
    for to in [&v4, &v6] {
        let record = bench.test_to(to, &["--echo", "-n", "5M", "--verify"]);
        let echo = record.flows[0].echo.as_ref().unwrap();
        assert_eq!((echo.bytes, echo.undelivered_bytes), (5 << 20, Some(0)));
        assert_eq!(echo.bit_errors, Some(0));
    }
}

/// Datagrams that a lossy path drops in one direction are lost in that direction.
#[test]
fn losses_of_an_echo_have_their_direction() {
    let test = "losses_of_an_echo_have_their_direction";
    let Some(mut bench) = Bench::up(test, &["nft"]) else { return };
    bench.serve(&[]);
    // Host b drops one in four of what arrives, host a one in ten of what comes back; each has the size of the data.
    for (host, every) in [("b", 4), ("a", 10)] {
        let chain = "type filter hook input priority 0";
        let rule = format!("udp length 308 numgen inc mod {every} 0 drop");
        let table = format!("table inet lossy {{\n chain input {{\n {chain}\n {rule}\n }}\n}}\n");
        bench.nft(host, &table);
    }
    let words = ["-u", "--echo", "-b", "1000pps", "-k", "400", "-l", "300", "--no-latency"];
    let record = bench.test(&[&words[..], &["--loss-threshold", "500ms"]].concat());
    let echo = record.flows[0].echo.as_ref().unwrap();
    assert_eq!((echo.lost_forward_packets, echo.lost_back_packets), (Some(100), Some(30)));
    assert_eq!((echo.packets, echo.lost_packets), (270, Some(130)));
}
