//! The readers of the event stream, and the pending events of each.
//!
//! Publishing never waits for a reader: a new event replaces the pending one of the same object. So a reader needs as
//! many slots as there are objects; warnings and alarms have their own, limited number.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::Topics;
use crate::app::lock;
use crate::types::{AlarmEvent, DocumentChange, ObjectKind, StateEvent, WarningEvent};

/// Maximum number of slots of a reader; beyond, samples count as skipped and other events as lost.
const MAX_SLOTS: usize = 4096;

/// A reader that has not taken a chunk for this long does not count as active.
const READING: Duration = Duration::from_secs(4);

/// The key of a slot.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum SlotKey {
    State(ObjectKind, String),
    Sample(ObjectKind, String),
    /// Object, and the code of the warning or the object of the alarm.
    Notice(ObjectKind, String, String),
    Document(String),
}

/// The pending event in a slot.
#[derive(Debug, Clone)]
struct Slot {
    event: &'static str,
    /// JSON; a sample without its start, to which the count of skipped samples is added.
    text: Arc<str>,
    skipped: u64,
    /// Order of arrival.
    number: u64,
}

/// One reader.
#[derive(Debug)]
pub(crate) struct Reader {
    topics: Topics,
    samples: Topics,
    period: Duration,
    network: IpAddr,
    waiting: Mutex<Waiting>,
    road: Mutex<Transmission>,
}

/// The chunk in flight of a reader.
#[derive(Debug, Default)]
struct Transmission {
    /// Since when; absent: the connection is ready for the next one.
    since: Option<Instant>,
    waker: Option<Waker>,
}

#[derive(Debug, Default)]
struct Waiting {
    slots: BTreeMap<SlotKey, Slot>,
    /// When a sample of an object was last sent.
    taken: HashMap<SlotKey, Instant>,
    next: u64,
}

/// All readers.
#[derive(Debug, Default)]
pub(crate) struct Hub {
    readers: Mutex<Vec<Arc<Reader>>>,
    sequences: Mutex<HashMap<(ObjectKind, String), u64>>,
    told: AtomicU64,
}

impl Hub {
    /// A new reader in this network; `None` if it has `most` already.
    pub(crate) fn join(
        &self,
        topics: Topics,
        samples: Topics,
        rate: f64,
        network: IpAddr,
        most: usize,
    ) -> Option<Arc<Reader>> {
        let mut readers = lock(&self.readers);
        if readers.iter().filter(|r| r.network == network).count() >= most {
            return None;
        }
        let reader = Arc::new(Reader {
            topics,
            samples,
            period: Duration::from_secs_f64(1.0 / rate),
            network,
            waiting: Mutex::default(),
            road: Mutex::default(),
        });
        readers.push(reader.clone());
        Some(reader)
    }

    /// Removes a reader.
    pub(crate) fn leave(&self, reader: &Arc<Reader>) {
        lock(&self.readers).retain(|r| !Arc::ptr_eq(r, reader));
    }

    /// Whether an active reader subscribes to samples of this object.
    pub(crate) fn is_wanted(&self, kind: ObjectKind, id: &str) -> bool {
        let now = Instant::now();
        lock(&self.readers).iter().any(|r| r.wants_samples(kind, id) && r.is_reading(now))
    }

    fn tell(
        &self,
        kind: ObjectKind,
        id: &str,
        key: &SlotKey,
        event: &'static str,
        text: &Arc<str>,
    ) {
        self.told.fetch_add(1, Ordering::Relaxed);
        let is_sample = matches!(key, SlotKey::Sample(..));
        for reader in lock(&self.readers).iter() {
            if reader.topics.want(kind, id) && (!is_sample || reader.samples.want(kind, id)) {
                reader.put(key, event, text);
            }
        }
    }

