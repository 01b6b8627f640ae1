//! The upgrade to a WebSocket: checks the handshake and the origin, and finds the session.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::control::control;
use super::frame;
use super::serve::{Inner, Visitor};
use super::stream::data;
use crate::app::lock;

const SUBPROTOCOL: &str = "weir.speed.v1";
/// Time for the browser to complete an upgrade.
const UPGRADE_TIME: Duration = Duration::from_secs(2);

/// `GET /speed/v1`: a control connection, or a data connection with `session`.
pub(super) async fn upgrade(State(inner): State<Arc<Inner>>, mut request: Request) -> Response {
    if request.method() != Method::GET {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let key = match check(request.headers()) {
        Ok(key) => key,
        Err(refusal) => return *refusal,
    };
    let Some(visitor) = request.extensions().get::<Visitor>().cloned() else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let joined = match request.uri().query().unwrap_or("") {
        "" => None,
        query => {
            let session = query
                .strip_prefix("session=")
                .and_then(|id| lock(&inner.sessions).get(id).cloned());
            let Some(session) = session else {
                return (StatusCode::FORBIDDEN, "no such session\n").into_response();
            };
            let number = session.attached.fetch_add(1, Ordering::Relaxed);
            // A page that leaves gives no permit back: it has no reason to return.
            if number >= inner.config.limits.streams {
                return (StatusCode::FORBIDDEN, "the session has all its connections\n")
                    .into_response();
            }
            Some((session, number))
        }
    };
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let Ok(Ok(upgraded)) = tokio::time::timeout(UPGRADE_TIME, upgrade).await else { return };
        // `serve` makes every connection with this type.
        let Ok(parts) = upgraded.downcast::<TokioIo<TcpStream>>() else { return };
        let (tcp, early) = (parts.io.into_inner(), parts.read_buf.to_vec());
        match joined {
            None => control(inner, tcp, early, visitor).await,
            Some((session, number)) => {
                // An error is the browser's end of the connection; the control connection reports that of the test.
                let _ = data(&inner, &session, &tcp, early, number).await;
                drop(visitor);
            }
        }
    });
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL));
    if let Ok(accept) = HeaderValue::from_str(&frame::accept(&key)) {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    }
    response
}

/// Checks the headers of the handshake (RFC 6455, section 4.2.1), and that the page is of this origin.
fn check(headers: &HeaderMap) -> Result<String, Box<Response>> {
    let refuse = |refusal: Response| Err(Box::new(refusal));
    let text = |name| headers.get(name).and_then(|v: &HeaderValue| v.to_str().ok()).unwrap_or("");
    let lists = |name, word: &str| {
        headers
            .get_all(name)
            .iter()
            .filter_map(|v: &HeaderValue| v.to_str().ok())
            .any(|v| v.split(',').any(|part| part.trim().eq_ignore_ascii_case(word)))
    };
    if !lists(header::UPGRADE, "websocket") || !lists(header::CONNECTION, "upgrade") {
        let needs = [(header::UPGRADE, "websocket"), (header::CONNECTION, "upgrade")];
        return refuse(
            (StatusCode::UPGRADE_REQUIRED, needs, "a WebSocket is here\n").into_response(),
        );
    }
    if text(header::SEC_WEBSOCKET_VERSION) != "13" {
        let needs = [(header::SEC_WEBSOCKET_VERSION, "13")];
        return refuse(
            (StatusCode::UPGRADE_REQUIRED, needs, "version 13 is spoken\n").into_response(),
        );
    }
    let bad = |words: &'static str| refuse((StatusCode::BAD_REQUEST, words).into_response());
    if !lists(header::SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL) {
        return bad("the subprotocol is weir.speed.v1\n");
    }
    let key = text(header::SEC_WEBSOCKET_KEY);
    if !frame::is_key(key) {
        return bad("Sec-WebSocket-Key has to be 16 bytes in base64\n");
    }
    // Every browser sends it; other clients can't be misused by a page.
    if let Some(origin) = headers.get(header::ORIGIN) {
        let origin = origin.to_str().unwrap_or("");
        let own = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        let host = text(header::HOST);
        if host.is_empty() || own.is_none_or(|own| !own.eq_ignore_ascii_case(host)) {
            let words = "requested by a page of another site\n";
            return refuse((StatusCode::FORBIDDEN, words).into_response());
        }
    }
    Ok(key.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(change: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("host", "speed.example:9350"),
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("sec-websocket-protocol", "weir.speed.v1"),
            ("origin", "http://speed.example:9350"),
        ]
        .iter()
        .chain(change)
        {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        headers
    }

    fn status(change: &[(&'static str, &'static str)]) -> u16 {
        check(&headers(change)).map_or_else(|refusal| refusal.status().as_u16(), |_| 101)
    }

    #[test]
    fn a_handshake_is_what_the_rfc_asks_and_from_our_page() {
        assert_eq!(status(&[]), 101);
        assert_eq!(
            status(&[("origin", "https://SPEED.example:9350")]),
            101,
            "behind a proxy with TLS"
        );
        assert_eq!(status(&[("sec-websocket-protocol", "other, weir.speed.v1")]), 101);
        assert_eq!(status(&[("upgrade", "h2c")]), 426);
        assert_eq!(status(&[("connection", "close")]), 426);
        assert_eq!(status(&[("sec-websocket-version", "8")]), 426);
        assert_eq!(status(&[("sec-websocket-key", "short")]), 400);
        assert_eq!(status(&[("sec-websocket-protocol", "weir.speed.v2")]), 400);
        for foreign in
            ["http://evil.example", "null", "http://speed.example", "ftp://speed.example:9350", ""]
        {
            assert_eq!(status(&[("origin", foreign)]), 403, "{foreign}");
        }
    }
}
