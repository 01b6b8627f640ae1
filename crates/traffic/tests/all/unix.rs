//! Unix sockets: a test from one end to the other, with no figure that such a socket has not.

use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use weir_model::ModelError;
use weir_model::plan::{Connection, Direction, Plan, Transport};
use weir_model::units::{BitRate, ByteSize, Span};
use weir_traffic::{ClientConfig, ServerConfig, ServerEvent, Stop, StopReason, run, serve};

#[test]
fn streams_over_a_unix_socket_have_no_figures_of_ip() {
    let path: PathBuf =
        std::env::temp_dir().join(format!("weir-unix-{}.socket", std::process::id()));
    let _ = std::fs::remove_file(&path);
    // What a server that was killed leaves behind is replaced.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let (sender, listening) = mpsc::channel();
    let stop = Stop::new();
    let inner = stop.clone();
    let config = ServerConfig { unix: Some(path.clone()), ..ServerConfig::default() };
    let server = std::thread::spawn(move || {
        serve(config, inner, &mut |event| {
            if let ServerEvent::Listening { addresses, .. } = event {
                sender.send(addresses[0].to_string()).unwrap();
            }
        })
    });
    let host = listening.recv_timeout(Duration::from_secs(10)).unwrap();
    assert_eq!(host, format!("unix:{}", path.display()));
    let forward = Connection {
        transport: Transport::unix(),
        duration: Some(Span(300_000_000)),
        window: Some(ByteSize(64 << 10)),
        verify: true,
        ..Connection::default()
    };
    let reverse = Connection { direction: Direction::Reverse, ..forward.clone() };
    let plan = Plan {
        connections: vec![forward, reverse],
        host: Some(host.clone()),
        interval: Span(100_000_000),
        nominal: Some(BitRate(1_000_000_000)),
        ..Plan::default()
    };
    let record = run(ClientConfig::new(plan, host.clone()), Stop::new(), &mut |_| {});
    stop.request(StopReason::Terminated);
    server.join().unwrap().unwrap();
    assert!(!path.exists(), "the socket's file goes with the server");
    let record = record.map_err(|f| f.to_string()).unwrap();
    for flow in &record.flows {
        let (sent, received) = (flow.sender.as_ref().unwrap(), flow.receiver.as_ref().unwrap());
        assert!(received.bytes > 0 && received.bytes == sent.bytes, "{flow:?}");
        assert!(flow.tcp.is_none() && flow.tcp_samples.is_empty() && flow.family.is_none());
        assert!(received.lost_packets.is_none() && received.jitter_seconds.is_none());
        // The kernel doubles what was asked for, at either end.
        assert_eq!(sent.buffer_bytes, Some(128 << 10));
    }
    assert!(record.link_usage.is_none() && record.latency.is_none());
    let forward = record.total.forward.as_ref().unwrap();
    assert_eq!(forward.sender.as_ref().unwrap().retransmits, None);
    assert!(record.warnings.iter().all(|w| w.code != "latency-missing"), "{:?}", record.warnings);
}

/// The host and the transport have to fit, and nothing of IP goes with a path.
#[test]
fn a_path_is_for_unix_sockets_and_they_for_a_path() {
    let refused = |host: &str, change: fn(&mut Plan)| {
        let mut plan = Plan {
            connections: vec![Connection { transport: Transport::unix(), ..Connection::default() }],
            host: Some(host.into()),
            ..Plan::default()
        };
        change(&mut plan);
        match plan.check() {
            Err(ModelError::Field { field, .. }) => field,
            other => format!("{other:?}"),
        }
    };
    let tcp = |plan: &mut Plan| plan.connections[0].transport = Transport::tcp();
    assert_eq!(refused("unix:/run/x", |_| {}), "Ok(())");
    assert_eq!(refused("192.0.2.1", |_| {}), "connection[0].transport");
    assert_eq!(refused("unix:/run/x", tcp), "connection[0].transport");
    assert_eq!(refused("unix:", |_| {}), "host");
    assert_eq!(refused(&format!("unix:/{}", "x".repeat(107)), |_| {}), "host");
    assert_eq!(refused("unix:/run/x", |p| p.device = Some("eth0".into())), "device");
}
