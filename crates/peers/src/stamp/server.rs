//! The reflector. It has no sessions that it reports: a session is a source whose replies have numbers of their own.

use std::net::SocketAddr;
use std::sync::Arc;

use weir_net::clock::Clock;
use weir_net::udp::{RecvMessage, UdpSocket};
use weir_traffic::{ServerEvent, Stop, TrafficError};

use super::codec::{Arrived, Mode, Sessions};
use crate::reflector::{self, Counts, Reflect, Reflector};
use crate::{ServeConfig, Server};

/// The reflector before it runs.
struct StampServer {
    sockets: Vec<(UdpSocket, SocketAddr)>,
    clock: Clock,
    mode: Mode,
}

/// Listens for STAMP's test packets.
pub(super) fn open_stamp(config: &ServeConfig) -> Result<Box<dyn Server>, TrafficError> {
    open(config, true)
}

/// Listens for TWAMP's test packets.
pub(super) fn open_twamp_light(config: &ServeConfig) -> Result<Box<dyn Server>, TrafficError> {
    open(config, false)
}

fn open(config: &ServeConfig, has_tlvs: bool) -> Result<Box<dyn Server>, TrafficError> {
    Ok(Box::new(StampServer {
        sockets: reflector::listen(&config.bind, config.port)?,
        clock: config.workers.clock.clone(),
        // The authenticated packets of TWAMP are others.
        mode: Mode::new(config.hmac.clone().filter(|_| has_tlvs), has_tlvs),
    }))
}

/// Answers test packets.
struct Stamps {
    clock: Clock,
    sessions: Sessions,
    mode: Mode,
}

impl Reflect for Stamps {
    fn reply(&mut self, request: &RecvMessage<'_>, reply: &mut Vec<u8>) -> bool {
        let Some(id) = self.mode.sender_id(request.data) else { return false };
        let number = self.sessions.number(request.from, id, self.clock.monotonic_ns());
        let now_ns = self.clock.realtime_ns();
        let stamp = request.kernel_realtime_ns.map(|stamp| self.clock.kernel_stamp_ns(stamp));
        // A stamp from before a step of the clock may be later than now.
        let at_ns = stamp.unwrap_or(now_ns).min(now_ns);
        let arrived = Arrived { at_ns, ttl: request.ttl.unwrap_or(0) };
        self.mode.reflect(request.data, number, arrived, now_ns, reply);
        true
    }
}

impl Server for StampServer {
    fn addresses(&self) -> Vec<SocketAddr> {
        self.sockets.iter().map(|(_, address)| *address).collect()
    }

    fn run(
        self: Box<Self>,
        stop: &Stop,
        observe: &mut dyn FnMut(ServerEvent),
    ) -> Result<(), TrafficError> {
        let StampServer { sockets, clock, mode } = *self;
        let counts: Arc<Counts> = Arc::default();
        let stamps = Stamps { clock: clock.clone(), sessions: Sessions::default(), mode };
        let reflector = Reflector::start(sockets, clock, stamps, counts.clone())?;
        crate::runtime()?.block_on(stop.asked(1));
        drop(reflector);
        observe(counts.event());
        Ok(())
    }
}
