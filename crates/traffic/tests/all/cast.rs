//! UDP-Lite, and groups with several receivers, over the loopback interface.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use weir_model::plan::{Connection, Direction, Plan, Transport};
use weir_model::record::Record;
use weir_model::units::{ByteSize, Span};
use weir_traffic::{
    ClientConfig, Failure, Limits, ServerConfig, ServerEvent, Stop, StopReason, TrafficError, run,
    serve,
};

struct Server {
    address: SocketAddr,
    stop: Stop,
    thread: Option<JoinHandle<Result<(), TrafficError>>>,
}

impl Server {
    fn start(limits: Limits) -> Server {
        let (sender, receiver) = mpsc::channel();
        let stop = Stop::new();
        let inner = stop.clone();
        let bind = vec!["127.0.0.1".parse().unwrap()];
        let config = ServerConfig { bind, port: 0, limits, ..ServerConfig::default() };
        let thread = std::thread::spawn(move || {
            serve(config, inner, &mut |event| {
                if let ServerEvent::Listening { addresses, .. } = event {
                    sender.send(addresses[0].ip().unwrap()).unwrap();
                }
            })
        });
        let address = receiver.recv_timeout(Duration::from_secs(10)).unwrap();
        Server { address, stop, thread: Some(thread) }
    }

    fn name(&self) -> String {
        self.address.to_string()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.request(StopReason::Terminated);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap().unwrap();
        }
    }
}

/// Runs a plan of these connections, of which each names its host.
fn test(connections: Vec<Connection>) -> Result<Record, Failure> {
    let plan = Plan { connections, interval: Span(100_000_000), ..Plan::default() };
    plan.check().unwrap();
    run(ClientConfig::new(plan, ""), Stop::new(), &mut |_| {})
}

fn connection(fields: &str, host: &str) -> Connection {
    let text = format!(
        "schema = \"weir.plan/1\"\n[[connection]]\nhost = \"{host}\"\npackets = 250\nrate = \"500pps\"\n{fields}"
    );
    Plan::parse(&text).unwrap().connections.remove(0)
}

fn multicast(more: &str, host: &str) -> Connection {
    connection(&format!("transport = \"multicast\"\ngroup = \"239.77.1.1\"\n{more}"), host)
}

#[test]
fn udp_lite_reports_the_coverage_of_both_sockets() {
    if weir_net::udp::try_lite().is_err() {
        return println!("SKIPPED udp_lite_reports_the_coverage_of_both_sockets: no UDP-Lite");
    }
    let server = Server::start(Limits::default());
    let covered = connection(
        "transport = \"udp-lite\"\nchecksum_coverage = 20\nverify = true",
        &server.name(),
    );
    let all = Connection { transport: Transport::udp_lite(), ..covered.clone() };
    let reverse = Connection { direction: Direction::Reverse, ..covered.clone() };
    let record = test(vec![covered, all, reverse]).unwrap();
    for (flow, bytes) in record.flows.iter().zip([20, 0, 20]) {
        let (s, r) = (flow.sender.as_ref().unwrap(), flow.receiver.as_ref().unwrap());
        assert_eq!((s.packets, r.packets, r.corrupted_packets), (250, 250, Some(0)));
        assert_eq!(
            (s.checksum_coverage_bytes, r.checksum_coverage_bytes),
            (Some(bytes), Some(bytes))
        );
    }
}

#[test]
fn receivers_in_several_sessions_share_one_sender() {
    let servers = [Server::start(Limits::default()), Server::start(Limits::default())];
    let names = servers.each_ref().map(Server::name);
    let connections = names
        .iter()
        .flat_map(|name| [multicast("count = 2", name), connection("transport = \"udp\"", name)]);
    let record = test(connections.collect()).unwrap();
    assert_eq!(record.flows.len(), 6);
    for flow in &record.flows {
        let (s, r) = (flow.sender.as_ref().unwrap(), flow.receiver.as_ref().unwrap());
        assert_eq!((s.packets, r.packets, r.lost_packets), (250, 250, Some(0)), "{}", flow.id);
        assert_eq!((r.corrupted_packets, r.implausible_packets), (Some(0), Some(0)));
        assert_eq!(r.membership.is_some(), flow.transport.multicast());
    }
    let source = |id: usize| record.flows[id - 1].source.as_str();
    assert_eq!((source(1), source(2)), (source(4), source(5)), "one sender of each stream");
    assert_ne!(source(1), source(2));
    // Two streams and two flows of UDP.
    let total = record.total.forward.as_ref().unwrap();
    assert_eq!(total.sender.as_ref().unwrap().packets, 1000);
    assert_eq!(total.receiver.as_ref().unwrap().packets, 1000);
    let ends = || record.intervals.iter().filter_map(|i| i.total.forward.as_ref());
    assert_eq!(ends().filter_map(|e| e.sender.as_ref()).map(|c| c.packets).sum::<u64>(), 1000);
    assert_eq!(ends().filter_map(|e| e.receiver.as_ref()).map(|c| c.packets).sum::<u64>(), 1000);
}

