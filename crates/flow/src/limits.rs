//! What limited a TCP stream, by the kernel's clocks of busy time.

use weir_model::record::LimitedBy;

/// The kernel's clocks of a TCP stream at a moment (`TCP_INFO`), µs since its connection was established.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BusyTimes {
    /// Time with data in flight or waiting.
    pub busy_us: u64,
    /// The part of it that the receiver's window limited.
    pub receive_window_us: u64,
    /// The part of it that the send buffer limited.
    pub send_buffer_us: u64,
    /// The kernel's latest sample of the delivery rate was limited by the sender, which had nothing to send.
    pub is_application_limited: bool,
}

/// How much each limit applied over a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    busy_us: u64,
    receive_window_us: u64,
    send_buffer_us: u64,
    samples: u32,
    application_samples: u32,
}

impl Limits {
    /// Adds the time from one moment to a later one.
    pub fn add(&mut self, before: &BusyTimes, now: &BusyTimes) {
        self.busy_us += now.busy_us.saturating_sub(before.busy_us);
        self.receive_window_us += now.receive_window_us.saturating_sub(before.receive_window_us);
        self.send_buffer_us += now.send_buffer_us.saturating_sub(before.send_buffer_us);
        self.samples += 1;
        self.application_samples += u32::from(now.is_application_limited);
    }

    /// What limited the stream for most of the time; `None` if no time was added.
    #[must_use]
    pub fn limited_by(&self) -> Option<LimitedBy> {
        if self.samples == 0 {
            return None;
        }
        let is_most = |part: u64| 2 * u128::from(part) > u128::from(self.busy_us);
        Some(if self.busy_us == 0 {
            LimitedBy::Application
        } else if is_most(self.receive_window_us) {
            LimitedBy::ReceiveWindow
        } else if is_most(self.send_buffer_us) {
            LimitedBy::SendBuffer
        } else if 2 * self.application_samples > self.samples {
            LimitedBy::Application
        } else {
            LimitedBy::Congestion
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over(steps: &[(u64, u64, u64, bool)]) -> Option<LimitedBy> {
        let (mut limits, mut before) = (Limits::default(), BusyTimes::default());
        for &(busy, window, buffer, is_application_limited) in steps {
            let now = BusyTimes {
                busy_us: before.busy_us + busy,
                receive_window_us: before.receive_window_us + window,
                send_buffer_us: before.send_buffer_us + buffer,
                is_application_limited,
            };
            limits.add(&before, &now);
            before = now;
        }
        limits.limited_by()
    }

    #[test]
    fn the_limit_is_that_of_most_of_the_busy_time() {
        assert_eq!(over(&[]), None);
        assert_eq!(over(&[(0, 0, 0, false)]), Some(LimitedBy::Application));
        assert_eq!(over(&[(50, 0, 0, false)]), Some(LimitedBy::Congestion));
        assert_eq!(over(&[(50, 26, 0, true)]), Some(LimitedBy::ReceiveWindow));
        assert_eq!(over(&[(50, 25, 26, true)]), Some(LimitedBy::SendBuffer));
        assert_eq!(over(&[(50, 25, 25, false)]), Some(LimitedBy::Congestion));
        // By the sum of all steps, not by the last one.
        assert_eq!(over(&[(50, 50, 0, false), (10, 0, 0, false)]), Some(LimitedBy::ReceiveWindow));
        let (own, path) = ((50, 0, 0, true), (50, 0, 0, false));
        assert_eq!(over(&[own, own, path]), Some(LimitedBy::Application));
        assert_eq!(over(&[own, path, path]), Some(LimitedBy::Congestion));
    }
}
