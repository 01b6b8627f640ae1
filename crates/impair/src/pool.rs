//! A memory pool addressed by index. It grows by chunks, so that growth copies nothing. A freed node is the
//! next one used, so that a steady flow stays in the same few pages.

/// No index.
pub(crate) const NONE: u32 = u32::MAX;
const CHUNK_BITS: u32 = 12;
const CHUNK: u32 = 1 << CHUNK_BITS;

#[derive(Debug)]
struct Node<T> {
    value: T,
    /// The next node of the same list, used or free.
    next: u32,
}

/// A pool of values in singly linked lists.
#[derive(Debug)]
pub(crate) struct Pool<T> {
    chunks: Vec<Box<[Node<T>]>>,
    free: u32,
}

/// A list in a pool: first in, first out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    head: u32,
    tail: u32,
}

impl List {
    pub(crate) const EMPTY: List = List { head: NONE, tail: NONE };

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    #[inline]
    pub(crate) fn head(&self) -> u32 {
        self.head
    }
}

impl<T: Copy + Default> Pool<T> {
    pub(crate) fn new() -> Self {
        Self { chunks: Vec::new(), free: NONE }
    }

    #[inline]
    fn node(&self, index: u32) -> &Node<T> {
        &self.chunks[(index >> CHUNK_BITS) as usize][(index & (CHUNK - 1)) as usize]
    }

    #[inline]
    fn node_mut(&mut self, index: u32) -> &mut Node<T> {
        &mut self.chunks[(index >> CHUNK_BITS) as usize][(index & (CHUNK - 1)) as usize]
    }

    #[cold]
    fn grow(&mut self) {
        let base = (self.chunks.len() as u32) << CHUNK_BITS;
        let node =
            |i| Node { value: T::default(), next: if i + 1 < CHUNK { base + i + 1 } else { NONE } };
        self.chunks.push((0..CHUNK).map(node).collect());
        self.free = base;
    }

    /// Stores a value in a free node and returns the node's index.
    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        if self.free == NONE {
            self.grow();
        }
        let index = self.free;
        let node = self.node_mut(index);
        let next = node.next;
        *node = Node { value, next: NONE };
        self.free = next;
        index
    }

    /// Frees a node and returns its value.
    #[inline]
    pub(crate) fn remove(&mut self, index: u32) -> T {
        let free = self.free;
        let node = self.node_mut(index);
        node.next = free;
        let value = node.value;
        self.free = index;
        value
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> &T {
        &self.node(index).value
    }

    /// Appends a node to a list.
    #[inline]
    pub(crate) fn push_back(&mut self, list: &mut List, index: u32) {
        self.node_mut(index).next = NONE;
        if list.head == NONE {
            list.head = index;
        } else {
            self.node_mut(list.tail).next = index;
        }
        list.tail = index;
    }

    /// Removes the first node of a list.
    #[inline]
    pub(crate) fn pop_front(&mut self, list: &mut List) -> Option<u32> {
        let index = list.head;
        if index == NONE {
            return None;
        }
        list.head = self.node(index).next;
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_their_order_across_chunks() {
        let mut pool = Pool::<u64>::new();
        let mut list = List::EMPTY;
        for round in 0..3u64 {
            for value in 0..10_000 {
                let index = pool.insert(round * 100_000 + value);
                pool.push_back(&mut list, index);
            }
            for value in 0..10_000 {
                let index = pool.pop_front(&mut list).unwrap();
                assert_eq!(*pool.get(index), round * 100_000 + value);
                pool.remove(index);
            }
            assert!(list.is_empty() && pool.pop_front(&mut list).is_none());
        }
        // Freed nodes were used again.
        assert_eq!(pool.chunks.len(), 3);
    }
}
