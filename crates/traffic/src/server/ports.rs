//! The data ports of single sessions: chosen by the system, or from a range that a firewall admits.

use std::io;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, Ordering};

use weir_net::Error;

/// The server's data ports.
pub(crate) struct DataPortPool {
    range: Option<RangeInclusive<u16>>,
    /// Where the next search starts, to skip ports that were opened just before.
    next: AtomicU32,
}

impl DataPortPool {
    /// A pool of all ports that the system chooses from, or of `range`.
    pub(crate) fn new(range: Option<RangeInclusive<u16>>) -> DataPortPool {
        DataPortPool { range, next: AtomicU32::new(0) }
    }

    /// Whether a range was set.
    pub(crate) fn is_range(&self) -> bool {
        self.range.is_some()
    }

    /// Opens a socket by calling `open` with the port to bind to: 0 for the system's choice, else ports of the range
    /// until one is free.
    ///
    /// # Errors
    /// As text: the failure of `open`, or that every port of the range is in use.
    pub(crate) fn open<T>(
        &self,
        mut open: impl FnMut(u16) -> weir_net::Result<T>,
    ) -> Result<T, String> {
        let Some(range) = &self.range else { return open(0).map_err(|e| e.to_string()) };
        let (first, last) = (u32::from(*range.start()), u32::from(*range.end()));
        let count = (last + 1).saturating_sub(first);
        for _ in 0..count {
            let port = first + self.next.fetch_add(1, Ordering::Relaxed) % count;
            // Fits: it is at most `last`.
            match open(port as u16) {
                Err(Error::System { source, .. }) if source.kind() == io::ErrorKind::AddrInUse => {}
                done => return done.map_err(|e| e.to_string()),
            }
        }
        Err(format!("all of this server's data ports ({first}-{last}) are in use"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_use() -> Error {
        Error::System {
            operation: "bind",
            object: "a port".into(),
            source: io::Error::from(io::ErrorKind::AddrInUse),
        }
    }

    #[test]
    fn free_ports_are_found_and_a_full_range_is_reported() {
        let pool = DataPortPool::new(Some(5000..=5002));
        let mut taken = vec![5001];
        for _ in 0..2 {
            let mut tried = taken.clone();
            let port = pool
                .open(|port| {
                    assert!((5000..=5002).contains(&port));
                    if tried.contains(&port) { Err(in_use()) } else { Ok(port) }
                })
                .unwrap();
            tried.clear();
            taken.push(port);
        }
        taken.sort_unstable();
        assert_eq!(taken, [5000, 5001, 5002]);
        let mut tries = 0;
        let refused = pool.open(|_| {
            tries += 1;
            Err::<(), _>(in_use())
        });
        assert_eq!(tries, 3);
        assert!(refused.unwrap_err().contains("5000-5002"));
    }

    #[test]
    fn another_failure_ends_the_search() {
        let denied = || Error::System {
            operation: "bind",
            object: "a port".into(),
            source: io::Error::from(io::ErrorKind::PermissionDenied),
        };
        let pool = DataPortPool::new(Some(1..=65_535));
        let mut tries = 0;
        let refused = pool.open(|_| {
            tries += 1;
            Err::<(), _>(denied())
        });
        assert_eq!((tries, refused.is_err()), (1, true));
    }

    #[test]
    fn without_a_range_the_system_chooses() {
        assert_eq!(DataPortPool::new(None).open(Ok), Ok(0));
        assert_eq!(DataPortPool::new(Some(65_535..=65_535)).open(Ok), Ok(65_535));
    }
}
