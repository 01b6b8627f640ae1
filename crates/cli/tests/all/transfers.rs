//! Transfers from the command line: what a user sees of them, and results of an interrupted test.

use serde_json::Value;

use crate::common::Bench;
use crate::faults_common::*;

#[test]
fn transfers_of_each_direction_are_in_the_record() {
    let server = Serve::start(&[]);
    let host = format!("127.0.0.1:{}", server.port);
    for more in [&["-b", "200pps"][..], &["--users", "4", "--think-time", "1ms", "-R"]] {
        let law = "exponential(max=1M, mean=20K)";
        let words = ["test", "--no-store", &host, "--transfers", law, "-k", "30", "--json"];
        let output = weir().args(words).args(more).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        let record: Value = serde_json::from_str(&out(&output)).unwrap();
        let flow = &record["flows"][0];
        let t = &flow["transactions"];
        assert_eq!(
            (&t["shape"], &t["completed"], &t["failed"]),
            (&"transfers".into(), &30.into(), &0.into())
        );
        assert_eq!(t["transfers"]["completed_bytes"], flow["receiver"]["bytes"], "{t}");
        assert_eq!(t["response_time_from_scheduled"].is_object(), more[0] == "-b");
        assert_eq!(record["plan"]["connection"][0]["volume"], law);
    }
}

/// Drops packets that arrive at the server.
fn drop_at_server(bench: &Bench, packets: &str) {
    let hook = "type filter hook input priority 0;";
    bench.nft("b", &format!("table inet weir {{\nchain input {{\n{hook}\n{packets} drop\n}}\n}}"));
}

#[test]
fn transfers_over_udp_use_ports_in_turn_and_count_what_is_lost() {
    let test = "transfers_over_udp_use_ports_in_turn_and_count_what_is_lost";
    let Some(mut bench) = Bench::alone(test, &["nft"]) else { return };
    bench.serve(&[]);
    // Of 40 datagrams with 8 + 100 bytes every tenth is lost. The flow itself has the first port, and a quarter of the transfers is
    // sent from the next one.
    bench.nft(
        "b",
        "table inet weir {
            counter first {}
            counter dropped {}
            chain input {
                type filter hook input priority 0;
                udp length 108 udp sport 40001 counter name first
                udp length 108 numgen inc mod 10 == 9 counter name dropped drop
            }
        }",
    );
    let words = ["-u", "--transfers", "500", "-l", "100", "-k", "8", "--cport", "40000-40004"];
    let record = bench.test(&words);
    let flow = &record.flows[0];
    let (sender, receiver) = (flow.sender.as_ref().unwrap(), flow.receiver.as_ref().unwrap());
    assert_eq!((sender.packets, receiver.packets), (40, 36));
    assert_eq!(receiver.lost_packets, Some(4));
    assert_eq!(bench.nft_counter("b", "inet", "dropped").0, 4);
    assert_eq!(bench.nft_counter("b", "inet", "first").0, 10);
    let t = flow.transactions.as_ref().unwrap();
    let transfers = t.transfers.as_ref().unwrap();
    assert_eq!((t.completed, t.failed), (8, 0), "{:?}", t.failures);
    // The 10th, 20th, 30th and 40th datagram are the last of the second, fourth, sixth and eighth transfer.
    assert_eq!((transfers.with_loss, transfers.completed_bytes), (Some(4), 3600));
}

#[test]
fn a_server_that_vanishes_leaves_no_transfer_over_udp_waiting() {
    let test = "a_server_that_vanishes_leaves_no_transfer_over_udp_waiting";
    let Some(mut bench) = Bench::alone(test, &["nft"]) else { return };
    bench.serve(&[]);
    // Only the messages of transfers are lost: those of 8 + 64 bytes to another port than that of the control connection. The
    // flow's own hello is the first of them.
    drop_at_server(&bench, "udp length 72 udp dport != 9347 numgen inc mod 1000000 != 0");
    let words =
        ["-u", "--transfers", "500", "-k", "3", "--users", "3", "--loss-threshold", "500ms"];
    let record = bench.test(&words);
    let t = record.flows[0].transactions.as_ref().unwrap();
    assert_eq!((t.completed, t.failed, t.failed_connections), (0, 3, Some(3)));
    assert_eq!(
        t.failures.iter().map(|(why, n)| (why.as_str(), *n)).collect::<Vec<_>>(),
        [("timeout", 3)]
    );
}

#[test]
fn a_transfer_over_udp_fails_if_none_of_its_data_arrives() {
    let test = "a_transfer_over_udp_fails_if_none_of_its_data_arrives";
    let Some(mut bench) = Bench::alone(test, &["nft", "ip"]) else { return };
    bench.serve(&[]);
    // Data of one of two ports is dropped, the messages of its transfers are not.
    drop_at_server(&bench, "udp length 108 udp sport 40002");
    let words = ["-u", "--transfers", "500", "-l", "100", "-k", "8", "--cport", "40000-40002"];
    let record = bench.test(&words);
    let t = record.flows[0].transactions.as_ref().unwrap();
    assert_eq!((t.completed, t.failures.get("lost")), (4, Some(&4)), "{:?}", t.failures);
    assert_eq!(t.transfers.as_ref().unwrap().with_loss, Some(0));
}
