//! The listener: limits connections, serves the page and stored results, and upgrades to WebSockets.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt;
use weir_runs::{Filter, Store};

use super::SpeedConfig;
use super::content::Pool;
use super::host;
use super::limits::{Connections, TestRegistry, network_of};
use super::record::{self, LABEL};
use super::stream::Session;
use super::upgrade::upgrade;
use crate::app::lock;
use crate::config::ApiError;
use crate::guard::Rates;

/// Limits of a request: headers, and bytes of its head.
const MAX_HEADERS: usize = 64;
const MAX_HEAD_BYTES: usize = 16 << 10;
/// Length of a result's id: 128 bits in base64url.
const ID_CHARACTERS: usize = 22;

const POLICY: &str = "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const NOT_BUILT: &str =
    "this program has no speed test page: web/dist was missing when it was built (run make web)\n";

/// What connections share.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) config: SpeedConfig,
    pub(super) start: Instant,
    pub(super) seed: u64,
    pub(super) pool: Pool,
    pub(super) book: Mutex<TestRegistry>,
    pub(super) sessions: Mutex<HashMap<String, Arc<Session>>>,
    /// When old results were last deleted, ns; absent: never.
    pub(super) tidied_ns: Mutex<Option<u64>>,
    rates: Rates,
    connections: Mutex<Connections>,
}

impl Inner {
    pub(super) fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }
}

/// A connection that counts until its last part is dropped.
#[derive(Debug)]
pub(super) struct CountedConnection {
    inner: Arc<Inner>,
    network: IpAddr,
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        lock(&self.inner.connections).leave(self.network);
    }
}

/// The remote and local address of a connection.
#[derive(Debug, Clone)]
pub(super) struct Visitor {
    pub(super) address: SocketAddr,
    pub(super) here: SocketAddr,
    pub(super) counted: Arc<CountedConnection>,
}

impl Visitor {
    pub(super) fn network(&self) -> IpAddr {
        self.counted.network
    }
}

/// A listening speed-test server.
#[derive(Debug)]
pub struct SpeedServer {
    listener: TcpListener,
    inner: Arc<Inner>,
}

impl SpeedServer {
    /// Listens. Call it within a tokio runtime.
    ///
    /// # Errors
    /// [`ApiError::Listen`] for an unavailable address, [`ApiError::System`] without random bytes.
    pub async fn bind(config: SpeedConfig) -> Result<SpeedServer, ApiError> {
        let address = config.address;
        let seed = getrandom::u64().map_err(|e| ApiError::System {
            operation: "draw a seed",
            source: std::io::Error::other(e.to_string()),
        })?;
        let listener = TcpListener::bind(address)
            .await
            .map_err(|source| ApiError::Listen { address, source })?;
        let rates = Rates::new(config.limits.requests_per_second);
        let inner = Arc::new(Inner {
            config,
            start: Instant::now(),
            seed,
            pool: Pool::new(seed),
            book: Mutex::default(),
            sessions: Mutex::default(),
            tidied_ns: Mutex::default(),
            rates,
            connections: Mutex::default(),
        });
        Ok(SpeedServer { listener, inner })
    }

    /// The local address.
    ///
    /// # Errors
    /// Of the system.
    pub fn address(&self) -> Result<SocketAddr, ApiError> {
        self.listener
            .local_addr()
            .map_err(|source| ApiError::System { operation: "query the listening address", source })
    }

