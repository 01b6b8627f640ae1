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
use std::time::{Duration, Instant};

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

use crate::engine::{Commands, Stop, StopReason};
use crate::error::CliError;
use keys::Action;
use screen::Screen;

/// Time between two looks for keys and news; a key waits no longer than this for news.
const TICK: Duration = Duration::from_millis(50);

/// Whether the terminal is in our state: [`restore`] undoes it once.
static ACTIVE: AtomicBool = AtomicBool::new(false);

/// What controls the test that is shown.
#[derive(Debug, Clone)]
pub(crate) struct Controls {
    /// Commands to its connections.
    pub(crate) commands: Commands,
    /// Stops it.
    pub(crate) stop: Stop,
}

/// News of the test.
enum News {
    Flows(Vec<FlowProgress>),
    Peer(PeerStatus),
    Interval(Box<Interval>),
    End,
}

/// The live view; dropping it gives the terminal back.
pub(super) struct Live {
    news: Sender<News>,
    thread: Option<JoinHandle<()>>,
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
    /// Takes the terminal. `planned` is the time for which the test sends, if that is known.
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
        let (news, received) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("live".into())
            .spawn(move || show(screen, terminal, &received, &controls))
            .inspect_err(|_| restore())
            .map_err(refused)?;
        Ok(Live { news, thread: Some(thread) })
    }

    pub(super) fn flows(&self, changed: &[FlowProgress]) {
        self.tell(News::Flows(changed.to_vec()));
    }

    pub(super) fn peer(&self, status: &PeerStatus) {
        self.tell(News::Peer(*status));
    }

    pub(super) fn interval(&self, interval: &Interval) {
        self.tell(News::Interval(Box::new(interval.clone())));
    }

    /// A view that has failed gets no news; the test does not depend on it.
    fn tell(&self, news: News) {
        let _ = self.news.send(news);
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.tell(News::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
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

/// Gives the terminal back as it was, if a live view has it. For every way in which the process can end.
pub(crate) fn restore() {
    if ACTIVE.swap(false, Ordering::SeqCst) {
        let _ = execute!(stdout(), LeaveAlternateScreen, ratatui::crossterm::cursor::Show);
        let _ = disable_raw_mode();
    }
}

/// Draws and reads keys until the test ends. If the terminal fails, the test goes on without its view.
fn show(mut screen: Screen, mut terminal: Screened, news: &Receiver<News>, controls: &Controls) {
    let (began, mut is_stale) = (Instant::now(), true);
    let mut drawn_second = 0;
    loop {
        loop {
            match news.try_recv() {
                Ok(News::Flows(changed)) => screen.flows(&changed),
                Ok(News::Peer(status)) => screen.peer(status),
                Ok(News::Interval(interval)) => screen.interval(&interval),
                Ok(News::End) | Err(TryRecvError::Disconnected) => return,
                Err(TryRecvError::Empty) => break,
            }
            is_stale = true;
        }
        let second = began.elapsed().as_secs();
        if is_stale || second != drawn_second {
            if terminal.draw(|frame| screen.draw(frame, began.elapsed())).is_err() {
                return;
            }
            (is_stale, drawn_second) = (false, second);
        }
        match event::poll(TICK) {
            Ok(false) => continue,
            Ok(true) => {}
            Err(_) => return,
        }
        match event::read() {
            Ok(Event::Key(key)) => {
                if let Some(action) = screen.key(key) {
                    carry_out(action, &mut screen, controls);
                }
            }
            Ok(_) => {}
            Err(_) => return,
        }
        is_stale = true;
    }
}

/// Carries out a command and puts its outcome on the screen.
fn carry_out(action: Action, screen: &mut Screen, controls: &Controls) {
    let commands = &controls.commands;
    let (done, outcome) = match action {
        Action::Start(flow) => (format!("{flow}: started"), commands.start(&flow)),
        Action::Stop(flow) => (format!("{flow}: stopping"), commands.stop(&flow)),
        Action::Rate(flow, rate) => {
            let outcome = commands.rate(&flow, rate);
            if outcome.is_ok() {
                screen.rate(&flow, rate);
            }
            (format!("{flow}: rate {rate}"), outcome)
        }
        Action::StopAll => {
            controls.stop.request(StopReason::Interrupted);
            ("stopping the test".into(), Ok(()))
        }
    };
    screen.outcome(outcome.map(|()| done));
}
