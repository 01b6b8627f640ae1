//! The payload size of each packet of a flow: a function of its sequence number, so that both ends know it.

use std::sync::Arc;

use weir_laws::{Direction, DrawPosition, Philox, flow_hash, slot};
use weir_model::plan::{self, FlowSpec, Size, SizeLaw};
use weir_model::units::Seed;

use crate::supply::Supply;

/// The position of the first draw of a law slot, for the flow `name`.
pub(crate) fn place(name: &str, direction: plan::Direction, slot: u8) -> DrawPosition {
    let direction = match direction {
        plan::Direction::Forward => Direction::Forward,
        plan::Direction::Reverse => Direction::Reverse,
    };
    DrawPosition { flow: flow_hash(name), direction, slot, packet: 0 }
}

/// The payload sizes of a flow's packets.
#[derive(Debug, Clone)]
pub struct Sizes {
    min: usize,
    max: usize,
    /// `None`: all have the same size.
    drawn: Option<Drawn>,
}

/// Where differing sizes come from.
#[derive(Debug, Clone)]
enum Drawn {
    Law(Box<(SizeLaw, Philox, DrawPosition)>),
    /// The sender's recording.
    Recorded(Arc<Supply>),
    /// The sender's recording, at another end.
    Unknown,
}

impl Sizes {
    /// The sizes of `spec`.
    #[must_use]
    pub fn of(spec: &FlowSpec) -> Self {
        Self::new(&spec.size, spec.seed, &spec.name, spec.connection.direction)
    }

    /// The sizes of the flow `name`.
    #[must_use]
    pub(crate) fn new(size: &Size, seed: Seed, name: &str, direction: plan::Direction) -> Self {
        Self::in_slot(size, seed, name, direction, slot::SIZE)
    }

    /// Values of another law of sizes of that flow, drawn in `slot`.
    #[must_use]
    pub(crate) fn in_slot(
        size: &Size,
        seed: Seed,
        name: &str,
        direction: plan::Direction,
        slot: u8,
    ) -> Self {
        let moments = size.moments();
        let place = || place(name, direction, slot);
        let drawn = (!size.is_constant())
            .then(|| Drawn::Law(Box::new((size.start(), Philox::new(seed.0), place()))));
        Sizes { min: moments.min_bytes as usize, max: moments.max_bytes as usize, drawn }
    }

    /// Those of a receiver: it does not know the sizes of recorded packets, and takes them as they arrive.
    #[must_use]
    pub(crate) fn received(spec: &FlowSpec) -> Self {
        let sizes = Self::of(spec);
        let is_unknown = spec.size.is_recorded() && !sizes.is_constant();
        Sizes { drawn: if is_unknown { Some(Drawn::Unknown) } else { sizes.drawn }, ..sizes }
    }

    /// The same with the sizes of a recording. They stay within the plan's bounds, which the receiver knows.
    #[must_use]
    pub(crate) fn recorded(self, supply: &Arc<Supply>) -> Self {
        match self.drawn {
            Some(_) => Sizes { drawn: Some(Drawn::Recorded(supply.clone())), ..self },
            None => self,
        }
    }

    /// The same with each packet cut to its first `most` bytes.
    #[must_use]
    pub(crate) fn truncated(self, most: usize) -> Self {
        Sizes { min: self.min.min(most), max: self.max.min(most), ..self }
    }

    /// Minimum, bytes: the header has room in each packet.
    #[must_use]
    pub(crate) fn min(&self) -> usize {
        self.min
    }

    /// Maximum, bytes.
    #[must_use]
    pub(crate) fn max(&self) -> usize {
        self.max
    }

    /// Whether all packets have the same size.
    #[must_use]
    pub(crate) fn is_constant(&self) -> bool {
        self.drawn.is_none()
    }

    /// Bytes of packet `sequence`.
    #[inline]
    #[must_use]
    pub fn at(&self, sequence: u64) -> usize {
        match &self.drawn {
            None => self.max,
            Some(Drawn::Unknown) => self.min,
            Some(Drawn::Recorded(supply)) => {
                supply.size(sequence).unwrap_or(self.max).clamp(self.min, self.max)
            }
            Some(Drawn::Law(drawn)) => {
                let (law, philox, place) = &**drawn;
                let place = DrawPosition { packet: sequence, ..*place };
                // Within its bounds, whatever a law draws: buffers have these sizes.
                let bytes = law.at(&mut place.draws(philox));
                (bytes as usize).clamp(self.min, self.max)
            }
        }
    }

    /// Bytes of `count` packets from `sequence`.
    #[inline]
    #[must_use]
    pub fn sum(&self, sequence: u64, count: u32) -> u64 {
        match self.drawn {
            None => u64::from(count) * self.max as u64,
            Some(_) => {
                (0..u64::from(count)).map(|i| self.at(sequence.wrapping_add(i)) as u64).sum()
            }
        }
    }
}
