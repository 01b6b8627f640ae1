//! The listener: connections within their limits, each request through the guard to its handler.

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
use crate::extract::Asker;

/// Most headers of a request, and bytes of its head.
const MOST_HEADERS: usize = 64;
const MOST_HEAD_BYTES: usize = 32 << 10;
/// Bytes that may wait in a connection's send buffer: what lies there is on its way and gets older.
const SEND_BUFFER_BYTES: usize = 64 << 10;

/// Bytes that may wait unsent behind the window: a live stream's next piece is made when its last has left.
const UNSENT_BYTES: u32 = 8 << 10;
/// A peer that acknowledges nothing, or opens no window, for so long is gone.
const UNTAKEN_TIME: Duration = Duration::from_secs(30);

/// Connections by address.
#[derive(Debug, Default)]
struct Count {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// A connection that is counted until it is dropped.
struct Counted {
    count: Arc<Mutex<Count>>,
    address: IpAddr,
}

impl Counted {
    fn new(
        count: &Arc<Mutex<Count>>,
        address: IpAddr,
        most: usize,
        most_of_address: usize,
    ) -> Option<Counted> {
        let mut counts = lock(count);
        let of_address = counts.by_address.get(&address).copied().unwrap_or(0);
        if counts.all >= most || of_address >= most_of_address {
            return None;
        }
        counts.all += 1;
        counts.by_address.insert(address, of_address + 1);
        Some(Counted { count: count.clone(), address })
    }
}

impl Drop for Counted {
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
            // Out of descriptors, most likely: not to be asked again at once.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (all, one) = (limits.connections, limits.connections_per_address);
        // Beyond the limits a connection is closed without a word: words would cost what is short.
        let Some(counted) = Counted::new(&counts, address.ip(), all, one) else { continue };
        let router = router.clone();
        let head = Duration::from_secs(limits.head_seconds);
        tokio::spawn(async move {
            converse(stream, address, router, head).await;
            drop(counted);
        });
    }
}

async fn converse(stream: TcpStream, address: SocketAddr, router: Router, head: Duration) {
    let _ = stream.set_nodelay(true);
    let socket = socket2::SockRef::from(&stream);
    let _ = socket.set_send_buffer_size(SEND_BUFFER_BYTES);
    let _ = socket.set_tcp_notsent_lowat(UNSENT_BYTES);
    let _ = socket.set_tcp_user_timeout(Some(UNTAKEN_TIME));
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Asker { address, user: None });
        let router = router.clone();
        async move {
            let answered = router.oneshot(request.map(Body::new)).await;
            Ok::<_, Infallible>(match answered {
                Ok(response) => response,
                Err(never) => match never {},
            })
        }
    });
    // Errors are the peer's: it went, was too slow, or spoke no HTTP.
    let _ = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head)
        .max_headers(MOST_HEADERS)
        .max_buf_size(MOST_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}
