//! Child processes and what ends with them.

pub use crate::sys::process::{
    has_ended, kill_group, lead_session, own_program, terminate, terminate_group,
};
