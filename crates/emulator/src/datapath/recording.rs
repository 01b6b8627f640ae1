//! What captures and logs get of a direction.

use weir_impair::{Disposition, FLAG_EXEMPT, Meta};
use weir_link::{Handle, Received};

use super::Datapath;
use crate::recording::{CapturePoint, Passage, Recorders};

impl Datapath {
    /// Captures received packets, each with its flow in hop 1, which has all of them.
    pub(super) fn capture_entries(&mut self) {
        for &Received { handle, ingress_ns, .. } in &self.received {
            let frame = self.slabs.frame(handle, &mut self.scratch);
            let engine = self.hops.engine_mut(0);
            let meta = engine.meta(handle.to_bits(), ingress_ns, frame);
            let flow = engine.flow_of(&meta);
            let (point, of) = (CapturePoint::Before, Passage::Emulator);
            self.recorders.packet(point, of, flow, ingress_ns, frame);
        }
    }

    /// Captures packets that enter the hop of their flow.
    pub(super) fn capture_arrivals(&mut self, place: usize, metas: &[Meta]) {
        for meta in metas {
            let flow = self.hops.engine_mut(place).flow_of(meta);
            let frame = self.slabs.frame(Handle::from_bits(meta.handle), &mut self.scratch);
            let (point, of) = (CapturePoint::Before, Passage::Hop);
            self.recorders.packet(point, of, flow, meta.arrived_ns, frame);
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
