//! One module for each command: its flags and what it does.

pub(crate) mod lab;
