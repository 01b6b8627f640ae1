//! What captures and logs get of a direction.

use weir_impair::{Disposition, FLAG_EXEMPT, Meta};
use weir_link::Handle;

use super::Datapath;
use crate::recording::{CapturePoint, Passage, Recorders};

impl Datapath {
    /// Captures packets that enter the emulator, each with its flow in the first hop that it passes.
    pub(super) fn capture_entries(&mut self, metas: &mut [Meta]) {
        self.capture_before(Passage::Emulator, self.hops.place_of_turn(0), metas);
    }

    /// Captures packets that enter the hop of their flow.
    pub(super) fn capture_arrivals(&mut self, place: usize, metas: &mut [Meta]) {
        self.capture_before(Passage::Hop, place, metas);
    }

    fn capture_before(&mut self, of: Passage, place: usize, metas: &mut [Meta]) {
        for meta in metas {
            let flow = self.hops.engine_mut(place).classify(meta);
            let frame = self.slabs.frame(Handle::from_bits(meta.handle), &mut self.scratch);
            self.recorders.packet(CapturePoint::Before, of, flow, meta.arrived_ns, frame);
        }
    }

    /// Captures a packet that leaves.
    #[inline]
    pub(super) fn capture_departure(
        &mut self,
        of: &Disposition,
        handle: Handle,
        at_ns: u64,
        what: Passage,
    ) {
        if self.recorders.capture(CapturePoint::After) {
            let flow = (of.flags & FLAG_EXEMPT == 0).then_some(of.flow);
            let frame = self.slabs.frame(handle, &mut self.scratch);
            self.recorders.packet(CapturePoint::After, what, flow, at_ns, frame);
        }
    }

    /// The captures and logs.
    pub(crate) fn recorders(&mut self) -> &mut Recorders {
        &mut self.recorders
    }
}
