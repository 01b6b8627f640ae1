//! Buffers of streams are aligned in memory.

use weir_flow::{IntervalClock, Scheduling};
use weir_model::plan::{Connection, Family, Plan};
use weir_model::units::{ByteSize, Span};
use weir_net::tcp::TcpStream;
use weir_wire::header::TagKey;

use super::*;
use crate::engine::Engine;
use crate::engine::tests::stream;
use crate::framing::Framing;
use weir_model::plan::TransportName;

/// A stream that records where the buffers of its calls start.
#[derive(Debug)]
struct Recording {
    stream: TcpStream,
    /// Address and length of each write, and the bytes that were accepted of it.
    writes: Mutex<Vec<(usize, usize, usize)>>,
    reads: Mutex<Vec<usize>>,
}

weir_net::as_socket!(Recording, stream);

impl StreamSocket for Recording {
    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.stream.send(bytes)?;
        lock(&self.writes).push((bytes.as_ptr().addr(), bytes.len(), sent));
        Ok(sent)
    }

    fn send_file(&self, _: &MemFile, _: u64, _: usize) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        lock(&self.reads).push(buffer.as_ptr().addr());
        self.stream.recv(buffer)
    }

    fn recv_discard(&self, _: usize) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn half_close(&self) -> io::Result<()> {
        self.stream.half_close()
    }

    fn take_error(&self) -> io::Result<Option<io::Error>> {
        Ok(None)
    }

    fn info(&self) -> Option<TcpInfo> {
        None
    }

    fn congestion_control(&self) -> Option<String> {
        None
    }

    fn fallback(&self) -> Option<TransportName> {
        None
    }

    fn addresses(&self) -> [String; 2] {
        [String::new(), String::new()]
    }

    fn buffer_bytes(&self, _: bool) -> Option<u64> {
        None
    }
}

/// Sends 4 MiB in writes of this size over loopback; both ends have the alignment. Returns their calls.
fn transfer(write: u64, align: &str) -> [Arc<Recording>; 2] {
    let align: Alignment = align.parse().unwrap();
    let connection = Connection {
        payload: Some(ByteSize(write).into()),
        bytes: Some(ByteSize(4 << 20)),
        verify: true,
        ..Connection::default()
    };
    let plan = Plan { connections: vec![connection], ..Plan::default() };
    let spec = plan.flows(Family::Ipv4, 1500).remove(0);
    let engine = Engine::new(1, None, Scheduling::Normal, Clock::System).unwrap();
    let (events, mut inbox) = tokio::sync::mpsc::unbounded_channel();
    let (far, near) = stream();
    near.set_nonblocking(true).unwrap();
    let [near, far] = [near, far].map(|stream| {
        Arc::new(Recording { stream, writes: Mutex::default(), reads: Mutex::default() })
    });
    let pool = Arc::new(StreamPool::new(Content::Random, 7, 1 << 20));
    let received = Arc::new(Mutex::new(StreamReceiving::new(Some(pool))));
    let role = StreamRole::Receive {
        state: received.clone(),
        read_bytes: usize::MAX,
        discard: false,
        align: Some(align),
        echoes: false,
        file: None,
    };
    engine
        .add_stream(StreamFlow { id: 1, socket: far.clone(), role, events: events.clone() }, false);
    let mut sending = Sending::new(&spec, TagKey::for_flow(&[0; 16], 1), 0, false);
    let intervals = IntervalClock { start_ns: 0, interval_ns: 0, omit_ns: 0 };
    sending.start(engine.clock().monotonic_ns(), intervals);
    let role = StreamRole::Send {
        state: Arc::new(Mutex::new(sending)),
        content: Content::Random,
        seed: 7,
        zero_copy: false,
        align: Some(align),
        samples: Arc::default(),
        stays_open: false,
        framing: None,
        echo: None,
    };
    engine.add_stream(StreamFlow { id: 2, socket: near.clone(), role, events }, false);
    loop {
        match inbox.blocking_recv().expect("an event") {
            FlowEvent::ReceiverDone(1) => break,
            FlowEvent::Failed(flow, text) => panic!("flow {flow}: {text}"),
            _ => {}
        }
    }
    let report = lock(&received).report("copy", None);
    assert_eq!((report.bytes, report.bit_errors), (4 << 20, Some(0)));
    [near, far]
}

#[test]
fn buffers_start_at_the_alignment_whatever_the_write_size() {
    // Of the content's pool, and copied since the writes are no multiples of the alignment.
    for (write, align, offset) in [(65_536, "4K+24", 24), (1000, "64", 0), (9001, "64K+1", 1)] {
        let [near, far] = transfer(write, align);
        let bytes = align.parse::<Alignment>().unwrap().bytes();
        let mut is_start = true;
        let mut starts = 0;
        for (address, length, sent) in lock(&near.writes).iter() {
            if is_start {
                assert_eq!(address % bytes, offset, "{write} {align}");
                starts += 1;
            }
            is_start = sent == length;
        }
        assert!(starts as u64 >= (4 << 20) / write, "{starts}");
        let reads = lock(&far.reads);
        assert!(!reads.is_empty() && reads.iter().all(|address| address % bytes == offset));
    }
}

/// A header of 8 bytes: number and length.
struct Numbered;

impl Framing for Numbered {
    fn header_bytes(&self) -> usize {
        8
    }

