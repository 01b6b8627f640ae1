//! Fresh numbers for names and seeds; never for secrets.

use std::hash::{BuildHasher, Hasher};

/// A number that differs from call to call and from process to process. The standard library keys its hash maps with
/// the system's generator and a counter, which serves here without a dependency.
pub(crate) fn u64() -> u64 {
    std::hash::RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_differ() {
        assert_ne!(super::u64(), super::u64());
    }
}
