//! Engine `xdp` between two hosts: exact counts, refusals, and nothing left behind.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use weir_model::record::{Flow, Receiver, Sender};

use crate::common::{Bench, Running, WEIR, run, until};
use crate::impair_path::Path;

fn ends(flow: &Flow) -> (&Sender, &Receiver) {
    (flow.sender.as_ref().unwrap(), flow.receiver.as_ref().unwrap())
}

#[test]
fn both_ends_count_the_same_over_both_versions_of_ip_and_without() {
    let test = "both_ends_count_the_same_over_both_versions_of_ip_and_without";
    let Some(mut bench) = Bench::up(test, &[]) else { return };
    bench.serve(&[]);
    let host = bench.lab.host("b").unwrap();
    let (v4, v6) = (host.ipv4.to_string(), host.ipv6.to_string());
    for (address, transport) in [(&v4, "-u"), (&v6, "-u"), (&v4, "--ethernet")] {
        for (size, flows) in [("32", "1"), ("64", "3"), ("1400", "2")] {
            let words = [transport, "--engine", "xdp", "-b", "20000pps", "-l", size, "-P", flows];
            // Delays are counted once the server knows the relation of the clocks: give it time.
            let more = ["-k", "5000", "-i", "0.1", "--start-at", "+500ms"];
            let record = bench.test_to(address, &[&words[..], &more].concat());
            for flow in &record.flows {
                let (s, r) = ends(flow);
                assert_eq!((s.packets, r.packets, s.bytes), (5000, 5000, r.bytes), "{size}");
                assert_eq!((r.lost_packets, r.duplicate_packets), (Some(0), Some(0)));
                assert_eq!((r.reordered_packets, r.corrupted_packets), (Some(0), Some(0)));
                assert_eq!((s.method.as_str(), r.method.as_str()), ("xdp", "xdp-native"));
                let delay = r.one_way_delay.as_ref().unwrap();
                assert!(delay.count == 5000 && delay.min_seconds > 0.0, "{delay:?}");
                assert!(r.jitter_seconds.is_some() && r.loss_periods.is_none());
                assert!(s.max_call_packets.unwrap() >= 1 && s.mean_call_packets.unwrap() >= 1.0);
                let of_flow = record.intervals.iter().flat_map(|i| &i.flows);
                let of_flow = of_flow.filter(|f| f.id == flow.id);
                let received = of_flow.filter_map(|f| Some(f.receiver.as_ref()?.packets));
                let received: Vec<u64> = received.collect();
                assert_eq!(received.iter().sum::<u64>(), 5000, "{received:?}");
                assert!(received.len() > 1, "{received:?}");
            }
            assert_eq!(record.time_source.as_ref().unwrap().receive, "xdp");
        }
    }
}

#[test]
fn losses_are_those_of_an_emulator_on_the_path() {
    let Some(path) = Path::up("losses_are_those_of_an_emulator_on_the_path", &[]) else { return };
    let laws = path.file("laws.toml");
    let text = "schema = \"weir.impair/1\"\nseed = 7\n[[flow]]\nname = \"data\"\nfilter = { protocol = \"udp\", length = \"242\" }\na_to_b = { loss = { percentage = 20.0 } }\n";
    std::fs::write(&laws, text).unwrap();
    // A veth accepts frames of XDP if its other end has a program, which a link by AF_XDP is.
    let words = ["--config", laws.to_str().unwrap(), "--link", "xdp"];
    let emulator = path.emulator(&words);
    let mut server = path.weir("b", &["serve", "-1"]);
    server.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = server.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("listening"), "{line}");
    let b = path.lab.host("b").unwrap().ipv4.to_string();
    let words = ["test", &b, "--json", "--no-store", "-u", "--engine", "xdp", "-l", "200"];
    let limits = ["-b", "1000pps", "-k", "1000", "--loss-threshold", "1s"];
    let ended = run(path.weir("a", &[&words[..], &limits].concat()));
    let _ = (server.kill(), server.wait());
    let (report, _) = emulator.report();
    let record = ended.record();
    let (s, r) = ends(&record.flows[0]);
    let flows = report["impairment"]["flows"].as_array().unwrap();
    let of_data = |f: &&serde_json::Value| f["name"] == "data" && f["direction"] == "forward";
    let flow = flows.iter().find(of_data).unwrap_or_else(|| panic!("{report}"));
    let count = |name: &str| flow["counters"][name].as_u64().unwrap();
    assert_eq!((s.packets, count("received_packets")), (1000, 1000), "{flow}");
    assert_eq!(count("sent_packets"), r.packets, "{flow}");
    let lost = r.lost_packets.unwrap();
    assert_eq!(r.packets + lost, 1000);
    // 20 % of 1000, plus and minus 6 standard deviations.
    assert!((124..=276).contains(&lost), "{lost}");
}

