//! A working load alongside a test of round trips (`--bounceback-congest`): streams of their own, which start and end with it.

use weir_model::plan::{ConnectionFields, Direction, Plan, Shape};
use weir_model::units::{ByteSize, SendRate};
use weir_traffic::TrafficError;

use super::settings;

/// Maximum number of streams in each direction.
const MAX_STREAMS: u32 = 1024;

/// The streams alongside a test of round trips.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkingLoad {
    /// The client sends.
    pub up: bool,
    /// The server sends; both: on the same sockets.
    pub down: bool,
    /// Number of streams.
    pub streams: u32,
}

impl WorkingLoad {
    /// Adds the streams to the plan of a test of round trips.
    ///
    /// # Errors
    /// [`TrafficError::Input`], [`TrafficError::Plan`].
    pub(super) fn add(&self, plan: &mut Plan) -> Result<(), TrafficError> {
        let [bounce] = &plan.connections[..] else {
            return settings::refused("load", "given", "with a test of round trips");
        };
        if bounce.shape != Shape::Rr || bounce.packets.is_some() {
            return settings::refused("load", "given", "with a test of round trips for a time");
        }
        if !(1..=MAX_STREAMS).contains(&self.streams) {
            return settings::refused("load", self.streams, "1 to 1024 streams");
        }
        let duration = bounce.duration;
        let ways = [(self.up, Direction::Forward), (self.down, Direction::Reverse)];
        for (_, direction) in ways.into_iter().filter(|(is_on, _)| *is_on) {
            let fields = ConnectionFields {
                name: format!("load {direction}"),
                direction,
                count: self.streams,
                payload: Some(ByteSize(settings::STREAM_BLOCK).into()),
                rate: Some(SendRate::UNLIMITED),
                duration,
                ..ConnectionFields::default()
            };
            plan.connections.push(fields.into());
        }
        settings::check_connections(plan)?;
        plan.check().map_err(TrafficError::Plan)
    }
}
