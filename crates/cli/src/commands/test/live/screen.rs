//! What the live view shows and what its keys do, without a terminal.

use std::collections::BTreeMap;
use std::time::Duration;

use ratatui::Frame;
use ratatui::crossterm::event::KeyEvent;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Table};
use weir_model::plan::Direction;
use weir_model::progress::{FlowProgress, FlowState, PeerStatus};
use weir_model::record::{Interval, IntervalCount, IntervalFlow, IntervalTotals};
use weir_model::units::SendRate;
use weir_report::{FlowMeta, Start, TextOptions, clean, duration, percent, significant, volume};

use super::history::History;
use super::keys::{Action, Key};
use crate::engine::StopReason;

/// Rows of the histogram's box, with its border.
const HISTOGRAM_ROWS: u16 = 8;

/// Columns of a curve at most.
const CURVE_COLUMNS: u16 = 60;

/// Longest rate that can be typed.
const MAX_TYPED: usize = 32;

/// One connection on the screen.
#[derive(Debug)]
struct Connection {
    meta: FlowMeta,
    state: Option<FlowState>,
    history: History,
}

/// The screen of a test.
#[derive(Debug)]
pub(super) struct Screen {
    title: String,
    planned_seconds: Option<f64>,
    options: TextOptions,
    flows: Vec<Connection>,
    /// Index of each flow by its number.
    places: BTreeMap<u32, usize>,
    chosen: usize,
    /// First row in sight.
    top: usize,
    /// The rate that is being typed.
    typed: Option<String>,
    message: Option<Result<String, String>>,
    peer: PeerStatus,
    /// The newest interval's end, and its sums.
    seconds: Option<f64>,
    total: IntervalTotals,
}

impl Screen {
    /// The screen of a test that starts.
    pub(super) fn new(start: &Start, planned: Option<Duration>, options: TextOptions) -> Screen {
        let plan = &start.plan;
        let server = plan.host.as_deref().map(clean).unwrap_or_default();
        let title = [plan.title.as_deref().map(clean).unwrap_or_default(), server];
        let row = |meta: &FlowMeta| Connection {
            meta: meta.clone(),
            state: None,
            history: History::new(meta.kinds().1),
        };
        Screen {
            title: title.into_iter().filter(|t| !t.is_empty()).collect::<Vec<_>>().join(" · "),
            planned_seconds: planned.map(|time| time.as_secs_f64()),
            options,
            flows: start.flows.iter().map(row).collect(),
            places: start.flows.iter().enumerate().map(|(place, f)| (f.id, place)).collect(),
            chosen: 0,
            top: 0,
            typed: None,
            message: None,
            peer: PeerStatus::default(),
            seconds: None,
            total: IntervalTotals::default(),
        }
    }

    /// States of flows have changed.
    pub(super) fn flows(&mut self, changed: &[FlowProgress]) {
        for flow in changed {
            if let Some(row) = self.places.get(&flow.id).and_then(|at| self.flows.get_mut(*at)) {
                row.state = Some(flow.state);
            }
        }
    }

    /// The peer has become unreachable, or reachable again.
    pub(super) fn peer(&mut self, status: PeerStatus) {
        self.peer = status;
    }

    /// An interval is over.
    pub(super) fn interval(&mut self, interval: &Interval) {
        self.seconds = Some(interval.end_seconds);
        self.total.clone_from(&interval.total);
        let mut figures: BTreeMap<u32, IntervalFlow> =
            interval.flows.iter().map(|flow| (flow.id, flow.clone())).collect();
        for row in &mut self.flows {
            row.history.add(figures.remove(&row.meta.id).unwrap_or_default());
        }
    }

    /// The outcome of a command.
    pub(super) fn outcome(&mut self, outcome: Result<String, String>) {
        self.message = Some(outcome);
    }

