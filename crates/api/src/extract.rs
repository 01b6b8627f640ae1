//! Strict extraction of bodies and queries: unknown fields are refused, and a refusal names the field.

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http_body::Body as _;
use weir_model::document;

use crate::app::Shared;
use crate::bodies::{BodyRefusal, RequestMemory, weight};
use crate::problem::{FieldError, Problem};

/// A body as JSON.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Shared> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Shared) -> Result<Self, Problem> {
        let JsonText(parsed, _) = JsonText::from_request(request, app).await?;
        Ok(Json(parsed))
    }
}

/// The same, with its text, to see which fields were given.
pub(crate) struct JsonText<T>(pub(crate) T, pub(crate) Vec<u8>);

impl<T: DeserializeOwned> FromRequest<Shared> for JsonText<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Shared) -> Result<Self, Problem> {
        let share = of_kind(&request, "application/json")?;
        let bytes = body(request, app, &share).await?;
        take_values(&share, weight(&bytes))?;
        parse(&bytes).map(|parsed| JsonText(parsed, bytes))
    }
}

/// The content of a file as the body, with the memory of the request for what is made of it.
pub(crate) struct FileBody(pub(crate) Vec<u8>, pub(crate) Arc<RequestMemory>);

impl FromRequest<Shared> for FileBody {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Shared) -> Result<Self, Problem> {
        // A page of another site can't send this type without asking first, unlike text/plain.
        let share = of_kind(&request, "application/octet-stream")?;
        let bytes = body(request, app, &share).await?;
        Ok(FileBody(bytes, share))
    }
}

/// Refuses another Content-Type; the memory of the request.
fn of_kind(request: &Request, expected: &str) -> Result<Arc<RequestMemory>, Problem> {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok());
    let essence = kind.map(|k| k.split(';').next().unwrap_or_default().trim());
    if !essence.is_some_and(|e| e.eq_ignore_ascii_case(expected)) {
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            format!("the body's Content-Type must be {expected}"),
        ));
    }
    let share = request.extensions().get::<Arc<RequestMemory>>().cloned();
    share.ok_or_else(|| Problem::internal("a request without a share"))
}

/// Maximum length of a body that is parsed into trees.
fn most_bytes(path: &str, most: usize) -> usize {
    match path.strip_prefix("/api/v1").unwrap_or(path) {
        // Open to everybody.
        "/session" => 1024,
        // Parsed into trees, which are kept for long.
        "/experiments" | "/validate/scenario" | "/laws/preview" => most.min(512 << 10),
        _ => most,
    }
}

/// Takes the memory of the values in a body.
pub(crate) fn take_values(share: &RequestMemory, bytes: usize) -> Result<(), Problem> {
    share.take(bytes).map_err(|refusal| match refusal {
        BodyRefusal::Now => busy(),
        BodyRefusal::Ever => Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "the body has too many values: each counts as 64 bytes of memory, each object as 1024, each line of a text as 2048",
        ),
    })
}

fn busy() -> Problem {
    let mut problem = Problem::unavailable("too many long bodies at the same time");
    problem.retry_after_seconds = Some(1);
    problem
}

/// Reads the whole body, within the limits of size, time and memory.
async fn body(request: Request, app: &Shared, share: &RequestMemory) -> Result<Vec<u8>, Problem> {
    let limits = &app.config.limits;
    let most = most_bytes(request.uri().path(), limits.body_bytes);
    let too_long = || {
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the body is longer than {most} bytes"))
    };
    let told = request.headers().get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok());
    if told.and_then(|v| v.parse::<u64>().ok()).is_some_and(|n| n > most as u64) {
        return Err(too_long());
    }
    let mut body = request.into_body();
    // Memory is counted as it is used: a declared length takes nothing.
    let reading = async {
        let mut bytes = vec![];
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            let frame = frame
                .map_err(|e| Problem::new(StatusCode::BAD_REQUEST, format!("the body: {e}")))?;
            let Ok(piece) = frame.into_data() else { continue };
            if bytes.len() + piece.len() > most {
                return Err(too_long());
            }
            share.take(piece.len()).map_err(|_| busy())?;
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    };
    let read = tokio::time::timeout(Duration::from_secs(limits.body_seconds), reading).await;
    read.unwrap_or_else(|_| {
        Err(Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            format!("the body did not arrive within {} s", limits.body_seconds),
        ))
    })
}

