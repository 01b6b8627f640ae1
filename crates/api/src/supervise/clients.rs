//! The answering side's sessions, as it tells of them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use weir_model::report::EndReport;

use crate::app::lock;
use crate::clock;
use crate::types::{Client, ClientList};

/// Most sessions that have ended and are still told.
const MOST_ENDED: usize = 100;

/// What the answering side tells.
#[derive(Debug, Clone)]
pub enum ServerNews {
    /// Where it listens, and whether anybody may use it.
    Listening(Vec<String>, bool),
    /// A client came: session, peer, flows.
    Opened(u64, String, usize),
    /// It ended: session, reason, what was measured.
    Closed(u64, String, Option<Box<EndReport>>),
    /// A client was refused: peer and reason.
    Refused(String, String),
}

/// Those who test against this host.
#[derive(Debug, Default)]
pub(crate) struct Clients(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    list: ClientList,
    sessions: VecDeque<Client>,
}

impl Clients {
    /// Nobody yet.
    #[must_use]
    pub(crate) fn new() -> Arc<Clients> {
        Arc::default()
    }

    /// Takes what the answering side tells; returns the session concerned and whether it has ended.
    pub(crate) fn tell(&self, news: ServerNews) -> Option<(u64, bool)> {
        let mut state = lock(&self.0);
        match news {
            ServerNews::Listening(addresses, open) => {
                state.list.addresses = addresses;
                state.list.open = open;
                None
            }
            ServerNews::Opened(session, peer, flows) => {
                state.sessions.push_front(Client {
                    session,
                    peer,
                    flows,
                    opened_at: clock::now(),
                    closed_at: None,
                    reason: None,
                    report: None,
                });
                let over = state.sessions.iter().filter(|c| c.closed_at.is_some()).count();
                if over > MOST_ENDED
                    && let Some(oldest) = state.sessions.iter().rposition(|c| c.closed_at.is_some())
                {
                    state.sessions.remove(oldest);
                }
                Some((session, false))
            }
            ServerNews::Closed(session, reason, report) => {
                let found = state.sessions.iter_mut().find(|c| c.session == session)?;
                found.closed_at = Some(clock::now());
                found.reason = Some(reason);
                found.report = report.map(|r| {
                    let mut report = *r;
                    // Intervals and distributions are for the client's record.
                    for flow in &mut report.flows {
                        flow.intervals.clear();
                        flow.histograms.clear();
                        flow.tcp_samples.clear();
                    }
                    report
                });
                Some((session, true))
            }
            ServerNews::Refused(peer, reason) => {
                state.list.refused += 1;
                state.list.latest_refusal = Some(format!("{peer}: {reason}"));
                None
            }
        }
    }

    pub(crate) fn list(&self) -> ClientList {
        let state = lock(&self.0);
        let mut list = state.list.clone();
        list.clients = state.sessions.iter().cloned().collect();
        list
    }
}
