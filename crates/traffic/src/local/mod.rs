//! Unix sockets, where the system has them.

#[cfg_attr(not(unix), path = "absent.rs")]
mod unix;

pub(crate) use unix::{Listener, SocketFile};
