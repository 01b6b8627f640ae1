//! Both ends of a transfer: a connection that carries one volume, which its first bytes state (`wire::transfer`).

use std::io;

use weir_flow::{Failure, StreamPool};
use weir_model::plan::{self, Direction};
use weir_net::poll::Interest;
use weir_net::socket::AsSocket;
use weir_wire::preface::DATA_LEN;
use weir_wire::transfer::{COUNT_LEN, REQUEST_LEN, TransferRequest};

use super::connect::{Progress, is_waiting, reason};
use super::server::{Accepted, wait_for};
use super::{Connection, Context, Side, Slot, WRITE_BYTES, lock};
use crate::transport::StreamSocket;

/// How long a transfer may move nothing at the server: what its socket holds may take as long over a slow path.
const QUIET_NS: u64 = 60_000_000_000;
/// Calls for one connection before the others are served.
const CALLS: usize = 16;

/// What the transfers of a flow have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TransferRole {
    /// The server sends.
    is_reverse: bool,
    /// Maximum volume by the plan's law, bytes.
    most: u64,
}

impl TransferRole {
    /// Those of a connection; `None` for another shape.
    pub(crate) fn of(connection: &plan::Connection) -> Option<Self> {
        let is_reverse = connection.direction == Direction::Reverse;
        Some(TransferRole { is_reverse, most: connection.max_volume()? })
    }
}

/// The client's end of one transfer.
pub(super) struct Fetching {
    /// Preface and request, and how much of them was written.
    opening: [u8; DATA_LEN + REQUEST_LEN],
    opened: usize,
    is_reverse: bool,
    volume: u64,
    /// Bytes of the volume that were written or have arrived.
    moved: u64,
    /// The server's count, as far as it has arrived.
    count: [u8; COUNT_LEN],
    counted: usize,
}

impl Fetching {
    pub(super) fn new(role: TransferRole, volume: u64, preface: &[u8; DATA_LEN]) -> Self {
        let request = TransferRequest { is_reverse: role.is_reverse, volume };
        let mut opening = [0; DATA_LEN + REQUEST_LEN];
        opening[..DATA_LEN].copy_from_slice(preface);
        opening[DATA_LEN..].copy_from_slice(&request.encode());
        let is_reverse = role.is_reverse;
        Fetching { opening, opened: 0, is_reverse, volume, moved: 0, count: [0; 8], counted: 0 }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.opened > 0
    }

    /// Continues as far as the socket allows, for a limited number of calls. `moved` counts bytes of the volume.
    pub(super) fn advance(
        &mut self,
        socket: &dyn StreamSocket,
        pool: &StreamPool,
        buffer: &mut [u8],
        moved: impl FnMut(usize),
    ) -> Progress {
        match self.step(socket, pool, buffer, moved) {
            Ok(progress) => progress,
            Err(e) => Progress::Failed(reason(e.kind())),
        }
    }

    fn step(
        &mut self,
        socket: &dyn StreamSocket,
        pool: &StreamPool,
        buffer: &mut [u8],
        mut moved: impl FnMut(usize),
    ) -> io::Result<Progress> {
        while self.opened < self.opening.len() {
            match socket.send(&self.opening[self.opened..]) {
                Ok(sent) => self.opened += sent,
                Err(e) if is_waiting(&e) => return Ok(Progress::Waits(Interest::WRITE)),
                Err(e) => return Err(e),
            }
        }
        let mut calls = 0;
        while !self.is_reverse && self.moved < self.volume {
            if calls == CALLS {
                return Ok(Progress::Waits(Interest::WRITE));
            }
            calls += 1;
            let most = (self.volume - self.moved).min(WRITE_BYTES as u64) as usize;
            match socket.send(pool.at(self.moved, most)) {
                Ok(sent) => {
                    self.moved += sent as u64;
                    moved(sent);
                }
                Err(e) if is_waiting(&e) => return Ok(Progress::Waits(Interest::WRITE)),
                Err(e) => return Err(e),
            }
        }
        loop {
            if calls == CALLS {
                return Ok(Progress::Waits(Interest::READ));
            }
            calls += 1;
            match socket.recv(buffer) {
                Ok(0) => return Ok(self.end()),
                Ok(n) if self.is_reverse => {
                    self.moved += n as u64;
                    moved(n);
                    if self.moved > self.volume {
                        return Ok(Progress::Failed(Failure::Invalid));
                    }
                }
                Ok(n) => match self.count.get_mut(self.counted..self.counted + n) {
                    Some(room) => {
                        room.copy_from_slice(&buffer[..n]);
                        self.counted += n;
                    }
                    None => return Ok(Progress::Failed(Failure::Invalid)),
                },
                Err(e) if is_waiting(&e) => return Ok(Progress::Waits(Interest::READ)),
                Err(e) => return Err(e),
            }
        }
    }

    /// The server closed the connection.
    fn end(&self) -> Progress {
        match self.is_reverse {
            true if self.moved == self.volume => Progress::Answered,
            false if self.counted == COUNT_LEN => match u64::from_be_bytes(self.count) {
                count if count == self.volume => Progress::Answered,
                _ => Progress::Failed(Failure::Invalid),
            },
            _ => Progress::Failed(Failure::Closed),
        }
    }
}

