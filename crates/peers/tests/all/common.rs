//! A protocol's server on a port of its own, and programs that end with their test.

use std::net::SocketAddr;
use std::process::Child;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_model::plan::Plan;
use weir_model::record::{Flow, Record};
use weir_model::units::Span;
use weir_peers::{CallBacks, Protocol, ServeConfig, Server, SharedPorts};
use weir_traffic::session::WorkerConfig;
use weir_traffic::{
    ClientConfig, Event, Failure, Limits, ServerEvent, Stop, StopReason, TrafficError,
};

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
        Serving::at(protocol, bind, 0, limits)
    }

    pub(crate) fn at(protocol: &str, bind: &str, port: u16, limits: Limits) -> Serving {
        Serving::of(protocol, config(bind, port, limits))
    }

    /// The same, which serves these tests of iperf2.
    pub(crate) fn calling_back(
        protocol: &str,
        bind: &str,
        limits: Limits,
        call_backs: CallBacks,
    ) -> Serving {
        Serving::of(protocol, ServeConfig { call_backs, ..config(bind, 0, limits) })
    }

    pub(crate) fn of(protocol: &str, config: ServeConfig) -> Serving {
        Serving::run(open(protocol, &config))
    }

    /// Runs a server that is open.
    pub(crate) fn run(server: Box<dyn Server>) -> Serving {
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

/// Opens a server.
pub(crate) fn open(protocol: &str, config: &ServeConfig) -> Box<dyn Server> {
    let serve = Protocol::find(protocol).unwrap().serve.unwrap();
    // The port that the system chose for TCP may be in use for UDP.
    let mut tries = if config.port == 0 { 20 } else { 1 };
    loop {
        tries -= 1;
        match serve(config) {
            Err(_) if tries > 0 => {}
            opened => return opened.unwrap(),
        }
    }
}

/// The configuration of a server.
pub(crate) fn config(bind: &str, port: u16, limits: Limits) -> ServeConfig {
    ServeConfig {
        bind: vec![bind.parse().unwrap()],
        port,
        limits,
        workers: WorkerConfig::default(),
        hmac: None,
        logins: None,
        rate_limit: None,
        passphrase: None,
        managers: None,
        call_backs: CallBacks::Never,
        iperf2: Default::default(),
        ports: SharedPorts::default(),
        describe: None,
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

/// Runs a plan of these connections with the protocol `peer`, intervals of 50 ms, and what is done on each event.
pub(crate) fn run(
    peer: &str,
    to: SocketAddr,
    connections: &str,
    stop: Stop,
    observe: &mut dyn FnMut(Event),
) -> Result<Record, Failure> {
    let text = format!("schema = \"weir.plan/1\"\npeer = \"{peer}\"\n{connections}");
    let plan = Plan::parse(&text).unwrap();
    let plan = Plan { port: Some(to.port()), interval: Span(50_000_000), ..plan };
    let config = ClientConfig::new(plan, to.ip().to_string());
    weir_peers::check(&config).unwrap();
    weir_peers::run(config, stop, observe)
}

/// The record of the next session that ends.
pub(crate) fn served(server: &Serving) -> Record {
    loop {
        let event = server.events.recv_timeout(LIMIT).unwrap();
        if let ServerEvent::SessionClosed { record, .. } = event {
            return *record.unwrap();
        }
    }
}

/// Bytes and packets of a flow's sender.
pub(crate) fn sent(flow: &Flow) -> (u64, u64) {
    let sender = flow.sender.as_ref().unwrap();
    (sender.bytes, sender.packets)
}

/// Bytes and packets of a flow's receiver.
pub(crate) fn received(flow: &Flow) -> (u64, u64) {
    let receiver = flow.receiver.as_ref().unwrap();
    (receiver.bytes, receiver.packets)
}
