//! A file as a response body, in bounded memory: a chunk is read when the previous one was sent.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use http_body::{Frame, SizeHint};
use tokio::sync::mpsc;

use crate::problem::Problem;

/// Size of a chunk, bytes; at most three exist per reader.
const PIECE_BYTES: usize = 64 << 10;

/// The response with a file at its present length.
pub(crate) async fn download(path: PathBuf, kind: &'static str) -> Result<Response, Problem> {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let opened =
        tokio::task::spawn_blocking(move || open(&path)).await.map_err(Problem::internal)?;
    let (file, length) = opened.map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => Problem::missing("file", &name),
        _ => Problem::internal(format!("open {name}: {e}")),
    })?;
    let (sender, pieces) = mpsc::channel(1);
    tokio::spawn(read(file, length, sender));
    let mut response = Response::new(Body::new(Pieces { pieces, left: length }));
    *response.status_mut() = StatusCode::OK;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    // File names here consist of an id, whose characters are valid in a header.
    if let Ok(value) = format!("attachment; filename=\"{name}\"").parse() {
        headers.insert(header::CONTENT_DISPOSITION, value);
    }
    Ok(response)
}

fn open(path: &std::path::Path) -> std::io::Result<(File, u64)> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    Ok((file, length))
}

/// Reads chunk by chunk until the end, or until the connection is closed.
async fn read(mut file: File, length: u64, sender: mpsc::Sender<std::io::Result<Bytes>>) {
    let mut left = length;
    while left > 0 {
        let size = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE_BYTES);
        let reading = tokio::task::spawn_blocking(move || {
            let mut piece = vec![0; size];
            let done = file.read_exact(&mut piece).map(|()| Bytes::from(piece));
            (file, done)
        });
        let Ok((back, done)) = reading.await else { return };
        file = back;
        let is_over = done.is_err();
        if sender.send(done).await.is_err() || is_over {
            return;
        }
        left -= size as u64;
    }
}

/// The chunks as a body.
struct Pieces {
    pieces: mpsc::Receiver<std::io::Result<Bytes>>,
    left: u64,
}

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<std::io::Result<Frame<Bytes>>>> {
        self.pieces.poll_recv(context).map(|piece| {
            let piece = piece?;
            self.left -= piece.as_ref().map_or(0, |bytes| bytes.len() as u64);
            Some(piece.map(Frame::data))
        })
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_is_sent_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.packets");
        let bytes: Vec<u8> = (0..3 * PIECE_BYTES + 7).map(|i| (i % 251) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let answer = download(path.clone(), "application/octet-stream").await.unwrap();
        assert_eq!(
            answer.headers()[header::CONTENT_DISPOSITION],
            "attachment; filename=\"x.packets\""
        );
        let body = answer.into_body();
        assert_eq!(http_body::Body::size_hint(&body).exact(), Some(bytes.len() as u64));
        // The file may grow meanwhile: the length is fixed.
        let mut more = std::fs::File::options().append(true).open(&path).unwrap();
        std::io::Write::write_all(&mut more, b"more").unwrap();
        let got = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        assert!(got == bytes, "{} bytes", got.len());
        assert_eq!(download(dir.path().join("none"), "x/y").await.unwrap_err().status, 404);
    }
}
