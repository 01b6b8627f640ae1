//! A protocol's server on a port of its own, and programs that end with their test.

use std::net::SocketAddr;
use std::process::Child;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_peers::{Protocol, ServeConfig};
use weir_traffic::session::WorkerConfig;
use weir_traffic::{Limits, ServerEvent, Stop, StopReason, TrafficError};

/// Time limit of a broken run; a good run takes a fraction of it.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// A running server.
pub(crate) struct Serving {
    pub(crate) address: SocketAddr,
    pub(crate) stop: Stop,
    pub(crate) events: Receiver<ServerEvent>,
    thread: Option<JoinHandle<Result<(), TrafficError>>>,
}

impl Serving {
    pub(crate) fn start(protocol: &str, bind: &str, limits: Limits) -> Serving {
        let config = ServeConfig {
            bind: vec![bind.parse().unwrap()],
            port: 0,
            limits,
            workers: WorkerConfig::default(),
            logins: None,
            describe: None,
        };
        let server = Protocol::find(protocol).unwrap().serve.unwrap()(&config).unwrap();
        let (stop, (sender, events)) = (Stop::new(), channel());
        let (address, own) = (server.addresses()[0], stop.clone());
        let thread =
            std::thread::spawn(move || server.run(&own, &mut |event| drop(sender.send(event))));
        Serving { address, stop, events, thread: Some(thread) }
    }

    pub(crate) fn port(&self) -> String {
        self.address.port().to_string()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.request(StopReason::Terminated);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap().unwrap();
        }
    }
}

/// A program that is killed when the test ends.
pub(crate) struct Program(pub(crate) Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
