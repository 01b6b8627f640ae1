//! The event stream of one reader as a response body. Each chunk is built only when the previous one was sent, so
//! that its events are recent.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use http_body::Frame;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Sleep;

use super::hub::Reader;
use crate::app::Shared;
use crate::types::Hello;

/// A comment line is sent after this long without an event: proxies close idle connections.
const SILENCE: Duration = Duration::from_secs(15);
/// A reader that has not taken a chunk for this long is disconnected.
const STALLED: Duration = Duration::from_secs(20);

/// The response to a reader.
pub(crate) fn stream(
    app: Shared,
    reader: Arc<Reader>,
    hello: &Hello,
    permit: OwnedSemaphorePermit,
) -> Response {
    let first = format!(
        "retry: 1000\nevent: hello\ndata: {}\n\n",
        serde_json::to_string(hello).unwrap_or_default()
    );
    let pieces = Pieces::new(first, reader.clone(), Box::new((Reading { app, reader }, permit)));
    let mut response = Response::new(Body::new(pieces));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response
}

/// Registers a reader with the hub; removes it when dropped.
struct Reading {
    app: Shared,
    reader: Arc<Reader>,
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.app.hub.leave(&self.reader);
    }
}

/// A chunk in flight: the connection drops it when it was handed to the kernel.
struct Piece {
    text: String,
    reader: Arc<Reader>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.reader.has_taken();
    }
}

/// The chunks as a body.
struct Pieces {
    first: Option<String>,
    last: Instant,
    alarm: Pin<Box<Sleep>>,
    reader: Arc<Reader>,
    /// Released at the end, such as the connection permit.
    _held: Box<dyn Send>,
}

impl Pieces {
    fn new(first: String, reader: Arc<Reader>, held: Box<dyn Send>) -> Pieces {
        Pieces {
            first: Some(first),
            last: Instant::now(),
            alarm: Box::pin(tokio::time::sleep(SILENCE)),
            reader,
            _held: held,
        }
    }

    fn hand_out(&mut self, text: String, now: Instant) -> Frame<Bytes> {
        let reader = self.reader.clone();
        reader.is_given(now);
        self.last = now;
        Frame::data(Bytes::from_owner(Piece { text, reader }))
    }
}

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = self.get_mut();
        loop {
            let now = Instant::now();
            // Register the wakers before the checks, so that a later event wakes the task.
            this.reader.wake_by(context.waker());
            if let Some(since) = this.reader.waits_since() {
                this.alarm.as_mut().reset((since + STALLED).into());
                ready!(this.alarm.as_mut().poll(context));
                // The connection is closed, and nothing takes its buffers.
                return Poll::Ready(Some(Err(io::ErrorKind::TimedOut.into())));
            }
            if let Some(first) = this.first.take() {
                return Poll::Ready(Some(Ok(this.hand_out(first, now))));
            }
            let silence = this.last + SILENCE;
            let until = match this.reader.take(now) {
                Ok(text) => return Poll::Ready(Some(Ok(this.hand_out(text, now)))),
                Err(_) if now >= silence => {
                    return Poll::Ready(Some(Ok(this.hand_out(":\n\n".into(), now))));
                }
                Err(until) => until.map_or(silence, |until| until.min(silence)),
            };
            this.alarm.as_mut().reset(until.into());
            ready!(this.alarm.as_mut().poll(context));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{Hub, Topics};
    use crate::types::ObjectKind;
    use http_body::Body as _;
    use std::future::poll_fn;

    fn bench() -> (Hub, Pieces) {
        let hub = Hub::default();
        let here = std::net::Ipv4Addr::LOCALHOST.into();
        let reader = hub.join(Topics::default(), Topics::default(), 20.0, here, 1).unwrap();
        let pieces = Pieces::new("hello\n\n".into(), reader, Box::new(()));
        (hub, pieces)
    }

    async fn next(pieces: &mut Pieces) -> Result<Bytes, io::Error> {
        let frame = poll_fn(|context| Pin::new(&mut *pieces).poll_frame(context)).await;
        frame.unwrap().map(|frame| frame.into_data().unwrap())
    }

    /// Whether no chunk is ready.
    async fn is_silent(pieces: &mut Pieces) -> bool {
        tokio::time::timeout(Duration::from_millis(1), next(pieces)).await.is_err()
    }

    fn text(piece: &Bytes) -> &str {
        std::str::from_utf8(piece).unwrap()
    }

    #[tokio::test]
    async fn a_piece_is_made_when_the_one_before_has_left() {
        let (hub, mut pieces) = bench();
        let hello = next(&mut pieces).await.unwrap();
        assert_eq!(text(&hello), "hello\n\n");
        for n in 0..50 {
            hub.sample(ObjectKind::Tests, "t", "interval", &n);
            assert!(is_silent(&mut pieces).await, "the connection still has the first piece");
        }
        drop(hello);
        let newest = next(&mut pieces).await.unwrap();
        assert!(text(&newest).contains(r#""interval":49"#), "{newest:?}");
        assert!(text(&newest).contains(r#""skipped":49"#), "{newest:?}");
    }

    #[tokio::test]
    async fn a_piece_that_leaves_wakes_the_connection() {
        let (hub, mut pieces) = bench();
        let hello = next(&mut pieces).await.unwrap();
        hub.sample(ObjectKind::Tests, "t", "interval", &1);
        let waiting = tokio::spawn(async move { next(&mut pieces).await });
        tokio::task::yield_now().await;
        drop(hello);
        let piece = tokio::time::timeout(Duration::from_secs(10), waiting).await.unwrap();
        assert!(text(&piece.unwrap().unwrap()).contains("sample"));
    }

    #[tokio::test]
    async fn a_reader_that_stalls_is_dropped_and_silence_is_filled() {
        let (hub, mut pieces) = bench();
        drop(next(&mut pieces).await.unwrap());
        pieces.last = Instant::now().checked_sub(SILENCE).unwrap();
        let held = next(&mut pieces).await.unwrap();
        assert_eq!(text(&held), ":\n\n");
        hub.sample(ObjectKind::Tests, "t", "interval", &1);
        pieces.reader.is_given(Instant::now().checked_sub(STALLED).unwrap());
        let error = next(&mut pieces).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
