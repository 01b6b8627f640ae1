//! Both roles against sockets of the standard library, which know nothing of numbers and prefaces.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use weir_flow::IntervalClock;
use weir_model::plan::{Direction, Family};
use weir_model::report::FlowReport;
use weir_model::units::Span;

use super::*;
use crate::session::{
    DatagramSocket, FlowEvent, Load, Signal, WorkerConfig, Workers, connect_stream, open_datagrams,
};

/// Time limit of a broken run.
const LIMIT: Duration = Duration::from_secs(20);

#[derive(Debug)]
struct EmptyEnds;

impl Signals for EmptyEnds {
    fn classify(&mut self, _: &dyn DatagramSocket, bytes: &[u8], _: u64) -> Signal {
        if bytes.is_empty() { Signal::End } else { Signal::Data }
    }
}

fn plan(connection: &str) -> (Plan, FlowSpec) {
    let text = format!(
        "schema = \"weir.plan/1\"\n[[connection]]\nrequest = 10\nresponse = 30\npackets = 20\n{connection}"
    );
    let plan = Plan::parse(&text).unwrap();
    let plan = Plan { loss_threshold: Some(Span(2_000_000_000)), ..plan };
    let spec = plan.flows(Family::Ipv4, 1500).swap_remove(0);
    (plan, spec)
}

/// Runs `work` with new workers in a runtime.
fn with_workers<T>(work: impl AsyncFnOnce(Workers) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let workers = Workers::start(&WorkerConfig::default()).unwrap();
    runtime.block_on(async { tokio::time::timeout(LIMIT, work(workers)).await.unwrap() })
}

fn start(end: &End, workers: &Workers) {
    let start_ns = workers.now_ns();
    end.start(IntervalClock { start_ns, interval_ns: 1_000_000_000, omit_ns: 0 });
}

/// Starts an end, waits for an event of its flow that is `last`, and returns its report.
async fn ended(end: &End, workers: &Workers, last: fn(&FlowEvent) -> bool) -> FlowReport {
    start(end, workers);
    loop {
        match end.event().await {
            FlowEvent::Failed(_, reason) => panic!("{reason}"),
            event if last(&event) => return end.finish().flows.swap_remove(0),
            _ => {}
        }
    }
}

fn is_sent(event: &FlowEvent) -> bool {
    matches!(event, FlowEvent::SenderDone(_))
}

#[test]
fn a_client_of_datagrams_takes_each_response_as_that_of_its_request() {
    let (plan, spec) = plan("transport = \"udp\"\nshape = \"rr\"");
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = server.local_addr().unwrap();
    let answering = std::thread::spawn(move || {
        // The fifth response is lost, and the tenth comes twice.
        for number in 0..20 {
            let (bytes, from) = server.recv_from(&mut [0; 100]).unwrap();
            assert_eq!(bytes, 10);
            for _ in 0..[1, 0, 2][usize::from(number == 4) + 2 * usize::from(number == 9)] {
                server.send_to(&[0xff; 30], from).unwrap();
            }
        }
    });
    let report = with_workers(async |workers| {
        let mut end = End::new(&workers, &plan, true);
        let socket = open_datagrams(&plan, &spec, false, None, Some(to)).unwrap();
        end.transactions(&spec, true, Exchange::Datagrams(socket, Box::new(EmptyEnds))).unwrap();
        ended(&end, &workers, is_sent).await
    });
    answering.join().unwrap();
    let transactions = report.transactions.unwrap();
    // The copy is taken for the response to the request after it, and that one's for the next: none of the counts is stated.
    assert_eq!(transactions.completed + transactions.failed, 20);
    assert_eq!(transactions.failures.get("timeout"), Some(&1));
    assert_eq!((transactions.late_responses, transactions.duplicate_responses), (None, None));
}