    /// A key was pressed.
    pub(super) fn key(&mut self, event: KeyEvent) -> Option<Action> {
        let key = Key::of(event)?;
        if key == Key::Interrupt {
            return Some(Action::StopAll(StopReason::Interrupted));
        }
        if self.typed.is_some() {
            return self.typed_key(key);
        }
        self.message = None;
        let last = self.flows.len().saturating_sub(1);
        let flow = self.flows.get(self.chosen).map(|row| row.meta.name.clone());
        match key {
            Key::Up | Key::Letter('k') => self.chosen = self.chosen.saturating_sub(1),
            Key::Down | Key::Letter('j') => self.chosen = (self.chosen + 1).min(last),
            Key::PageUp => self.chosen = self.chosen.saturating_sub(10),
            Key::PageDown => self.chosen = (self.chosen + 10).min(last),
            Key::First => self.chosen = 0,
            Key::Last => self.chosen = last,
            Key::Letter('r') => self.typed = flow.map(|_| String::new()),
            Key::Letter('s') => return flow.map(Action::Start),
            Key::Letter('x') => return flow.map(Action::Stop),
            Key::Letter('q') => return Some(Action::StopAll(StopReason::User)),
            _ => {}
        }
        None
    }

    /// A key while a rate is being typed.
    fn typed_key(&mut self, key: Key) -> Option<Action> {
        let typed = self.typed.as_mut()?;
        match key {
            Key::Letter(letter) if typed.len() < MAX_TYPED && !letter.is_control() => {
                typed.push(letter);
            }
            Key::Backspace => drop(typed.pop()),
            Key::Escape => self.typed = None,
            Key::Enter => {
                let text = self.typed.take()?;
                let flow = self.flows.get(self.chosen)?.meta.name.clone();
                match text.parse::<SendRate>() {
                    Ok(rate) => return Some(Action::Rate(flow, rate)),
                    Err(error) => self.message = Some(Err(error.to_string())),
                }
            }
            _ => {}
        }
        None
    }

    /// Draws everything.
    pub(super) fn draw(&mut self, frame: &mut Frame) {
        let area = frame.area();
        let histogram = if area.height >= 18 { HISTOGRAM_ROWS } else { 0 };
        let parts = Layout::vertical([
            Constraint::Length(1),
            Constraint::Min(3),
            Constraint::Length(histogram),
            Constraint::Length(1),
        ]);
        let [head, table, below, foot] = parts.areas(area);
        self.draw_head(frame, head);
        self.draw_table(frame, table);
        if histogram > 0 {
            self.draw_histogram(frame, below);
        }
        self.draw_foot(frame, foot);
    }

    fn draw_head(&self, frame: &mut Frame, area: Rect) {
        let time = match (self.seconds, self.planned_seconds) {
            (None, _) => "starting".into(),
            (Some(seconds), Some(planned)) => format!("{seconds:.1} of {planned:.1} s"),
            (Some(seconds), None) => format!("{seconds:.1} s"),
        };
        let mut words = vec![self.bold("weir"), Span::raw(" "), Span::raw(self.title.clone())];
        words.push(Span::raw(format!("  {time}")));
        let totals = [("→", &self.total.forward), ("←", &self.total.reverse)];
        for (arrow, ends) in totals {
            let Some(ends) = ends else { continue };
            let shown = ends.receiver.as_ref().or(ends.sender.as_ref());
            let rate = shown.and_then(|count| count.bits_per_second);
            let rate = rate.map_or("-".into(), |rate| self.options.units.rate(rate));
            let mark = if ends.receiver.is_none() { "*" } else { "" };
            words.push(Span::raw(format!("  {arrow} {}{mark}", rate.trim())));
        }
        if let Some(since) = self.peer.unreachable_since_seconds {
            let told = format!("  peer unreachable since {since:.0} s");
            words.push(Span::styled(told, self.colour(Color::Red)));
        }
        frame.render_widget(Paragraph::new(Line::from(words)), area);
    }

