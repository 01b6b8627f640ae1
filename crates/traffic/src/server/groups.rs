//! The flows of a session that arrive at a group: their sockets, and when these join and leave.
//!
//! The server sends nothing on these sockets. Each is connected to the address that the client stated, so that datagrams
//! of other senders to the group do not arrive.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use weir_model::plan::{FlowSpec, GroupOptions, Scope};
use weir_model::record;
use weir_net::clock::Clock;
use weir_net::interface::{Interface, interface, interfaces};
use weir_net::udp::{
    Membership, RecvBatch, RecvMode, UdpOptions, UdpSocket, WATCHED_BYTES, watch_group,
    watched_payload,
};

use super::Limits;
use super::session::Session;
use crate::engine::{Engine, FlowEvent};
use crate::flows::{Flow, SessionFacts};
use crate::transport::{self, GroupTransport, destination, group_options};

/// Longest name of a stream, as the plan's check allows it, with the number of a flow.
const MAX_NAME: usize = 80;

/// How often the packets that arrive after leaving are read, and of how many calls at most.
const READ_INTERVAL: Duration = Duration::from_millis(20);
const MAX_READS: usize = 256;

/// Ports below this one are the system's services'.
const FIRST_GROUP_PORT: u16 = 1024;

/// Why a server on a port refuses the groups of a plan; `Ok`: the number of memberships that it needs.
pub(super) fn needed(specs: &[FlowSpec], limits: &Limits, own_port: u16) -> Result<u64, String> {
    let groups = || specs.iter().filter_map(|s| s.connection.transport.group()?.group);
    let ports = specs.iter().filter_map(|s| s.connection.transport.group());
    let mut ports = ports.map(GroupOptions::port);
    if let Some(port) = ports.find(|port| *port < FIRST_GROUP_PORT && *port != own_port) {
        return Err(format!(
            "group port {port}; accepted: {FIRST_GROUP_PORT} to 65535, or {own_port}"
        ));
    }
    let allowed = limits.multicast_scope;
    let wider = |scope: &Scope| allowed.is_none_or(|allowed| *scope > allowed);
    if let Some((group, scope)) = groups().map(|g| (g, reach(g))).find(|(_, scope)| wider(scope)) {
        let most = match allowed {
            Some(most) => format!("up to scope {}", most.name()),
            None => "none".into(),
        };
        let scope = scope.name();
        return Err(format!(
            "group {group} has scope {scope}: groups that this server receives: {most} (--multicast-scope)"
        ));
    }
    let joins = groups().count() as u64;
    match joins > limits.session_joins {
        true => Err(format!(
            "{joins} memberships: the limit of this server is {} for a session (--max-session-joins)",
            limits.session_joins
        )),
        false => Ok(joins),
    }
}

/// The scope of a group. A broadcast stays on its link (RFC 919 section 7).
fn reach(group: IpAddr) -> Scope {
    Scope::of(group).unwrap_or(Scope::Link)
}

/// A request to receive a flow.
pub(super) struct JoinRequest {
    pub(super) flow: u32,
    pub(super) source: SocketAddr,
    pub(super) name: String,
    pub(super) key: String,
}

struct Member {
    flow: Arc<Flow>,
    socket: Arc<UdpSocket>,
    /// Absent for broadcast, which needs none.
    membership: Option<Membership>,
    /// As reported.
    record: record::Membership,
    options: GroupOptions,
    is_joined: bool,
    /// The sender's and the group's address, and what still arrives after leaving.
    source: SocketAddr,
    group: SocketAddr,
    watch: Option<UdpSocket>,
}

impl Member {
    /// Joins, and records when it asked to.
    fn join(&mut self, clock: &Clock) -> Result<(), String> {
        // Before the system sends its report: the first packet arrives after this time.
        let now = clock.monotonic_ns();
        if let Some(membership) = &self.membership {
            let joined = self.socket.join(membership);
            joined.map_err(|e| format!("joining {}: {e}", self.record.group))?;
            self.is_joined = true;
        }
        self.flow.joins(now, self.record.clone());
        Ok(())
    }

