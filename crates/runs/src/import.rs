//! Import of records from outside: JSON lines, one record, or an array of them. Untrusted input.

use std::cell::Cell;
use std::io::{self, BufRead, Read};
use std::rc::Rc;

use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::Value;
use weir_model::document;
use weir_model::record::Record;

use crate::labels::check;
use crate::store::insert;
use crate::{Store, StoreError};

/// Maximum size of a record, bytes of JSON.
pub const MAX_RECORD_BYTES: u64 = 256 << 20;
/// Maximum number of objects and arrays in one record: each may use a kilobyte of memory. A record of a thousand flows with
/// ten minutes of intervals has 1.8 million.
const MAX_RECORD_NODES: u64 = 2_000_000;
/// Beyond the first ten thousand, objects and arrays must have at least this many bytes of input on average, as real records
/// do. Otherwise two bytes of input could allocate a kilobyte.
const BYTES_PER_NODE: u64 = 16;
/// Number of records stored under one lock. A small number lets a test that ends during an import store its record soon.
const BATCH: usize = 50;

/// Maximum number of ids in [`Imported`].
const MAX_IDS: usize = 1000;

/// The result of an import.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Imported {
    /// Number of new records.
    pub added: u64,
    /// Number of records that were stored already and are unchanged.
    pub already_there: u64,
    /// Ids of the records, new or not, in the order of the file: the first 1000.
    pub ids: Vec<String>,
}

impl Store {
    /// Reads records and stores those with a new id.
    ///
    /// # Errors
    /// [`StoreError::Import`] names the first invalid record; those before it are stored, and the import can be
    /// repeated. [`StoreError::Database`] as for [`Store::insert`].
    pub fn import(&mut self, input: &mut dyn BufRead) -> Result<Imported, StoreError> {
        let mut done = Imported::default();
        let mut batch = Vec::with_capacity(BATCH);
        let mut failure = None;
        let outcome = each_record(input, &mut |record| {
            batch.push(record);
            if batch.len() < BATCH {
                return true;
            }
            match self.keep(&mut batch, &mut done) {
                Ok(()) => true,
                Err(e) => {
                    failure = Some(e);
                    false
                }
            }
        });
        if let Some(e) = failure {
            return Err(e);
        }
        self.keep(&mut batch, &mut done)?;
        let kept = done.added + done.already_there;
        outcome.map_err(|(number, reason)| StoreError::Import { number, reason, kept })?;
        Ok(done)
    }

    /// Stores those of these records that have a new id, under one lock.
    ///
    /// # Errors
    /// As [`Store::import`].
    pub fn import_records(&mut self, mut records: Vec<Record>) -> Result<Imported, StoreError> {
        let mut done = Imported::default();
        self.keep(&mut records, &mut done)?;
        Ok(done)
    }

    /// Stores a batch under one lock.
    fn keep(&mut self, batch: &mut Vec<Record>, done: &mut Imported) -> Result<(), StoreError> {
        if batch.is_empty() {
            return Ok(());
        }
        let fail = self.fail("import");
        let transaction = self.write("import")?;
        let mut now = done.clone();
        let mut stopped = None;
        for record in batch.drain(..) {
            // Imported labels must meet the same rules.
            let labels = record.labels.iter().try_for_each(|(key, value)| check(key, value));
            let reason = match labels.and_then(|()| insert(&transaction, &record, &fail)) {
                Ok(is_new) => {
                    *(if is_new { &mut now.added } else { &mut now.already_there }) += 1;
                    if now.ids.len() < MAX_IDS {
                        now.ids.push(record.id);
                    }
                    continue;
                }
                Err(StoreError::Refused { reason, .. }) => reason,
                Err(e @ StoreError::Label { .. }) => e.to_string(),
                Err(e) => return Err(e),
            };
            let kept = now.added + now.already_there;
            stopped = Some(StoreError::Import { number: kept + 1, reason, kept });
            break;
        }
        transaction.commit().map_err(fail)?;
        *done = now;
        stopped.map_or(Ok(()), Err)
    }
}

