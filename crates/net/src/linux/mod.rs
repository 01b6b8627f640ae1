//! Linux, in full.

pub(crate) mod address;
pub(crate) mod capability;
pub(crate) mod clock;
pub(crate) mod control_message;
pub(crate) mod counters;
pub(crate) mod error_queue;
pub(crate) mod ethernet;
pub(crate) mod ethtool;
pub(crate) mod host;
pub(crate) mod interface;
pub(crate) mod memfile;
pub(crate) mod netlink;
pub(crate) mod options;
pub(crate) mod poll;
pub(crate) mod proc_text;
pub(crate) mod process;
pub(crate) mod recv_batch;
pub(crate) mod rtnetlink;
pub(crate) mod send_batch;
pub(crate) mod sockopt;
pub(crate) mod tcp;
mod tcp_info;
pub(crate) mod thread;
pub mod transparent;
pub(crate) mod udp;
pub mod unix;
pub(crate) mod watch;