/// The server's end of one transfer.
pub(super) struct Serving {
    accepted: Accepted,
    request: [u8; REQUEST_LEN],
    have: usize,
    /// The volume of a valid request, and how much of it has moved.
    volume: Option<u64>,
    moved: u64,
    /// Bytes of the count that were written.
    counted: usize,
    interest: Option<Interest>,
    /// When it was accepted, or a byte moved.
    last_ns: u64,
}

impl Serving {
    /// Whether its client has neither sent nor read anything for too long.
    pub(super) fn is_silent(&self, now_ns: u64) -> bool {
        let patience_ns = match self.volume {
            Some(_) => self.accepted.patience_ns.max(QUIET_NS),
            None => self.accepted.patience_ns,
        };
        now_ns >= self.last_ns.saturating_add(patience_ns)
    }

    pub(super) fn socket(&self) -> &dyn AsSocket {
        &*self.accepted.socket
    }

    /// Continues as far as the socket allows, for a limited number of calls. `None`: the connection is to be closed.
    /// `moved` counts bytes of the volume.
    fn step(
        &mut self,
        role: TransferRole,
        pool: &StreamPool,
        buffer: &mut [u8],
        mut moved: impl FnMut(usize),
    ) -> io::Result<Option<Interest>> {
        let socket = &*self.accepted.socket;
        let volume = loop {
            if let Some(volume) = self.volume {
                break volume;
            }
            match socket.recv(&mut self.request[self.have..])? {
                0 => return Ok(None),
                n => self.have += n,
            }
            moved(0);
            if self.have == REQUEST_LEN {
                // The plan is the client's own: another direction or volume is no request of its flow.
                let valid = TransferRequest::decode(&self.request).filter(|r| {
                    r.is_reverse == role.is_reverse && (1..=role.most).contains(&r.volume)
                });
                let Some(request) = valid else { return Ok(None) };
                self.volume = Some(request.volume);
            }
        };
        for _ in 0..CALLS {
            let left = volume - self.moved;
            if left == 0 {
                break;
            }
            let n = match role.is_reverse {
                true => socket.send(pool.at(self.moved, left.min(WRITE_BYTES as u64) as usize))?,
                false => {
                    let most = left.min(buffer.len() as u64) as usize;
                    match socket.recv(&mut buffer[..most])? {
                        // The client gave up.
                        0 => return Ok(None),
                        n => n,
                    }
                }
            };
            self.moved += n as u64;
            moved(n);
        }
        if self.moved < volume {
            return Ok(Some(if role.is_reverse { Interest::WRITE } else { Interest::READ }));
        }
        let count = volume.to_be_bytes();
        while !role.is_reverse && self.counted < COUNT_LEN {
            self.counted += socket.send(&count[self.counted..])?;
        }
        // Closed by the server first, so that the client's port is free immediately.
        Ok(None)
    }

    fn wanted(&self, role: TransferRole) -> Interest {
        let is_sending = match self.volume {
            None => false,
            Some(volume) => role.is_reverse || self.moved == volume,
        };
        if is_sending { Interest::WRITE } else { Interest::READ }
    }
}

/// Takes the connection of a transfer.
pub(super) fn accept(flow: u64, slot: &mut Slot, accepted: Accepted, context: &mut Context) {
    let token = context.shared.connection_token(flow);
    let serving = Serving {
        accepted,
        request: [0; REQUEST_LEN],
        have: 0,
        volume: None,
        moved: 0,
        counted: 0,
        interest: None,
        last_ns: context.clock.monotonic_ns(),
    };
    slot.connections.insert(token, Connection::Transfer(serving));
    serve(slot, token, context);
}

/// Continues a transfer, and closes its connection at the end.
pub(super) fn serve(slot: &mut Slot, token: u64, context: &mut Context) {
    let pool = context.shared.pool(&slot.flow);
    let (Some(role), Side::Server(state)) = (slot.flow.transfers, &slot.flow.side) else { return };
    let Some(Connection::Transfer(serving)) = slot.connections.get_mut(&token) else { return };
    let (clock, mut last_ns) = (context.clock, serving.last_ns);
    let had_begun = serving.volume.is_some();
    let result = serving.step(role, &pool, &mut context.shared.buffer, |bytes| {
        last_ns = clock.monotonic_ns();
        if bytes > 0 {
            lock(state).on_part(bytes, last_ns);
        }
    });
    if !had_begun && serving.volume.is_some() {
        // Like the client, this end counts transfers, not calls.
        lock(state).on_read(0, None, last_ns);
    }
    serving.last_ns = last_ns;
    let wanted = match result {
        Ok(wanted) => wanted,
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Some(serving.wanted(role)),
        Err(_) => None,
    };
    if !wait_for(&*serving.accepted.socket, token, wanted, &mut serving.interest, context) {
        slot.connections.remove(&token);
        context.shared.owners.remove(&token);
    }
}
