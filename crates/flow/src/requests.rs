//! The requests of a flow by number: those without a response, and what must be known of others.

use std::collections::{BTreeMap, VecDeque};

/// A request without a response, or an answered one behind an older one without.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    pub(crate) scheduled_ns: u64,
    pub(crate) sent_ns: u64,
    pub(crate) is_open: bool,
    /// Its connection is established.
    pub(crate) is_set_up: bool,
}

/// Requests by number.
#[derive(Debug, Clone)]
pub(crate) enum Requests {
    /// All since the oldest open one, whose number is the first: for requests that are answered about in order.
    Queue(u64, VecDeque<Request>),
    /// The open ones, and the next number: for transfers, of which one may last as long as millions of others.
    Open(u64, BTreeMap<u64, Request>),
}

impl Requests {
    /// None yet. `are_transfers`: one may be open much longer than others.
    pub(crate) fn new(are_transfers: bool) -> Self {
        match are_transfers {
            false => Requests::Queue(0, VecDeque::new()),
            true => Requests::Open(0, BTreeMap::new()),
        }
    }

    /// Number of the next request.
    pub(crate) fn next_number(&self) -> u64 {
        match self {
            Requests::Queue(base, requests) => base + requests.len() as u64,
            Requests::Open(next, _) => *next,
        }
    }

    /// Requests that are stored.
    pub(crate) fn stored(&self) -> u64 {
        match self {
            Requests::Queue(_, requests) => requests.len() as u64,
            Requests::Open(_, open) => open.len() as u64,
        }
    }

    /// The oldest open request with its number.
    pub(crate) fn oldest(&self) -> Option<(u64, &Request)> {
        match self {
            // Closed requests in front of it are removed.
            Requests::Queue(base, requests) => Some((*base, requests.front()?)),
            Requests::Open(_, open) => open.first_key_value().map(|(number, r)| (*number, r)),
        }
    }

    /// Numbers of all open requests.
    pub(crate) fn open(&self) -> Vec<u64> {
        match self {
            Requests::Queue(base, requests) => {
                let numbered = (*base..).zip(requests);
                numbered.filter(|(_, r)| r.is_open).map(|(number, _)| number).collect()
            }
            Requests::Open(_, open) => open.keys().copied().collect(),
        }
    }

    /// Adds the next request, which is open.
    pub(crate) fn push(&mut self, request: Request) {
        match self {
            Requests::Queue(_, requests) => requests.push_back(request),
            Requests::Open(next, open) => {
                open.insert(*next, request);
                *next += 1;
            }
        }
    }

    /// Uses a number of a transfer without a request.
    pub(crate) fn skip(&mut self) {
        if let Requests::Open(next, _) = self {
            *next += 1;
        }
    }

    /// A stored request.
    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut Request> {
        match self {
            Requests::Queue(base, requests) => {
                requests.get_mut(usize::try_from(number.checked_sub(*base)?).ok()?)
            }
            Requests::Open(_, open) => open.get_mut(&number),
        }
    }

    /// Closes an open request.
    pub(crate) fn close(&mut self, number: u64) -> Option<Request> {
        if let Requests::Open(_, open) = self {
            return open.remove(&number);
        }
        let request = self.get_mut(number).filter(|request| request.is_open)?;
        request.is_open = false;
        let closed = *request;
        self.forget_closed();
        Some(closed)
    }

    fn forget_closed(&mut self) {
        if let Requests::Queue(base, requests) = self {
            while requests.front().is_some_and(|request| !request.is_open) {
                requests.pop_front();
                *base += 1;
            }
        }
    }
}
