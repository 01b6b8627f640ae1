//! A test whose data comes from standard input or goes to standard output, and one that reads each received byte (`-T`).
//!
//! A thread moves the data, one buffer at a time. Only standard input and output block it, and a stopped test does not
//! wait for them.

use std::io::{Error, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::oneshot;
use weir_flow::{AlignedBytes, IntervalClock};
use weir_model::content::Content;
use weir_model::plan::{FlowSpec, Plan, Switch};
use weir_model::record::{Receiver, Record, Sender, Status, Tcp};
use weir_model::report::FlowReport;
use weir_net::clock::Clock;
use weir_net::poll::{Events, Interest, Poller};
use weir_net::tcp::TcpStream;
use weir_net::thread::lock;
use weir_net::udp::{SendFault, UdpSocket};
use weir_traffic::session::{self, End, WorkerConfig, Workers};
use weir_traffic::{Failure, Stop, TrafficError};

use super::{Ended, Settings, client, codec, record, server, text};
use crate::ending::stopped;
use crate::family;
use crate::sessions::spec;
use crate::{Event, StandardStream, Test};

/// How often a waiting thread checks whether the test was stopped.
const LOOK_NS: u64 = 100_000_000;
/// Silence that ends a UDP test, since all end markers may be lost.
const SILENCE_NS: u64 = 10_000_000_000;
/// Time for a stopped thread to end.
const ENDING: Duration = Duration::from_secs(1);

/// The test.
pub(super) struct Transfer(pub(super) Settings);

/// Counts of the thread, readable while it runs.
#[derive(Debug, Default)]
struct Counts {
    bytes: AtomicU64,
    packets: AtomicU64,
    calls: AtomicU64,
    /// Waits for room, or for data, and their time, ns.
    sleeps: AtomicU64,
    slept_ns: AtomicU64,
    /// Sends that met an ICMP port unreachable.
    refused: AtomicU64,
    /// Begin of the first and end of the last send, or first and last arrival, by the thread's clock, ns; 0 before.
    first_ns: AtomicU64,
    last_ns: AtomicU64,
    is_stopped: AtomicBool,
    /// TCP information at the end.
    tcp: Mutex<Option<Tcp>>,
}

impl Counts {
    fn add(&self, bytes: usize, now_ns: u64) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.packets.fetch_add(1, Ordering::Relaxed);
        self.begin(now_ns);
        self.last_ns.store(now_ns, Ordering::Relaxed);
    }

    /// Sending begins before the first send; receiving, with the first arrival.
    fn begin(&self, now_ns: u64) {
        let _ = self.first_ns.compare_exchange(0, now_ns, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The end of sending is later than the last send.
    fn end(&self, now_ns: u64) {
        self.last_ns.store(now_ns, Ordering::Relaxed);
    }

    fn call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    fn slept(&self, ns: u64) {
        self.sleeps.fetch_add(1, Ordering::Relaxed);
        self.slept_ns.fetch_add(ns, Ordering::Relaxed);
    }

    fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }
}

/// A connected socket that does not block.
enum Socket {
    Stream(TcpStream),
    Datagrams(UdpSocket),
}

impl Socket {
    fn send(&self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Socket::Stream(socket) => socket.send(bytes),
            Socket::Datagrams(socket) => socket.send(bytes),
        }
    }

    fn poller(&self, interest: Interest) -> std::io::Result<Poller> {
        let poller = Poller::new()?;
        match self {
            Socket::Stream(socket) => poller.add(socket, 0, interest)?,
            Socket::Datagrams(socket) => poller.add(socket, 0, interest)?,
        }
        Ok(poller)
    }

    fn addresses(&self) -> [String; 2] {
        let (local, remote) = match self {
            Socket::Stream(socket) => (socket.local_addr(), socket.peer_addr()),
            Socket::Datagrams(socket) => (socket.local_addr(), socket.peer_addr()),
        };
        [local, remote].map(|address| address.map(|a| a.to_string()).unwrap_or_default())
    }
}

