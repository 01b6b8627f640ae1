//! A server in this process, and a scripted client that sends whole messages, partial ones, or none.
// Each test file uses what it needs; a failed helper is a failed test.
#![allow(clippy::unwrap_used, dead_code, unreachable_pub)]

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir_model::plan::{Connection, Direction, Family, Plan, Transport};
use weir_model::record::Record;
use weir_model::units::{ByteSize, Span};
use weir_traffic::{
    ClientConfig, Failure, ServerConfig, ServerEvent, Stop, StopReason, TrafficError, run, serve,
};
use weir_wire::control::{
    CLIENT_LIMIT, ClientMessage, Hello, Open, Opened, PROTOCOL, ServerMessage, decode, encode,
};
use weir_wire::datagram::{ControlDatagram, DatagramKey, DatagramKind};
use weir_wire::frame::{FrameDecoder, encode_frame};
use weir_wire::preface::{ControlMode, DataPreface, encode_control};

/// Ends a broken test. Working tests take far less, and no timeout of a server is longer.
pub const TIMEOUT: Duration = Duration::from_secs(20);

/// Waits for a condition, up to `TIMEOUT`.
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < TIMEOUT, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A running server that remembers its events.
pub struct Server {
    pub address: SocketAddr,
    pub events: Arc<Mutex<Vec<ServerEvent>>>,
    stop: Stop,
    thread: Option<JoinHandle<Result<(), TrafficError>>>,
}

impl Server {
    pub fn start(config: ServerConfig) -> Server {
        Server::at("127.0.0.1", config)
    }

    pub fn at(ip: &str, config: ServerConfig) -> Server {
        let config = ServerConfig { bind: vec![ip.parse().unwrap()], port: 0, ..config };
        let (sender, receiver) = mpsc::channel();
        let (stop, events) = (Stop::new(), Arc::new(Mutex::new(vec![])));
        let (inner, kept) = (stop.clone(), events.clone());
        let thread = std::thread::spawn(move || {
            serve(config, inner, &mut |event| {
                if let ServerEvent::Listening { addresses, .. } = &event {
                    sender.send(addresses[0].ip().unwrap()).unwrap();
                }
                kept.lock().unwrap().push(event);
            })
        });
        let address = receiver.recv_timeout(TIMEOUT).unwrap();
        Server { address, events, stop, thread: Some(thread) }
    }

    /// Stops the server and returns its outcome.
    pub fn end(mut self) -> Result<(), TrafficError> {
        self.stop.request(StopReason::Terminated);
        self.thread.take().unwrap().join().unwrap()
    }

    pub fn client(&self, plan: Plan) -> ClientConfig {
        ClientConfig::new(Plan { port: Some(self.address.port()), ..plan }, "127.0.0.1")
    }

    pub fn test(&self, plan: Plan) -> Result<Record, Failure> {
        run(self.client(plan), Stop::new(), &mut |_| {})
    }

    /// Checks that a short test of both transports is complete.
    pub fn still_serves(&self) {
        let udp = Connection {
            transport: Transport::udp(),
            packets: Some(50),
            rate: Some("1000pps".parse().unwrap()),
            ..Connection::default()
        };
        let tcp = Connection { bytes: Some(ByteSize(100_000)), ..Connection::default() };
        let record = self.test(plan(vec![udp, tcp])).unwrap();
        assert_eq!(record.flows[0].receiver.as_ref().unwrap().packets, 50);
        assert_eq!(record.flows[1].receiver.as_ref().unwrap().bytes, 100_000);
    }

    pub fn count(&self, wanted: impl Fn(&ServerEvent) -> bool) -> usize {
        self.events.lock().unwrap().iter().filter(|e| wanted(e)).count()
    }

    pub fn opened(&self) -> usize {
        self.count(|e| matches!(e, ServerEvent::SessionOpened { .. }))
    }

    pub fn closed(&self) -> usize {
        self.count(|e| matches!(e, ServerEvent::SessionClosed { .. }))
    }

    /// Waits until every session that was opened is closed.
    pub fn idle(&self) {
        until("all sessions are closed", || self.opened() == self.closed());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.request(StopReason::Terminated);
        if let Some(thread) = self.thread.take() {
            let outcome = thread.join().unwrap();
            if !std::thread::panicking() {
                outcome.unwrap();
            }
        }
    }
}

pub fn plan(connections: Vec<Connection>) -> Plan {
    Plan { connections, interval: Span(100_000_000), ..Plan::default() }
}

/// A paced UDP connection without an end.
pub fn endless_udp(direction: Direction) -> Connection {
    Connection {
        transport: Transport::udp(),
        direction,
        rate: Some("1000pps".parse().unwrap()),
        payload: Some(ByteSize(100).into()),
        duration: Some(Span(0)),
        ..Connection::default()
    }
}

/// A control connection, byte by byte.
pub struct Raw {
    pub stream: TcpStream,
    frames: FrameDecoder,
}

impl Raw {
    /// Connected; nothing has been sent.
    pub fn silent(server: SocketAddr) -> Raw {
        Raw::over(TcpStream::connect(server).unwrap())
    }

    /// With a session, over a connection with small buffers: small segments keep the server's buffers small too.
    pub fn narrow_session(server: SocketAddr, plan: Plan) -> (Raw, Opened) {
        let socket =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.set_recv_buffer_size(1024).unwrap();
        socket.set_tcp_mss(536).unwrap();
        socket.connect(&server.into()).unwrap();
        Raw::over(socket.into()).greet().ask(plan)
    }

