//! The server: many clients at the same time. Each stream is a session, and so is each source of datagrams.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::Instant;
use weir_flow::IntervalClock;
use weir_model::plan::{Direction, FlowSpec, Plan};
use weir_model::record::Status;
use weir_model::report::EndReport;
use weir_net::tcp::TcpStream;
use weir_net::udp::Membership;
use weir_traffic::session::{self, End, Exchange, FlowEvent, Load, Share, Workers};
use weir_traffic::{Limits, ServerEvent, Stop, TrafficError};

use super::bounce::{self, Bounce};
use super::calling::Call;
use super::codec::{self, AckTimes, Beginning, Header};
use super::datagrams::{BUFFER, Datagrams};
use super::group::Group;
use super::isochronous::{Frames, Isochronous};
use super::{recognition, settings};
use crate::ports::{Listening, Receiver};
use crate::serving::{self, sends};
use crate::sessions::{self, Ended, TICK};
use crate::{CallBacks, ServeConfig, Server};

/// Most time for a client to acknowledge what was sent to it.
const DELIVERY: Duration = Duration::from_secs(3);
/// How long to wait for the reason of an early end.
const REASON: Duration = Duration::from_millis(100);
/// Pause between two looks for that.
const LOOK: Duration = Duration::from_millis(5);
/// Time beyond its stated duration that a session may take.
const GRACE: Duration = Duration::from_secs(60);
/// Least silence that ends a test of round trips: an hour passes between two bursts at most, and the server may wait 10 s.
const BOUNCE_SILENCE: Duration = Duration::from_secs(3620);

/// State shared by the sessions.
pub(super) struct Shared {
    pub(super) workers: Workers,
    pub(super) limits: Limits,
    pub(super) stop: Stop,
    pub(super) call_backs: CallBacks,
    /// The group that is received; absent: addresses of this host.
    pub(super) group: Option<Membership>,
    events: mpsc::UnboundedSender<ServerEvent>,
    pub(super) streams: Arc<Load>,
    /// The source of a datagram is not verified, so it takes no place of a stream.
    pub(super) datagrams: Arc<Load>,
    pub(super) next_session: AtomicU64,
}

impl Shared {
    /// Reports a session that has begun.
    pub(super) fn opened(&self, session: u64, peer: SocketAddr, flows: usize) {
        let _ = self.events.send(ServerEvent::SessionOpened { session, peer: peer.into(), flows });
    }

    /// Reports a session that has ended.
    pub(super) fn closed(
        &self,
        session: u64,
        (plan, specs): (Plan, Vec<FlowSpec>),
        peer: SocketAddr,
        ends: (EndReport, Option<EndReport>),
        intervals: IntervalClock,
        ended: Ended,
    ) {
        let (name, reason) = (super::PROTOCOL.name, ended.reason.clone());
        let report = ends.0.clone();
        let record = sessions::record(name, plan, specs, peer, ends, intervals, ended);
        let _ = self.events.send(ServerEvent::SessionClosed {
            session,
            peer: peer.into(),
            reason,
            report: Some(Box::new(report)),
            record: Some(Box::new(record)),
        });
    }

    pub(super) fn refused(&self, peer: SocketAddr, reason: String) {
        let _ = self.events.send(ServerEvent::Refused { peer: peer.into(), reason });
    }

    fn has_sessions(&self) -> bool {
        let open = [&self.streams, &self.datagrams];
        open.iter().any(|load| load.sessions.load(Ordering::Acquire) > 0)
    }
}

/// The server before it runs.
struct Iperf2 {
    listening: Listening,
    workers: Workers,
    limits: Limits,
    call_backs: CallBacks,
    group: Option<Membership>,
}

/// Listens for clients.
pub(super) fn open(config: &ServeConfig) -> Result<Box<dyn Server>, TrafficError> {
    let mut plan = settings::plan(None, true, 1470, u64::MAX).map_err(|reason| {
        TrafficError::Unavailable { field: "peer", given: super::PROTOCOL.name.into(), reason }
    })?;
    plan.connections[0].window = Some(BUFFER);
    let workers = Workers::start(&config.workers)?;
    let ports = config.ports.registry()?;
    let group = config.iperf2.group.as_ref().map(Group::membership).transpose()?;
    Ok(Box::new(Iperf2 {
        listening: match &group {
            Some(group) => ports.listen_group(group, config.port, &workers, &plan)?,
            None => ports.listen(&config.bind, config.port, &workers, &plan)?,
        },
        workers,
        limits: config.limits.clone(),
        // A sender to a group gets no answer.
        call_backs: if group.is_some() { CallBacks::Never } else { config.call_backs.clone() },
        group,
    }))
}

