//! Unix sockets: a test from one end to the other, without the figures that such a socket lacks.

use std::path::PathBuf;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use weir_model::ModelError;
use weir_model::plan::{Connection, Direction, Plan, Shape, Transport};
use weir_model::record::Record;
use weir_model::units::{BitRate, ByteSize, Span};
use weir_model::warning::Warning;
use weir_traffic::{
    ClientConfig, ServerConfig, ServerEvent, Stop, StopReason, TrafficError, run, serve,
};

/// A server on a Unix socket.
struct Server {
    path: PathBuf,
    host: String,
    stop: Stop,
    thread: Option<JoinHandle<Result<(), TrafficError>>>,
}

impl Server {
    fn start(name: &str) -> Server {
        let file = format!("weir-unix-{name}-{}.socket", std::process::id());
        let path = std::env::temp_dir().join(file);
        let _ = std::fs::remove_file(&path);
        // The socket that a killed server leaves behind is replaced.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let (sender, listening) = mpsc::channel();
        let stop = Stop::new();
        let inner = stop.clone();
        let config = ServerConfig { unix: Some(path.clone()), ..ServerConfig::default() };
        let thread = std::thread::spawn(move || {
            serve(config, inner, &mut |event| {
                if let ServerEvent::Listening { addresses, .. } = event {
                    sender.send(addresses[0].to_string()).unwrap();
                }
            })
        });
        let host = listening.recv_timeout(Duration::from_secs(10)).unwrap();
        assert_eq!(host, format!("unix:{}", path.display()));
        Server { path, host, stop, thread: Some(thread) }
    }

    /// Runs a test and stops the server, which removes its file.
    fn test(mut self, plan: Plan) -> Record {
        let plan = Plan { host: Some(self.host.clone()), ..plan };
        plan.check().unwrap();
        let record = run(ClientConfig::new(plan, self.host.clone()), Stop::new(), &mut |_| {});
        self.stop.request(StopReason::Terminated);
        self.thread.take().unwrap().join().unwrap().unwrap();
        assert!(!self.path.exists(), "the server removes the socket's file");
        record.map_err(|f| f.to_string()).unwrap()
    }
}

#[test]
fn streams_over_a_unix_socket_have_no_ip_figures() {
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
        interval: Span(100_000_000),
        nominal: Some(BitRate(1_000_000_000)),
        ..Plan::default()
    };
    let record = Server::start("stream").test(plan);
    for flow in &record.flows {
        let (sent, received) = (flow.sender.as_ref().unwrap(), flow.receiver.as_ref().unwrap());
        assert!(received.bytes > 0 && received.bytes == sent.bytes, "{flow:?}");
        assert!(flow.tcp.is_none() && flow.tcp_samples.is_empty() && flow.family.is_none());
        assert!(received.lost_packets.is_none() && received.jitter_seconds.is_none());
        // The kernel doubles the requested size, at either end.
        assert_eq!(sent.buffer_bytes, Some(128 << 10));
    }
    assert!(record.link_usage.is_none() && record.latency.is_none());
    let forward = record.total.forward.as_ref().unwrap();
    assert_eq!(forward.sender.as_ref().unwrap().retransmits, None);
    assert!(record.warnings.iter().all(|w| w.code != "latency-missing"), "{:?}", record.warnings);
}

/// Datagrams both ways, paced and as fast as the receiver reads them: all arrive, and the sender reports that it
/// waited.
#[test]
fn datagrams_over_a_unix_socket_wait_instead_of_getting_lost() {
    let paced = Connection {
        transport: Transport::unix_datagram(),
        rate: Some("2000pps".parse().unwrap()),
        packets: Some(400),
        verify: true,
        ..Connection::default()
    };
    let flood = Connection {
        rate: None,
        packets: Some(50_000),
        window: Some(ByteSize(64 << 10)),
        ..paced.clone()
    };
    let empty = Connection { payload: Some(ByteSize(0).into()), verify: false, ..paced.clone() };
    let reverse = |c: &Connection| Connection { direction: Direction::Reverse, ..c.clone() };
    let connections = vec![reverse(&paced), reverse(&flood), empty, paced, flood];
    let sent = [400, 50_000, 400, 400, 50_000];
    let plan = Plan { connections, interval: Span(100_000_000), ..Plan::default() };
    let record = Server::start("datagram").test(plan);
    for (flow, sent) in record.flows.iter().zip(sent) {
        let (s, r) = (flow.sender.as_ref().unwrap(), flow.receiver.as_ref().unwrap());
        assert_eq!((s.packets, r.packets, s.bytes), (sent, sent, r.bytes), "flow {}", flow.id);
        assert_eq!((r.lost_packets, r.socket_dropped_packets), (Some(0), None));
        assert!(flow.tcp.is_none() && flow.family.is_none());
        assert_eq!((flow.source.as_str(), flow.destination.as_str()), ("", ""));
        if flow.payload_bytes > 0 {
            assert_eq!((r.reordered_packets, r.duplicate_packets), (Some(0), Some(0)));
            assert_eq!(r.bit_errors, Some(0));
            assert!(r.jitter_seconds.is_some() && r.one_way_delay.is_some());
        }
        let waited = s.sleeps.unwrap() > 0;
        assert_eq!(waited, s.sleep_seconds.unwrap() > 0.0);
        assert!(waited || sent < 50_000, "flow {}", flow.id);
        let is_said = |w: &Warning| w.code == "backpressure" && w.flow == Some(flow.id);
        assert_eq!(record.warnings.iter().any(is_said), waited, "flow {}", flow.id);
    }
    assert!(record.link_usage.is_none() && record.latency.is_none());
}

/// The host and the transport must match, and options of IP are refused with a path.
#[test]
fn a_path_and_unix_sockets_require_each_other() {
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

#[test]
fn transactions_over_unix_sockets_count_every_one() {
    for (name, shape, transport) in [
        ("rr", Shape::Rr, Transport::unix()),
        ("rr-datagram", Shape::Rr, Transport::unix_datagram()),
        ("crr", Shape::Crr, Transport::unix()),
    ] {
        let connection =
            Connection { shape, transport, packets: Some(200), ..Connection::default() };
        let plan = Plan { connections: vec![connection], ..Plan::default() };
        let record = Server::start(name).test(plan);
        let flow = &record.flows[0];
        let t = flow.transactions.as_ref().unwrap();
        assert_eq!((t.completed, t.failed), (200, 0), "{name}: {:?}", t.failures);
        assert_eq!(flow.receiver.as_ref().unwrap().packets, 200, "{name}");
    }
}
