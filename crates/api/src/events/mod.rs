//! The live event stream. Each reader has one pending event per object: a slow reader gets the newest, and memory is
//! bounded.

mod body;
mod hub;
mod topics;

pub(crate) use body::stream;
pub(crate) use hub::Hub;
pub(crate) use topics::Topics;
