//! Child processes and what ends with them.

pub use crate::sys::process::{
    boot_id, die_with_starter, has_ended, kill_group, lead_session, own_program,
    process_start_time, terminate, terminate_group,
};
