//! A test without I/O: pacing decisions, what to send next, what an arrival means.
