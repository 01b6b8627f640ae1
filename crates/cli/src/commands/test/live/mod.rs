//! `--live`: the running test on the whole terminal, with keys that control its connections.
//!
//! A thread of its own draws the screen and reads the keys; [`screen`] decides what is drawn and what a key means.

mod history;
mod keys;
mod screen;

use std::io::{IsTerminal, Stdout, stdin, stdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::JoinHandle;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use weir_model::progress::{FlowProgress, PeerStatus};
use weir_model::record::Interval;
use weir_report::{Start, TextOptions};

use crate::engine::{Answer, Commands, Stop};
use crate::error::CliError;
use keys::Action;
use screen::Screen;

/// Interval at which the view polls for keys and events.
const TICK: Duration = Duration::from_millis(50);

/// The longest wait, at the end of a test, for a terminal that takes no output.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// Whether a live view has changed the terminal's settings: [`restore`] undoes that once.
static ACTIVE: AtomicBool = AtomicBool::new(false);

/// What controls the test that is shown.
#[derive(Debug, Clone)]
pub(crate) struct Controls {
    /// Commands to its connections.
    pub(crate) commands: Commands,
    /// Stops it.
    pub(crate) stop: Stop,
}

/// An event of the test.
enum Update {
    Flows(Vec<FlowProgress>),
    Peer(PeerStatus),
    Interval(Box<Interval>),
    End,
}

/// The live view; dropping it restores the terminal.
pub(super) struct Live {
    events: Sender<Update>,
    thread: JoinHandle<()>,
    finished: Receiver<()>,
}

/// Refuses where the view can't be shown.
///
/// # Errors
/// [`CliError::NotAvailable`] if standard input or output is not a terminal, or is a dumb one.
pub(super) fn check() -> Result<(), CliError> {
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    let (given, reason) = if !stdout().is_terminal() {
        ("standard output", "not a terminal")
    } else if !stdin().is_terminal() {
        ("standard input", "not a terminal")
    } else if is_dumb {
        ("TERM=dumb", "a terminal that can't move its cursor")
    } else {
        return Ok(());
    };
    Err(refused(given, reason.into()))
}

fn refused(given: &str, reason: String) -> CliError {
    CliError::NotAvailable { flag: "--live".into(), given: given.into(), reason }
}

impl Live {
    /// Opens the view. `planned` is the time from the start of the test to the end of sending, if that is known.
    ///
    /// # Errors
    /// [`CliError::NotAvailable`] if it refuses.
    pub(super) fn open(
        start: &Start,
        planned: Option<Duration>,
        options: TextOptions,
        controls: Controls,
    ) -> Result<Live, CliError> {
        let refused = |e: std::io::Error| refused("the terminal", e.to_string());
        let screen = Screen::new(start, planned, options);
        let terminal = take().inspect_err(|_| restore()).map_err(refused)?;
        let (events, received) = mpsc::channel();
        let (ended, finished) = mpsc::channel::<()>();
        let thread = std::thread::Builder::new()
            .name("live".into())
            .spawn(move || {
                let _restored = Restored;
                let _ended = ended;
                show(screen, terminal, &received, &controls);
            })
            .inspect_err(|_| restore())
            .map_err(refused)?;
        Ok(Live { events, thread, finished })
    }

    /// Whether it is still on the terminal: if that fails, the test continues without it.
    pub(super) fn is_shown(&self) -> bool {
        !self.thread.is_finished()
    }

    pub(super) fn flows(&self, changed: &[FlowProgress]) {
        self.send(Update::Flows(changed.to_vec()));
    }

    pub(super) fn peer(&self, status: &PeerStatus) {
        self.send(Update::Peer(*status));
    }

    pub(super) fn interval(&self, interval: &Interval) {
        self.send(Update::Interval(Box::new(interval.clone())));
    }

    /// A view that has failed receives nothing; the test does not depend on it.
    fn send(&self, event: Update) {
        let _ = self.events.send(event);
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.send(Update::End);
        let _ = self.finished.recv_timeout(END_TIMEOUT);
        restore();
    }
}

/// Restores the terminal when the thread of the view ends, also by a panic.
struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        restore();
    }
}

type Screened = Terminal<CrosstermBackend<Stdout>>;

fn take() -> std::io::Result<Screened> {
    ACTIVE.store(true, Ordering::SeqCst);
    enable_raw_mode()?;
    execute!(stdout(), EnterAlternateScreen)?;
    // The alternate screen is empty: clearing it would ask the terminal where its cursor is.
    Terminal::new(CrosstermBackend::new(stdout()))
}

/// Restores the terminal's settings and screen if a live view has changed them. For every way in which the process can end.
pub(crate) fn restore() {
    if ACTIVE.swap(false, Ordering::SeqCst) {
        // First: it writes nothing, so that a terminal that takes no output can't delay it.
        let _ = disable_raw_mode();
        let _ = execute!(stdout(), LeaveAlternateScreen, ratatui::crossterm::cursor::Show);
    }
}

/// Draws and reads keys until the test ends or the terminal fails.
fn show(
    mut screen: Screen,
    mut terminal: Screened,
    events: &Receiver<Update>,
    controls: &Controls,
) {
    let mut is_stale = true;
    let mut pending: Option<(String, Answer)> = None;
    let mut interrupts = 0;
    loop {
        loop {
            match events.try_recv() {
                Ok(Update::Flows(changed)) => screen.flows(&changed),
                Ok(Update::Peer(status)) => screen.peer(status),
                Ok(Update::Interval(interval)) => screen.interval(&interval),
                Ok(Update::End) | Err(TryRecvError::Disconnected) => return,
                Err(TryRecvError::Empty) => break,
            }
            is_stale = true;
        }
        if let Some((done, answer)) = &mut pending
            && let Some(outcome) = answer.poll()
        {
            screen.outcome(outcome.map(|()| std::mem::take(done)));
            pending = None;
            is_stale = true;
        }
        if std::mem::take(&mut is_stale) && terminal.draw(|frame| screen.draw(frame)).is_err() {
            return;
        }
        match event::poll(TICK) {
            Ok(false) => continue,
            Ok(true) => {}
            Err(_) => return,
        }
        is_stale = true;
        let key = match event::read() {
            Ok(Event::Key(key)) => key,
            Ok(_) => continue,
            Err(_) => return,
        };
        match screen.key(key) {
            None => {}
            Some(Action::StopAll(reason)) => {
                interrupts += 1;
                if interrupts >= 3 {
                    // As the third signal does.
                    restore();
                    std::process::exit(reason.exit_code());
                }
                controls.stop.request(reason);
                screen.outcome(Ok("stopping the test".into()));
            }
            Some(Action::Start(flow)) => {
                pending = Some((format!("{flow}: started"), controls.commands.start(Some(&flow))));
            }
            Some(Action::Stop(flow)) => {
                pending = Some((format!("{flow}: stopping"), controls.commands.stop(Some(&flow))));
            }
            Some(Action::Rate(flow, rate)) => {
                let answer = controls.commands.rate(&flow, rate);
                pending = Some((format!("{flow}: rate {rate}"), answer));
            }
        }
    }
}