    fn leave(&mut self) {
        if let Some(membership) = self.membership.as_ref().filter(|_| self.is_joined) {
            let _ = self.socket.leave(membership);
            self.is_joined = false;
        }
    }

    /// Observes the packets that still arrive after leaving, where this process may.
    fn watch(&mut self) {
        let interface = self.membership.map(|m| m.interface);
        self.watch = interface.and_then(|i| watch_group(i, self.source, self.group).ok());
    }

    /// Reads what has arrived since.
    fn read_watch(&self, batch: &mut RecvBatch, clock: &Clock) {
        let Some(watch) = &self.watch else { return };
        // Bounded: this thread serves all sessions.
        for _ in 0..MAX_READS {
            let Ok(got) = batch.recv(watch, RecvMode::DontWait) else { return };
            let (now, realtime) = (clock.monotonic_ns(), clock.realtime_ns());
            for message in batch.messages() {
                let stamp = message.kernel_realtime_ns.map(|stamp| clock.kernel_stamp_ns(stamp));
                let waited = stamp.and_then(|stamp| realtime.checked_sub(stamp)).unwrap_or(0);
                if let Some(payload) = watched_payload(message.data) {
                    self.flow.arrived_after_leaving(payload, now.saturating_sub(waited));
                }
            }
            if got < batch.capacity() {
                return;
            }
        }
    }
}

/// The members of a session's groups. They leave when it is dropped.
#[derive(Default)]
pub(super) struct Groups {
    members: Vec<Member>,
    /// When which member joins (`true`) or leaves, descending.
    due: Vec<(Instant, usize, bool)>,
    /// When the packets that arrive after leaving are read next, and room for them.
    read_at: Option<(Instant, RecvBatch)>,
}

impl Drop for Groups {
    fn drop(&mut self) {
        self.members.iter_mut().for_each(Member::leave);
    }
}

impl Groups {
    /// Opens the socket of a flow, and joins unless that is due later.
    ///
    /// # Errors
    /// Why that is not possible, for the client.
    pub(super) fn add(
        &mut self,
        session: &Session,
        engine: &Engine,
        limits: &Limits,
        request: &JoinRequest,
    ) -> Result<(), String> {
        let JoinRequest { flow, source, name, key } = request;
        let spec = session.specs.get(flow).ok_or("a join of an unknown flow")?;
        let transport = transport::group(spec).ok_or("a join of a flow without a group")?;
        if session.flow(*flow).is_some() || session.intervals().is_some() {
            return Err("a second join of a flow, or one after the start".into());
        }
        let key = crate::key::from_hex(key).and_then(|key| key.try_into().ok());
        let key: [u8; 16] = key.ok_or("a join with an invalid key")?;
        if name.len() > MAX_NAME {
            return Err("a join with an invalid name".into());
        }
        let options = group_options(spec);
        let interface = self.interface(session, &options)?;
        if transport.refused(spec, &interface).is_some() {
            // The accepted addresses are the server's own: a client that does not know them is not told.
            let group = destination(spec, interface.index).ip();
            return Err(format!(
                "group {group}: accepted: a broadcast address of the receiving interface"
            ));
        }
        let spec = FlowSpec { name: name.clone(), ..spec.clone() };
        let socket = transport.receiver(&spec, *source, &interface, limits.joins as usize);
        let mut member =
            open(session, engine, transport, &spec, key, *source, &interface, options, &socket)?;
        if member.options.join_after.is_none() {
            member.join(engine.clock()).inspect_err(|_| member.flow.remove(engine))?;
        }
        session.add(engine, member.flow.clone());
        self.members.push(member);
        Ok(())
    }

