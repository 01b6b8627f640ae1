//! MPTCP over loopback: that it is used, and that a fallback to TCP is reported.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::Duration;

use weir_model::plan::{Connection, DataPorts, Direction, Plan, Transport};
use weir_model::record::Record;
use weir_model::units::Span;
use weir_traffic::{ClientConfig, ServerConfig, ServerEvent, Stop, StopReason, run, serve};

/// Runs one stream each way against a server on loopback.
fn measure(data_ports: DataPorts) -> Record {
    let (sender, listening) = mpsc::channel::<SocketAddr>();
    let stop = Stop::new();
    let inner = stop.clone();
    let config =
        ServerConfig { bind: vec!["127.0.0.1".parse().unwrap()], port: 0, ..Default::default() };
    let server = std::thread::spawn(move || {
        serve(config, inner, &mut |event| {
            if let ServerEvent::Listening { addresses, .. } = event {
                sender.send(addresses[0].ip().unwrap()).unwrap();
            }
        })
    });
    let port = listening.recv_timeout(Duration::from_secs(10)).unwrap().port();
    let forward = Connection {
        transport: Transport::mptcp(),
        duration: Some(Span(300_000_000)),
        verify: true,
        ..Connection::default()
    };
    let reverse = Connection { direction: Direction::Reverse, ..forward.clone() };
    let connections = vec![forward, reverse];
    let plan = Plan {
        connections,
        port: Some(port),
        data_ports,
        interval: Span(100_000_000),
        ..Plan::default()
    };
    let record = run(ClientConfig::new(plan, "127.0.0.1"), Stop::new(), &mut |_| {});
    stop.request(StopReason::Terminated);
    server.join().unwrap().unwrap();
    record.map_err(|f| f.to_string()).unwrap()
}

/// Codes of the warnings of fallbacks, by flow.
fn fallbacks(record: &Record) -> Vec<Option<u32>> {
    let warnings = record.warnings.iter().filter(|w| w.code == "transport-fallback");
    warnings.map(|w| w.flow).collect()
}

#[test]
fn mptcp_is_used_and_a_fallback_is_reported() {
    const PROTOCOL: i32 = 262;
    if let Err(e) = weir_net::tcp::try_protocol(PROTOCOL) {
        println!("skipped: this kernel opens no MPTCP socket: {e}");
        return;
    }
    let record = measure(DataPorts::Auto);
    for flow in &record.flows {
        assert_eq!((flow.transport.label(), flow.carried_by), ("mptcp", None));
        let (sent, received) = (flow.sender.as_ref().unwrap(), flow.receiver.as_ref().unwrap());
        assert!(received.bytes > 0 && received.bytes == sent.bytes, "{flow:?}");
        assert!(flow.tcp.as_ref().is_some_and(|tcp| tcp.mss_bytes > 0));
    }
    assert_eq!(fallbacks(&record), []);
    // The shared listener uses TCP.
    let record = measure(DataPorts::Shared);
    assert!(record.flows.iter().all(|f| f.carried_by == Some(Transport::tcp().name())));
    assert_eq!(fallbacks(&record), [Some(1), Some(2)]);
}
