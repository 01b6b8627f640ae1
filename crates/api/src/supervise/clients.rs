//! The sessions of the test server, from its events.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use weir_jobs::{Event, Listening};

use crate::app::lock;
use crate::clock;
use crate::types::{Client, ClientList};

/// Maximum number of finished sessions in the list.
const MAX_ENDED: usize = 100;

/// Clients that test against this host.
#[derive(Debug, Default)]
pub(crate) struct Clients(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    list: ClientList,
    sessions: VecDeque<Client>,
}

impl Clients {
    /// No client yet.
    #[must_use]
    pub(crate) fn new() -> Arc<Clients> {
        Arc::default()
    }

    /// Handles an event of the test server; returns the session and whether it has finished.
    pub(crate) fn take(&self, event: &Event) -> Option<(u64, bool)> {
        let mut state = lock(&self.0);
        match event {
            Event::Listening(Listening { addresses, open }) => {
                state.list.addresses = addresses.clone();
                state.list.open = *open;
                None
            }
            Event::SessionOpened { session, peer, flows, .. } => {
                state.sessions.push_front(Client {
                    session: *session,
                    peer: peer.clone(),
                    flows: *flows,
                    opened_at: clock::now(),
                    closed_at: None,
                    reason: None,
                    report: None,
                });
                let over = state.sessions.iter().filter(|c| c.closed_at.is_some()).count();
                if over > MAX_ENDED
                    && let Some(oldest) = state.sessions.iter().rposition(|c| c.closed_at.is_some())
                {
                    state.sessions.remove(oldest);
                }
                Some((*session, false))
            }
            Event::SessionClosed { session, reason, report, .. } => {
                let found = state.sessions.iter_mut().find(|c| c.session == *session)?;
                found.closed_at = Some(clock::now());
                found.reason = Some(reason.clone());
                found.report = report.as_deref().map(|report| {
                    let mut report = report.clone();
                    // Intervals and distributions belong to the client's record.
                    for flow in &mut report.flows {
                        flow.intervals.clear();
                        flow.histograms.clear();
                        flow.tcp_samples.clear();
                    }
                    report
                });
                Some((*session, true))
            }
            Event::Refused { peer, reason, .. } => {
                state.list.refused += 1;
                state.list.latest_refusal = Some(format!("{peer}: {reason}"));
                None
            }
            _ => None,
        }
    }

    pub(crate) fn list(&self) -> ClientList {
        let state = lock(&self.0);
        let mut list = state.list.clone();
        list.clients = state.sessions.iter().cloned().collect();
        list
    }
}