#[test]
fn what_the_engine_needs_is_refused_by_name() {
    let test = "what_the_engine_needs_is_refused_by_name";
    let Some(mut bench) = Bench::up(test, &["setpriv", "ip"]) else { return };
    let without = "-bpf,-sys_admin";
    let limited = ["--bounding-set", without, "--inh-caps", without, WEIR];
    let mut command = bench.lab.command("b", "setpriv").unwrap();
    command.args(limited);
    bench.start_server(command, &[]);
    let xdp = ["-u", "--engine", "xdp", "-t", "0.1", "--json"];
    let ended = run(bench.test_command(&xdp));
    assert_eq!((ended.status.code(), ended.refusal().code.as_str()), (Some(3), "peer-unavailable"));
    bench.stop_server();
    bench.serve(&[]);
    let mut command = bench.lab.command("a", "setpriv").unwrap();
    command.args(limited).args(["test", &bench.b(), "--no-store"]).args(xdp);
    command.env("WEIR_ERRORS", "json").env("WEIR_DATA_DIR", bench.file("home"));
    let ended = run(command);
    let refusal = ended.refusal();
    assert_eq!(ended.status.code(), Some(4));
    assert_eq!((refusal.code.as_str(), refusal.given.as_deref()), ("not-available", Some("xdp")));
    // This host itself has no link.
    let mut command = bench.lab.command("b", WEIR).unwrap();
    command.args(["test", "127.0.0.1", "--no-store"]).args(xdp);
    command.env("WEIR_ERRORS", "json").env("WEIR_DATA_DIR", bench.file("home"));
    let ended = run(command);
    assert_eq!((ended.status.code(), ended.refusal().code.as_str()), (Some(4), "not-available"));
    // More flows than a program has.
    let ended = run(bench.test_command(&[&xdp[..], &["-P", "33"]].concat()));
    assert_eq!((ended.status.code(), ended.refusal().code.as_str()), (Some(3), "peer-limit"));
    // Larger than a frame, which is not fragmented.
    let frames = ["--ethernet", "--engine", "xdp", "-t", "0.1", "--json"];
    for (words, size) in [(&xdp, "1473"), (&frames, "1493")] {
        let ended = run(bench.test_command(&[&words[..], &["-l", size]].concat()));
        assert_eq!((ended.status.code(), ended.refusal().code.as_str()), (Some(2), "usage"));
    }
}

#[test]
fn nothing_is_left_after_both_ends_are_killed() {
    let test = "nothing_is_left_after_both_ends_are_killed";
    let Some(mut bench) = Bench::up(test, &["ip"]) else { return };
    bench.serve(&[]);
    let has_program = |bench: &Bench, host: &str| {
        let link = bench.tool(host, "ip", &["-j", "link", "show", "dev", "eth0"]);
        let link: serde_json::Value = serde_json::from_str(&link).unwrap();
        !link[0]["xdp"].is_null()
    };
    assert!(!has_program(&bench, "a") && !has_program(&bench, "b"), "before the test");
    let words = ["-u", "--engine", "xdp", "-b", "1000pps", "-t", "60"];
    let mut client = Running::start(bench.test_command(&words));
    until("both programs are attached", || has_program(&bench, "a") && has_program(&bench, "b"));
    client.child_mut().kill().unwrap();
    drop(bench.keep_server());
    until("the programs are gone", || !has_program(&bench, "a") && !has_program(&bench, "b"));
    drop(client);
    // A server that lives on detaches its program when its client is gone.
    bench.serve(&[]);
    let mut client = Running::start(bench.test_command(&words));
    until("both programs are attached", || has_program(&bench, "a") && has_program(&bench, "b"));
    client.child_mut().kill().unwrap();
    until("the programs are gone", || !has_program(&bench, "a") && !has_program(&bench, "b"));
}
