//! The server's end: within its limits it shakes hands, reads requests and sends the answers.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use weir_wire::control::{ClientMessage, HELLO_LIMIT, Message, ServerMessage};
use weir_wire::preface::{ControlMode, Preface};

use super::Service;
use crate::channel::{self, ChannelError, Meter, Reader, Writer};
use crate::key::Key;
use crate::report_timeout::{ReportTimeout, Waiting};
use crate::server::{Load, Share, listen, read_preface};
use crate::stop::Stop;
use crate::{ServerEvent, TrafficError, other_version};

/// Maximum number of clients that have said hello.
pub const MAX_REQUEST_CLIENTS: u64 = 64;
/// Maximum number of connections that have not. The newest beyond it are closed, so that older ones can complete.
const MAX_HALF_OPEN: u64 = 256;

/// Time limits of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestTimeouts {
    /// For preface, handshake and hello together.
    pub hello: Duration,
    /// For the next request to arrive completely.
    pub request: Duration,
}

impl Default for RequestTimeouts {
    /// 10 s and 60 s.
    fn default() -> Self {
        RequestTimeouts { hello: Duration::from_secs(10), request: Duration::from_secs(60) }
    }
}

/// Configuration of a server of requests.
#[derive(Debug, Clone)]
pub struct RequestServer {
    /// Addresses to listen on; empty: all IPv4 and IPv6 addresses.
    pub bind: Vec<IpAddr>,
    /// The TCP port; 0: the system chooses one.
    pub port: u16,
    /// The key that clients must use. Without one, any client that reaches the port is served.
    pub key: Option<Key>,
    /// What is served.
    pub service: Service,
    /// Time limits of its clients.
    pub timeouts: RequestTimeouts,
}

/// Why a message is no request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidRequest(pub String);

struct Shared<Q, A> {
    config: RequestServer,
    load: Arc<Load>,
    events: mpsc::UnboundedSender<ServerEvent>,
    answer: Box<Answer<Q, A>>,
}

type Answer<Q, A> = dyn Fn(SocketAddr, Result<Q, InvalidRequest>) -> A + Send + Sync;

/// Serves requests until it is asked to stop. `answer` gets each request with its client's address, on a thread of its own: it
/// may wait. A connection ends after the answer to an invalid request. When this returns, calls of `answer` may still run, but
/// none starts.
///
/// # Errors
/// If it can't listen; a misbehaving client never stops it.
pub fn serve_requests<Q: Message + Send + 'static, A: Message + Send + Sync + 'static>(
    config: RequestServer,
    stop: &Stop,
    observe: &mut dyn FnMut(ServerEvent),
    answer: impl Fn(SocketAddr, Result<Q, InvalidRequest>) -> A + Send + Sync + 'static,
) -> Result<(), TrafficError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| TrafficError::system("starting the runtime", e))?;
    let served = runtime.block_on(async {
        let (listeners, addresses) = listen(&config.bind, config.port)?;
        let open = config.key.is_none();
        let (events, mut inbox) = mpsc::unbounded_channel();
        let shared =
            Arc::new(Shared { config, load: Arc::default(), events, answer: Box::new(answer) });
        for listener in listeners {
            let listener = tokio::net::TcpListener::from_std(listener.into())
                .map_err(|e| TrafficError::system("listening", e))?;
            tokio::spawn(accept(listener, shared.clone()));
        }
        let addresses = addresses.into_iter().map(Into::into).collect();
        observe(ServerEvent::Listening { addresses, open });
        loop {
            tokio::select! {
                Some(event) = inbox.recv() => observe(event),
                _ = stop.asked(1) => return Ok(()),
            }
        }
    });
    runtime.shutdown_background();
    served
}

async fn accept<Q: Message + Send + 'static, A: Message + Send + Sync + 'static>(
    listener: tokio::net::TcpListener,
    shared: Arc<Shared<Q, A>>,
) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let half_open = Share::take(&shared.load, |l| &l.half_open, 1, MAX_HALF_OPEN);
                if let Some(half_open) = half_open {
                    tokio::spawn(connection(stream, peer, shared.clone(), half_open));
                }
            }
            // Out of descriptors, or a connection that was closed already: continue after a moment.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

