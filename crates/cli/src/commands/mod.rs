//! One module for each command: its flags and what it does.

pub(crate) mod calibrate;
pub(crate) mod completions;
pub(crate) mod ctl;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod experiment;
pub(crate) mod impair;
pub(crate) mod keygen;
pub(crate) mod lab;
pub(crate) mod man;
pub(crate) mod peers;
pub(crate) mod profiles;
pub(crate) mod report;
pub(crate) mod runs;
pub(crate) mod schema;
pub(crate) mod serve;
pub(crate) mod test;
pub(crate) mod values;
