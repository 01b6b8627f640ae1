//! Memory for request bodies: limits for all of them and for each address, counted as bytes arrive and held until the
//! response.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use crate::app::lock;
use crate::guard::masked;

/// Memory of a parsed value beyond its text: an array element, and an object with its fields.
const VALUE_BYTES: usize = 64;
const TABLE_BYTES: usize = 1024;

/// What is taken.
#[derive(Debug)]
pub(crate) struct Bodies {
    most: usize,
    most_of_address: usize,
    taken: Mutex<(usize, HashMap<IpAddr, usize>)>,
}

impl Bodies {
    /// One address may use a quarter of all.
    pub(crate) fn new(most: usize) -> Arc<Bodies> {
        Arc::new(Bodies { most, most_of_address: most / 4, taken: Mutex::default() })
    }

    /// A new request without memory yet.
    pub(crate) fn share(self: &Arc<Self>, address: IpAddr) -> Arc<RequestMemory> {
        Arc::new(RequestMemory {
            bodies: self.clone(),
            address: masked(address),
            bytes: Mutex::new(0),
        })
    }
}

/// The memory of one request; released when dropped.
#[derive(Debug)]
pub(crate) struct RequestMemory {
    bodies: Arc<Bodies>,
    address: IpAddr,
    bytes: Mutex<usize>,
}

/// Why memory is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyRefusal {
    /// Others have it.
    Now,
    /// It exceeds the limit of any request.
    Ever,
}

impl RequestMemory {
    /// Adds to the request's memory.
    pub(crate) fn take(&self, bytes: usize) -> Result<(), BodyRefusal> {
        let mut own = lock(&self.bytes);
        let wanted = own.saturating_add(bytes);
        if wanted > self.bodies.most_of_address {
            return Err(BodyRefusal::Ever);
        }
        let mut taken = lock(&self.bodies.taken);
        let (all, by_address) = &mut *taken;
        let of_address = by_address.get(&self.address).copied().unwrap_or(0);
        if *all + bytes > self.bodies.most || of_address + bytes > self.bodies.most_of_address {
            return Err(BodyRefusal::Now);
        }
        *all += bytes;
        by_address.insert(self.address, of_address + bytes);
        *own = wanted;
        Ok(())
    }
}

impl Drop for RequestMemory {
    fn drop(&mut self) {
        let own = *lock(&self.bytes);
        let mut taken = lock(&self.bodies.taken);
        let (all, by_address) = &mut *taken;
        *all = all.saturating_sub(own);
        if let Some(of_address) = by_address.get_mut(&self.address) {
            *of_address = of_address.saturating_sub(own);
            if *of_address == 0 {
                by_address.remove(&self.address);
            }
        }
    }
}

/// Upper bound of the memory of a parsed JSON text, beyond the text: many small values take far more than their text.
pub(crate) fn weight(text: &[u8]) -> usize {
    let (mut sum, mut in_string, mut escaped) = (0usize, false, false);
    for byte in text {
        match (in_string, escaped, byte) {
            (true, true, _) => escaped = false,
            (true, false, b'\\') => escaped = true,
            (_, _, b'"') => in_string = !in_string,
            (false, _, b'{') => sum = sum.saturating_add(TABLE_BYTES),
            (false, _, b'[' | b',') => sum = sum.saturating_add(VALUE_BYTES),
            _ => {}
        }
    }
    sum
}

/// Memory of what a line of another tool's text may become: a row, or a part of a record.
const LINE_BYTES: usize = 2048;

/// Upper bound of the memory of what is read from a file, beyond its content.
pub(crate) fn file_weight(content: &[u8]) -> usize {
    if matches!(content.trim_ascii_start().first(), Some(b'{' | b'[')) {
        return weight(content);
    }
    // A binary log becomes less than its own size, however many of its bytes are line ends.
    let is_text = std::str::from_utf8(content).is_ok();
    let lines = content.iter().filter(|byte| **byte == b'\n').count();
    if is_text { lines.saturating_mul(LINE_BYTES) } else { content.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_held_until_it_is_dropped_and_leaves_room_for_others() {
        let bodies = Bodies::new(400);
        let of = |address: &str| bodies.share(address.parse().unwrap());
        let first = of("192.0.2.1");
        assert_eq!(first.take(60), Ok(()));
        assert_eq!(first.take(41), Err(BodyRefusal::Ever));
        let second = of("192.0.2.1");
        assert_eq!(second.take(41), Err(BodyRefusal::Now), "a quarter for each address");
        assert_eq!(second.take(40), Ok(()));
        let one = of("2001:db8::1");
        let other = of("2001:db8::2");
        assert_eq!((one.take(60), other.take(60)), (Ok(()), Err(BodyRefusal::Now)), "one network");
        drop(first);
        assert_eq!(second.take(60), Ok(()));
        drop((second, one, other));
        let taken = lock(&bodies.taken);
        assert_eq!((taken.0, taken.1.len()), (0, 0));
    }

    #[test]
    fn lines_weigh_more_than_their_text_and_bytes_what_they_are() {
        assert_eq!(file_weight(b"a\nb\n"), 2 * LINE_BYTES);
        assert_eq!(file_weight(b"\n\n\xff\n"), 4);
        assert_eq!(file_weight(b" [0,0]\n"), 2 * VALUE_BYTES);
    }

    #[test]
    fn small_values_weigh_more_than_their_text() {
        assert_eq!(weight(br#"[0,0,0]"#), 3 * VALUE_BYTES);
        assert_eq!(weight(br#"{"a,\"{[":"x"}"#), TABLE_BYTES);
        assert_eq!(weight(br#""\\","#), VALUE_BYTES);
    }
}
