//! The listener: limits connections, and passes each request through the guard to its handler.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt;

use crate::app::{Shared, lock};
use crate::extract::ApiClient;
use crate::guard::{ConnectionPermit, masked};
use crate::timeout_stream::TimeoutStream;
use crate::types::ServerLimits;

/// Limits of a request: headers, and bytes of its head.
const MAX_HEADERS: usize = 64;
const MAX_HEAD_BYTES: usize = 32 << 10;
/// Size of a connection's send buffer: data in it gets older.
const SEND_BUFFER_BYTES: usize = 64 << 10;

/// Unsent bytes in a connection's buffer: the next chunk of a live stream is made when the last was sent.
const UNSENT_BYTES: u32 = 8 << 10;

/// Pause after a failed accept.
pub(crate) const RETRY: Duration = Duration::from_millis(50);

/// Connections by address.
#[derive(Debug, Default)]
pub(crate) struct Count {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// A connection that counts until it is dropped.
pub(crate) struct CountedConnection {
    count: Arc<Mutex<Count>>,
    address: IpAddr,
}

impl CountedConnection {
    /// A quarter of all is reserved for known addresses.
    pub(crate) fn new(
        count: &Arc<Mutex<Count>>,
        address: IpAddr,
        is_known: bool,
        limits: &ServerLimits,
    ) -> Option<CountedConnection> {
        // One host has a whole network of IPv6 addresses.
        let address = masked(address);
        let kept = if is_known { 0 } else { limits.connections / 4 };
        let (most, most_of_address) = (limits.connections - kept, limits.connections_per_address);
        let mut counts = lock(count);
        let of_address = counts.by_address.get(&address).copied().unwrap_or(0);
        if counts.all >= most || of_address >= most_of_address {
            return None;
        }
        counts.all += 1;
        counts.by_address.insert(address, of_address + 1);
        Some(CountedConnection { count: count.clone(), address })
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        let mut counts = lock(&self.count);
        counts.all = counts.all.saturating_sub(1);
        if let Some(n) = counts.by_address.get_mut(&self.address) {
            *n -= 1;
            if *n == 0 {
                counts.by_address.remove(&self.address);
            }
        }
    }
}

/// Serves until `end`. Connections that are open then are dropped with the runtime.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    app: Shared,
    end: impl Future<Output = ()>,
) {
    let counts = Arc::new(Mutex::new(Count::default()));
    let limits = app.config.limits;
    let mut end = std::pin::pin!(end);
    loop {
        let accepted = tokio::select! {
            () = &mut end => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, address)) = accepted else {
            // Probably out of file descriptors: wait before the next attempt.
            tokio::time::sleep(RETRY).await;
            continue;
        };
        let now = std::time::Instant::now();
        let is_known = app.tokens.is_none() || app.known.knows(address.ip(), now);
        // Beyond the limits a connection is closed without a response, which would cost resources.
        let Some(counted) = CountedConnection::new(&counts, address.ip(), is_known, &limits) else {
            continue;
        };
        let router = router.clone();
        tokio::spawn(async move {
            converse(stream, address, router, limits, counted).await;
        });
    }
}

pub(crate) async fn converse(
    stream: TcpStream,
    address: SocketAddr,
    router: Router,
    limits: ServerLimits,
    counted: CountedConnection,
) {
    let permit = ConnectionPermit(Arc::new(counted));
    let _ = stream.set_nodelay(true);
    let socket = socket2::SockRef::from(&stream);
    let _ = socket.set_send_buffer_size(SEND_BUFFER_BYTES);
    weir_net::socket::limit_unsent(&stream, UNSENT_BYTES);
    let stream = TimeoutStream::new(stream, Duration::from_secs(limits.write_seconds));
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ApiClient { address, user: None });
        request.extensions_mut().insert(permit.clone());
        let router = router.clone();
        async move {
            let answered = router.oneshot(request.map(Body::new)).await;
            Ok::<_, Infallible>(match answered {
                Ok(response) => response,
                Err(never) => match never {},
            })
        }
    });
    // The peer disconnected, was too slow, or sent invalid HTTP.
    let _ = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(limits.head_seconds))
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_can_not_have_all_connections() {
        let limits =
            ServerLimits { connections: 8, connections_per_address: 3, ..Default::default() };
        let counts = Arc::new(Mutex::new(Count::default()));
        let of = |address: &str, known| {
            CountedConnection::new(&counts, address.parse().unwrap(), known, &limits)
        };
        // A network of IPv6 counts as one address.
        let first: Vec<_> = (1..9).filter_map(|i| of(&format!("2001:db8::{i}"), false)).collect();
        assert_eq!(first.len(), 3);
        let others: Vec<_> = (1..9).filter_map(|i| of(&format!("192.0.2.{i}"), false)).collect();
        assert_eq!(others.len(), 3, "a quarter is kept");
        let known: Vec<_> = (1..9).filter_map(|i| of(&format!("192.0.3.{i}"), true)).collect();
        assert_eq!(known.len(), 2);
        drop((first, others, known));
        let counts = lock(&counts);
        assert_eq!((counts.all, counts.by_address.len()), (0, 0));
    }
}
