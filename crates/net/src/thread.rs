//! Placing and naming threads, what they share, and the limits of the process.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use crate::sys::thread::{
    allowed_cpus, node_cpus, pin_to_cpu, raise_descriptor_limit, raise_real_time_limit, set_name,
    set_normal, try_fifo,
};

/// Locks a mutex even if a thread panicked while holding it. For values that each change leaves valid.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
