//! Pages: a first object, then the others on a limited number of connections at the same time. A page is loaded when its
//! last object has arrived.

use std::collections::BTreeMap;

use weir_laws::slot;
use weir_model::plan::{self, FlowSpec};
use weir_model::record::Pages;
use weir_stats::DelaySummary;

use crate::receive::delay_record;
use crate::sizes::Sizes;

/// A page of which not all objects have arrived.
#[derive(Debug, Clone, Copy)]
struct Page {
    start_ns: u64,
    objects: u64,
    /// Objects whose transfer has not ended.
    left: u64,
    /// Objects of which no transfer was asked for.
    waiting: u64,
    has_failed: bool,
    /// When the last of its objects was complete.
    end_ns: u64,
    is_counted: bool,
}

/// An object of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Object {
    page: u64,
    /// The first one, which refers to the others.
    pub(crate) is_first: bool,
}

/// What follows the end of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Transfers of this number of further objects of the page may start.
    Objects { page: u64, count: u64 },
    /// The page has ended: its user pauses.
    PageEnded { page: u64 },
}

/// The pages of a flow's users.
#[derive(Debug, Clone)]
pub(crate) struct Paging {
    first_volumes: Sizes,
    objects: Sizes,
    connections: u64,
    next: u64,
    /// Pages that have not ended.
    open: BTreeMap<u64, Page>,
    loaded: u64,
    loaded_objects: u64,
    failed: u64,
    load_time: DelaySummary,
}

impl Paging {
    /// Those of a flow; `None` if it transfers single objects.
    pub(crate) fn of(spec: &FlowSpec) -> Option<Self> {
        let plan::Connection { objects, main_volume, volume, direction, .. } = &spec.connection;
        let first = main_volume.as_ref().or(volume.as_ref())?;
        Some(Paging {
            objects: Sizes::in_slot(
                objects.as_ref()?,
                spec.seed,
                &spec.name,
                *direction,
                slot::OBJECTS,
            ),
            first_volumes: Sizes::new(first, spec.seed, &spec.name, *direction),
            connections: spec.connection.page_connections().into(),
            next: 0,
            open: BTreeMap::new(),
            loaded: 0,
            loaded_objects: 0,
            failed: 0,
            load_time: DelaySummary::new(),
        })
    }

    /// Bytes of transfer `number`, if it is that of a first object.
    pub(crate) fn first_volume(&self, number: u64) -> u64 {
        self.first_volumes.at(number) as u64
    }

    /// A transfer starts: of the next object of `page`, or of the first one of a new page.
    pub(crate) fn started(&mut self, page: Option<u64>, now_ns: u64, is_counted: bool) -> Object {
        if let Some(page) = page {
            return Object { page, is_first: false };
        }
        let page = self.next;
        self.next += 1;
        let objects = self.objects.at(page) as u64;
        let new = Page {
            start_ns: now_ns,
            objects,
            left: objects,
            waiting: objects - 1,
            has_failed: false,
            end_ns: 0,
            is_counted,
        };
        self.open.insert(page, new);
        Object { page, is_first: true }
    }

    /// The transfer of an object has ended: it was complete at `done_ns`, or has failed.
    pub(crate) fn closed(&mut self, object: Object, done_ns: Option<u64>) -> Option<Next> {
        let page = self.open.get_mut(&object.page)?;
        let has_failed = done_ns.is_none();
        page.left -= 1;
        page.has_failed |= has_failed;
        page.end_ns = page.end_ns.max(done_ns.unwrap_or(0));
        if object.is_first && has_failed {
            // What it would have referred to is unknown.
            (page.left, page.waiting) = (0, 0);
        }
        if page.left == 0 {
            let page = self.open.remove(&object.page)?;
            self.end(&page);
            return Some(Next::PageEnded { page: object.page });
        }
        let room = if object.is_first { self.connections } else { 1 };
        let count = page.waiting.min(room);
        page.waiting -= count;
        Some(Next::Objects { page: object.page, count })
    }

    fn end(&mut self, page: &Page) {
        match page.has_failed {
            _ if !page.is_counted => {}
            true => self.failed += 1,
            false => {
                self.loaded += 1;
                self.loaded_objects += page.objects;
                self.load_time.record(page.end_ns.saturating_sub(page.start_ns) as i64);
            }
        }
    }

    /// How long loaded pages took.
    pub(crate) fn load_time(&self) -> &DelaySummary {
        &self.load_time
    }

    /// Its part of the record. `seconds`: the time of the transactions.
    pub(crate) fn report(&self, seconds: f64) -> Pages {
        let loaded = self.loaded as f64;
        Pages {
            loaded: self.loaded,
            failed: self.failed,
            unfinished: self.open.values().filter(|page| page.is_counted).count() as u64,
            pages_per_second: (seconds > 0.0).then(|| loaded / seconds),
            mean_objects: (self.loaded > 0).then(|| self.loaded_objects as f64 / loaded),
            load_time: delay_record(&self.load_time, None),
        }
    }
}