    /// The interface through which a flow is received.
    fn interface(&self, session: &Session, options: &GroupOptions) -> Result<Interface, String> {
        if let Some(name) = &options.interface {
            return interface(name)
                .map_err(|_| format!("interface {name}: this server has none of this name"));
        }
        let local = session.local_ip();
        let all = interfaces().map_err(|_| "this server's interfaces are unavailable")?;
        let has = |i: &Interface| i.addresses.iter().any(|a| a.address == local);
        let found = all.into_iter().find(has);
        let reason = "no interface of this server has the address of the control connection";
        found.ok_or_else(|| reason.into())
    }

    /// Plans when members join and leave. `start`: the start of the test.
    pub(super) fn start(&mut self, start: Instant) {
        for (index, member) in self.members.iter().enumerate() {
            let steps = [(member.options.join_after, true), (member.options.leave_after, false)];
            for (after, joins) in steps {
                self.due.extend(after.map(|t| (start + Duration::from_nanos(t.0), index, joins)));
            }
        }
        self.due.sort_unstable_by_key(|due| std::cmp::Reverse((due.0, due.2)));
    }

    /// When [`Groups::run`] has something to do.
    pub(super) fn next(&self) -> Option<Instant> {
        let read_at = self.read_at.as_ref().map(|(at, _)| *at);
        self.due.last().map(|due| due.0).into_iter().chain(read_at).min()
    }

    /// Reads the packets that have arrived after leaving.
    pub(super) fn read(&mut self, engine: &Engine) {
        let Some((at, batch)) = &mut self.read_at else { return };
        *at = Instant::now() + READ_INTERVAL;
        self.members.iter().for_each(|member| member.read_watch(batch, engine.clock()));
    }

    /// Joins and leaves what is due. Returns the flows that could not join.
    pub(super) fn run(&mut self, engine: &Engine) -> Vec<FlowEvent> {
        let mut failed = vec![];
        if self.read_at.as_ref().is_some_and(|(at, _)| *at <= Instant::now()) {
            self.read(engine);
        }
        while let Some((_, index, joins)) = self.due.pop_if(|due| due.0 <= Instant::now()) {
            let member = &mut self.members[index];
            if !joins {
                let now = engine.clock().monotonic_ns();
                member.watch();
                member.flow.leaves(now, member.watch.is_some());
                member.leave();
                if member.watch.is_some() && self.read_at.is_none() {
                    let batch = RecvBatch::new(64, WATCHED_BYTES);
                    self.read_at = Some((Instant::now() + READ_INTERVAL, batch));
                }
                continue;
            }
            if let Err(text) = member.join(engine.clock()) {
                failed.push(FlowEvent::Failed(member.flow.spec.id, text));
            }
        }
        failed
    }
}

#[allow(clippy::too_many_arguments)]
fn open(
    session: &Session,
    engine: &Engine,
    transport: &dyn GroupTransport,
    spec: &FlowSpec,
    key: [u8; 16],
    source: SocketAddr,
    interface: &Interface,
    options: GroupOptions,
    socket: &UdpOptions,
) -> Result<Member, String> {
    let group = destination(spec, interface.index);
    if source.is_ipv4() != group.is_ipv4() {
        return Err(format!("the group {group} has no sender {source}: another IP version"));
    }
    let socket = UdpSocket::open(socket);
    let socket = Arc::new(socket.map_err(|e| format!("receiving from {group}: {e}"))?);
    let facts = SessionFacts { key, ..session.facts.clone() };
    let flow = Flow::datagrams(
        engine,
        &facts,
        spec.clone(),
        false,
        socket.clone(),
        None,
        None,
        session.events.clone(),
        session.log.clone(),
        None,
    );
    let membership = transport.membership(spec, source, interface);
    let record = record::Membership {
        group: group.to_string(),
        source: membership.and_then(|m| m.source).map(|s| s.to_string()),
        interface: Some(interface.name.clone()),
        ..record::Membership::default()
    };
    Ok(Member {
        flow: Arc::new(flow),
        socket,
        membership,
        record,
        options,
        is_joined: false,
        source,
        group,
        watch: None,
    })
}