/// Deserialises JSON; a refusal names the field by its pointer.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    document::parse_json(bytes).map_err(|error| Problem::of_document("", &error))
}

/// The query string.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<Shared> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, Problem> {
        query(parts.uri.query().unwrap_or_default()).map(Query)
    }
}

/// Maximum number of query parameters.
const MAX_PARAMETERS: usize = 100;

/// Parses a query; a repeated key is an array.
pub(crate) fn query<T: DeserializeOwned>(text: &str) -> Result<T, Problem> {
    let mut map = Map::new();
    let count = text.split('&').filter(|p| !p.is_empty()).count();
    if count > MAX_PARAMETERS {
        let given = format!("{count} parameters");
        return Err(Problem::field("?", given, format!("at most {MAX_PARAMETERS}")));
    }
    for pair in text.split('&').filter(|p| !p.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (key, value) = (decoded(key)?, Value::String(decoded(value)?));
        match map.get_mut(&key) {
            None => drop(map.insert(key, value)),
            Some(Value::Array(list)) => list.push(value),
            Some(one) => *one = Value::Array(vec![one.take(), value]),
        }
    }
    document::read(&Value::Object(map)).map_err(|error| {
        let field = format!("?{}", document::segments(&error.field).join("/"));
        let detail = format!("{field}: {}", error.reason());
        let error = FieldError { field, ..FieldError::of_document("", &error) };
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail).with(error)
    })
}

fn decoded(text: &str) -> Result<String, Problem> {
    let spaced = text.replace('+', " ");
    let decoded = percent_encoding::percent_decode_str(&spaced).decode_utf8();
    let text = decoded.map_err(|_| Problem::field("?", text, "UTF-8"))?;
    Ok(text.into_owned())
}

/// The client of a request.
#[derive(Debug, Clone)]
pub(crate) struct ApiClient {
    /// Address.
    pub(crate) address: std::net::SocketAddr,
    /// Name of the token; absent without one.
    pub(crate) user: Option<String>,
}

impl ApiClient {
    /// The name shown to others.
    pub(crate) fn name(&self) -> String {
        match &self.user {
            Some(user) => format!("{user} ({})", self.address.ip()),
            None => self.address.ip().to_string(),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for ApiClient {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let found = parts.extensions.get::<ApiClient>().cloned();
        found.ok_or_else(|| Problem::internal("the connection has no address"))
    }
}

/// A segment of the path.
pub(crate) struct PathSegment(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for PathSegment {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        use axum::extract::Path;
        let path: Result<Path<String>, _> = Path::from_request_parts(parts, state).await;
        path.map(|Path(part)| PathSegment(part)).map_err(|e| no_path(parts, &e))
    }
}

fn no_path(parts: &Parts, error: &axum::extract::rejection::PathRejection) -> Problem {
    let message = error.body_text();
    Problem::new(StatusCode::BAD_REQUEST, message.clone()).with(FieldError {
        field: "path".into(),
        given: Some(parts.uri.path().into()),
        accepted: Some("UTF-8, percent-encoded".into()),
        message,
    })
}

/// Two segments of the path.
pub(crate) struct PathSegments(pub(crate) String, pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for PathSegments {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        use axum::extract::Path;
        let path: Result<Path<(String, String)>, _> = Path::from_request_parts(parts, state).await;
        path.map(|Path((a, b))| PathSegments(a, b)).map_err(|e| no_path(parts, &e))
    }
}

/// Three segments of the path.
pub(crate) struct ThreeSegments(pub(crate) String, pub(crate) String, pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for ThreeSegments {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        use axum::extract::Path;
        let path: Result<Path<(String, String, String)>, _> =
            Path::from_request_parts(parts, state).await;
        path.map(|Path((a, b, c))| ThreeSegments(a, b, c)).map_err(|e| no_path(parts, &e))
    }
}

/// The precondition of a change (RFC 9110, 13.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Condition {
    /// Nothing is said.
    None,
    /// `If-Match: *`: it exists.
    Exists,
    /// `If-Match` with a tag: it is unchanged since it was read.
    Is(String),
    /// `If-None-Match: *`: it does not exist.
    IsNew,
    /// Both: no document meets them.
    Never,
}

impl<S: Send + Sync> FromRequestParts<S> for Condition {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let of = |name: header::HeaderName| {
            parts.headers.get(name).map(|v| v.to_str().unwrap_or_default().trim())
        };
        match (of(header::IF_MATCH), of(header::IF_NONE_MATCH)) {
            (None, None) => Ok(Condition::None),
            (None, Some("*")) => Ok(Condition::IsNew),
            (Some(_), Some("*")) => Ok(Condition::Never),
            (_, Some(text)) => Err(Problem::field("If-None-Match", text, "*")),
            (Some("*"), None) => Ok(Condition::Exists),
            (Some(text), None) => {
                // A proxy that compresses responses weakens tags; the document is the same.
                let tag = text.strip_prefix("W/").unwrap_or(text);
                let tag = tag.strip_prefix('"').and_then(|t| t.strip_suffix('"'));
                let tag = tag.filter(|t| !t.contains('"'));
                tag.map(|t| Condition::Is(t.into())).ok_or_else(|| {
                    Problem::field("If-Match", text, "one entity tag in quotes, or *")
                })
            }
        }
    }
}

