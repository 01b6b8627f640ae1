//! Every header format from end to end, over a path that drops, reorders and copies known datagrams.

use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_model::plan::{Connection, HeaderFormat, Transport};
use weir_model::units::ByteSize;
use weir_traffic::{ServerConfig, Stop, run};
use weir_wire::datagram::looks_like_control;

use crate::faults::Proxy;
use crate::faults_common::{Server, plan};

// Of 20 datagrams: the one that is dropped, the one that the next overtakes, the one that is copied.
const DROPPED: u32 = 7;
const OVERTAKEN: u32 = 12;
const COPIED: u32 = 15;
// Of 20 datagrams that come back: the one that is dropped, if any is.
const DROPPED_BACK: u32 = 3;

/// A path for datagrams to a server, at the address of a proxy for its streams.
pub(crate) struct Path {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Path {
    pub(crate) fn open(at: SocketAddr, server: SocketAddr) -> Path {
        Path::with_return(at, server, false)
    }

    /// It also drops data on the way back.
    pub(crate) fn lossy_back(at: SocketAddr, server: SocketAddr) -> Path {
        Path::with_return(at, server, true)
    }

    fn with_return(at: SocketAddr, server: SocketAddr, is_lossy: bool) -> Path {
        let socket = UdpSocket::bind(at).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let inner = stop.clone();
        let thread = std::thread::spawn(move || datagrams(&socket, server, is_lossy, &inner));
        Path { stop, thread: Some(thread) }
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn datagrams(near: &UdpSocket, server: SocketAddr, is_lossy_back: bool, stop: &AtomicBool) {
    near.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    let mut clients: HashMap<SocketAddr, (UdpSocket, u32, Option<Vec<u8>>)> = HashMap::new();
    let mut buffer = [0; 2048];
    let mut returned = 0;
    while !stop.load(Ordering::Relaxed) {
        if let Ok((n, from)) = near.recv_from(&mut buffer) {
            let (far, count, waiting) = clients.entry(from).or_insert_with(|| {
                let far = UdpSocket::bind("127.0.0.1:0").unwrap();
                far.connect(server).unwrap();
                far.set_nonblocking(true).unwrap();
                (far, 0, None)
            });
            let datagram = &buffer[..n];
            let place = if looks_like_control(datagram) { None } else { Some(*count % 20) };
            *count += u32::from(place.is_some());
            match place {
                Some(DROPPED) => {}
                Some(OVERTAKEN) => *waiting = Some(datagram.to_vec()),
                _ => {
                    let copies = if place == Some(COPIED) { 2 } else { 1 };
                    (0..copies).for_each(|_| drop(far.send(datagram)));
                    waiting.take().into_iter().for_each(|late| drop(far.send(&late)));
                }
            }
        }
        for (client, (far, ..)) in &clients {
            while let Ok(n) = far.recv(&mut buffer) {
                let datagram = &buffer[..n];
                let is_data = !looks_like_control(datagram);
                let is_dropped = is_lossy_back && is_data && returned % 20 == DROPPED_BACK;
                returned += u32::from(is_data);
                if !is_dropped {
                    let _ = near.send_to(datagram, client);
                }
            }
        }
    }
}

#[test]
fn every_header_gives_the_figures_that_it_carries() {
    let server = Server::start(ServerConfig::default());
    let proxy = Proxy::before(server.address);
    let _path = Path::open(proxy.address, server.address);
    for format in HeaderFormat::ALL {
        let connection = Connection {
            transport: Transport::udp(),
            header: *format,
            // The size of control datagrams.
            payload: Some(ByteSize(format.min_payload_bytes().max(64)).into()),
            rate: Some("500pps".parse().unwrap()),
            packets: Some(200),
            verify: format.verifiable(),
            ..Connection::default()
        };
        let config = proxy.client(vec![connection]);
        let record = run(config, Stop::new(), &mut |_| {}).map_err(|f| f.to_string()).unwrap();
        let flow = &record.flows[0];
        let (s, r) = (flow.sender.as_ref().unwrap(), flow.receiver.as_ref().unwrap());
        assert_eq!(s.packets, 200, "{format}");
        let figures = (r.packets, r.lost_packets, r.reordered_packets, r.duplicate_packets);
        if format.numbered() {
            assert_eq!(figures, (190, Some(10), Some(10), Some(10)), "{format}");
            let bit_errors = format.verifiable().then_some(0);
            assert_eq!((r.bit_errors, r.ambiguous), (bit_errors, Some(false)), "{format}");
            let has_jitter = r.jitter_seconds.is_some_and(|j| j > 0.0 && j < 1.0);
            let is_timeless = [HeaderFormat::DitgShort, HeaderFormat::Nuttcp].contains(format);
            assert_eq!(has_jitter, !is_timeless, "{format}");
            assert!(r.loss_periods.is_some() && r.bursts.is_some(), "{format}");
        } else {
            // A copy makes up for a lost datagram: only sequence numbers would show it.
            assert_eq!(figures, (200, Some(0), None, None), "{format}");
            assert_eq!((r.jitter_seconds, r.ambiguous), (None, Some(true)), "{format}");
            assert!(r.loss_periods.is_none() && r.bursts.is_none(), "{format}");
        }
        // Only the native header, also behind RTP's, and STAMP's have times of a clock that the session relates.
        let is_native = [HeaderFormat::Native, HeaderFormat::Rtp].contains(format);
        let is_stamp = [HeaderFormat::Stamp, HeaderFormat::StampHmac].contains(format);
        let has_delay = is_native || is_stamp;
        assert_eq!(r.one_way_delay.is_some(), has_delay, "{format}");
        assert_eq!(r.delay_variation.is_some(), has_delay, "{format}");
        assert_eq!(r.one_way_delay_from_intended.is_some(), is_native, "{format}");
    }
}

/// The header that one flow writes must not appear in another's payload, though one worker sends both.
#[test]
fn flows_with_different_headers_share_no_payload() {
    let server = Server::start(ServerConfig::default());
    let flow = |header: &HeaderFormat| Connection {
        transport: Transport::udp(),
        header: *header,
        payload: Some(ByteSize(120).into()),
        rate: Some("2000pps".parse().unwrap()),
        packets: Some(500),
        verify: header.verifiable(),
        ..Connection::default()
    };
    let record = server.test(plan(HeaderFormat::ALL.iter().map(flow).collect())).unwrap();
    for (flow, format) in record.flows.iter().zip(HeaderFormat::ALL) {
        let r = flow.receiver.as_ref().unwrap();
        assert_eq!((r.packets, r.lost_packets), (500, Some(0)), "{format}");
        assert_eq!(r.bit_errors, format.verifiable().then_some(0), "{format}");
    }
}
