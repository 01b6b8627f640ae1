//! The control connection of a session: passes messages to the session's logic, and carries out its actions.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use weir_runs::retention::{Retention, tidy};

use super::frame::{self, Event, Frames, MessageKind, close};
use super::message::{self, Phase, ToPage};
use super::record::{self, Facts, Load};
use super::serve::{Inner, Visitor};
use super::session::{Act, Outcome, SessionMachine};
use super::stream::{self, Run, Session};
use crate::app::lock;

/// Size of a read, bytes.
const READ_BYTES: usize = 8 << 10;
/// A page that does not take a message within this time is disconnected.
const WRITE_TIME: Duration = Duration::from_secs(2);
/// Interval of deleting results that are too old or too many.
const TIDY_EVERY_NS: u64 = 600_000_000_000;
/// Time for the browser to read the last message.
const LAST_TIME: Duration = Duration::from_secs(2);

/// 128 random bits, in a form for URLs.
fn secret() -> Option<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(URL_SAFE_NO_PAD.encode(bytes))
}

/// A registered test; removed from the registry when dropped.
struct RegisteredTest {
    inner: Arc<Inner>,
    visitor: Visitor,
    id: String,
    session: Arc<Session>,
}

impl Drop for RegisteredTest {
    fn drop(&mut self) {
        self.session.run.send_replace(Run::Over);
        lock(&self.inner.sessions).remove(&self.id);
        lock(&self.inner.book).leave(self.visitor.network());
    }
}

pub(super) async fn control(
    inner: Arc<Inner>,
    mut tcp: TcpStream,
    early: Vec<u8>,
    visitor: Visitor,
) {
    let now = inner.now_ns();
    let entered = lock(&inner.book).enter(visitor.network(), &inner.config.limits, now);
    if let Err(busy) = entered {
        let (retry_after_seconds, text) = (busy.retry_after_seconds, busy.text);
        let words = ToPage::Busy { retry_after_seconds, text }.to_text();
        let bytes = [frame::text(&words), frame::close_frame(close::BUSY, "busy")].concat();
        return farewell(tcp, &bytes).await;
    }
    let session = Arc::new(Session::new());
    let Some(id) = secret() else {
        lock(&inner.book).leave(visitor.network());
        return farewell(tcp, &frame::close_frame(1011, "no randomness")).await;
    };
    lock(&inner.sessions).insert(id.clone(), session.clone());
    let entered = RegisteredTest { inner: inner.clone(), visitor, id, session };
    let mut control = Control {
        machine: SessionMachine::new(inner.config.limits, now),
        frames: Frames::new(true, message::MAX_BYTES),
        text: vec![],
        started_at: crate::clock::now(),
        start: Instant::now(),
        before: None,
        download: None,
        upload: None,
        entered,
    };
    let bytes = match control.converse(&mut tcp, early).await {
        Err(End::Said(code, reason)) => frame::close_frame(code, reason),
        Err(End::Gone) | Ok(()) => return,
    };
    drop(control);
    farewell(tcp, &bytes).await;
}

