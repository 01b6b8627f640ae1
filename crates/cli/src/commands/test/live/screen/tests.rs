use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyModifiers};
use weir_model::plan::TransportName;
use weir_model::record::IntervalEnds;

use super::*;

fn screen(flows: u32) -> Screen {
    let meta = |id| FlowMeta {
        id,
        name: format!("flow-{id}"),
        transport: TransportName::Udp,
        ..FlowMeta::default()
    };
    let start = Start { flows: (1..=flows).map(meta).collect(), ..Start::default() };
    Screen::new(&start, Some(Duration::from_secs(10)), TextOptions::default())
}

fn interval(flows: u32, rate: f64) -> Interval {
    let receiver = |id: u32| IntervalCount {
        packets: 90,
        lost_packets: Some(10),
        bits_per_second: Some(rate),
        mean_delay_seconds: Some(0.02 * f64::from(id)),
        ..IntervalCount::default()
    };
    let flow = |id| IntervalFlow { id, receiver: Some(receiver(id)), ..IntervalFlow::default() };
    let total = IntervalEnds {
        receiver: Some(IntervalCount {
            bits_per_second: Some(rate * f64::from(flows)),
            ..IntervalCount::default()
        }),
        ..IntervalEnds::default()
    };
    Interval {
        end_seconds: 3.0,
        flows: (1..=flows).map(flow).collect(),
        total: IntervalTotals { forward: Some(total), reverse: None },
        ..Interval::default()
    }
}

/// The lines of the screen.
fn lines(screen: &mut Screen, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| screen.draw(frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(line).collect()
}

fn press(screen: &mut Screen, code: KeyCode) -> Option<Action> {
    screen.key(KeyEvent::new(code, KeyModifiers::NONE))
}

fn type_in(screen: &mut Screen, text: &str) -> Option<Action> {
    text.chars().for_each(|letter| drop(press(screen, KeyCode::Char(letter))));
    press(screen, KeyCode::Enter)
}

#[test]
fn a_line_has_the_flows_own_figures() {
    let mut screen = screen(2);
    screen.flows(&[FlowProgress { id: 2, state: FlowState::Waiting }]);
    screen.interval(&interval(2, 5e6));
    let shown = lines(&mut screen, 120, 24);
    let line = shown.iter().find(|line| line.contains("flow-2")).unwrap();
    for cell in ["waiting", "10.0%", "40.0 ms", "5.00 Mbit/s", "█"] {
        assert!(line.contains(cell), "{cell}: {line}");
    }
    // A flow that has finished has no figures any more.
    let mut rest = interval(1, 5e6);
    rest.flows[0].receiver = None;
    rest.flows[0].sender =
        Some(IntervalCount { bits_per_second: Some(7e6), ..IntervalCount::default() });
    assert!(shown[0].contains("3.0 of 10.0 s") && shown[0].contains("10.0 Mbit/s"), "{}", shown[0]);
    screen.interval(&rest);
    let shown = lines(&mut screen, 120, 24);
    assert!(!shown.iter().any(|line| line.contains("flow-2") && line.contains("5.00")));
    assert!(shown.iter().any(|line| line.contains("flow-1") && line.contains("7.00 Mbit/s*")));
}

#[test]
fn the_chosen_flow_stays_in_sight_on_any_screen() {
    let mut screen = screen(1000);
    screen.interval(&interval(1000, 1e6));
    press(&mut screen, KeyCode::End);
    for (width, height) in [(120, 24), (80, 25), (40, 10), (10, 4), (1, 1)] {
        let shown = lines(&mut screen, width, height).concat();
        assert_eq!(shown.contains("flow-1000"), width > 20, "{width}x{height}");
    }
    press(&mut screen, KeyCode::Home);
    assert!(lines(&mut screen, 80, 25).concat().contains("flow-1 "));
}

#[test]
fn keys_command_the_chosen_flow() {
    let mut screen = screen(3);
    press(&mut screen, KeyCode::Down);
    assert_eq!(press(&mut screen, KeyCode::Char('x')), Some(Action::Stop("flow-2".into())));
    assert_eq!(press(&mut screen, KeyCode::Char('s')), Some(Action::Start("flow-2".into())));
    let by = |reason| Some(Action::StopAll(reason));
    assert_eq!(press(&mut screen, KeyCode::Char('q')), by(StopReason::User));
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(screen.key(interrupt), by(StopReason::Interrupted));
    // A letter is part of the rate while one is typed.
    press(&mut screen, KeyCode::Char('r'));
    let rate = "5000pps".parse().unwrap();
    assert_eq!(type_in(&mut screen, "5000pps"), Some(Action::Rate("flow-2".into(), rate)));
    press(&mut screen, KeyCode::Char('r'));
    assert_eq!(type_in(&mut screen, "fast"), None);
    assert!(matches!(screen.message, Some(Err(_))));
    press(&mut screen, KeyCode::Char('r'));
    press(&mut screen, KeyCode::Esc);
    assert_eq!(press(&mut screen, KeyCode::Char('x')), Some(Action::Stop("flow-2".into())));
}

#[test]
fn delays_of_the_chosen_flow_are_a_histogram() {
    let mut screen = screen(1);
    assert!(!lines(&mut screen, 100, 24).concat().contains("█"));
    for n in 0..6 {
        let mut one = interval(1, 1e6);
        one.flows[0].receiver.as_mut().unwrap().mean_delay_seconds =
            Some(0.010 + 0.001 * f64::from(n));
        screen.interval(&one);
    }
    let shown = lines(&mut screen, 100, 24);
    let bars = shown.iter().filter(|line| line.contains('–') && line.contains('█')).count();
    assert_eq!(bars, 6, "{}", shown.join("\n"));
}
