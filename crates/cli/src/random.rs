//! Fresh numbers for names and seeds; never for secrets.

use std::hash::{BuildHasher, Hasher};

/// A number that differs between calls and between processes. It is derived from the keys of the standard library's hash
/// maps, which come from the system's generator and a counter; so no dependency is needed.
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
