//! Tests in which this server connects back to its client. Each stream, and each source of datagrams, of the client has a
//! session of what is sent back.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weir_model::plan::Plan;
use weir_model::record::Status;
use weir_traffic::session::{self, End, FlowEvent, Share};

use super::codec::{self, Header, Mode};
use super::senders::{self, Sender};
use super::server::{Session, Shared};
use super::settings;
use crate::CallBacks;
use crate::ending::Over;
use crate::serving::has;
use crate::sessions::{Ended, counted, intervals};

/// How long a client may take to listen and to accept a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// Pause between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(50);
/// Ports below belong to services of the system: nothing from or to them is a test.
const FIRST_PORT: u16 = 1024;
/// Longest time for which datagrams are sent back, s: the request for them may be forged.
const DATAGRAM_SECONDS: u64 = 3600;

/// A client that has asked to be called back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    header: Header,
    to: SocketAddr,
    /// The address at which it has reached this server.
    local: Option<SocketAddr>,
    /// Once it has sent.
    pub(super) is_after: bool,
}

impl Call {
    /// Divides a test in which the server connects back into what the client sends and what is sent back.
    ///
    /// # Errors
    /// The reason for which it is not served.
    pub(super) fn of(
        header: Option<Header>,
        peer: SocketAddr,
        is_datagrams: bool,
        served: &CallBacks,
    ) -> Result<(Option<Header>, Option<Call>), String> {
        let Some(header) = header else { return Ok((None, None)) };
        if !matches!(header.mode, Mode::Dual | Mode::TradeOff) {
            return Ok((Some(header), None));
        }
        let is_served = match served {
            CallBacks::Never => false,
            CallBacks::Streams => !is_datagrams,
            CallBacks::Listed(prefixes) => !is_datagrams || has(prefixes, peer.ip()),
        };
        if !is_served {
            return Err("a test that connects back to the client (-d or -r)".into());
        }
        let port = u16::try_from(header.port).ok().filter(|port| *port >= FIRST_PORT);
        let Some(port) = port.filter(|_| peer.port() >= FIRST_PORT) else {
            return Err(format!(
                "a connection to port {} for a client at port {}: both must be above 1023",
                header.port,
                peer.port()
            ));
        };
        // With the scope of a link-local address.
        let mut to = peer;
        to.set_port(port);
        let is_after = header.mode == Mode::TradeOff;
        let own = Header { mode: Mode::Forward, ..header };
        Ok((Some(own), Some(Call { header, to, local: None, is_after })))
    }

    /// The same for a client that has reached this server at an address.
    pub(super) fn at_address(self, local: Option<SocketAddr>) -> Self {
        Call { local, ..self }
    }

    /// Maximum time of what is sent back, s.
    fn longest(shared: &Shared, is_datagrams: bool) -> u64 {
        let most = if is_datagrams { DATAGRAM_SECONDS } else { u64::MAX };
        shared.limits.session_seconds.min(most)
    }

    /// The plan of what is sent back, from the address that the client knows.
    ///
    /// # Errors
    /// The reason for which it is not sent.
    pub(super) fn plan(&self, shared: &Shared, is_datagrams: bool) -> Result<Plan, String> {
        let longest = Self::longest(shared, is_datagrams);
        let plan = settings::back(&self.header, is_datagrams, self.to.is_ipv6(), longest)?;
        // A plan has no scope, without which a link-local address is not bound.
        let is_bound = |ip: &IpAddr| match ip {
            IpAddr::V4(v4) => !v4.is_unspecified(),
            IpAddr::V6(v6) => !v6.is_unspecified() && !v6.is_unicast_link_local(),
        };
        let local = self.local.map(|local| local.ip()).filter(is_bound);
        let host = Some(self.to.ip().to_canonical().to_string());
        Ok(Plan { host, bind: local.map(Into::into), ..plan })
    }

    /// Connects to the client and sends.
    pub(super) async fn stream(self, shared: Arc<Shared>) {
        if let Err(reason) = self.try_stream(&shared).await {
            shared.refused(self.to, format!("connecting back: {reason}"));
        }
    }

    async fn try_stream(&self, shared: &Shared) -> Result<(), String> {
        let plan = self.plan(shared, false)?;
        let most = shared.limits.sessions;
        let share = Share::take(&shared.streams, |l| &l.sessions, 1, most);
        let _share = share.ok_or_else(|| format!("{most} sessions are open"))?;
        let specs = plan.flows(crate::family(self.to), session::path_mtu_bytes(self.to.ip()));
        let until = Instant::now() + CONNECT;
        let stream = loop {
            let left = until.saturating_duration_since(Instant::now());
            match session::connect_stream(&plan, &specs[0], true, self.to, left).await {
                Ok(stream) => break stream,
                // iperf's client may listen only after its own stream has ended.
                Err(_) if left > PAUSE => tokio::time::sleep(PAUSE).await,
                Err(error) => return Err(error.to_string()),
            }
        };
        let session =
            Session { plan, specs, begun: vec![], bounce: None, frames: None, peer: self.to };
        session.run(stream, shared).await;
        Ok(())
    }

