//! The one live stream: what happens is put into a slot for each object and reader, so that a slow reader gets the newest,
//! and nobody's memory grows.

mod body;
mod hub;
mod topics;

pub(crate) use body::stream;
pub(crate) use hub::Hub;
pub(crate) use topics::Topics;
