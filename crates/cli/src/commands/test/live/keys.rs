//! What keys mean.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use weir_model::units::SendRate;

use crate::engine::StopReason;

/// A command to the test.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Action {
    /// Start the flow of this name.
    Start(String),
    /// Stop it.
    Stop(String),
    /// Change its rate.
    Rate(String, SendRate),
    /// Stop the test.
    StopAll(StopReason),
}

/// A key as the screen understands it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    Enter,
    Escape,
    Backspace,
    Letter(char),
    Interrupt,
}

impl Key {
    /// The key of an event; `None` for one that means nothing here, or is released.
    pub(super) fn of(event: KeyEvent) -> Option<Key> {
        if event.kind == KeyEventKind::Release {
            return None;
        }
        let has_control = event.modifiers.contains(KeyModifiers::CONTROL);
        Some(match event.code {
            KeyCode::Char('c' | 'C') if has_control => Key::Interrupt,
            KeyCode::Char(_) if has_control => return None,
            KeyCode::Char(letter) => Key::Letter(letter),
            KeyCode::Up => Key::Up,
            KeyCode::Down => Key::Down,
            KeyCode::PageUp => Key::PageUp,
            KeyCode::PageDown => Key::PageDown,
            KeyCode::Home => Key::First,
            KeyCode::End => Key::Last,
            KeyCode::Enter => Key::Enter,
            KeyCode::Esc => Key::Escape,
            KeyCode::Backspace => Key::Backspace,
            _ => return None,
        })
    }
}