/// Sends the last message and waits a moment: closing immediately with unread data would lose it.
async fn farewell(mut tcp: TcpStream, bytes: &[u8]) {
    let last = async {
        if tcp.write_all(bytes).await.is_err() || tcp.shutdown().await.is_err() {
            return;
        }
        let mut sink = [0; 4096];
        for _ in 0..64 {
            if tcp.readable().await.is_err() || matches!(tcp.try_read(&mut sink), Ok(0)) {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(LAST_TIME, last).await;
}

/// Why a control connection ends.
enum End {
    Gone,
    Said(u16, &'static str),
}

impl From<frame::Violation> for End {
    fn from(violation: frame::Violation) -> End {
        End::Said(violation.code, violation.reason)
    }
}

/// CPU time at the start of a phase.
struct PhaseStart {
    at: Instant,
    phase: Phase,
    thread_ns: u64,
    cores: Option<weir_net::counters::CpuUsage>,
}

struct Control {
    entered: RegisteredTest,
    machine: SessionMachine,
    frames: Frames,
    /// The incoming message, at most [`message::MAX_BYTES`].
    text: Vec<u8>,
    started_at: String,
    start: Instant,
    before: Option<PhaseStart>,
    download: Option<Load>,
    upload: Option<Load>,
}

impl Control {
    async fn converse(&mut self, tcp: &mut TcpStream, mut early: Vec<u8>) -> Result<(), End> {
        let inner = self.entered.inner.clone();
        let hello = self.machine.hello(&inner.config.version, &self.entered.id);
        write(tcp, &frame::text(&hello.to_text())).await?;
        self.take(tcp, &mut early).await?;
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let now = inner.now_ns();
            let acts = self.machine.on_time(now, self.entered.session.counts());
            self.perform(tcp, acts).await?;
            let wake = inner.start + Duration::from_nanos(self.machine.next_ns(now));
            tokio::select! {
                ready = tcp.readable() => {
                    ready.map_err(|_| End::Gone)?;
                    match tcp.try_read(&mut buffer) {
                        Ok(0) => return Err(End::Gone),
                        Ok(n) => self.take(tcp, &mut buffer[..n]).await?,
                        Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                        Err(_) => return Err(End::Gone),
                    }
                }
                () = tokio::time::sleep_until(wake.into()) => {}
            }
        }
    }

    /// Handles received bytes.
    async fn take(&mut self, tcp: &mut TcpStream, mut bytes: &mut [u8]) -> Result<(), End> {
        while !bytes.is_empty() {
            let (used, event) = self.frames.take(bytes)?;
            match event {
                Some(Event::Data { kind: MessageKind::Binary, .. }) => {
                    return Err(End::Said(close::UNSUPPORTED, "data on the control connection"));
                }
                Some(Event::Data { from, to, ends, .. }) => {
                    self.text.extend_from_slice(&bytes[from..to]);
                    if ends {
                        let text = std::mem::take(&mut self.text);
                        let text = std::str::from_utf8(&text)
                            .map_err(|_| End::Said(close::NOT_UTF8, "a text is not UTF-8"))?;
                        let (now, counts) =
                            (self.entered.inner.now_ns(), self.entered.session.counts());
                        let acts = self.machine.on_message(now, message::read(text), counts);
                        self.perform(tcp, acts).await?;
                    }
                }
                Some(Event::Ping(payload)) => write(tcp, &frame::pong(&payload)).await?,
                Some(Event::Close(_)) => return Err(End::Said(close::NORMAL, "")),
                Some(Event::Pong) | None => {}
            }
            bytes = &mut bytes[used..];
        }
        Ok(())
    }

    async fn perform(&mut self, tcp: &mut TcpStream, acts: Vec<Act>) -> Result<(), End> {
        for act in acts {
            match act {
                Act::Say(message) => write(tcp, &frame::text(&message.to_text())).await?,
                Act::Run(Some((phase, until))) => {
                    self.before = Some(PhaseStart {
                        at: Instant::now(),
                        phase,
                        thread_ns: weir_net::clock::thread_cpu_ns(),
                        cores: weir_net::counters::cpu_times().ok(),
                    });
                    self.entered.session.run.send_replace(Run::Phase(phase, until));
                }
                Act::Run(None) => {
                    self.entered.session.run.send_replace(Run::Nothing);
                    self.look();
                }
                Act::Keep(outcome) => {
                    let retransmits = stream::info(tcp).map_or(0, |i| i.total_retransmits.into());
                    let told = self.keep(outcome, retransmits).await;
                    write(tcp, &frame::text(&told.to_text())).await?;
                }
                Act::Close(code, reason) => return Err(End::Said(code, reason)),
            }
        }
        Ok(())
    }

    /// Records the CPU use of the finished phase.
    fn look(&mut self) {
        let Some(before) = self.before.take() else { return };
        let wall = before.at.elapsed().as_nanos().max(1) as f64;
        let thread = weir_net::clock::thread_cpu_ns().saturating_sub(before.thread_ns);
        let busiest =
            before.cores.zip(weir_net::counters::cpu_times().ok()).and_then(|(then, now)| {
                let share = now.cores.iter().filter_map(|(id, core)| {
                    let (_, before) = then.cores.iter().find(|(other, _)| other == id)?;
                    let all =
                        core.total_ns().checked_sub(before.total_ns()).filter(|all| *all > 0)?;
                    Some(core.busy_ns().saturating_sub(before.busy_ns()) as f64 / all as f64)
                });
                share.reduce(f64::max)
            });
        let load = Load { thread_ratio: thread as f64 / wall, busiest_core_ratio: busiest };
        match before.phase {
            Phase::Download => self.download = Some(load),
            Phase::Upload => self.upload = Some(load),
        }
    }

    /// Whether old results are deleted with this one.
    fn is_tidying_due(&self) -> bool {
        let now = self.entered.inner.now_ns();
        let mut last = lock(&self.entered.inner.tidied_ns);
        let is_due = last.is_none_or(|at| now.saturating_sub(at) >= TIDY_EVERY_NS);
        if is_due {
            *last = Some(now);
        }
        is_due
    }

    /// Stores the result; `retransmits` is of this connection.
    async fn keep(&self, outcome: Outcome, retransmits: u64) -> ToPage {
        let not_kept = |text: &str| ToPage::NotKept { code: "server", text: text.into() };
        let Some(link_id) = secret() else {
            return not_kept("No random bytes are available for a link.");
        };
        let (inner, visitor) = (&self.entered.inner, &self.entered.visitor);
        let canonical = |a: SocketAddr| SocketAddr::new(a.ip().to_canonical(), a.port());
        let browser = canonical(visitor.address);
        let facts = Facts {
            run_id: crate::clock::new_id(),
            link_id: link_id.clone(),
            started_at: self.started_at.clone(),
            version: inner.config.version.clone(),
            seconds: self.start.elapsed().as_secs_f64(),
            server: canonical(visitor.here),
            browser: (!inner.config.anonymous).then_some(browser),
            is_ipv6: browser.is_ipv6(),
            seed: inner.seed,
            streams: inner.config.limits.streams,
            phase_seconds: inner.config.limits.phase_seconds,
            host: None,
            download: self.download,
            upload: self.upload,
            tcp: *lock(&self.entered.session.tcp),
            control_retransmits: retransmits,
        };
        let data = inner.config.data.clone();
        let (limits, is_due) = (inner.config.limits, self.is_tidying_due());
        let kept = tokio::task::spawn_blocking(move || {
            let record = record::record(&outcome, &Facts { host: host(&facts.version), ..facts });
            let mut store = weir_runs::Store::open_at(&data)?;
            store.insert(&record)?;
            if is_due {
                // A failed deletion is repeated later: the visitor's result is stored.
                let kept = Retention {
                    label: record::LABEL,
                    own: &[record::STREAMS],
                    days: limits.kept_days,
                    most: limits.kept_results,
                };
                let _ = tidy(&mut store, &kept, crate::clock::unix_ms() as i64);
            }
            Ok::<_, weir_runs::StoreError>(())
        });
        match kept.await {
            Ok(Ok(())) => ToPage::Kept { url: format!("/?result={link_id}"), id: link_id },
            // The reason is private to this host.
            Ok(Err(_)) | Err(_) => not_kept("The server could not store it."),
        }
    }
}

async fn write(tcp: &mut TcpStream, bytes: &[u8]) -> Result<(), End> {
    match tokio::time::timeout(WRITE_TIME, tcp.write_all(bytes)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(End::Gone),
    }
}

/// This host, for the record.
fn host(version: &str) -> Option<weir_model::record::Host> {
    let facts = weir_net::host::host().ok()?;
    Some(weir_model::record::Host {
        host: facts.hostname,
        version: version.into(),
        os: facts.os,
        kernel: facts.kernel,
        cpu: weir_model::record::CpuFacts {
            model: facts.cpu_model.unwrap_or_default(),
            cores: facts.cpu_cores,
            governor: facts.governor,
            cache_bytes: facts.cache_bytes.into_iter().collect(),
        },
        memory_bytes: facts.memory_bytes,
        virtual_machine: facts.virtualisation,
        clocksource: facts.clocksource,
        ..Default::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_long_and_fit_a_link() {
        let (a, b) = (secret().unwrap(), secret().unwrap());
        assert_eq!((a.len(), b.len()), (22, 22));
        assert_ne!(a, b);
    }
}
