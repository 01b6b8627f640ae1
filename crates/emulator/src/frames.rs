//! Frames between arrival and departure: stored until the last copy has left, and changed where the laws say so.

use std::collections::HashMap;

use weir_impair::{Disposition, Engine, Meta, Role};
use weir_link::{Handle, Slabs};
use weir_wire::datagram::looks_like_control;
use weir_wire::ethernet::{ETHERTYPE, EthernetFrame};
use weir_wire::fragment::Part;
use weir_wire::header::native::peek;
use weir_wire::packet::{Ethernet, Fragment, Ipv4, Ipv6, ethertype, protocol};

/// The packet of a frame. `before` is the segment of a train that was received before it, if it was one, and becomes this frame:
/// segments of a train are parsed once, as far as the configuration permits.
#[inline]
pub(crate) fn meta(
    engine: &Engine,
    slabs: &Slabs,
    (handle, length): (Handle, u32),
    at_ns: u64,
    before: &mut Option<(Handle, Meta)>,
    scratch: &mut Vec<u8>,
) -> Meta {
    if !handle.is_segment() {
        return engine.meta(handle.to_bits(), at_ns, slabs.bytes(handle));
    }
    let follows = before.as_ref().filter(|(last, _)| handle.follows(*last));
    // Datagrams differ in whether they are control traffic.
    let differs = |meta: &Meta| {
        let is_control = slabs.datagram(handle).map(looks_like_control);
        is_control.is_some_and(|is_control| is_control || meta.role == Role::Control)
    };
    let next = follows
        .filter(|(_, meta)| !differs(meta))
        .and_then(|(_, meta)| engine.next_segment(meta, handle.to_bits(), at_ns, length));
    let meta =
        next.unwrap_or_else(|| engine.meta(handle.to_bits(), at_ns, slabs.frame(handle, scratch)));
    *before = Some((handle, meta));
    meta
}

/// Number of owners of a frame beyond the first; most frames have one owner, and no entry.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    further: HashMap<u32, u32>,
}

impl Copies {
    /// One more disposition with this handle will come.
    pub(crate) fn add(&mut self, handle: u32) {
        *self.further.entry(handle).or_default() += 1;
    }

    fn shared(&self, handle: u32) -> bool {
        !self.further.is_empty() && self.further.contains_key(&handle)
    }

    /// An owner releases the frame; the last one frees its memory.
    #[inline]
    pub(crate) fn release(&mut self, slabs: &mut Slabs, handle: Handle) {
        if !self.further.is_empty()
            && let Some(count) = self.further.get_mut(&handle.to_bits())
        {
            *count -= 1;
            if *count == 0 {
                self.further.remove(&handle.to_bits());
            }
            return;
        }
        slabs.release(handle);
    }

    /// The fragment that a disposition is about, which leaves in place of the packet. `None` if out of memory; the
    /// disposition's ownership is released in either case.
    pub(crate) fn cut(
        &mut self,
        slabs: &mut Slabs,
        disposition: &Disposition,
        part: Part,
        scratch: &mut Vec<u8>,
    ) -> Option<Handle> {
        let handle = Handle::from_bits(disposition.handle);
        let fragment = part.of(slabs.frame(handle, scratch)).and_then(|frame| slabs.insert(&frame));
        self.release(slabs, handle);
        fragment
    }

    /// A frame with these bytes that can be changed: a copy if another owner keeps the old bytes, or if they are part of a train.
    /// `None` if out of memory; its ownership is released then.
    pub(crate) fn own(&mut self, slabs: &mut Slabs, handle: Handle) -> Option<Handle> {
        if !self.shared(handle.to_bits()) {
            return slabs.own(handle);
        }
        let own = slabs.duplicate(handle);
        self.release(slabs, handle);
        own
    }
}

/// Sequence and flow of the native data header of a received frame. Unchecked, since the session's key is unknown: a
/// datagram with 32 bytes of payload or more that is no control datagram counts as native, if it is in a frame of Weir or in
/// UDP to or from `port`.
pub(crate) fn native(frame: &[u8], port: u16) -> Option<(u64, u32)> {
    let ethernet = Ethernet::new(frame).ok()?;
    let (kind, bytes, fragment) = match ethernet.ethertype() {
        ethertype::IPV4 => {
            let ip = Ipv4::new(ethernet.payload()).ok()?;
            (ip.protocol(), ip.payload(), ip.fragment())
        }
        ethertype::IPV6 => {
            let ip = Ipv6::new(ethernet.payload()).ok()?;
            (ip.protocol(), ip.payload(), ip.fragment())
        }
        ETHERTYPE => {
            let payload = EthernetFrame::decode(frame).ok()?.payload;
            return if looks_like_control(payload) { None } else { peek(payload) };
        }
        _ => return None,
    };
    if kind != protocol::UDP || !fragment.is_none_or(|f: Fragment| f.is_first()) {
        return None;
    }
    let (header, payload) = bytes.split_first_chunk::<8>()?;
    let [s0, s1, d0, d1, ..] = *header;
    if u16::from_be_bytes([s0, s1]) != port && u16::from_be_bytes([d0, d1]) != port {
        return None;
    }
    if looks_like_control(payload) {
        return None;
    }
    peek(payload)
}
