//! Sessions of other protocols: what they send and read themselves, and their messages among the data.

use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use weir_flow::IntervalClock;
use weir_model::plan::{ConnectionFields, Direction, Plan, Transport};
use weir_model::units::{ByteSize, Span};
use weir_traffic::session::{
    self, DatagramSocket, End, FlowEvent, Signal, Signals, WorkerConfig, Workers,
};

const LIMIT: Duration = Duration::from_secs(30);

fn plan(transport: Transport, direction: Direction) -> Plan {
    let fields = ConnectionFields {
        transport: transport.name(),
        direction,
        payload: Some(ByteSize(100).into()),
        packets: (direction == Direction::Forward).then_some(3),
        duration: (direction == Direction::Reverse).then_some(Span(0)),
        ..ConnectionFields::default()
    };
    Plan { connections: vec![fields.into()], ..Plan::default() }
}

fn clock(workers: &Workers) -> IntervalClock {
    IntervalClock { start_ns: workers.now_ns(), interval_ns: 1_000_000_000, omit_ns: 0 }
}

/// The next event that `wanted` accepts.
async fn event(end: &End, wanted: impl Fn(&FlowEvent) -> bool) {
    let waiting = async { while !wanted(&end.event().await) {} };
    tokio::time::timeout(LIMIT, waiting).await.unwrap();
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(test);
}

#[test]
fn datagrams_have_the_prefix_and_those_of_the_protocol_count() {
    run(async {
        let workers = Workers::start(&WorkerConfig::default()).unwrap();
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        far.set_read_timeout(Some(LIMIT)).unwrap();
        let plan = plan(Transport::udp(), Direction::Forward);
        let spec = plan.flows(weir_model::plan::Family::Ipv4, 1500).remove(0);
        let to = far.local_addr().unwrap();
        let socket = session::open_datagrams(&plan, &spec, true, None, Some(to)).unwrap();
        let mut end = End::new(&workers, &plan, true).with_prefix(b"settings");
        end.datagrams(&spec, true, socket, None);
        end.start(clock(&workers));
        event(&end, |event| matches!(event, FlowEvent::SenderDone(_))).await;
        end.send_message(1, b"the last one").unwrap();
        end.sent_by_protocol(1, 1, 12);
        for _ in 0..3 {
            let mut bytes = [0; 200];
            let length = far.recv(&mut bytes).unwrap();
            // Behind Weir's own header.
            assert_eq!((length, &bytes[32..40]), (100, &b"settings"[..]));
        }
        let sender = end.finish().flows.remove(0).sender.unwrap();
        assert_eq!((sender.packets, sender.bytes), (4, 312));
    });
}

/// Datagrams that begin with `E` are the last ones; from the second on they are messages, which are counted here.
struct Last(Arc<AtomicU64>);

impl Signals for Last {
    fn classify(&mut self, _: &dyn DatagramSocket, bytes: &[u8], _: u64) -> Signal {
        match bytes.first() {
            Some(b'E') if self.0.fetch_add(1, Ordering::AcqRel) == 0 => Signal::Last,
            Some(b'E') => Signal::Message,
            _ => Signal::Data,
        }
    }
}

#[test]
fn the_last_datagram_counts_and_messages_are_read_after_the_report() {
    run(async {
        let workers = Workers::start(&WorkerConfig::default()).unwrap();
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut plan = plan(Transport::udp(), Direction::Reverse);
        plan.connections[0].header = weir_model::plan::HeaderFormat::None;
        let spec = plan.flows(weir_model::plan::Family::Ipv4, 1500).remove(0);
        let from = far.local_addr().unwrap();
        let socket = session::open_datagrams(&plan, &spec, false, None, Some(from)).unwrap();
        far.connect(socket.local_addr().unwrap()).unwrap();
        let messages = Arc::new(AtomicU64::new(0));
        let mut end = End::new(&workers, &plan, true);
        end.datagrams(&spec, false, socket, Some(Box::new(Last(messages.clone()))));
        end.start(clock(&workers));
        for bytes in ["Data", "End."] {
            far.send(bytes.as_bytes()).unwrap();
        }
        event(&end, |event| *event == FlowEvent::SenderEnded(1)).await;
        end.drain(1_000_000);
        event(&end, |event| *event == FlowEvent::ReceiverDone(1)).await;
        let receiver = end.report().flows.remove(0).receiver.unwrap();
        assert_eq!((receiver.packets, receiver.bytes), (2, 8));
        far.send(b"End again").unwrap();
        let reading = async {
            while messages.load(Ordering::Acquire) < 2 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LIMIT, reading).await.unwrap();
        assert_eq!(end.finish().flows[0].receiver.as_ref().unwrap().packets, 2);
    });
}

#[test]
fn bytes_of_a_stream_that_the_protocol_has_read_count() {
    run(async {
        use std::io::Write;
        let workers = Workers::start(&WorkerConfig::default()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut far = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, peer) = listener.accept().unwrap();
        let plan = plan(Transport::tcp(), Direction::Reverse);
        let spec = plan.flows(weir_model::plan::Family::Ipv4, 1500).remove(0);
        let accepted = weir_net::tcp::TcpStream::from(accepted);
        assert_eq!(accepted.try_clone().unwrap().peer_addr().unwrap(), peer);
        let mut end = End::new(&workers, &plan, true);
        end.stream(&spec, false, accepted).unwrap();
        end.start(clock(&workers));
        end.deliver(1, b"header", workers.arrival(None, false));
        far.write_all(b"and data").unwrap();
        drop(far);
        event(&end, |event| *event == FlowEvent::ReceiverDone(1)).await;
        let receiver = end.finish().flows.remove(0).receiver.unwrap();
        assert_eq!(receiver.bytes, 14);
    });
}
