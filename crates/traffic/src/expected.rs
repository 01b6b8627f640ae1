//! The contents that receivers verify: each is made once for all flows of a session that expect it.

use std::sync::{Arc, Mutex};

use weir_flow::{PayloadRing, StreamPool};
use weir_model::content::Content;

use crate::engine::lock;

/// Bytes of a stream that are verified at once.
const STREAM_BYTES: usize = 1 << 20;

/// Contents by what they are made from; the seed is that of the session.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    rings: Mutex<Vec<(Content, usize, Arc<PayloadRing>)>>,
    pools: Mutex<Vec<(Content, Arc<StreamPool>)>>,
}

impl Expected {
    /// The ring of datagrams of `payload` bytes.
    pub(crate) fn ring(&self, content: Content, seed: u64, payload: usize) -> Arc<PayloadRing> {
        let mut rings = lock(&self.rings);
        if let Some((.., ring)) = rings.iter().find(|r| (r.0, r.1) == (content, payload)) {
            return ring.clone();
        }
        let ring = Arc::new(PayloadRing::new(content, seed, payload));
        rings.push((content, payload, ring.clone()));
        ring
    }

    /// The pool of a stream.
    pub(crate) fn pool(&self, content: Content, seed: u64) -> Arc<StreamPool> {
        let mut pools = lock(&self.pools);
        if let Some((_, pool)) = pools.iter().find(|pool| pool.0 == content) {
            return pool.clone();
        }
        let pool = Arc::new(StreamPool::new(content, seed, STREAM_BYTES));
        pools.push((content, pool.clone()));
        pool
    }
}