async fn connection<Q: Message + Send + 'static, A: Message + Send + Sync + 'static>(
    mut stream: TcpStream,
    peer: SocketAddr,
    shared: Arc<Shared<Q, A>>,
    half_open: Share,
) {
    let deadline = Instant::now() + shared.config.timeouts.hello;
    let Ok(Some(Preface::Control { mode })) = timeout_at(deadline, read_preface(&mut stream)).await
    else {
        return;
    };
    let refused = |reason: &str| {
        let reason = reason.into();
        let _ = shared.events.send(ServerEvent::Refused { peer: peer.into(), reason });
    };
    let is_sealed = mode == ControlMode::Noise;
    if is_sealed && shared.config.key.is_none() {
        return refused("the client has a key, this server has none");
    }
    let key = shared.config.key.as_ref().filter(|_| is_sealed);
    let opening = channel::open(stream, key, false, HELLO_LIMIT, Meter::default());
    let (mut reader, mut writer) = match timeout_at(deadline, opening).await {
        Ok(Ok(halves)) => halves,
        Ok(Err(e)) => return refused(&format!("handshake: {e}")),
        Err(_) => return,
    };
    let greeting = greet(&mut reader, &mut writer, &shared, is_sealed);
    // It counts as a client until this function returns.
    let _client = match timeout_at(deadline, greeting).await {
        Ok(Ok(client)) => client,
        Ok(Err(Some((code, text)))) => {
            refused(&text);
            let refusal = ServerMessage::Refused { code: code.into(), text };
            if let Ok(Ok(())) = timeout_at(deadline, writer.write(&refusal)).await {
                channel::linger(&mut reader, &mut writer).await;
            }
            return;
        }
        // A stranger, or one that has left: it gets no answer.
        Ok(Err(None)) | Err(_) => return,
    };
    drop(half_open);
    reader.set_limit(shared.config.service.max_request_bytes);
    loop {
        let until = Instant::now() + shared.config.timeouts.request;
        let Ok(read) = timeout_at(until, reader.read::<Q>()).await else { return };
        let request = match read {
            Ok(request) => Ok(request),
            Err(e @ (ChannelError::Frame(_) | ChannelError::Message(_))) => {
                Err(InvalidRequest(e.to_string()))
            }
            Err(_) => return,
        };
        let is_last = request.is_err();
        let answering = {
            let shared = shared.clone();
            tokio::task::spawn_blocking(move || (shared.answer)(peer, request))
        };
        // An error means that the call panicked.
        let Ok(answer) = answering.await else { return };
        let mut waiting = Waiting::begin(ReportTimeout::default(), Instant::now());
        if writer.write_patiently(&answer, &mut waiting).await.is_err() {
            return;
        }
        if is_last {
            return channel::linger(&mut reader, &mut writer).await;
        }
    }
}

/// Exchanges hellos. The error is a refusal, or nothing for a client that gets none.
async fn greet<Q, A>(
    reader: &mut Reader,
    writer: &mut Writer,
    shared: &Shared<Q, A>,
    is_sealed: bool,
) -> Result<Share, Option<(&'static str, String)>> {
    if shared.config.key.is_some() && !is_sealed {
        // Nothing that such a client sends is read.
        return Err(Some(("key", "this server requires a key".into())));
    }
    let Ok(ClientMessage::Hello(client)) = reader.read().await else { return Err(None) };
    let service = &shared.config.service;
    let ours = service.hello();
    if ours.common_protocol(&client).is_none() {
        return Err(Some(("version", other_version(&ours, &client))));
    }
    if !service.is_in(&client) {
        let text = format!("this server listens for {} only", service.name);
        return Err(Some(("unavailable", text)));
    }
    let most = MAX_REQUEST_CLIENTS;
    let client = Share::take(&shared.load, |l| &l.sessions, 1, most)
        .ok_or_else(|| Some(("busy", format!("{most} clients are connected, the limit"))))?;
    writer.write(&ServerMessage::Hello(ours)).await.map_err(|_| None)?;
    Ok(client)
}