    fn over(stream: TcpStream) -> Raw {
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Raw { stream, frames: FrameDecoder::new(CLIENT_LIMIT) }
    }

    /// Connected, with the preface.
    pub fn connect(server: SocketAddr) -> Raw {
        Raw::silent(server).preface()
    }

    fn preface(mut self) -> Raw {
        self.stream.write_all(&encode_control(ControlMode::Plain)).unwrap();
        self
    }

    /// With the hello, answered.
    pub fn greeted(server: SocketAddr) -> Raw {
        Raw::silent(server).greet()
    }

    fn greet(self) -> Raw {
        let mut raw = self.preface();
        raw.send(&ClientMessage::Hello(own_hello()));
        assert!(matches!(raw.read(), Some(ServerMessage::Hello(_))));
        raw
    }

    /// With a session.
    pub fn session(server: SocketAddr, plan: Plan) -> (Raw, Opened) {
        Raw::greeted(server).ask(plan)
    }

    fn ask(mut self, plan: Plan) -> (Raw, Opened) {
        self.send(&open(plan));
        match self.read() {
            Some(ServerMessage::Opened(opened)) => (self, opened),
            other => panic!("{other:?}"),
        }
    }

    /// Reads up to `bytes`, in whole messages or not; waits for the first byte.
    pub fn take(&mut self, bytes: usize) -> usize {
        let mut buffer = vec![0; bytes];
        let n = self.stream.read(&mut buffer).unwrap_or(0);
        self.frames.push(&buffer[..n]);
        n
    }

    pub fn send(&mut self, message: &ClientMessage) {
        self.frame(&encode(message));
    }

    /// Sends a frame of any bytes. If the connection is closed, the next read finds out.
    pub fn frame(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(&encode_frame(bytes).unwrap());
    }

    /// The next message; `None` when the connection has ended.
    pub fn read(&mut self) -> Option<ServerMessage> {
        loop {
            if let Some(frame) = self.frames.next().unwrap() {
                return Some(decode(&frame).unwrap());
            }
            let mut buffer = [0; 4096];
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(n) => self.frames.push(&buffer[..n]),
                Err(e) if e.kind() == ErrorKind::ConnectionReset => return None,
                Err(e) => panic!("neither a message nor an end: {e}"),
            }
        }
    }

    /// Reads until a wanted message, or the end of the connection.
    pub fn read_until(&mut self, wanted: impl Fn(&ServerMessage) -> bool) -> Option<ServerMessage> {
        loop {
            let message = self.read()?;
            if wanted(&message) {
                return Some(message);
            }
        }
    }
}

pub fn own_hello() -> Hello {
    Hello { protocol_min: 1, protocol_max: PROTOCOL, ..Hello::default() }
}

pub fn open(plan: Plan) -> ClientMessage {
    ClientMessage::Open(Box::new(Open {
        plan,
        family: Family::Ipv4,
        path_mtu_bytes: 1500,
        loss_threshold_ns: 2_000_000_000,
        live: true,
    }))
}

/// Every byte received until the connection ended. Fails if it does not end.
pub fn rest(stream: &mut TcpStream) -> Vec<u8> {
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut bytes = vec![];
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return bytes,
            Ok(n) => bytes.extend_from_slice(&buffer[..n]),
            Err(e) if matches!(e.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {
                return bytes;
            }
            Err(e) => panic!("the server keeps it open: {e}"),
        }
    }
}

fn from_hex(text: &str) -> [u8; 16] {
    let bytes: Vec<u8> = (0..text.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap())
        .collect();
    bytes.try_into().unwrap()
}

/// The key of a session's control datagrams.
pub fn datagram_key(opened: &Opened) -> DatagramKey {
    DatagramKey::for_session(&from_hex(&opened.key))
}

/// The preface of a data connection with its right token: two tags under the session's secret.
pub fn data_preface(opened: &Opened, flow: u32) -> DataPreface {
    let key = DatagramKey::from_bytes(&from_hex(&opened.token_secret));
    let mut token = [0; 16];
    for (half, sequence) in token.chunks_mut(8).zip(1..) {
        let d = ControlDatagram { sequence, ..datagram(opened, DatagramKind::Hello, flow) };
        half.copy_from_slice(&d.encode(&key)[56..]);
    }
    DataPreface { session: opened.session, flow, token }
}

pub fn datagram(opened: &Opened, kind: DatagramKind, flow: u32) -> ControlDatagram {
    let (session, sequence) = (opened.session, 0);
    ControlDatagram { kind, flow, session, sequence, t1_ns: 0, t2_ns: 0, t3_ns: 0 }
}

/// A UDP socket of this host, connected to the server.
pub fn udp(from: &str, server: SocketAddr) -> UdpSocket {
    let ip: IpAddr = from.parse().unwrap();
    let socket = UdpSocket::bind((ip, 0)).unwrap();
    socket.connect(server).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket
}

/// Whether nothing has arrived on a socket.
pub fn nothing_arrived(socket: &UdpSocket) -> bool {
    socket.set_nonblocking(true).unwrap();
    let mut buffer = [0; 2048];
    let received = socket.recv(&mut buffer);
    socket.set_nonblocking(false).unwrap();
    received.is_err_and(|e| e.kind() == ErrorKind::WouldBlock)
}

/// A reproducible stream of bytes.
pub struct Noise(pub u64);

impl Noise {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n.max(1)
    }

    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.below(256) as u8).collect()
    }
}
