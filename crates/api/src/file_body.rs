//! A file as the body of an answer, in bounded memory: a piece is read when the one before it was taken.

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

/// Bytes of a piece; of each reader there are three at most.
const PIECE_BYTES: usize = 64 << 10;

/// The answer with a file as long as it is now: what is written to it meanwhile is not in it.
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
    // Names of files here are made of an id, which has no other characters than a header takes.
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

/// Reads piece by piece, until all is read or nobody takes them any more.
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

/// The pieces as a body.
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
        // What is written meanwhile is not in it.
        let mut more = std::fs::File::options().append(true).open(&path).unwrap();
        std::io::Write::write_all(&mut more, b"more").unwrap();
        let got = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        assert!(got == bytes, "{} bytes", got.len());
        assert_eq!(download(dir.path().join("none"), "x/y").await.unwrap_err().status, 404);
    }
}
