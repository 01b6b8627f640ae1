//! Linux, in full.

pub(crate) mod address;
pub(crate) mod clock;
pub(crate) mod control_message;
pub(crate) mod error_queue;
pub(crate) mod options;
pub(crate) mod poll;
pub(crate) mod recv_batch;
pub(crate) mod send_batch;
pub(crate) mod sockopt;
pub(crate) mod udp;
