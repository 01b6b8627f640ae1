//! Compression of responses for clients that accept gzip. Bodies of files and the event stream are sent as they are.

use std::io::Write;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body::Body as _;

use crate::problem::Problem;

/// Shorter bodies fit into one segment anyway.
const MIN_BYTES: u64 = 1024;

/// The middleware.
pub(crate) async fn compress(request: Request, next: Next) -> Response {
    let is_accepted = accepts_gzip(request.headers());
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    if !is_text(headers) || headers.contains_key(header::CONTENT_ENCODING) {
        return response;
    }
    headers.entry(header::VARY).or_insert(HeaderValue::from_static("accept-encoding"));
    // A body of unknown length is not in memory.
    let length = response.body().size_hint().exact();
    if !is_accepted || length.is_none_or(|length| length < MIN_BYTES) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let packed = match axum::body::to_bytes(body, usize::MAX).await {
        Ok(plain) => tokio::task::spawn_blocking(move || gzip(&plain)).await,
        Err(error) => return Problem::internal(error).into_response(),
    };
    let packed = match packed {
        Ok(Ok(packed)) => packed,
        Ok(Err(error)) => return Problem::internal(error).into_response(),
        Err(error) => return Problem::internal(error).into_response(),
    };
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    // A strong tag is that of the uncompressed bytes (RFC 9110, 8.8.3.3).
    let weak = parts.headers.get(header::ETAG).and_then(|tag| {
        let tag = tag.to_str().ok().filter(|tag| tag.starts_with('"'))?;
        HeaderValue::try_from(format!("W/{tag}")).ok()
    });
    if let Some(weak) = weak {
        parts.headers.insert(header::ETAG, weak);
    }
    Response::from_parts(parts, Body::from(packed))
}

fn gzip(plain: &Bytes) -> std::io::Result<Vec<u8>> {
    let mut packed = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
    packed.write_all(plain)?;
    packed.finish()
}

/// Whether a body is JSON or text. Events are sent when they occur.
fn is_text(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default().trim();
    match kind {
        "text/event-stream" => false,
        "application/json" | "image/svg+xml" => true,
        kind => kind.starts_with("text/") || kind.ends_with("+json"),
    }
}

/// Whether a client accepts gzip (RFC 9110, 12.5.3).
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let all = headers.get_all(header::ACCEPT_ENCODING).into_iter();
    let codings = all.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    let mut named = codings.map(|coding| coding.split_once(';').unwrap_or((coding, "")));
    named.any(|(name, weight)| {
        let weight = weight.trim().strip_prefix("q=").map(|weight| weight.trim().parse::<f32>());
        name.trim().eq_ignore_ascii_case("gzip") && weight != Some(Ok(0.0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::Router;
    use axum::routing::get;
    use std::io::Read;
    use tower::ServiceExt;

    async fn answer(kind: &'static str, length: usize, accepted: Option<&str>) -> Response {
        let handler = move || async move {
            let headers = [(header::CONTENT_TYPE, kind), (header::ETAG, "\"1\"")];
            (headers, "x".repeat(length))
        };
        let layer = axum::middleware::from_fn(compress);
        let router: Router = Router::new().route("/", get(handler)).layer(layer);
        let mut request = Request::builder().uri("/");
        if let Some(accepted) = accepted {
            request = request.header(header::ACCEPT_ENCODING, accepted);
        }
        router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    }

    fn is_packed(response: &Response) -> bool {
        response.headers().contains_key(header::CONTENT_ENCODING)
    }

    #[tokio::test]
    async fn long_text_is_compressed_for_those_who_accept_it() {
        let json = "application/json";
        let response = answer(json, 5000, Some("br, gzip;q=0.5")).await;
        assert!(is_packed(&response));
        assert_eq!(response.headers()[header::ETAG], "W/\"1\"");
        assert_eq!(response.headers()[header::VARY], "accept-encoding");
        let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        assert!(bytes.len() < 1000, "{}", bytes.len());
        let mut plain = String::new();
        flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut plain).unwrap();
        assert_eq!(plain, "x".repeat(5000));
        let plain = answer(json, 5000, None).await;
        assert!(!is_packed(&plain));
        assert_eq!(plain.headers()[header::ETAG], "\"1\"");
        assert!(!is_packed(&answer(json, 5000, Some("gzip;q=0")).await));
        assert!(!is_packed(&answer(json, 1023, Some("gzip")).await));
        assert!(is_packed(&answer(json, 1024, Some("gzip")).await));
    }

    #[tokio::test]
    async fn events_and_files_are_not_compressed() {
        for (kind, is_compressed) in [
            ("text/event-stream", false),
            ("application/octet-stream", false),
            ("application/x-ndjson", false),
            ("text/html; charset=utf-8", true),
            ("application/problem+json", true),
        ] {
            assert_eq!(is_packed(&answer(kind, 5000, Some("gzip")).await), is_compressed, "{kind}");
        }
    }
}