impl Server for Iperf2 {
    fn addresses(&self) -> Vec<SocketAddr> {
        self.listening.addresses.clone()
    }

    fn run(
        self: Box<Self>,
        stop: &Stop,
        observe: &mut dyn FnMut(ServerEvent),
    ) -> Result<(), TrafficError> {
        crate::runtime()?.block_on(serve(*self, stop, observe))
    }
}

async fn serve(
    server: Iperf2,
    stop: &Stop,
    observe: &mut dyn FnMut(ServerEvent),
) -> Result<(), TrafficError> {
    let (events, inbox) = mpsc::unbounded_channel();
    let shared = Arc::new(Shared {
        workers: server.workers,
        limits: server.limits,
        stop: stop.clone(),
        call_backs: server.call_backs,
        group: server.group,
        events,
        streams: Arc::default(),
        datagrams: Arc::default(),
        next_session: AtomicU64::new(getrandom::u32().unwrap_or_default().into()),
    });
    let (accepting, tasks) = (shared.clone(), Handle::current());
    let receiving = server.listening.start(Receiver {
        claims: Some([recognition::begins_stream, recognition::is_datagram]),
        limits: shared.limits.clone(),
        on_stream: Box::new(move |stream, peer| {
            let shared = accepting.clone();
            tasks.spawn(async move {
                if let Ok(stream) = tokio::net::TcpStream::from_std(stream) {
                    greeting(stream, peer, vec![], shared).await;
                }
            });
        }),
        datagrams: Arc::new(Mutex::new(Datagrams::new(shared.clone()))),
    })?;
    serving::until_stopped(inbox, receiving, stop, || shared.has_sessions(), observe).await;
    Ok(())
}

/// Reads what a stream begins with and serves it. `begun`: what was read of it before. A client that sends nothing occupies
/// this task alone.
async fn greeting(
    mut stream: tokio::net::TcpStream,
    peer: SocketAddr,
    begun: Vec<u8>,
    shared: Arc<Shared>,
) {
    let half_open = Share::take(&shared.streams, |l| &l.half_open, 1, shared.limits.half_open);
    if half_open.is_none() {
        return;
    }
    let patience = Duration::from_secs(shared.limits.hello_seconds);
    let reading = beginning(&mut stream, begun);
    let Ok(Ok((begun, header))) = tokio::time::timeout(patience, reading).await else { return };
    let (header, bounce) = match header {
        Ok(Start::Header(header)) => (Some(header), None),
        Ok(Start::Raw) => (None, None),
        Ok(Start::Bounce(bounce)) => (None, Some(bounce)),
        Err(reason) => return shared.refused(peer, reason),
    };
    let (header, call) = match Call::of(header, peer, false, &shared.call_backs) {
        Ok(both) => both,
        Err(reason) => return shared.refused(peer, reason),
    };
    if let Some(Err(reason)) = call.map(|call| call.plan(&shared, false)) {
        return shared.refused(peer, format!("connecting back: {reason}"));
    }
    let longest = shared.limits.session_seconds;
    let plan = match &bounce {
        Some(bounce) => settings::bounce(bounce),
        None => settings::plan(header.as_ref(), false, settings::STREAM_BLOCK, longest),
    };
    let plan = match plan {
        Ok(plan) => Plan { host: Some(peer.ip().to_canonical().to_string()), ..plan },
        Err(reason) => return shared.refused(peer, reason),
    };
    let most = shared.limits.sessions;
    let Some(_share) = Share::take(&shared.streams, |l| &l.sessions, 1, most) else {
        return shared.refused(peer, format!("{most} sessions are open"));
    };
    let mut specs = plan.flows(crate::family(peer), session::path_mtu_bytes(peer.ip()));
    if bounce.is_some() {
        // What the client sends is received, like a stream.
        specs.iter_mut().for_each(|spec| spec.connection.direction = Direction::Reverse);
    }
    let amount = specs.len() as u64;
    let Some(_flows) = Share::take(&shared.streams, |l| &l.flows, amount, shared.limits.flows)
    else {
        return shared
            .refused(peer, format!("{amount} flows would exceed {}", shared.limits.flows));
    };
    drop(half_open);
    if let Some(header) = header.as_ref().filter(|header| header.awaits_ack) {
        let times = header.has_trip_times.then(|| times(header));
        if stream.write_all(&codec::ack(times)).await.is_err() {
            return;
        }
    }
    let local = stream.local_addr().ok();
    let Ok(stream) = stream.into_std().map(TcpStream::from) else { return };
    let call = call.map(|call| call.at_address(local));
    let now = call.filter(|call| !call.is_after);
    let calling = now.map(|call| tokio::spawn(call.stream(shared.clone())));
    let frames = header.as_ref().filter(|header| header.is_isochronous);
    let frames = frames.and_then(|header| Isochronous::asked(header).ok());
    let session = Session { plan, specs, begun, bounce, frames, peer };
    let is_complete = session.run(stream, &shared).await;
    drop((_share, _flows));
    if let Some(call) = call.filter(|call| call.is_after && is_complete) {
        call.stream(shared.clone()).await;
    }
    if let Some(calling) = calling {
        let _ = calling.await;
    }
}