#[test]
fn a_client_of_streams_sends_requests_and_nothing_else() {
    for shape in ["rr", "crr"] {
        let (plan, spec) = plan(&format!("shape = \"{shape}\""));
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = server.local_addr().unwrap();
        let is_one = shape == "rr";
        let answering = std::thread::spawn(move || {
            let (connections, each) = if is_one { (1, 20) } else { (20, 1) };
            for _ in 0..connections {
                let (mut stream, _) = server.accept().unwrap();
                for _ in 0..each {
                    stream.read_exact(&mut [0; 10]).unwrap();
                    stream.write_all(&[0; 30]).unwrap();
                }
                if is_one {
                    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
                }
            }
        });
        let report = with_workers(async |workers| {
            let mut end = End::new(&workers, &plan, true);
            let on = match is_one {
                true => {
                    Exchange::Stream(connect_stream(&plan, &spec, true, to, LIMIT).await.unwrap())
                }
                false => Exchange::Connect(&plan, to),
            };
            end.transactions(&spec, true, on).unwrap();
            ended(&end, &workers, is_sent).await
        });
        answering.join().unwrap();
        let transactions = report.transactions.unwrap();
        assert_eq!((transactions.completed, transactions.failed), (20, 0), "{shape}");
        assert_eq!(report.remote, to.to_string());
    }
}

#[test]
fn a_server_reports_requests_without_numbers_and_ends_with_the_protocols_message() {
    let (plan, mut spec) = plan("transport = \"udp\"\nshape = \"rr\"");
    spec.connection.direction = Direction::Reverse;
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(LIMIT)).unwrap();
    let report = with_workers(async |workers| {
        let mut end = End::new(&workers, &plan, true);
        let at = "127.0.0.1:0".parse().unwrap();
        let to = client.local_addr().unwrap();
        let socket = open_datagrams(&plan, &spec, false, Some(at), Some(to)).unwrap();
        let own = socket.local_addr().unwrap();
        end.transactions(&spec, false, Exchange::Datagrams(socket, Box::new(EmptyEnds))).unwrap();
        let asking = std::thread::spawn(move || {
            client.connect(own).unwrap();
            for _ in 0..20 {
                // All alike: they are no copies of each other.
                client.send(&[5; 10]).unwrap();
                assert_eq!(client.recv(&mut [0; 100]).unwrap(), 30);
            }
            client.send(&[]).unwrap();
        });
        let is_last = |event: &FlowEvent| matches!(event, FlowEvent::SenderEnded(1));
        let report = ended(&end, &workers, is_last).await;
        asking.join().unwrap();
        report
    });
    let receiver = report.receiver.unwrap();
    assert_eq!((receiver.packets, receiver.bytes), (20, 200));
    assert_eq!((receiver.duplicate_packets, receiver.lost_packets), (None, None));
}

#[test]
fn a_server_takes_a_connection_for_each_transaction() {
    let (plan, mut spec) = plan("shape = \"crr\"");
    spec.connection.direction = Direction::Reverse;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at: SocketAddr = listener.local_addr().unwrap();
    let load: Arc<Load> = Arc::default();
    let report = with_workers(async |workers| {
        let mut end = End::new(&workers, &plan, true);
        end.transactions(&spec, false, Exchange::Accept(at, at)).unwrap();
        start(&end, &workers);
        for _ in 0..3 {
            let mut client = TcpStream::connect(at).unwrap();
            let accepted = listener.accept().unwrap().0;
            let share = Share::take(&load, |l| &l.flows, 1, 1).unwrap();
            end.accept(&spec, accepted.into(), share, LIMIT).unwrap();
            client.write_all(&[0; 10]).unwrap();
            let mut response = vec![];
            client.read_to_end(&mut response).unwrap();
            assert_eq!(response.len(), 30);
        }
        end.finish().flows.swap_remove(0)
    });
    assert_eq!(report.receiver.unwrap().packets, 3);
    // Volumes need what the far end does not send.
    let text =
        "schema = \"weir.plan/1\"\n[[connection]]\nshape = \"transfers\"\nvolume = 10\npackets = 1";
    let transfers = Plan::parse(text).unwrap();
    let spec = transfers.flows(Family::Ipv4, 1500).swap_remove(0);
    with_workers(async |workers| {
        let mut end = End::new(&workers, &transfers, true);
        assert!(end.transactions(&spec, true, Exchange::Connect(&transfers, at)).is_err());
    });
}
