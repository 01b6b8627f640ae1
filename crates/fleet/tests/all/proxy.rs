//! A path to a server that can be cut.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Forwards connections to a port on loopback. While it is cut, nothing passes in either
/// direction, and neither end learns of it.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    is_cut: watch::Sender<bool>,
    connections: Arc<AtomicU64>,
    bytes: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    pub(crate) async fn start(to: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (is_cut, cut) = watch::channel(false);
        let (connections, bytes) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (counted, passed) = (connections.clone(), bytes.clone());
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::Relaxed);
                let (mut cut, passed) = (cut.clone(), passed.clone());
                tokio::spawn(async move {
                    let _ = cut.wait_for(|cut| !cut).await;
                    let Ok(far) = TcpStream::connect(("127.0.0.1", to)).await else { return };
                    let ((near_in, near_out), (far_in, far_out)) =
                        (near.into_split(), far.into_split());
                    tokio::spawn(pass(near_in, far_out, cut.clone(), passed.clone()));
                    pass(far_in, near_out, cut, passed).await;
                });
            }
        });
        Proxy { port, is_cut, connections, bytes, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    pub(crate) fn cut(&self) {
        self.is_cut.send_replace(true);
    }

    pub(crate) fn heal(&self) {
        self.is_cut.send_replace(false);
    }

    /// How many connections were opened, those that wait while it is cut included.
    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Bytes that have passed in both directions.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

async fn pass(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    mut cut: watch::Receiver<bool>,
    passed: Arc<AtomicU64>,
) {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if cut.wait_for(|cut| !cut).await.is_err() || to.write_all(&buffer[..count]).await.is_err()
        {
            return;
        }
        passed.fetch_add(count as u64, Ordering::Relaxed);
    }
}