    /// Serves until `end`. Tests that run then are dropped with the runtime.
    pub async fn run(self, end: impl Future<Output = ()>) {
        let router = router(self.inner.clone());
        let mut end = std::pin::pin!(end);
        loop {
            let accepted = tokio::select! {
                () = &mut end => return,
                accepted = self.listener.accept() => accepted,
            };
            let Ok((stream, address)) = accepted else {
                // Probably out of file descriptors: wait before the next attempt.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let network = network_of(address.ip());
            // Beyond the limits a connection is closed without a response, which would cost resources.
            if !lock(&self.inner.connections).enter(network, &self.inner.config.limits) {
                continue;
            }
            let counted = Arc::new(CountedConnection { inner: self.inner.clone(), network });
            let here = stream.local_addr().unwrap_or(self.inner.config.address);
            let visitor = Visitor { address, here, counted };
            tokio::spawn(converse(stream, visitor, router.clone()));
        }
    }
}

async fn converse(stream: TcpStream, visitor: Visitor, router: Router) {
    let limits = visitor.counted.inner.config.limits;
    let _ = stream.set_nodelay(true);
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(visitor.clone());
        let router = router.clone();
        let refusal = admit(&visitor, &request);
        async move {
            if let Some(refusal) = refusal {
                return Ok(harden(refusal).await);
            }
            let answered = router.oneshot(request.map(Body::new)).await;
            Ok::<_, Infallible>(match answered {
                Ok(response) => response,
                Err(never) => match never {},
            })
        }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(limits.head_seconds))
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    // A connection that lasts longer has a reader that takes nothing, or repeats requests. Errors are the peer's.
    let _ = tokio::time::timeout(Duration::from_secs(limits.page_seconds), connection).await;
}

/// Why a request is refused: the rate limit of its address, or a foreign name in `Host`.
fn admit(visitor: &Visitor, request: &Request<Incoming>) -> Option<Response> {
    let inner = &visitor.counted.inner;
    if let Err(wait) = inner.rates.take(visitor.address.ip(), Instant::now()) {
        let most = inner.config.limits.requests_per_second;
        let wait = [(header::RETRY_AFTER, wait.as_secs().max(1).to_string())];
        let words = format!("more than {most} requests a second\n");
        return Some((StatusCode::TOO_MANY_REQUESTS, wait, words).into_response());
    }
    if !host::is_ours(request.headers(), request.uri(), &inner.config.host_names) {
        let words = "the name in Host is not this server's: its names are addresses, localhost and the configured host names\n";
        return Some((StatusCode::MISDIRECTED_REQUEST, words).into_response());
    }
    None
}

fn router(inner: Arc<Inner>) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/speed/v1", get(upgrade))
        .route("/speed/v1/results/{id}", get(kept))
        .route("/r/{id}", get(short))
        .fallback(asset)
        .layer(axum::middleware::map_response(harden))
        .with_state(inner)
}

/// No `Cross-Origin-Opener-Policy`: over plain HTTP browsers ignore it and complain.
async fn harden(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

async fn page(headers: HeaderMap) -> Response {
    crate::handlers::page::file("speed.html", &headers)
        .unwrap_or_else(|| (StatusCode::NOT_FOUND, NOT_BUILT).into_response())
}

/// The page's other files, except for the dashboard's page.
async fn asset(request: Request) -> Response {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let path = request.uri().path().trim_start_matches('/');
    Some(path)
        .filter(|path| !path.ends_with(".html"))
        .and_then(|path| crate::handlers::page::file(path, request.headers()))
        .unwrap_or_else(|| (StatusCode::NOT_FOUND, "no resource here\n").into_response())
}

fn is_id(id: &str) -> bool {
    id.len() == ID_CHARACTERS
        && id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
}

/// A short link to a result.
async fn short(Path(id): Path<String>) -> Response {
    if !is_id(&id) {
        return no_result();
    }
    (StatusCode::SEE_OTHER, [(header::LOCATION, format!("../?result={id}"))]).into_response()
}

fn no_result() -> Response {
    json(StatusCode::NOT_FOUND, &serde_json::json!({ "text": "no such result" }))
}

fn json(status: StatusCode, value: &serde_json::Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

async fn kept(State(inner): State<Arc<Inner>>, Path(id): Path<String>) -> Response {
    if !is_id(&id) {
        return no_result();
    }
    let data = inner.config.data.clone();
    let found = tokio::task::spawn_blocking(move || {
        let Some(store) = Store::open_existing(&data)? else { return Ok(None) };
        let labels = vec![(LABEL.to_owned(), Some(id))];
        let rows = store.list(&Filter { labels, limit: Some(1), ..Filter::default() })?;
        rows.first().map(|row| store.get(&row.id)).transpose()
    });
    match found.await {
        Ok(Ok(run)) => match run.as_ref().and_then(record::result) {
            Some(result) => json(StatusCode::OK, &result),
            None => no_result(),
        },
        Ok(Err(_)) | Err(_) => {
            (StatusCode::SERVICE_UNAVAILABLE, "results are unavailable now\n").into_response()
        }
    }
}