    /// Sends datagrams to the client. No event names one to which none are sent: its address is not verified.
    pub(super) async fn datagrams(self, shared: Arc<Shared>) {
        let _ = self.try_datagrams(&shared).await;
    }

    async fn try_datagrams(&self, shared: &Shared) -> Result<(), String> {
        let plan = self.plan(shared, true)?;
        let most = shared.limits.sessions;
        let share = Share::take(&shared.datagrams, |l| &l.sessions, 1, most);
        let _share = share.ok_or_else(|| format!("{most} sessions are open"))?;
        let specs = plan.flows(crate::family(self.to), u32::MAX);
        let spec = &specs[0];
        let socket = session::open_datagrams(&plan, spec, true, None, Some(self.to));
        let socket = socket.map_err(|error| error.to_string())?;
        let size = usize::try_from(spec.max_payload()).unwrap_or(0).max(codec::NUMBER_BYTES);
        let sender = Sender::new(spec, vec![0; size], !self.header.wants_no_report);
        let mut end = End::new(&shared.workers, &counted(&plan), true);
        end.datagrams(&settings::sent(spec), true, socket, Some(sender.signals()));
        let number = shared.next_session.fetch_add(1, Ordering::Relaxed);
        shared.opened(number, self.to, 1);
        let intervals = intervals(shared.workers.now_ns(), 0);
        end.start(intervals);
        let longest = Self::longest(shared, true);
        let longest = tokio::time::sleep(Duration::from_secs(longest));
        tokio::pin!(longest);
        let over = loop {
            tokio::select! {
                () = &mut longest => {
                    end.stop();
                    let reason = "the session reached the limit of its time";
                    break Some(Ended::new(Status::Partial, reason));
                }
                event = end.event() => match event {
                    FlowEvent::SenderDone(total) => {
                        sender.announce(&end, total.packets);
                        break None;
                    }
                    FlowEvent::Failed(_, text) => break Some(Ended::new(Status::Partial, text)),
                    _ => {}
                },
                reason = shared.stop.asked(1) => {
                    end.stop();
                    break Some(Ended::new(Status::Interrupted, reason.text()));
                }
            }
        };
        let senders = [sender];
        let ended = match over {
            Some(ended) => ended,
            None => match senders::reported(&end, &senders, self.to).await {
                Over::Failed(error) => Ended::new(Status::Partial, error.to_string()),
                _ => Ended::new(Status::Complete, "all was sent"),
            },
        };
        let ends = (end.finish(), senders::far(&senders));
        drop(end);
        shared.closed(number, (plan, specs), self.to, ends, intervals, ended);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iperf2::codec::Amount;

    const HEADER: Header = Header {
        mode: Mode::Dual,
        is_wide: true,
        has_key: false,
        has_bursts: false,
        is_isochronous: false,
        frames: None,
        awaits_ack: false,
        has_trip_times: false,
        wants_no_report: false,
        streams: 1,
        port: 5002,
        block_bytes: 0,
        amount: Amount::Time(100),
        tos: 0,
        rate: 0,
        start: [0; 2],
    };

    #[test]
    fn datagrams_go_back_to_listed_addresses_alone() {
        let listed = CallBacks::Listed("10.0.0.0/8,fe80::/10".parse().unwrap());
        for (source, served, is_called) in [
            ("10.1.2.3:5000", &listed, true),
            ("[::ffff:10.1.2.3]:5000", &listed, true),
            ("11.1.2.3:5000", &listed, false),
            ("[2001:db8::1]:5000", &listed, false),
            ("10.1.2.3:5000", &CallBacks::Streams, false),
            ("10.1.2.3:53", &listed, false),
        ] {
            let call = Call::of(Some(HEADER), source.parse().unwrap(), true, served);
            assert_eq!(call.is_ok(), is_called, "{source}");
        }
        // A stream has proved its address.
        assert!(Call::of(Some(HEADER), "11.1.2.3:5000".parse().unwrap(), false, &listed).is_ok());
        // The interface of a link-local address stays known.
        let source = "[fe80::1%3]:5000".parse().unwrap();
        let (_, call) = Call::of(Some(HEADER), source, true, &listed).unwrap();
        assert_eq!(call.unwrap().to, "[fe80::1%3]:5002".parse().unwrap());
    }
}