#[test]
fn a_late_and_a_leaving_member_have_results_of_their_own() {
    let server = Server::start(Limits::default());
    let part = "join_after = \"150ms\"\nleave_after = \"350ms\"";
    let record =
        test(vec![multicast(part, &server.name()), multicast("", &server.name())]).unwrap();
    let [part, whole] = &record.flows[..] else { panic!() };
    let (s, r) = (part.sender.as_ref().unwrap(), part.receiver.as_ref().unwrap());
    let member = r.membership.as_ref().unwrap();
    assert!(member.joined_seconds.unwrap() >= 0.15 && member.left_seconds.unwrap() >= 0.35);
    assert!(r.packets > 0 && r.packets < 250 && member.join_latency_seconds.is_some());
    assert_eq!(r.lost_packets, Some(0));
    assert_eq!(r.packets + member.unjoined_packets.unwrap(), s.packets);
    let r = whole.receiver.as_ref().unwrap();
    assert_eq!((r.packets, r.membership.as_ref().unwrap().unjoined_packets), (250, None));
    assert_eq!(record.loss_ledger.as_ref().unwrap().missing_packets, 0);
}

#[test]
fn a_server_without_groups_refuses_broadcast() {
    let server = Server::start(Limits { multicast_scope: None, ..Limits::default() });
    let broadcast = "transport = \"broadcast\"\ngroup = \"255.255.255.255\"";
    let refused = test(vec![connection(broadcast, &server.name())]).unwrap_err();
    assert!(matches!(&refused.error, TrafficError::Refused { code, .. } if code == "limit"));
}

#[test]
fn limits_of_memberships_are_those_of_running_sessions() {
    let limits = Limits { session_joins: 2, joins: 2, ..Limits::default() };
    let server = Server::start(limits);
    let run = |count: &str| test(vec![multicast(count, &server.name())]);
    for _ in 0..2 {
        let refused = run("count = 3").unwrap_err();
        assert!(matches!(&refused.error, TrafficError::Refused { code, .. } if code == "limit"));
        assert!(run("count = 2").is_ok());
    }
    let wide = connection("transport = \"multicast\"\ngroup = \"224.0.1.99\"", &server.name());
    let refused = test(vec![wide]).unwrap_err();
    assert!(matches!(&refused.error, TrafficError::Refused { code, .. } if code == "limit"));
    // A port of the system's services.
    let group = "transport = \"multicast\"\ngroup = \"239.1.1.9\"\ngroup_port = 1023";
    let refused = test(vec![connection(group, &server.name())]).unwrap_err();
    assert!(matches!(&refused.error, TrafficError::Refused { code, .. } if code == "limit"));
    // A payload as long as a hello is data, and shorter ones have no tag.
    for payload in [0, 8, 64] {
        let flow =
            Connection { payload: Some(ByteSize(payload).into()), ..multicast("", &server.name()) };
        let record = test(vec![flow]).unwrap();
        assert_eq!(record.flows[0].receiver.as_ref().unwrap().packets, 250, "{payload}");
    }
}

/// Bytes of the receive buffer of a flow to a group, as the system counts them.
fn buffer_of_member(server: &Server, window: &str) -> u64 {
    let flow = multicast(window, &server.name());
    let record = test(vec![flow]).unwrap();
    record.flows[0].receiver.as_ref().unwrap().buffer_bytes.unwrap()
}

#[test]
fn buffers_of_members_are_limited_over_all_sessions() {
    // 2 GiB of 8192 members; Linux reports twice what it was asked for.
    let server = Server::start(Limits { joins: 8192, ..Limits::default() });
    assert!(buffer_of_member(&server, "") <= 2 * (256 << 10));
    assert!(buffer_of_member(&server, "window = \"64M\"") <= 2 * (256 << 10));
    let small = buffer_of_member(&server, "window = \"64K\"");
    assert!((64 << 10..=2 * (64 << 10)).contains(&small), "{small}");
}
