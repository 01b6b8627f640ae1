//! Engine `xdp`: a flow of UDP or Ethernet frames whose data is sent and received by XDP programs on the interfaces of the path.
//!
//! Each flow has its sockets as with engine `sockets`: they reserve the ports of UDP, carry the hello by which the client proves
//! its address, and receive whatever the server's program does not take for data.

#[cfg(not(target_os = "linux"))]
mod absent;
#[cfg(target_os = "linux")]
mod linux;

use weir_model::plan::{EngineName, FlowSpec};

#[cfg(not(target_os = "linux"))]
pub(crate) use absent::{ReceiveEnd, Receivers, SendEnd, Senders};
#[cfg(target_os = "linux")]
pub(crate) use linux::{ReceiveEnd, Receivers, SendEnd, Senders};

/// Maximum number of flows of a server: those of one program.
pub(crate) const MAX_FLOWS: u64 = 32;

/// The flows that have this engine.
pub(crate) fn flows(specs: &[FlowSpec]) -> impl Iterator<Item = &FlowSpec> {
    specs.iter().filter(|spec| spec.connection.engine == EngineName::Xdp)
}