    fn draw_table(&mut self, frame: &mut Frame, area: Rect) {
        let kinds = || self.flows.iter().map(|row| row.meta.kinds());
        let (has_tcp, has_udp) = (kinds().any(|k| k.0), kinds().any(|k| k.1));
        let mut transacting =
            self.flows.iter().map(|row| &row.meta).filter(|meta| meta.shape.has_transactions());
        let transactions = transacting.next().map(|meta| match meta.shape.has_volumes() {
            true => "Transf/s",
            false if meta.transport.echoes() => "Replies/s",
            false => "Trans/s",
        });
        // The heading takes a row.
        let in_sight = usize::from(area.height.saturating_sub(1)).max(1);
        self.top = self.top.clamp((self.chosen + 1).saturating_sub(in_sight), self.chosen);

        let mut columns = columns(&self.options, has_tcp, has_udp, transactions);
        let used = |columns: &[Column]| columns.iter().map(|c| c.width + 1).sum::<u16>();
        // A narrow terminal shows the columns that matter most, whole.
        while columns.len() > 1 && used(&columns) > area.width + 1 {
            let last = columns.iter().map(|c| c.rank).max().unwrap_or(0);
            columns.retain(|c| c.rank < last);
        }
        let curve = area.width.saturating_sub(used(&columns)).min(CURVE_COLUMNS);
        let widths: Vec<_> = columns.iter().map(|c| c.width).chain([curve]).collect();
        let names = columns.iter().map(|c| Cell::from(c.name)).chain([Cell::from("")]);
        let heading = Row::new(names).style(Style::new().add_modifier(Modifier::BOLD));

        let shown = self.flows.iter().enumerate().skip(self.top).take(in_sight);
        let rows = shown.map(|(place, flow)| {
            let curve =
                Span::styled(flow.history.sparkline(curve.into()), self.colour(Color::Cyan));
            let cells = columns.iter().map(|column| self.cell(flow, column.content));
            let cells = cells.chain([Cell::from(curve)]);
            let style = match place == self.chosen {
                true => Style::new().add_modifier(Modifier::REVERSED),
                false => Style::new(),
            };
            Row::new(cells).style(style)
        });
        frame.render_widget(Table::new(rows, widths).header(heading).column_spacing(1), area);
    }

    fn cell(&self, flow: &Connection, content: Content) -> Cell<'_> {
        let (tcp, udp) = flow.meta.kinds();
        let history = &flow.history;
        let sent = |get: fn(&IntervalCount) -> Option<f64>| history.sender.as_ref().and_then(get);
        let received =
            |get: fn(&IntervalCount) -> Option<f64>| history.receiver.as_ref().and_then(get);
        let (is_there, text) = match content {
            Content::Number => return Cell::from(flow.meta.id.to_string()),
            Content::Name => return Cell::from(clean(&flow.meta.name).to_string()),
            Content::Direction => {
                return Cell::from(match flow.meta.direction {
                    Direction::Forward => "→",
                    Direction::Reverse => "←",
                });
            }
            Content::State => return Cell::from(flow.state.map_or("", state)),
            Content::Rate => {
                let mark = if history.is_senders_rate() { "*" } else { "" };
                (true, history.rate().map(|rate| self.options.units.rate(rate) + mark))
            }
            Content::Loss => (udp, history.loss().map(percent)),
            Content::Delay => (udp, received(|c| c.mean_delay_seconds).map(duration)),
            Content::Jitter => (udp, received(|c| c.jitter_seconds).map(duration)),
            Content::RoundTrip => (tcp, sent(|c| c.rtt_seconds).map(duration)),
            Content::Retransmits => {
                let count = history.sender.as_ref().and_then(|c| c.retransmits);
                (tcp, count.map(|n| n.to_string()))
            }
            Content::Window => {
                let window = history.sender.as_ref().and_then(|c| c.cwnd_bytes);
                (tcp, window.map(volume))
            }
            Content::Transactions => {
                let rate = sent(|c| c.transactions_per_second)
                    .or_else(|| received(|c| c.transactions_per_second))
                    .map(significant);
                (flow.meta.shape.has_transactions(), rate)
            }
        };
        let is_lossy = content == Content::Loss && history.loss().is_some_and(|loss| loss > 0.0);
        let style = if is_lossy { self.colour(Color::Red) } else { Style::new() };
        let absent = if is_there { "-" } else { "" };
        let line = Line::from(text.unwrap_or(absent.into())).alignment(Alignment::Right);
        Cell::from(line).style(style)
    }

    /// How the delays of the chosen flow's intervals are distributed: one line for each step, from the smallest.
    fn draw_histogram(&self, frame: &mut Frame, area: Rect) {
        let Some(flow) = self.flows.get(self.chosen) else { return };
        let what = match flow.meta.kinds().1 {
            true => "mean one-way delay",
            false => "round trip",
        };
        let title = format!(" {}: {what} of each interval ", clean(&flow.meta.name));
        let block = Block::bordered().title(title);
        let inside = block.inner(area);
        frame.render_widget(block, area);
        let bins = usize::from(inside.height);
        let Some((smallest, largest, counts)) = flow.history.histogram(bins) else {
            return frame.render_widget(Paragraph::new("no two different values yet"), inside);
        };
        let step = (largest - smallest) / bins as f64;
        let fullest = counts.iter().copied().max().unwrap_or(1).max(1);
        // Each bar has its bounds and its count before it.
        let columns = f64::from(inside.width.saturating_sub(32));
        let lines = counts.iter().enumerate().map(|(bin, count)| {
            let bounds = smallest + step * bin as f64;
            let length = (*count as f64 / fullest as f64 * columns).ceil() as usize;
            Line::from(vec![
                Span::raw(format!("{:>9} – {:<9}", duration(bounds), duration(bounds + step))),
                Span::raw(format!("{count:>6} ")),
                Span::styled("█".repeat(length), self.colour(Color::Cyan)),
            ])
        });
        frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), inside);
    }

    fn draw_foot(&self, frame: &mut Frame, area: Rect) {
        let line = match (&self.typed, &self.message) {
            (Some(typed), _) => {
                Line::from(format!("new rate (10M, 5000pps, 0: unlimited): {typed}▏"))
            }
            (None, Some(Ok(done))) => Line::from(done.clone()),
            (None, Some(Err(refusal))) => {
                Line::from(Span::styled(clean(refusal).to_string(), self.colour(Color::Red)))
            }
            (None, None) => Line::from(
                "↑ ↓ select   s start   x stop   r rate   q stop the test   * sender's figure",
            ),
        };
        frame.render_widget(Paragraph::new(line), area);
    }

    fn bold(&self, text: &'static str) -> Span<'static> {
        Span::styled(text, Style::new().add_modifier(Modifier::BOLD))
    }

    /// A colour, where colours are shown.
    fn colour(&self, colour: Color) -> Style {
        match self.options.style == weir_report::Style::COLOUR {
            true => Style::new().fg(colour),
            false => Style::new(),
        }
    }
}