/// An entity tag: the first part of the text's hash.
pub(crate) fn etag_of(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    weir_model::hex::encode(&Sha256::digest(bytes)[..12])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::RunsQuery;
    use weir_model::plan::Plan;

    #[test]
    fn a_wrong_field_is_named_by_its_pointer() {
        let text = br#"{"schema":"weir.plan/1","connection":[{},{"rate":"fast"}]}"#;
        let problem = parse::<Plan>(text).unwrap_err();
        assert_eq!(problem.status, 422);
        assert_eq!(problem.errors[0].field, "/connection/1/rate");
        assert_eq!(problem.errors[0].given.as_deref(), Some("fast"));
        let problem = parse::<Plan>(br#"{"schema":"weir.plan/1","connections":[]}"#).unwrap_err();
        let error = &problem.errors[0];
        assert_eq!((problem.status, error.field.as_str()), (422, "/connections"));
        assert_eq!(error.given.as_deref(), Some("connections"));
        assert!(error.accepted.as_deref().unwrap().ends_with(", connection"), "{error:?}");
        let twice = parse::<Plan>(br#"{"schema":"weir.plan/1","schema":""}"#).unwrap_err();
        assert_eq!((twice.status, twice.errors[0].field.as_str()), (422, "/schema"));
        assert_eq!(parse::<Plan>(b"{").unwrap_err().status, 400);
        assert_eq!(parse::<Value>(b"{} x").unwrap_err().status, 400);
    }

    #[test]
    fn no_parameter_is_dropped() {
        let text = format!("{}where=wrong", "tag=a%3Db&".repeat(100));
        let problem = query::<RunsQuery>(&text).map(|_| ()).unwrap_err();
        assert_eq!(problem.errors[0].field, "?", "{problem:?}");
        assert!(query::<RunsQuery>(&"tag=a%3Db&".repeat(100)).is_ok());
    }

    #[test]
    fn a_query_is_read_strictly() {
        let q: RunsQuery = query("limit=7&tag=a%3Db&tag=c&title=x+y&where=loss%3E0").unwrap();
        assert_eq!((q.limit, q.title.as_deref()), (Some(7), Some("x y")));
        assert_eq!((q.tag, q.conditions), (vec!["a=b".into(), "c".into()], vec!["loss>0".into()]));
        for (text, field) in
            [("limit=x", "?limit"), ("limt=1", "?limt"), ("limit=1&limit=2", "?limit")]
        {
            let problem = query::<RunsQuery>(text).map(|_| ()).unwrap_err();
            assert_eq!(problem.errors[0].field, field, "{text}: {problem:?}");
        }
    }
}