/// What a stream begins with.
enum Start {
    /// Data.
    Raw,
    Header(Header),
    Bounce(Bounce),
}

/// Reads the header of a stream; returns what was read, and the header if there is one. A stream without a header is data from
/// its first byte. The inner error is the reason of a refusal.
async fn beginning(
    stream: &mut tokio::net::TcpStream,
    mut begun: Vec<u8>,
) -> std::io::Result<(Vec<u8>, Result<Start, String>)> {
    fill(stream, &mut begun, 4).await?;
    let first = begun.first_chunk::<4>().copied().unwrap_or_default();
    let header = match Beginning::of(first) {
        Beginning::Raw => Ok(Start::Raw),
        Beginning::Bounce => {
            fill(stream, &mut begun, bounce::BYTES).await?;
            let refused = "a test of round trips (--bounceback) with requests of this size or wait";
            Bounce::parse(&begun).map(Start::Bounce).ok_or_else(|| refused.into())
        }
        Beginning::Header(length) => {
            fill(stream, &mut begun, length).await?;
            Ok(Header::of_stream(&begun).map_or(Start::Raw, Start::Header))
        }
    };
    Ok((begun, header))
}

/// Reads until there are `length` bytes, of at most 255.
async fn fill(
    stream: &mut tokio::net::TcpStream,
    begun: &mut Vec<u8>,
    length: usize,
) -> std::io::Result<()> {
    let have = begun.len();
    if have < length {
        begun.resize(length, 0);
        stream.read_exact(&mut begun[have..]).await?;
    }
    Ok(())
}

/// The times of an acknowledgement that is sent now.
fn times(header: &Header) -> AckTimes {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.unwrap_or_default();
    let now = [now.as_secs() as u32, now.subsec_micros()];
    // The header has just been read.
    AckTimes { sent: header.start, arrived: now, answered: now }
}

/// A session of a stream.
pub(super) struct Session {
    pub(super) plan: Plan,
    pub(super) specs: Vec<FlowSpec>,
    /// What was read of the stream.
    pub(super) begun: Vec<u8>,
    /// The header of a test of round trips.
    pub(super) bounce: Option<Bounce>,
    /// The isochronous frames that are sent.
    pub(super) frames: Option<Isochronous>,
    pub(super) peer: SocketAddr,
}

impl Session {
    /// Runs it; returns whether it is complete.
    pub(super) async fn run(self, stream: TcpStream, shared: &Shared) -> bool {
        let Ok(end) = self.open(stream, shared) else { return false };
        let number = shared.next_session.fetch_add(1, Ordering::Relaxed);
        shared.opened(number, self.peer, self.specs.len());
        let intervals = sessions::intervals(shared.workers.now_ns(), 0);
        end.start(intervals);
        let received = self.specs.iter().find(|spec| !sends(spec) && self.bounce.is_none());
        if let Some(spec) = received {
            // The header is a part of the data that the client sends.
            end.deliver(spec.id, &self.begun, shared.workers.arrival(None, false));
        }
        let ended = self.until_end(&end, shared, intervals).await;
        end.stop();
        let report = end.finish();
        // The client's own time ends with its connection.
        drop(end);
        let is_complete = ended.status == Status::Complete;
        let ends = (report, None);
        shared.closed(number, (self.plan, self.specs), self.peer, ends, intervals, ended);
        is_complete
    }

