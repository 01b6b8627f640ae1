//! The client's end: a connection that asks and waits for the answer.

use std::time::Duration;

use weir_net::tcp::TcpOptions;
use weir_wire::control::Message;

use super::Service;
use crate::channel::{ChannelError, Meter, clean};
use crate::client::connect::{Connected, broken, established, greet, resolve};
use crate::key::Key;
use crate::{Address, TrafficError};

/// The phase of a connection after its hello, in errors.
const REQUEST: &str = "a request";

/// A connection to a server of requests.
pub struct RequestClient {
    runtime: tokio::runtime::Runtime,
    connected: Connected,
}

impl std::fmt::Debug for RequestClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RequestClient").field("address", &self.address()).finish_non_exhaustive()
    }
}

impl RequestClient {
    /// Connects to the first address of `host` that answers. Each address has `timeout` to accept the connection, and then
    /// to say hello.
    ///
    /// # Errors
    /// The host has no address, none answers, the key is not accepted, or the server speaks another version or does not
    /// have the service.
    pub fn connect(
        host: &str,
        port: u16,
        key: Option<&Key>,
        service: &Service,
        timeout: Duration,
    ) -> Result<RequestClient, TrafficError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| TrafficError::system("starting the runtime", e))?;
        let addresses = resolve(host, port, None)?;
        let mut connected = runtime.block_on(async {
            let options = TcpOptions {
                nodelay: true,
                keepalive_seconds: Some(15),
                nonblocking: true,
                ..TcpOptions::default()
            };
            let mut last = None;
            for address in addresses {
                match established(address, &options, timeout).await {
                    Ok(stream) => {
                        let (ours, meter) = (service.hello(), Meter::default());
                        return greet(stream, address.into(), key, &ours, timeout, &meter).await;
                    }
                    Err(error) => last = Some(error),
                }
            }
            // `resolve` returns at least one address.
            let reason = "no address".into();
            Err(last.unwrap_or(TrafficError::Resolve { host: host.into(), reason }))
        })?;
        if !service.is_in(&connected.server) {
            let version = clean(&connected.server.version);
            return Err(TrafficError::Refused {
                address: connected.remote,
                code: "unavailable".into(),
                text: format!("Weir {version} listens there, but not for {}", service.name),
            });
        }
        connected.reader.set_limit(service.max_answer_bytes);
        Ok(RequestClient { runtime, connected })
    }

    /// The server's address.
    #[must_use]
    pub fn address(&self) -> Address {
        self.connected.remote
    }

    /// Sends a request and returns its answer. After an error the connection can't be used any more.
    ///
    /// # Errors
    /// The server was lost, or sent no answer within `timeout`, or one that is not understood.
    pub fn ask<Q: Message, A: Message>(
        &mut self,
        request: &Q,
        timeout: Duration,
    ) -> Result<A, TrafficError> {
        let address = self.address();
        let Connected { reader, writer, .. } = &mut self.connected;
        let asking = async {
            // A server that refuses a long request answers before it has read all of it.
            let (sent, answer) = tokio::join!(writer.write(request), reader.read::<A>());
            match answer {
                Err(ChannelError::Closed) => sent.and(Err(ChannelError::Closed)),
                answer => answer,
            }
        };
        match self.runtime.block_on(async { tokio::time::timeout(timeout, asking).await }) {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(ChannelError::Message(error))) => {
                Err(TrafficError::Protocol { address, reason: clean(&error.to_string()) })
            }
            Ok(Err(error)) => Err(broken(address, REQUEST, &error)),
            Err(_) => Err(TrafficError::Lost {
                address,
                during: REQUEST,
                reason: format!("no answer within {} s", timeout.as_secs()),
            }),
        }
    }
}
