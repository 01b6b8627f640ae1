//! One module for each command.
pub(crate) mod calibrate;
pub(crate) mod doctor;
pub(crate) mod lab;
