//! Records on their way from a direction to a thread that writes them: in batches, through a bounded queue. On overflow a
//! batch is dropped and counted, so that packets do not wait. Batches are reused: none is allocated while packets are forwarded.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

/// A batch of records.
pub(crate) trait Batch: Sized {
    /// An empty batch, whose memory is allocated.
    fn with_room() -> Self;
    /// Number of records.
    fn records(&self) -> u64;
    /// Removes the records, and keeps the memory.
    fn clear(&mut self);
}

impl<T> Batch for Vec<T> {
    fn with_room() -> Self {
        Vec::with_capacity(BATCH)
    }
    fn records(&self) -> u64 {
        self.len() as u64
    }
    fn clear(&mut self) {
        self.clear();
    }
}

/// Records per batch of equal records.
pub(crate) const BATCH: usize = 512;
/// Interval of attempts to pass on the last batch.
const RETRY: Duration = Duration::from_millis(5);

/// A batch, and where to return it when its records are written.
pub(crate) type Filled<B> = (B, SyncSender<B>);

/// A direction's end of the queue.
#[derive(Debug)]
pub(crate) struct Feed<B> {
    batch: B,
    sender: SyncSender<Filled<B>>,
    back: SyncSender<B>,
    empty: Receiver<B>,
    /// Whether to wait for a full queue: with a capture as the source, whose clock stops meanwhile.
    waits: bool,
    dropped: Arc<AtomicU64>,
}

impl<B: Batch> Feed<B> {
    /// The end of a direction that has `depth` batches in the queue at most; dropped records are added to `dropped`.
    pub(crate) fn new(
        sender: SyncSender<Filled<B>>,
        depth: usize,
        waits: bool,
        dropped: Arc<AtomicU64>,
    ) -> Self {
        let (back, empty) = sync_channel(depth);
        if !waits {
            // As many as the queue holds, so that none is allocated later; untouched, they cost no memory.
            for _ in 0..depth {
                let _ = back.try_send(B::with_room());
            }
        }
        Feed { batch: B::with_room(), sender, back, empty, waits, dropped }
    }

    /// The batch to add records to.
    #[inline]
    pub(crate) fn batch(&mut self) -> &mut B {
        &mut self.batch
    }

    fn drop_records(&self, count: u64) {
        self.dropped.fetch_add(count, Ordering::Relaxed);
    }

    /// Passes the current batch on.
    pub(crate) fn flush(&mut self) {
        let count = self.batch.records();
        if count == 0 {
            return;
        }
        if self.waits {
            // The queue is the bound: a batch that has not returned is in it, or with the writer.
            let next = self.empty.try_recv().unwrap_or_else(|_| B::with_room());
            let full = std::mem::replace(&mut self.batch, next);
            if self.sender.send((full, self.back.clone())).is_err() {
                self.drop_records(count);
            }
            return;
        }
        let Ok(next) = self.empty.try_recv() else {
            // All are with the writer.
            self.drop_records(count);
            self.batch.clear();
            return;
        };
        let full = std::mem::replace(&mut self.batch, next);
        if let Err(refused) = self.sender.try_send((full, self.back.clone())) {
            self.drop_records(count);
            let (TrySendError::Full((mut batch, _)) | TrySendError::Disconnected((mut batch, _))) =
                refused;
            batch.clear();
            let _ = self.back.try_send(batch);
        }
    }

    /// Passes on the last batch, and waits for room in the queue.
    pub(crate) fn close(self) {
        let count = self.batch.records();
        if count > 0 && self.sender.send((self.batch, self.back)).is_err() {
            self.dropped.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Passes on the last batch if the queue has room until a time.
    pub(crate) fn close_until(self, until: Instant) {
        let count = self.batch.records();
        if count == 0 {
            return;
        }
        let mut next = (self.batch, self.back);
        loop {
            match self.sender.try_send(next) {
                Ok(()) => return,
                Err(TrySendError::Full(refused)) if Instant::now() < until => next = refused,
                Err(_) => {
                    self.dropped.fetch_add(count, Ordering::Relaxed);
                    return;
                }
            }
            std::thread::sleep(RETRY);
        }
    }
}
