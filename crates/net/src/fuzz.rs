//! Fuzz bodies: each takes arbitrary bytes, as the kernel or a file might hand them over, and checks what must hold.
//! `cargo test` replays them over seeded mutations of a small corpus.

pub use crate::reference::fuzz_chrony_tracking;
#[cfg(target_os = "linux")]
pub use crate::restoration::fuzz_restoration;
#[cfg(target_os = "linux")]
pub use crate::sys::{
    control_message::fuzz_control_messages, netlink::fuzz_netlink, proc_text::fuzz_proc_text,
};
