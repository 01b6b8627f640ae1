//! Access control: every request passes rate limit, `Host`, origin and token checks before its handler.

mod known_addresses;
mod rates;
mod tokens;

pub(crate) use known_addresses::KnownAddresses;
pub(crate) use rates::{Rates, masked};
pub use tokens::make_token_file;
pub(crate) use tokens::{Tokens, cookie};

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::app::Shared;
use crate::extract::ApiClient;
use crate::problem::Problem;
use crate::types::AuditEntry;

/// The content security policy of the page: nothing from other origins.
const PAGE_POLICY: &str = "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The middleware.
///
/// A change runs in a task of its own: a client that disconnects neither leaves it incomplete nor keeps it out of the
/// log.
pub(crate) async fn guard(State(app): State<Shared>, mut request: Request, next: Next) -> Response {
    let method = request.method().clone();
    let mut entry = Logged::new(&app, &request);
    let mut response = match admit(&app, &mut request) {
        Ok(_) if is_reading(&method) => next.run(request).await,
        Ok(client) => {
            entry.is_wanted = !is_question(request.uri().path());
            entry.entry.user = client.user;
            let share = app.bodies.share(client.address.ip());
            request.extensions_mut().insert(share.clone());
            let changed = tokio::spawn(async move {
                // Keep the whole request: cloning the extension alone would release it early.
                let mut entry = entry;
                // The permit is held until the task ends, even if the client has gone.
                let _permit = request.extensions().get::<ConnectionPermit>().cloned();
                let answered = next.run(request).await;
                entry.entry.status = answered.status().as_u16();
                // The body's memory is in use until here.
                drop(share);
                answered
            });
            changed.await.unwrap_or_else(|e| Problem::internal(e).into_response())
        }
        Err(problem) => {
            entry.entry.status = problem.status;
            entry.is_wanted = problem.status == StatusCode::UNAUTHORIZED.as_u16();
            drop(entry);
            problem.into_response()
        }
    };
    let headers = response.headers_mut();
    let mut put = |name: header::HeaderName, value: &'static str| {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    };
    put(header::CONTENT_SECURITY_POLICY, PAGE_POLICY);
    put(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    put(header::REFERRER_POLICY, "no-referrer");
    put(header::CACHE_CONTROL, "no-store");
    put(header::X_FRAME_OPTIONS, "DENY");
    put(header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    put(header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    response
}

/// A permit for a connection, held by every task that works for it.
#[derive(Clone)]
pub(crate) struct ConnectionPermit(#[expect(dead_code)] pub(crate) Arc<dyn Send + Sync>);

/// A log entry that is written when dropped.
struct Logged {
    app: Shared,
    entry: AuditEntry,
    is_wanted: bool,
}

impl Logged {
    fn new(app: &Shared, request: &Request) -> Logged {
        let address = request.extensions().get::<ApiClient>().map(|a| a.address);
        Logged {
            app: app.clone(),
            entry: AuditEntry {
                at: crate::clock::now(),
                address: address.map(|a| a.to_string()).unwrap_or_default(),
                user: None,
                method: request.method().to_string(),
                path: request.uri().path().chars().take(500).collect(),
                // Without a response.
                status: StatusCode::INTERNAL_SERVER_ERROR.as_u16(),
            },
            is_wanted: false,
        }
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        // Failed tokens must not push everything else out of the log.
        let is_guess = self.entry.status == StatusCode::UNAUTHORIZED.as_u16();
        let ip = self.entry.address.parse().map(|a: std::net::SocketAddr| a.ip());
        let is_flood = is_guess
            && ip.is_ok_and(|ip| self.app.failures.take(ip, std::time::Instant::now()).is_err());
        if self.is_wanted && !is_flood {
            self.app.audit.write(self.entry.clone());
        }
    }
}

/// A request that asks the server to compute and changes nothing: the page sends one for each edit.
fn is_question(path: &str) -> bool {
    let path = path.strip_prefix("/api/v1").unwrap_or(path);
    path.starts_with("/validate/") || path == "/laws/preview"
}

fn is_reading(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// Checks a request; returns why it is refused, if so.
fn admit(app: &Shared, request: &mut Request) -> Result<ApiClient, Problem> {
    let client = request.extensions().get::<ApiClient>().cloned();
    let mut client = client.ok_or_else(|| Problem::internal("the connection has no address"))?;
    let now = std::time::Instant::now();
    if let Err(wait) = app.rates.take(client.address.ip(), now) {
        let mut problem = Problem::new(
            StatusCode::TOO_MANY_REQUESTS,
            format!("more than {} requests a second", app.config.limits.requests_per_second),
        );
        problem.retry_after_seconds = Some(wait.as_secs().max(1));
        return Err(problem);
    }
    right_host(request.headers(), request.uri(), &app.config.host_names)?;
    right_origin(request.headers())?;
    let path = request.uri().path();
    let is_open = !path.starts_with("/api/") || path == "/api/v1/session";
    if let Some(tokens) = &app.tokens {
        client.user = tokens.user_of(request.headers());
        if client.user.is_none() && !is_open {
            return Err(Problem::new(
                StatusCode::UNAUTHORIZED,
                "a token is needed: Authorization: Bearer TOKEN",
            ));
        }
        if client.user.is_some() {
            app.known.remember(client.address.ip(), now);
        }
    }
    request.extensions_mut().insert(client.clone());
    Ok(client)
}

/// Checks `Host`: a foreign name means that a page of another site made its name resolve to this server (DNS
/// rebinding). Addresses can't be rebound.
pub(crate) fn right_host(headers: &HeaderMap, uri: &Uri, names: &[String]) -> Result<(), Problem> {
    let mut told = headers.get_all(header::HOST).iter();
    let host = match (told.next(), told.next(), uri.authority()) {
        (_, Some(_), _) => {
            return Err(Problem::new(StatusCode::BAD_REQUEST, "Host is given twice"));
        }
        (_, _, Some(authority)) => authority.as_str().to_owned(),
        (Some(host), None, None) => host.to_str().unwrap_or_default().to_owned(),
        (None, None, None) => String::new(),
    };
    let name = name_of(&host);
    let known = is_address(name)
        || name.eq_ignore_ascii_case("localhost")
        || names.iter().any(|n| n.eq_ignore_ascii_case(name));
    if known {
        return Ok(());
    }
    Err(Problem::new(
        StatusCode::MISDIRECTED_REQUEST,
        format!(
            "Host {host:?} is not this server; its names are addresses, localhost and the configured host names"
        ),
    ))
}

/// The name in `name:port` or `[address]:port`.
fn name_of(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split(']').next().unwrap_or_default();
    }
    host.rsplit_once(':').map_or(host, |(name, _)| name)
}

fn is_address(name: &str) -> bool {
    name.parse::<IpAddr>().is_ok()
}

/// Refuses requests of pages of other origins.
fn right_origin(headers: &HeaderMap) -> Result<(), Problem> {
    let text = |name: header::HeaderName| headers.get(name).and_then(|v| v.to_str().ok());
    let foreign = |detail: String| Err(Problem::new(StatusCode::FORBIDDEN, detail));
    if let Some(origin) = headers.get(header::ORIGIN) {
        let origin = origin.to_str().unwrap_or_default();
        let host = text(header::HOST).unwrap_or_default();
        let own = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        if own.is_none_or(|own| !own.eq_ignore_ascii_case(host)) {
            return foreign(format!("the origin {origin:?} is not this server's page"));
        }
    }
    let site = text(header::HeaderName::from_static("sec-fetch-site")).unwrap_or("none");
    let mode = text(header::HeaderName::from_static("sec-fetch-mode")).unwrap_or_default();
    // A link elsewhere may open the page; anything else from there is refused.
    if site == "cross-site" && mode != "navigate" {
        return foreign("requested by a page of another site".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::Router;
    use axum::body::Body;
    use axum::routing::post;
    use tower::ServiceExt;

    #[tokio::test]
    async fn a_change_continues_and_is_logged_when_its_client_disconnects() {
        let (_, app) = crate::server::for_tests();
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let (go, may_go) = tokio::sync::oneshot::channel::<()>();
        let once = Arc::new(std::sync::Mutex::new(Some((begun, may_go))));
        let slow = move || {
            let (begun, may_go) = once.lock().unwrap().take().unwrap();
            async move {
                begun.send(()).unwrap();
                may_go.await.unwrap();
                StatusCode::NO_CONTENT
            }
        };
        let router = Router::new()
            .route("/api/v1/slow", post(slow))
            .layer(axum::middleware::from_fn_with_state(app.clone(), guard))
            .with_state(app.clone());
        let mut request = axum::http::Request::post("/api/v1/slow").header("host", "localhost");
        let client = ApiClient { address: "127.0.0.1:1".parse().unwrap(), user: None };
        request.extensions_mut().unwrap().insert(client);
        let asked = router.oneshot(request.body(Body::empty()).unwrap());
        // Dropped early, as when the connection closes.
        tokio::select! {
            _ = asked => panic!("answered"),
            begun = has_begun => begun.unwrap(),
        }
        assert!(app.audit.latest().is_empty());
        go.send(()).expect("the handler went with its asker");
        while app.audit.latest().is_empty() {
            tokio::task::yield_now().await;
        }
        let entry = &app.audit.latest()[0];
        assert_eq!((entry.path.as_str(), entry.status), ("/api/v1/slow", 204));
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(k, v)| (k.parse().unwrap(), v.parse().unwrap())).collect()
    }

    #[test]
    fn only_own_names_and_addresses_are_answered() {
        let names = vec!["lab.example".to_owned()];
        let check = |host: &str| {
            right_host(&headers(&[("host", host)]), &Uri::from_static("/"), &names).is_ok()
        };
        for host in [
            "127.0.0.1:9348",
            "localhost",
            "LOCALHOST:1",
            "[::1]:9348",
            "10.0.0.1",
            "lab.example:80",
        ] {
            assert!(check(host), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:9348",
            "127.0.0.1.evil.example",
            "",
            "[evil]:1",
            "localhost.evil",
        ] {
            assert!(!check(host), "{host}");
        }
        let twice = headers(&[("host", "localhost"), ("host", "evil.example")]);
        // `collect` keeps both values of a name.
        assert!(right_host(&twice, &Uri::from_static("/"), &names).is_err() || twice.len() == 1);
    }

    #[test]
    fn other_origins_are_refused() {
        let check = |pairs: &[(&'static str, &str)]| right_origin(&headers(pairs)).is_ok();
        assert!(check(&[("host", "localhost:9348")]));
        assert!(check(&[("host", "localhost:9348"), ("origin", "http://localhost:9348")]));
        assert!(!check(&[("host", "localhost:9348"), ("origin", "http://localhost:80")]));
        assert!(!check(&[("host", "localhost:9348"), ("origin", "http://evil.example")]));
        assert!(!check(&[("host", "localhost:9348"), ("origin", "null")]));
        assert!(!check(&[
            ("host", "a"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "cors")
        ]));
        assert!(check(&[
            ("host", "a"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate")
        ]));
    }
}