/// What a column shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Number,
    Name,
    Direction,
    State,
    Rate,
    Loss,
    Delay,
    Jitter,
    RoundTrip,
    Retransmits,
    Window,
    Transactions,
}

/// A column of the table.
struct Column {
    name: &'static str,
    width: u16,
    /// Columns of the highest rank are the first to go where the terminal is narrow.
    rank: u8,
    content: Content,
}

/// The columns of a test with these kinds of flows; `transactions` is the name of their column.
fn columns(
    options: &TextOptions,
    tcp: bool,
    udp: bool,
    transactions: Option<&'static str>,
) -> Vec<Column> {
    // With the mark of a sender's figure.
    let rate = u16::try_from(options.units.rate_width() + 1).unwrap_or(15);
    let all = [
        (true, "ID", 5, 1, Content::Number),
        (true, "Connection", 16, 0, Content::Name),
        (true, "", 1, 4, Content::Direction),
        (true, "State", 8, 4, Content::State),
        (true, "Rate", rate, 0, Content::Rate),
        (udp, "Loss", 8, 2, Content::Loss),
        (udp, "Delay", 8, 3, Content::Delay),
        (udp, "Jitter", 8, 5, Content::Jitter),
        (tcp, "RTT", 8, 3, Content::RoundTrip),
        (tcp, "Retr", 6, 2, Content::Retransmits),
        (tcp, "Cwnd", 8, 5, Content::Window),
        (transactions.is_some(), transactions.unwrap_or(""), 9, 2, Content::Transactions),
    ];
    let shown = all.into_iter().filter(|column| column.0);
    shown.map(|(_, name, width, rank, content)| Column { name, width, rank, content }).collect()
}

fn state(state: FlowState) -> &'static str {
    match state {
        FlowState::Waiting => "waiting",
        FlowState::Started => "running",
        FlowState::Stopping => "stopping",
        FlowState::Finished => "finished",
        FlowState::Failed => "failed",
    }
}

#[cfg(test)]
mod tests;