/// A socket, its far end, and the datagrams that were read.
struct Opened {
    socket: Socket,
    peer: SocketAddr,
    spec: FlowSpec,
    early: Vec<Vec<u8>>,
}

/// Moves data between the socket and a standard stream.
struct Mover {
    socket: Socket,
    buffer: AlignedBytes,
    /// The far end.
    peer: SocketAddr,
    /// The first datagrams, which were read to learn their source.
    early: Vec<Vec<u8>>,
    /// Set TCP_QUICKACK to this after each read.
    quick_ack: Option<bool>,
    /// After sending, close that direction and wait for the receiver to close.
    half_close: bool,
    counts: Arc<Counts>,
    clock: Clock,
}

impl Mover {
    /// Sends what `input` delivers, read by read, until it ends.
    fn send(mut self, mut input: impl Read) -> std::io::Result<()> {
        let poller = self.socket.poller(Interest::WRITE)?;
        let is_stream = matches!(self.socket, Socket::Stream(_));
        let mut filled = 0;
        if !is_stream {
            self.send_markers(&poller, 1)?;
        }
        while !self.counts.is_stopped() {
            let read = match input.read(&mut self.buffer[filled..]) {
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                read => read.map_err(|e| named("reading standard input", e))?,
            };
            filled += read;
            // A datagram of up to 4 bytes would be a marker.
            if read > 0 && !is_stream && filled <= codec::MARKER_BYTES {
                continue;
            }
            if filled == 0 {
                break;
            }
            if !is_stream && filled <= codec::MARKER_BYTES {
                self.send_markers(&poller, codec::END_MARKERS)?;
                let text = format!(
                    "the last {filled} bytes were not sent: a datagram of up to 4 bytes is a marker"
                );
                return Err(Error::new(ErrorKind::InvalidData, text));
            }
            self.send_all(&poller, filled)?;
            filled = 0;
        }
        match &self.socket {
            Socket::Stream(socket) => {
                if self.half_close {
                    self.wait_for_close(socket)?;
                }
                self.note_tcp(socket);
                Ok(())
            }
            Socket::Datagrams(_) => self.send_markers(&poller, codec::END_MARKERS),
        }
    }

    fn note_tcp(&self, socket: &TcpStream) {
        *lock(&self.counts.tcp) = session::tcp_info(socket);
    }