    /// Publishes a new state of an object.
    pub(crate) fn state(&self, state: &StateEvent) {
        if state.state.is_over() {
            self.forget(state.kind, &state.id);
        }
        let key = SlotKey::State(state.kind, state.id.clone());
        self.tell(state.kind, &state.id, &key, "state", &json(state));
    }

    /// Publishes that an object disappeared without an event of its own.
    pub(crate) fn forget(&self, kind: ObjectKind, id: &str) {
        lock(&self.sequences).remove(&(kind, id.to_owned()));
    }

    /// Publishes the latest figures of an object: `field` is `interval` or `emulator`.
    pub(crate) fn sample<T: Serialize>(
        &self,
        kind: ObjectKind,
        id: &str,
        field: &str,
        figures: &T,
    ) {
        let sequence = {
            let mut all = lock(&self.sequences);
            let sequence = all.entry((kind, id.to_owned())).or_default();
            *sequence += 1;
            *sequence
        };
        if !self.is_wanted(kind, id) {
            return;
        }
        // Serialised once for all readers; each adds its count of skipped samples.
        let (kind_text, id_text) = (json(&kind), json(&id));
        let text = format!(
            r#","kind":{kind_text},"id":{id_text},"sequence":{sequence},"at":"{}","{field}":{}}}"#,
            crate::clock::now(),
            json(figures)
        );
        self.tell(kind, id, &SlotKey::Sample(kind, id.into()), "sample", &text.into());
    }

    /// A test warns.
    pub(crate) fn warning(&self, warning: &WarningEvent) {
        let flow = warning.warning.flow.map(|f| f.to_string()).unwrap_or_default();
        let what = format!("{} {flow}", warning.warning.code);
        let key = SlotKey::Notice(warning.kind, warning.id.clone(), what);
        self.tell(warning.kind, &warning.id, &key, "warning", &json(warning));
    }

    /// Publishes that an alarm was raised or cleared.
    pub(crate) fn alarm(&self, alarm: &AlarmEvent) {
        let what = format!("{:?} {}", alarm.alarm.kind, alarm.alarm.object);
        let key = SlotKey::Notice(ObjectKind::Emulators, alarm.id.clone(), what);
        self.tell(ObjectKind::Emulators, &alarm.id, &key, "alarm", &json(alarm));
    }

    /// Publishes that a document was changed.
    pub(crate) fn edited(&self, edited: &DocumentChange) {
        let key = SlotKey::Document(edited.document.clone());
        self.tell(ObjectKind::Documents, &edited.document, &key, "edited", &json(edited));
    }
}

fn json<T: Serialize>(value: &T) -> Arc<str> {
    // Own types with string keys: serialisation cannot fail.
    serde_json::to_string(value).unwrap_or_default().into()
}

impl Reader {
    fn wants_samples(&self, kind: ObjectKind, id: &str) -> bool {
        self.topics.want(kind, id) && self.samples.want(kind, id)
    }

    /// Whether the connection has sent its chunk, or may still do so soon.
    fn is_reading(&self, now: Instant) -> bool {
        self.waits_since().is_none_or(|since| now.saturating_duration_since(since) < READING)
    }

    /// Since when the chunk is in flight.
    pub(crate) fn waits_since(&self) -> Option<Instant> {
        lock(&self.road).since
    }

    /// A chunk was handed to the connection.
    pub(crate) fn is_given(&self, now: Instant) {
        lock(&self.road).since = Some(now);
    }

    /// The connection has sent the chunk.
    pub(crate) fn has_taken(&self) {
        lock(&self.road).since = None;
        self.wake();
    }

    /// Sets the task to wake on new events or when the chunk is sent.
    pub(crate) fn wake_by(&self, waker: &Waker) {
        lock(&self.road).waker = Some(waker.clone());
    }

