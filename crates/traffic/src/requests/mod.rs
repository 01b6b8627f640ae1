//! Requests over the control connection: each message of a client is a request, and gets one answer.
//!
//! Preface, handshake, hello and limits are those of a test's control connection; no data connection follows. What the
//! messages mean is the caller's matter: a [`Service`] is a name in both hellos, so that neither a client of tests nor
//! one of another service gets as far as its first request.

mod client;
mod server;

use weir_wire::control::Hello;

pub use client::RequestClient;
pub use server::{
    InvalidRequest, MAX_REQUEST_CLIENTS, RequestServer, RequestTimeouts, serve_requests,
};

/// What is requested of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Service {
    /// Its name among the features of a hello.
    pub name: &'static str,
    /// Maximum length of a request, bytes.
    pub max_request_bytes: usize,
    /// Maximum length of an answer, bytes.
    pub max_answer_bytes: usize,
}

impl Service {
    /// The first message of either end.
    fn hello(&self) -> Hello {
        Hello {
            protocol_min: 1,
            protocol_max: weir_wire::control::PROTOCOL,
            version: env!("CARGO_PKG_VERSION").into(),
            features: vec![self.name.into()],
            ..Hello::default()
        }
    }

    fn is_in(&self, hello: &Hello) -> bool {
        hello.features.iter().any(|feature| feature == self.name)
    }
}

#[cfg(test)]
mod tests;