/// The message for input that is not a record, with what is accepted.
fn unread(error: &dyn std::error::Error) -> String {
    format!(
        "{error}; accepted: records as JSON, concatenated or in an array, as runs export writes them"
    )
}

/// Calls `each` with every record until it returns `false`; fails with the number of the invalid one and the reason.
pub(crate) fn each_record(
    input: &mut dyn BufRead,
    each: &mut dyn FnMut(Record) -> bool,
) -> Result<(), (u64, String)> {
    let first = first_byte(input).map_err(|e| (1, e.to_string()))?;
    let budget = Rc::new(Budget::default());
    let mut number = 1;
    let reader = Bounded { input, budget: budget.clone() };
    let mut json = serde_json::Deserializer::from_reader(reader);
    if first == Some(b'[') {
        let mut stopped = false;
        let array = Array { budget: &budget, number: &mut number, stopped: &mut stopped, each };
        let read = json.deserialize_seq(array).and_then(|()| json.end());
        return if stopped { Ok(()) } else { read.map_err(|e| (number, unread(&e))) };
    }
    for tree in json.into_iter::<Value>() {
        let tree = tree.map_err(|e| (number, unread(&e)))?;
        if !each(document::read(&tree).map_err(|e| (number, unread(&e)))?) {
            return Ok(());
        }
        number += 1;
        budget.renew();
    }
    Ok(())
}

/// The first byte that is not white space, left in the input.
fn first_byte(input: &mut dyn BufRead) -> io::Result<Option<u8>> {
    loop {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() {
            return Ok(None);
        }
        let white = buffer.iter().take_while(|b| b.is_ascii_whitespace()).count();
        let found = buffer.get(white).copied();
        input.consume(white);
        if found.is_some() {
            return Ok(found);
        }
    }
}

/// The size of the record being read.
#[derive(Default)]
struct Budget {
    bytes: Cell<u64>,
    nodes: Cell<u64>,
}

impl Budget {
    fn renew(&self) {
        self.bytes.set(0);
        self.nodes.set(0);
    }
}

/// A reader that fails when the record being read exceeds its budget.
struct Bounded<'a> {
    input: &'a mut dyn BufRead,
    budget: Rc<Budget>,
}

impl Read for Bounded<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.input.read(out)?;
        let nodes = out[..n].iter().filter(|b| matches!(b, b'{' | b'[')).count() as u64;
        let spent = |used: &Cell<u64>, more: u64| {
            used.set(used.get().saturating_add(more));
            used.get()
        };
        let bytes = spent(&self.budget.bytes, n as u64);
        let nodes = spent(&self.budget.nodes, nodes);
        if bytes > MAX_RECORD_BYTES {
            return Err(io::Error::other(format!("a record has at most {MAX_RECORD_BYTES} bytes")));
        }
        if nodes > MAX_RECORD_NODES || nodes > 10_000 + bytes / BYTES_PER_NODE {
            return Err(io::Error::other(format!(
                "a record has at most {MAX_RECORD_NODES} objects and arrays, of {BYTES_PER_NODE} bytes on average"
            )));
        }
        Ok(n)
    }
}

/// An array of records, one at a time.
struct Array<'a> {
    budget: &'a Budget,
    number: &'a mut u64,
    stopped: &'a mut bool,
    each: &'a mut dyn FnMut(Record) -> bool,
}

impl<'de> Visitor<'de> for Array<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("an array of run records")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(tree) = items.next_element::<Value>()? {
            let record = document::read(&tree).map_err(serde::de::Error::custom)?;
            if !(self.each)(record) {
                *self.stopped = true;
                return Err(serde::de::Error::custom("stopped"));
            }
            *self.number += 1;
            self.budget.renew();
        }
        Ok(())
    }
}
