//! Sending of whole frames on an interface.

pub use crate::sys::frame::open_sender;