    fn write(&mut self, number: u64, length: usize, _: u64, header: &mut [u8]) {
        header[..4].copy_from_slice(&(number as u32).to_be_bytes());
        header[4..].copy_from_slice(&(length as u32).to_be_bytes());
    }
}

#[test]
fn each_write_of_a_framed_stream_has_its_header_and_is_sent_whole() {
    const TIME: Span = Span(50_000_000);
    let connection = Connection {
        payload: Some(ByteSize(9001).into()),
        duration: Some(TIME),
        ..Connection::default()
    };
    let plan = Plan { connections: vec![connection], ..Plan::default() };
    let spec = plan.flows(Family::Ipv4, 1500).remove(0);
    let engine = Engine::new(1, None, Scheduling::Normal, Clock::System).unwrap();
    let (events, mut inbox) = tokio::sync::mpsc::unbounded_channel();
    let (far, near) = stream();
    near.set_nonblocking(true).unwrap();
    let near = Recording { stream: near, writes: Mutex::default(), reads: Mutex::default() };
    let mut sending = Sending::new(&spec, TagKey::for_flow(&[0; 16], 1), 0, false);
    let start_ns = engine.clock().monotonic_ns();
    sending.start(start_ns, IntervalClock { start_ns, interval_ns: 0, omit_ns: 0 });
    let role = StreamRole::Send {
        state: Arc::new(Mutex::new(sending)),
        content: Content::Random,
        seed: 7,
        zero_copy: false,
        align: None,
        samples: Arc::default(),
        stays_open: false,
        framing: Some(Mutex::new(Framer::new(Box::new(Numbered)))),
        echo: None,
    };
    engine.add_stream(StreamFlow { id: 1, socket: Arc::new(near), role, events }, false);
    // The time is over while a write waits for room.
    engine.clock().sleep_until(start_ns + TIME.0 + 1_000_000);
    let mut far: std::net::TcpStream = far.into();
    far.set_nonblocking(false).unwrap();
    let mut received = vec![];
    std::io::Read::read_to_end(&mut far, &mut received).unwrap();
    let total = match inbox.blocking_recv() {
        Some(FlowEvent::SenderDone(total)) => total,
        other => panic!("{other:?}"),
    };
    assert_eq!((total.bytes, total.packets * 9001), (received.len() as u64, total.bytes));
    let pool = StreamPool::new(Content::Random, 7, 9001);
    for (number, write) in received.chunks(9001).enumerate() {
        let head = [(number as u32).to_be_bytes(), 9001_u32.to_be_bytes()].concat();
        assert_eq!(&write[..8], head, "{number}");
        assert!(write[8..] == pool.at(number as u64 * 9001, 9001)[8..], "{number}");
    }
}

/// A sender that leaves its direction open, for 100 ms.
fn sender(id: u32, rate: &str, engine: &Engine, events: &Events) -> TcpStream {
    let text = format!(
        "schema = \"weir.plan/1\"\n[[connection]]\nduration = \"100ms\"\npayload = 65536\nrate = \"{rate}\""
    );
    let spec = Plan::parse(&text).unwrap().flows(Family::Ipv4, 1500).remove(0);
    let (near, far) = stream();
    near.set_nonblocking(true).unwrap();
    let socket = crate::transport::stream(&spec).unwrap().socket(&spec, near);
    let mut sending = Sending::new(&spec, TagKey::for_flow(&[0; 16], 1), 0, false);
    let intervals = IntervalClock { start_ns: 0, interval_ns: 0, omit_ns: 0 };
    sending.start(engine.clock().monotonic_ns(), intervals);
    let role = StreamRole::Send {
        state: Arc::new(Mutex::new(sending)),
        content: Content::Zeros,
        seed: 7,
        zero_copy: false,
        align: None,
        samples: Arc::default(),
        stays_open: true,
        framing: None,
        echo: None,
    };
    let events = events.clone();
    engine.add_stream(StreamFlow { id, socket, role, events }, false);
    far
}

#[test]
fn a_sender_that_its_reader_starves_ends_as_planned() {
    let engine = Engine::new(1, None, Scheduling::Normal, Clock::System).unwrap();
    let (events, mut inbox) = tokio::sync::mpsc::unbounded_channel();
    // The reader takes a buffer of each in turn, so that it waits for the slow one.
    let readers = [sender(1, "8M", &engine, &events), sender(2, "0", &engine, &events)];
    let far = readers.each_ref().map(|far| far.try_clone().unwrap());
    let reading = std::thread::spawn(move || {
        let mut buffer = vec![0; 65_536];
        loop {
            for far in &readers {
                let mut read = 0;
                while read < buffer.len() {
                    match far.recv(&mut buffer[read..]) {
                        Ok(n) if n > 0 => read += n,
                        _ => return,
                    }
                }
            }
        }
    });
    let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
    let mut ended = vec![];
    while ended.len() < 2 && std::time::Instant::now() < until {
        match inbox.try_recv() {
            Ok(FlowEvent::SenderDone(total)) => ended.push(total.flow),
            Ok(FlowEvent::Failed(flow, text)) => panic!("flow {flow}: {text}"),
            _ => std::thread::sleep(std::time::Duration::from_millis(5)),
        }
    }
    far.iter().for_each(|far| drop(far.shutdown()));
    reading.join().unwrap();
    ended.sort_unstable();
    assert_eq!(ended, [1, 2]);
}
