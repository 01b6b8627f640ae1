//! Placing and naming threads, and the limits of the process.

pub use crate::sys::thread::{
    allowed_cpus, current_cpu, pin_to_cpu, raise_descriptor_limit, raise_real_time_limit, set_name,
    set_normal, try_fifo,
};