    /// Makes the flows of a stream, which have one connection.
    fn open(&self, stream: TcpStream, shared: &Shared) -> Result<End, TrafficError> {
        let _ = stream.set_options(&serving::watched());
        let mut end = End::new(&shared.workers, &self.plan, true).with_host(self.peer.ip(), None);
        for spec in &self.specs {
            session::accepted_stream(spec, sends(spec), &stream)?;
            if let Some(bounce) = &self.bounce {
                let framed = bounce::responses(bounce, stream, self.begun.clone());
                end.transactions(spec, false, Exchange::Framed(framed))?;
                return Ok(end);
            }
            let own = stream.try_clone();
            let own = own.map_err(|source| super::system("using a connection", source))?;
            match self.frames.filter(|_| sends(spec)) {
                Some(frames) => {
                    end.framed_stream(spec, own, Box::new(Frames::of_server(&frames)))?;
                }
                None => end.stream(spec, sends(spec), own)?,
            }
        }
        Ok(end)
    }

    /// Runs until each direction has ended, the client is gone, or a limit is reached.
    async fn until_end(&self, end: &End, shared: &Shared, intervals: IntervalClock) -> Ended {
        let partial = |reason: String| Ended::new(Status::Partial, reason);
        let most = Duration::from_secs(shared.limits.session_seconds);
        let stated = self.specs.iter().filter(|spec| sends(spec));
        let stated = stated.filter_map(|spec| spec.connection.time_limit()).max();
        let most = stated.map_or(most, |limit| most.min(Duration::from_nanos(limit.0) + GRACE));
        let over = Instant::now() + most;
        let silence = Duration::from_secs(shared.limits.silence_seconds);
        let silence = if self.bounce.is_some() { silence.max(BOUNCE_SILENCE) } else { silence };
        let mut running: HashSet<u32> = self.specs.iter().map(|spec| spec.id).collect();
        let mut receiving: HashSet<u32> =
            self.specs.iter().filter(|spec| !sends(spec)).map(|spec| spec.id).collect();
        let mut ticks = tokio::time::interval_at(Instant::now() + TICK, TICK);
        while !running.is_empty() {
            tokio::select! {
                event = end.event() => match event {
                    FlowEvent::SenderDone(total) => {
                        running.remove(&total.flow);
                    }
                    FlowEvent::ReceiverDone(id) => {
                        running.remove(&id);
                        receiving.remove(&id);
                    }
                    FlowEvent::Failed(_, text) => return partial(text),
                    _ => {}
                },
                _ = ticks.tick() => {
                    if Instant::now() >= over {
                        return partial("the session reached the limit of its time".into());
                    }
                    let last_ns = end.last_arrival_ns().max(intervals.start_ns);
                    let silent = shared.workers.now_ns().saturating_sub(last_ns);
                    let silent = Duration::from_nanos(silent);
                    if !receiving.is_empty() && silent > silence {
                        return partial(format!("nothing arrived for {} s", silence.as_secs()));
                    }
                }
                reason = shared.stop.asked(1) => {
                    return Ended::new(Status::Interrupted, reason.text());
                }
            }
        }
        if self.specs.iter().any(sends) {
            // A sender that failed says why after its end.
            if let Ok(FlowEvent::Failed(_, text)) = tokio::time::timeout(REASON, end.event()).await
            {
                return partial(text);
            }
            let delivering = async {
                while end.unacknowledged_bytes() > 0 {
                    tokio::time::sleep(LOOK).await;
                }
            };
            let _ = tokio::time::timeout(DELIVERY, delivering).await;
        }
        let reason =
            if self.specs.iter().any(sends) { "all was sent" } else { "the client finished" };
        Ended::new(Status::Complete, reason)
    }
}
