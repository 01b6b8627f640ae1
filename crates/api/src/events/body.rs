//! A reader's events as the body of an answer. A piece is put together when the connection has room for it, not before.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use http_body::Frame;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::hub::Reader;
use crate::app::Shared;
use crate::types::Hello;

/// A word that keeps middle boxes and time-outs away, when nothing happened for this long.
const SILENCE: Duration = Duration::from_secs(15);

/// The answer to a reader.
pub(crate) fn stream(
    app: Shared,
    reader: Arc<Reader>,
    hello: &Hello,
    permit: OwnedSemaphorePermit,
) -> Response {
    // One piece waits at most: the next is made of what is newest when this one is gone.
    let (pieces, inbox) = mpsc::channel::<Bytes>(1);
    let first = format!(
        "retry: 1000\nevent: hello\ndata: {}\n\n",
        serde_json::to_string(hello).unwrap_or_default()
    );
    tokio::spawn(async move {
        feed(&reader, &pieces, first).await;
        app.hub.leave(&reader);
        drop(permit);
    });
    let mut response = Response::new(Body::new(Pieces(inbox)));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response
}

/// Until the reader is gone.
async fn feed(reader: &Reader, pieces: &mpsc::Sender<Bytes>, first: String) {
    if pieces.send(first.into()).await.is_err() {
        return;
    }
    let mut last = Instant::now();
    loop {
        let Ok(room) = pieces.reserve().await else { return };
        let until = match reader.take(Instant::now()) {
            Ok(text) => {
                room.send(text.into());
                last = Instant::now();
                continue;
            }
            Err(until) => until,
        };
        let silence = last + SILENCE;
        if Instant::now() >= silence {
            room.send(Bytes::from_static(b":\n\n"));
            last = Instant::now();
            continue;
        }
        drop(room);
        let until = until.map_or(silence, |u| u.min(silence));
        tokio::select! {
            () = reader.news.notified() => {}
            () = tokio::time::sleep_until(until.into()) => {}
            () = pieces.closed() => return,
        }
    }
}

/// The pieces as a body.
struct Pieces(mpsc::Receiver<Bytes>);

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|p| Ok(Frame::data(p))))
    }
}