    fn wake(&self) {
        let waker = lock(&self.road).waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn put(&self, key: &SlotKey, event: &'static str, text: &Arc<str>) {
        let mut waiting = lock(&self.waiting);
        waiting.next += 1;
        let number = waiting.next;
        let is_full = waiting.slots.len() >= MAX_SLOTS;
        match waiting.slots.get_mut(key) {
            Some(slot) => {
                slot.skipped += 1;
                slot.text = text.clone();
            }
            None if is_full => return,
            None => {
                let slot = Slot { event, text: text.clone(), skipped: 0, number };
                waiting.slots.insert(key.clone(), slot);
            }
        }
        drop(waiting);
        self.wake();
    }

    /// Takes the events that are due, oldest first: their text, or when to check again.
    pub(crate) fn take(&self, now: Instant) -> Result<String, Option<Instant>> {
        let mut waiting = lock(&self.waiting);
        let Waiting { slots, taken, .. } = &mut *waiting;
        let mut soonest: Option<Instant> = None;
        let mut due: Vec<(u64, SlotKey)> = vec![];
        for (key, slot) in slots.iter() {
            let at = match key {
                SlotKey::Sample(..) => taken.get(key).map(|last| *last + self.period),
                _ => None,
            };
            match at.filter(|at| *at > now) {
                Some(later) => soonest = Some(soonest.map_or(later, |s| s.min(later))),
                None => due.push((slot.number, key.clone())),
            }
        }
        if due.is_empty() {
            return Err(soonest);
        }
        due.sort();
        let mut out = String::new();
        for (_, key) in due {
            let Some(slot) = slots.remove(&key) else { continue };
            match &key {
                SlotKey::Sample(..) => {
                    out += &format!("event: sample\ndata: {{\"skipped\":{}", slot.skipped);
                    out += &slot.text;
                    taken.insert(key, now);
                }
                _ => out += &format!("event: {}\ndata: {}", slot.event, slot.text),
            }
            out += "\n\n";
        }
        // An old sample is outdated.
        if taken.len() > MAX_SLOTS {
            let period = self.period;
            taken.retain(|_, last| now.saturating_duration_since(*last) < period);
        }
        Ok(out)
    }

    #[cfg(test)]
    fn bytes_held(&self) -> usize {
        lock(&self.waiting).slots.values().map(|s| s.text.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::State;
    use serde_json::{Value, json};

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn join(hub: &Hub, topics: &str, samples: &str) -> Arc<Reader> {
        let parse = |text| Topics::parse("?topics", text).unwrap();
        hub.join(parse(topics), parse(samples), 10.0, HERE, 9).unwrap()
    }

    fn events(text: &str) -> Vec<(String, Value)> {
        text.split("\n\n")
            .filter(|e| !e.is_empty())
            .map(|e| {
                let (event, data) = e.split_once('\n').unwrap();
                let data = data.strip_prefix("data: ").unwrap();
                (
                    event.strip_prefix("event: ").unwrap().into(),
                    serde_json::from_str(data).unwrap_or_else(|e| panic!("{data}: {e}")),
                )
            })
            .collect()
    }

    #[test]
    fn a_slow_reader_gets_the_newest_only_and_never_grows() {
        let hub = Hub::default();
        let slow = join(&hub, "", "");
        for i in 0..10_000 {
            hub.sample(ObjectKind::Tests, "t", "interval", &json!({ "n": i }));
        }
        assert!(slow.bytes_held() < 300, "{}", slow.bytes_held());
        let told = events(&slow.take(Instant::now()).unwrap());
        assert_eq!(told.len(), 1);
        let (event, data) = &told[0];
        assert_eq!((event.as_str(), &data["interval"]["n"]), ("sample", &json!(9999)));
        assert_eq!((&data["sequence"], &data["skipped"]), (&json!(10_000), &json!(9999)));
        assert_eq!((&data["kind"], &data["id"]), (&json!("tests"), &json!("t")));
    }

    #[test]
    fn samples_keep_to_the_rate_and_states_come_at_once() {
        let hub = Hub::default();
        let reader = join(&hub, "", "");
        let begin = Instant::now();
        hub.sample(ObjectKind::Tests, "t", "interval", &1);
        assert!(reader.take(begin).is_ok());
        hub.sample(ObjectKind::Tests, "t", "interval", &2);
        hub.sample(ObjectKind::Tests, "u", "interval", &3);
        let state = StateEvent {
            kind: ObjectKind::Tests,
            id: "t".into(),
            state: State::Ended,
            error: None,
            run_id: None,
            step: None,
        };
        hub.state(&state);
        let soon = begin + Duration::from_millis(50);
        let names: Vec<String> = events(&reader.take(soon).unwrap())
            .into_iter()
            .map(|(event, data)| format!("{event} {}", data["id"]))
            .collect();
        assert_eq!(names, ["sample \"u\"", "state \"t\""]);
        assert_eq!(reader.take(soon), Err(Some(begin + Duration::from_millis(100))));
        assert!(reader.take(begin + Duration::from_millis(100)).is_ok());
        assert_eq!(reader.take(begin + Duration::from_secs(1)), Err(None));
    }

    #[test]
    fn topics_hold_and_readers_leave() {
        let hub = Hub::default();
        let reader = join(&hub, "emulators", "");
        hub.sample(ObjectKind::Tests, "t", "interval", &1);
        assert!(reader.take(Instant::now()).is_err());
        assert!(
            !hub.is_wanted(ObjectKind::Tests, "t") && hub.is_wanted(ObjectKind::Emulators, "e")
        );
        hub.leave(&reader);
        assert!(!hub.is_wanted(ObjectKind::Emulators, "e"));
    }

    #[test]
    fn a_reader_that_takes_nothing_does_not_count() {
        let hub = Hub::default();
        let reader = join(&hub, "", "emulators:e");
        assert!(
            hub.is_wanted(ObjectKind::Emulators, "e") && !hub.is_wanted(ObjectKind::Emulators, "f")
        );
        let long_ago = Instant::now().checked_sub(READING).unwrap();
        reader.is_given(long_ago);
        assert!(!hub.is_wanted(ObjectKind::Emulators, "e"));
        reader.has_taken();
        assert!(hub.is_wanted(ObjectKind::Emulators, "e"));
        reader.is_given(Instant::now());
        assert!(hub.is_wanted(ObjectKind::Emulators, "e"), "it has a while");
    }

    #[test]
    fn samples_are_reported_to_those_who_want_them_and_the_rest_to_all() {
        let hub = Hub::default();
        let reader = join(&hub, "", "tests");
        hub.sample(ObjectKind::Emulators, "e", "emulator", &1);
        assert!(reader.take(Instant::now()).is_err());
        hub.sample(ObjectKind::Tests, "t", "interval", &1);
        let state = StateEvent {
            kind: ObjectKind::Emulators,
            id: "e".into(),
            state: State::Ended,
            error: None,
            run_id: None,
            step: None,
        };
        hub.state(&state);
        assert_eq!(events(&reader.take(Instant::now()).unwrap()).len(), 2);
    }

    #[test]
    fn a_network_has_its_share_of_the_readers() {
        let hub = Hub::default();
        let ask = |network: [u8; 4]| {
            hub.join(Topics::default(), Topics::default(), 1.0, network.into(), 2)
        };
        let (first, _second) = (ask([192, 0, 2, 1]).unwrap(), ask([192, 0, 2, 1]).unwrap());
        assert!(ask([192, 0, 2, 1]).is_none() && ask([192, 0, 2, 2]).is_some());
        hub.leave(&first);
        assert!(ask([192, 0, 2, 1]).is_some());
    }

    #[test]
    fn slots_are_bounded() {
        let hub = Hub::default();
        let reader = join(&hub, "", "");
        for i in 0..20_000 {
            hub.sample(ObjectKind::Tests, &i.to_string(), "interval", &i);
        }
        assert_eq!(lock(&reader.waiting).slots.len(), MAX_SLOTS);
    }
}
