//! The generator and the server, as this program calls them.

pub(crate) use weir_peers::{check, run};
pub(crate) use weir_traffic::{
    Address, Answer, ClientConfig, Commands, Event, Failure, FileConfig, FlowAddresses, Key,
    Limits, Scheduling, ServerConfig, ServerEvent, StartSignal, Stop, StopReason, TrafficError,
    file_exit_code, serve,
};
// For the control of emulators.
#[cfg(target_os = "linux")]
pub(crate) use weir_traffic::{
    InvalidRequest, RequestClient, RequestServer, RequestTimeouts, Service, serve_requests,
};
