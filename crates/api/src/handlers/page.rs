//! The page and the OpenAPI documents: files that were embedded at build time.

use std::io::Read;

use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

use crate::compress::accepts_gzip;
use crate::problem::Problem;
use crate::types::PageState;

/// An embedded file, compressed where that makes it smaller.
struct File {
    path: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
    is_gzip: bool,
    etag: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// The response if the page was not built.
const MISSING: &str = "this program has no page: web/dist was missing when it was built (run make web, then build again). The API is available: /api/v1/openapi.json";

/// Whether the page is embedded.
pub(crate) fn state() -> PageState {
    let built = FILES.iter().any(|f| f.path == "index.html");
    PageState { built, note: (!built).then(|| MISSING.into()) }
}

/// Serves all paths that are no route of the API.
pub(crate) async fn page(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    if uri.path().starts_with("/api/") {
        return super::nothing(uri).await.into_response();
    }
    if !matches!(method, Method::GET | Method::HEAD) {
        return super::wrong_method(method).await.into_response();
    }
    let path = match uri.path().trim_start_matches('/') {
        "" => "index.html",
        path => path,
    };
    let file = FILES.iter().find(|f| f.path == path);
    // Paths without a dot are views of the page.
    let file =
        file.or_else(|| FILES.iter().find(|f| f.path == "index.html" && !path.contains('.')));
    let Some(file) = file else {
        if path == "index.html" {
            let text = HeaderValue::from_static("text/plain; charset=utf-8");
            return (StatusCode::NOT_FOUND, [(header::CONTENT_TYPE, text)], format!("{MISSING}\n"))
                .into_response();
        }
        return Problem::new(StatusCode::NOT_FOUND, format!("no resource at {}", uri.path()))
            .into_response();
    };
    serve(file, &headers)
}

/// A file of the page by name, for another listener.
pub(crate) fn file(path: &str, asked: &HeaderMap) -> Option<Response> {
    FILES.iter().find(|file| file.path == path).map(|file| serve(file, asked))
}

/// The OpenAPI document.
pub(crate) async fn openapi(headers: HeaderMap) -> Response {
    serve(&OPENAPI, &headers)
}

/// The same in OpenAPI 3.0.3.
pub(crate) async fn openapi_three_zero(headers: HeaderMap) -> Response {
    serve(&OPENAPI_THREE_ZERO, &headers)
}

fn serve(file: &File, asked: &HeaderMap) -> Response {
    let mut headers = HeaderMap::new();
    headers.insert(header::ETAG, HeaderValue::from_static(file.etag));
    // Names under assets/ change with their content.
    let cache = if file.path.starts_with("assets/") {
        "public, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    let text = |name| asked.get(name).and_then(|v: &HeaderValue| v.to_str().ok());
    if text(header::IF_NONE_MATCH) == Some(file.etag) {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(file.kind));
    let gzip = accepts_gzip(asked);
    if !file.is_gzip {
        return (headers, file.bytes).into_response();
    }
    if gzip {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        return (headers, file.bytes).into_response();
    }
    let mut plain = vec![];
    match flate2::read::GzDecoder::new(file.bytes).read_to_end(&mut plain) {
        Ok(_) => (headers, plain).into_response(),
        Err(e) => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, e.to_string()).into_response(),
    }
}
