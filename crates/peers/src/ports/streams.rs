//! Connections at a port, until a server or a flow has them.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::io::Interest;
use weir_net::tcp::TcpListener;
use weir_net::thread::lock;
use weir_traffic::session::Share;

use super::Receiver;
use super::flows::{Arrived, Owner};
use super::port::Port;
use super::whose::{Claim, Whose, whose};

/// Pause between two looks for what the system does not announce.
const PAUSE: Duration = Duration::from_millis(5);
/// Most bytes at the beginning of a stream by which its flow or its server is found.
const MAX_IDENTITY: usize = 32;
/// How long a connection may take for these once it has sent some.
const REST: Duration = Duration::from_secs(1);

/// The task that accepts the connections of a port.
pub(super) struct Accepting {
    task: tokio::task::AbortHandle,
    closed: std::sync::mpsc::Receiver<()>,
}

impl Accepting {
    /// Closes the listener, and waits `patience` at most until it is closed: the port may be needed again immediately.
    pub(super) fn close(self, patience: Duration) {
        self.task.abort();
        let _ = self.closed.recv_timeout(patience);
    }
}

/// Accepts the connections of a port on these tasks' runtime.
pub(super) fn accept(
    tasks: &tokio::runtime::Handle,
    listener: TcpListener,
    port: &Arc<Port>,
) -> std::io::Result<Accepting> {
    let _context = tasks.enter();
    let listener = tokio::net::TcpListener::from_std(listener.into())?;
    let (open, closed) = std::sync::mpsc::channel::<()>();
    let port = Arc::downgrade(port);
    let task = tasks.spawn(async move {
        // Dropped after the listener.
        let _open = open;
        accept_all(listener, port).await;
    });
    Ok(Accepting { task: task.abort_handle(), closed })
}

async fn accept_all(listener: tokio::net::TcpListener, port: Weak<Port>) {
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                let Some(port) = port.upgrade() else { return };
                begin(stream, from, &port);
            }
            // Out of descriptors, or a connection that is gone already.
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Gives a connection to its flow or server, or waits for the bytes that identify it.
fn begin(stream: tokio::net::TcpStream, from: SocketAddr, port: &Arc<Port>) {
    let client = from.ip().to_canonical();
    let state = lock(&port.state);
    let announced = state.flows.identity(client);
    let receivers: Vec<_> = state.receivers.iter().map(|(_, receiver)| receiver.clone()).collect();
    drop(state);
    let claims: Vec<Option<Claim>> =
        receivers.iter().map(|receiver| receiver.claims.map(|[stream, _]| stream)).collect();
    match (whose(announced.is_some(), &claims, &[], false), announced) {
        (Whose::Announced, Some(([0, _], _))) => assign(stream, client, port, &[]),
        (Whose::Announced, Some((wanted, owner))) => {
            tokio::spawn(identify(stream, client, Arc::downgrade(port), wanted, owner));
        }
        (Whose::Server(index), _) => serve(stream, from, &receivers[index]),
        (Whose::Undecided, _) => {
            tokio::spawn(recognize(stream, from, port.clone(), receivers, claims));
        }
        _ => {}
    }
}

/// Finds the flow of a connection by the beginning of its data.
async fn identify(
    stream: tokio::net::TcpStream,
    client: IpAddr,
    port: Weak<Port>,
    [least, more]: [usize; 2],
    owner: Arc<Owner>,
) {
    let Some(_share) = Share::take(&owner.load, |l| &l.half_open, 1, owner.half_open) else {
        return;
    };
    let mut begun = [0; MAX_IDENTITY];
    let begun = &mut begun[..(least + more).min(MAX_IDENTITY)];
    let reading = async {
        loop {
            match stream.peek(begun).await {
                Ok(0) | Err(_) => return 0,
                Ok(read) if read >= least => return read,
                Ok(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    };
    // A stream without data is one of no bytes.
    let read = tokio::time::timeout(owner.patience, reading).await.unwrap_or(0);
    let Some(port) = port.upgrade() else { return };
    assign(stream, client, &port, &begun[..read]);
}

/// Gives a connection to its flow; without one it is closed.
fn assign(stream: tokio::net::TcpStream, client: IpAddr, port: &Port, begun: &[u8]) {
    let announced = lock(&port.state).flows.take(client, begun);
    if let Some(announced) = announced
        && let Ok(stream) = stream.into_std()
    {
        let flow = announced.flow;
        let stream = Arrived::Stream(flow.spec.id, stream.into(), begun.to_vec());
        let _ = flow.arrived.send(stream);
    }
}

/// Finds the server of a connection by the beginning of its data. One that sends nothing is closed.
async fn recognize(
    stream: tokio::net::TcpStream,
    from: SocketAddr,
    port: Arc<Port>,
    receivers: Vec<Arc<Receiver>>,
    claims: Vec<Option<Claim>>,
) {
    let limits = || receivers.iter().map(|receiver| &receiver.limits);
    let most = limits().map(|limits| limits.half_open).max().unwrap_or(0);
    let hello = limits().map(|limits| limits.hello_seconds).max().unwrap_or(0);
    let undecided = lock(&port.state).undecided.clone();
    let Some(_share) = Share::take(&undecided, |l| &l.half_open, 1, most) else { return };
    // The port may close meanwhile.
    drop(port);
    let mut begun = [0; MAX_IDENTITY];
    let first = tokio::time::timeout(Duration::from_secs(hello), stream.peek(&mut begun));
    let Ok(Ok(_)) = first.await else { return };
    let deciding = async {
        loop {
            let Ok(read) = stream.peek(&mut begun).await else { return None };
            let ready = stream.ready(Interest::READABLE).await;
            let is_whole = read == 0 || ready.is_ok_and(|ready| ready.is_read_closed());
            match whose(false, &claims, &begun[..read], is_whole) {
                Whose::Server(index) => return Some(index),
                Whose::Undecided => tokio::time::sleep(PAUSE).await,
                Whose::Announced | Whose::Nobody => return None,
            }
        }
    };
    let index = match tokio::time::timeout(REST, deciding).await {
        Ok(index) => index,
        // Too few bytes for a header.
        Err(_) => match whose(false, &claims, &[], true) {
            Whose::Server(index) => Some(index),
            _ => None,
        },
    };
    if let Some(index) = index {
        serve(stream, from, &receivers[index]);
    }
}

fn serve(stream: tokio::net::TcpStream, from: SocketAddr, receiver: &Receiver) {
    if let Ok(stream) = stream.into_std() {
        (receiver.on_stream)(stream, from);
    }
}