    /// Closes the sending direction, and waits until the receiver has read everything and closes too.
    fn wait_for_close(&self, socket: &TcpStream) -> std::io::Result<()> {
        socket.half_close()?;
        let poller = self.socket.poller(Interest::READ)?;
        let mut events = Events::new(1);
        let mut ignored = [0; 4096];
        while !self.counts.is_stopped() {
            match socket.recv(&mut ignored) {
                Ok(0) => {
                    self.counts.end(self.clock.monotonic_ns());
                    break;
                }
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    poller.wait(&mut events, Some(LOOK_NS))?;
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Waits until the poller reports the socket, or for [`LOOK_NS`].
    fn sleep(&self, poller: &Poller, events: &mut Events) -> std::io::Result<()> {
        let since_ns = self.clock.monotonic_ns();
        poller.wait(events, Some(LOOK_NS))?;
        self.counts.slept(self.clock.monotonic_ns().saturating_sub(since_ns));
        Ok(())
    }

    /// Waits for a queue below the socket, which no poller reports.
    fn pause(&self) {
        let since_ns = self.clock.monotonic_ns();
        std::thread::sleep(Duration::from_millis(1));
        self.counts.slept(self.clock.monotonic_ns().saturating_sub(since_ns));
    }

    /// Sends `count` markers. A receiver that is gone is not an error, as in ttcp: the report of it that is waiting
    /// refuses one send.
    fn send_markers(&self, poller: &Poller, count: usize) -> std::io::Result<()> {
        let mut events = Events::new(1);
        for _ in 0..count {
            while let Err(e) = self.socket.send(&codec::MARKER) {
                match SendFault::of(&e) {
                    SendFault::WouldBlock => drop(poller.wait(&mut events, Some(LOOK_NS))?),
                    SendFault::NoBuffers => std::thread::sleep(Duration::from_millis(1)),
                    SendFault::Refused => self.counts.refused(),
                    _ => break,
                }
                if self.counts.is_stopped() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Sends the first `length` bytes of the buffer.
    fn send_all(&self, poller: &Poller, length: usize) -> std::io::Result<()> {
        let (mut events, mut sent) = (Events::new(1), 0);
        self.counts.begin(self.clock.monotonic_ns());
        while sent < length && !self.counts.is_stopped() {
            self.counts.call();
            match self.socket.send(&self.buffer[sent..length]) {
                Ok(n) => {
                    sent += n;
                    self.counts.add(n, self.clock.monotonic_ns());
                }
                Err(e) => match SendFault::of(&e) {
                    SendFault::WouldBlock => self.sleep(poller, &mut events)?,
                    SendFault::NoBuffers => self.pause(),
                    // Nothing listens on the port now. It concerns an earlier datagram; ttcp does not even see it.
                    SendFault::Refused if matches!(self.socket, Socket::Datagrams(_)) => {
                        self.counts.refused();
                    }
                    _ => return Err(e),
                },
            }
        }
        Ok(())
    }

    /// Receives until the sender finishes.
    fn receive(mut self, mut sink: Sink) -> std::io::Result<()> {
        let poller = self.socket.poller(Interest::READ)?;
        let mut events = Events::new(1);
        let mut silent_since = self.clock.monotonic_ns();
        for early in std::mem::take(&mut self.early) {
            self.counts.call();
            if codec::is_marker(&early) {
                return sink.finish();
            }
            self.counts.add(early.len(), silent_since);
            sink.take(&early)?;
        }
        let mut datagram = vec![0; 1 << 16];
        while !self.counts.is_stopped() {
            self.counts.call();
            let received = match &self.socket {
                Socket::Stream(socket) => {
                    // The kernel reverts to delayed acknowledgements by itself.
                    if let Some(quick) = self.quick_ack {
                        let _ = socket.set_quickack(quick);
                    }
                    socket.recv(&mut self.buffer)
                }
                Socket::Datagrams(socket) => match socket.recv_from(&mut datagram) {
                    // Another source is not the sender of this test.
                    Ok((_, from)) if from != self.peer => continue,
                    received => received.map(|(n, _)| n),
                },
            };
            let arrived = match (received, &self.socket) {
                (Err(e), socket) if e.kind() == ErrorKind::WouldBlock => {
                    self.sleep(&poller, &mut events)?;
                    let silence_ns = self.clock.monotonic_ns().saturating_sub(silent_since);
                    if matches!(socket, Socket::Datagrams(_)) && silence_ns > SILENCE_NS {
                        sink.finish()?;
                        let silence = "nothing arrived for 10 s, and no marker of the end";
                        return Err(std::io::Error::new(ErrorKind::TimedOut, silence));
                    }
                    continue;
                }
                (Err(e), _) => {
                    sink.finish()?;
                    return Err(e);
                }
                (Ok(0), Socket::Stream(_)) => break,
                (Ok(n), Socket::Stream(_)) => &self.buffer[..n],
                (Ok(n), Socket::Datagrams(_)) if codec::is_marker(&datagram[..n]) => break,
                (Ok(n), Socket::Datagrams(_)) => &datagram[..n],
            };
            silent_since = self.clock.monotonic_ns();
            self.counts.add(arrived.len(), silent_since);
            sink.take(arrived)?;
        }
        if let Socket::Stream(socket) = &self.socket {
            self.note_tcp(socket);
        }
        sink.finish()
    }
}

/// The pattern of `-s`, as much as the buffers of the test hold.
struct PatternInput {
    left: u64,
    at: u64,
}

impl Read for PatternInput {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let most = usize::try_from(self.left).map_or(buffer.len(), |left| left.min(buffer.len()));
        weir_model::content::fill(Content::Ascii, 0, self.at, &mut buffer[..most]);
        self.at += most as u64;
        self.left -= most as u64;
        Ok(most)
    }
}

/// What receives the data.
struct Sink {
    /// Standard output; absent: the data is discarded.
    output: Option<Box<dyn Write + Send>>,
    /// Bytes of a block; absent: what arrived is written at once.
    block_bytes: Option<usize>,
    block: Vec<u8>,
    touches: bool,
}

impl Sink {
    fn take(&mut self, mut bytes: &[u8]) -> std::io::Result<()> {
        if self.touches {
            touch(bytes);
        }
        let Some(block_bytes) = self.block_bytes else { return self.write(bytes) };
        while !bytes.is_empty() {
            let (part, rest) = bytes.split_at(bytes.len().min(block_bytes - self.block.len()));
            self.block.extend_from_slice(part);
            bytes = rest;
            if self.block.len() == block_bytes {
                self.finish()?;
            }
        }
        Ok(())
    }

    /// Writes an incomplete block.
    fn finish(&mut self) -> std::io::Result<()> {
        let block = std::mem::take(&mut self.block);
        self.write(&block)?;
        self.block = block;
        self.block.clear();
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let Some(output) = &mut self.output else { return Ok(()) };
        let written = output.write_all(bytes).and_then(|()| output.flush());
        written.map_err(|e| named("writing standard output", e))
    }
}

/// Reads each byte.
fn touch(bytes: &[u8]) {
    std::hint::black_box(bytes.iter().fold(0, |sum: u8, byte| sum ^ byte));
}

fn named(operation: &str, error: Error) -> Error {
    Error::new(error.kind(), format!("{operation}: {error}"))
}

impl Test for Transfer {
    fn plan(&self) -> &Plan {
        &self.0.plan
    }

    fn standard_stream(&self) -> Option<StandardStream> {
        match (self.0.pattern, self.0.transmits()) {
            (true, _) => None,
            (false, true) => Some(StandardStream::Input),
            (false, false) => Some(StandardStream::Output),
        }
    }

    fn run(
        self: Box<Self>,
        workers: &WorkerConfig,
        stop: &Stop,
        observe: &mut dyn FnMut(Event),
    ) -> Result<Record, Failure> {
        let settings = self.0;
        let sends = settings.transmits();
        let clock = workers.clock.clone();
        let workers = Workers::start(workers)?;
        observe(Event::Line(text::settings(&settings)));
        let mut say = |what: String| observe(Event::Line(format!("{}: {what}", text::tag(sends))));
        say("socket".into());
        let runtime = crate::runtime()?;
        let Opened { socket, peer, spec, early } = match sends {
            true => runtime.block_on(connect(&settings, stop))?,
            false => accept(&settings, stop)?,
        };
        if !settings.udp {
            say(match sends {
                true => "connect".into(),
                false => format!("accept from {}", peer.ip().to_canonical()),
            });
        }
        // An end without flows measures the host and its processor time.
        let end = End::new(&workers, &settings.plan, true).with_host(peer.ip(), None);
        let start_ns = workers.now_ns();
        let intervals = IntervalClock { start_ns, interval_ns: 1_000_000_000, omit_ns: 0 };
        end.start(intervals);
        let [local, remote] = socket.addresses();
        let counts = Arc::new(Counts::default());
        let mover = Mover {
            socket,
            buffer: AlignedBytes::new(
                usize::try_from(settings.buffer_bytes).unwrap_or(usize::MAX),
                Some(settings.alignment),
            ),
            peer,
            early,
            quick_ack: settings.delayed_ack.map(|delayed| delayed == Switch::Off),
            half_close: settings.half_close,
            counts: counts.clone(),
            clock,
        };
        let result = runtime.block_on(moved(&settings, mover, &counts, stop))?;
        let (ended, error) = match (result, stop.reason()) {
            (Some(Err(e)), _) => (
                Ended::new(Status::Partial, e.to_string()),
                Some(TrafficError::System { operation: "transferring data".into(), source: e }),
            ),
            (_, Some(reason)) => (
                Ended::new(Status::Interrupted, reason.text()),
                Some(TrafficError::Stopped(reason.text(), reason.exit_code())),
            ),
            _ if sends => (Ended::new(Status::Complete, "standard input ended"), None),
            _ => (Ended::new(Status::Complete, "the sender finished"), None),
        };
        let mut report = end.finish();
        let remote = if remote.is_empty() { peer.to_string() } else { remote };
        report.flows.push(flow(&counts, sends, settings.udp, start_ns, [local, remote]));
        let plan = match sends {
            true => settings.plan.clone(),
            false => {
                Plan { host: Some(peer.ip().to_canonical().to_string()), ..settings.plan.clone() }
            }
        };
        let record = record(plan, spec, peer, report, intervals, ended);
        text::figures(&settings, &record).into_iter().for_each(|l| observe(Event::Line(l)));
        match error {
            None => Ok(record),
            Some(error) => Err(Failure { error, partial: Some(Box::new(record)) }),
        }
    }
}

/// Runs the thread. `None`: the test was stopped while a standard stream blocked.
async fn moved(
    settings: &Settings,
    mover: Mover,
    counts: &Counts,
    stop: &Stop,
) -> Result<Option<std::io::Result<()>>, TrafficError> {
    let (done, mut ended) = oneshot::channel();
    let sends = settings.transmits();
    let sink = Sink {
        output: (!settings.pattern).then(|| Box::new(std::io::stdout()) as Box<dyn Write + Send>),
        block_bytes: settings.full_blocks.then_some(mover.buffer.len()),
        block: vec![],
        touches: settings.touches,
    };
    let pattern = settings.pattern;
    let input =
        PatternInput { left: settings.buffers.saturating_mul(settings.buffer_bytes), at: 0 };
    let work = move || {
        let result = match sends {
            true if pattern => mover.send(input),
            true => mover.send(std::io::stdin().lock()),
            false => mover.receive(sink),
        };
        let _ = done.send(result);
    };
    std::thread::Builder::new()
        .name("weir-transfer".into())
        .spawn(work)
        .map_err(|source| TrafficError::System { operation: "transferring data".into(), source })?;
    tokio::select! {
        result = &mut ended => {
            let is_gone = |_| Err(Error::other("the thread that transfers ended"));
            return Ok(Some(result.unwrap_or_else(is_gone)));
        }
        _ = stop.asked(1) => {}
    }
    counts.is_stopped.store(true, Ordering::Relaxed);
    Ok(tokio::time::timeout(ENDING, ended).await.ok().and_then(Result::ok))
}

/// What this end counted.
fn flow(
    counts: &Counts,
    sends: bool,
    udp: bool,
    start_ns: u64,
    [local, remote]: [String; 2],
) -> FlowReport {
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (bytes, packets, calls) = (read(&counts.bytes), read(&counts.packets), read(&counts.calls));
    let [first, last] = [&counts.first_ns, &counts.last_ns]
        .map(|ns| read(ns).saturating_sub(start_ns) as f64 / 1e9);
    let seconds = last - first;
    let rate = |amount: f64| (seconds > 0.0).then(|| amount / seconds);
    let (bits_per_second, packets_per_second) = (rate(8.0 * bytes as f64), rate(packets as f64));
    let is_active = packets > 0;
    let (start_seconds, end_seconds) = (is_active.then_some(first), is_active.then_some(last));
    let sender = sends.then(|| Sender {
        bytes,
        packets,
        seconds,
        start_seconds,
        end_seconds,
        bits_per_second,
        packets_per_second,
        io_calls: Some(calls),
        sleeps: Some(read(&counts.sleeps)),
        sleep_seconds: Some(read(&counts.slept_ns) as f64 / 1e9),
        refused_sends: Some(read(&counts.refused)).filter(|refused| *refused > 0),
        method: if udp { "send" } else { "write" }.into(),
        ..Sender::default()
    });
    let receiver = (!sends).then(|| Receiver {
        bytes,
        packets,
        seconds,
        start_seconds,
        end_seconds,
        bits_per_second,
        packets_per_second,
        io_calls: Some(calls),
        method: "copy".into(),
        ..Receiver::default()
    });
    let tcp = lock(&counts.tcp).clone();
    FlowReport { id: client::FLOW, local, remote, sender, receiver, tcp, ..FlowReport::default() }
}

/// Connects to the receiver.
async fn connect(settings: &Settings, stop: &Stop) -> Result<Opened, TrafficError> {
    let host = settings.host.as_deref().unwrap_or_default();
    let opening = async {
        let mut failure = None;
        for peer in session::resolve(host, &settings.plan).await? {
            let spec = settings.plan.flows(family(peer), u32::MAX).swap_remove(0);
            match open(settings, &spec, peer).await {
                Ok(socket) => return Ok(Opened { socket, peer, spec, early: vec![] }),
                Err(e) => failure = Some(e),
            }
        }
        let reason = "no address".into();
        Err(failure.unwrap_or(TrafficError::Resolve { host: host.into(), reason }))
    };
    tokio::select! {
        opened = opening => opened,
        reason = stop.asked(1) => Err(stopped(reason)),
    }
}

async fn open(
    settings: &Settings,
    spec: &FlowSpec,
    peer: SocketAddr,
) -> Result<Socket, TrafficError> {
    if settings.udp {
        let socket = session::open_datagrams(&settings.plan, spec, true, None, Some(peer))?;
        super::set_debug(settings, &socket)?;
        return Ok(Socket::Datagrams(socket));
    }
    let connecting =
        session::connect_stream(&settings.plan, spec, true, peer, client::CONNECT_TIMEOUT);
    let socket = connecting.await?;
    super::set_debug(settings, &socket)?;
    Ok(Socket::Stream(socket))
}

/// Waits for the transmitter.
fn accept(settings: &Settings, stop: &Stop) -> Result<Opened, TrafficError> {
    let failed = |source| TrafficError::System { operation: "listening".into(), source };
    let plans = [settings.plan.clone(), settings.plan.clone()];
    let transports = [!settings.udp, settings.udp];
    let mut listening = server::open_sockets(&[], settings.port, transports, plans)?;
    server::set_debug(settings, &listening)?;
    let poller = Poller::new().map_err(failed)?;
    for (token, listener) in (0..).zip(&listening.streams) {
        poller.add(listener, token, Interest::READ).map_err(failed)?;
    }
    for (token, (socket, _)) in (0..).zip(&listening.datagrams) {
        poller.add(socket, token, Interest::READ).map_err(failed)?;
    }
    let mut events = Events::new(16);
    let mut datagram = vec![0; 1 << 16];
    let mut candidates = codec::Candidates::default();
    loop {
        if let Some(reason) = stop.reason() {
            return Err(stopped(reason));
        }
        poller.wait(&mut events, Some(LOOK_NS)).map_err(failed)?;
        for at in events.iter().map(|event| event.token as usize) {
            if settings.udp {
                let Ok((n, peer)) = listening.datagrams[at].0.recv_from(&mut datagram) else {
                    continue;
                };
                let datagram = &datagram[..n];
                let is_marker = codec::is_marker(datagram);
                let Some(early) = candidates.add(peer, is_marker, datagram.to_vec()) else {
                    continue;
                };
                let (socket, _) = listening.datagrams.swap_remove(at);
                let spec = spec(&settings.plan, peer);
                return Ok(Opened { socket: Socket::Datagrams(socket), peer, spec, early });
            }
            let Ok((stream, peer)) = listening.streams[at].accept(true) else { continue };
            if let Some(window) = settings.window_bytes {
                // The record reports the size in effect.
                let _ = stream.set_buffers(window as usize);
            }
            let spec = spec(&settings.plan, peer);
            return Ok(Opened { socket: Socket::Stream(stream), peer, spec, early: vec![] });
        }
    }
}
