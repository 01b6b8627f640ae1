//! Stores received frames with the facts that the kernel reports outside of them: a VLAN tag, a partial checksum, and how to
//! segment a super-packet (`struct virtio_net_hdr`).

use crate::checksum::complete_at;
use crate::link::{ReceiveStatistics, Received};
use crate::segment::{Segmentation, VnetHeader};
use crate::slabs::{Handle, Slabs};

const MACS: usize = 12;
const TAG: usize = 4;

/// A frame's metadata.
pub(crate) struct Facts {
    pub(crate) ingress_ns: u64,
    /// The stripped VLAN tag, as it was in the frame.
    pub(crate) tag: Option<[u8; TAG]>,
    pub(crate) vnet: VnetHeader,
}

/// Stores a super-packet without a stripped tag whole if it can be a train and there is memory, else as [`store_any`].
pub(crate) fn store_whole(
    frame: &[u8],
    facts: &Facts,
    slabs: &mut Slabs,
    statistics: &mut ReceiveStatistics,
    out: &mut Vec<Received>,
) {
    if facts.vnet.is_super_packet()
        && slabs.trains().has_room(frame.len())
        && let Some(segmentation) = Segmentation::plan(frame, &facts.vnet)
        && segmentation.is_train(frame)
        && let Some(slot) = slabs.insert(frame)
    {
        return store_train(slot, segmentation, facts.ingress_ns, slabs, statistics, out);
    }
    store_any(frame, facts, slabs, statistics, out);
}

/// Makes a train of the super-packet in `slot`.
pub(crate) fn store_train(
    slot: Handle,
    segmentation: Segmentation,
    ingress_ns: u64,
    slabs: &mut Slabs,
    statistics: &mut ReceiveStatistics,
    out: &mut Vec<Received>,
) {
    let segments = segmentation.segments() as u64;
    statistics.super_packets += 1;
    statistics.trains += 1;
    statistics.segments += segments;
    statistics.frames += segments;
    out.extend(slabs.split(slot, segmentation, ingress_ns));
}

/// Stores a frame, or the segments of a super-packet.
#[inline]
pub(crate) fn store_any(
    frame: &[u8],
    facts: &Facts,
    slabs: &mut Slabs,
    statistics: &mut ReceiveStatistics,
    out: &mut Vec<Received>,
) {
    if facts.vnet.is_super_packet() {
        store_segments(frame, facts, slabs, statistics, out);
    } else {
        store(frame, facts, slabs, statistics, out);
    }
}

/// Stores a frame as on a cable: with its tag restored and its checksum completed.
#[inline]
fn store(
    frame: &[u8],
    facts: &Facts,
    slabs: &mut Slabs,
    statistics: &mut ReceiveStatistics,
    out: &mut Vec<Received>,
) {
    let shift = if facts.tag.is_some() { TAG } else { 0 };
    if frame.len() < MACS {
        statistics.unusable += 1;
        return;
    }
    let Some((handle, to)) = slabs.allocate(frame.len() + shift) else {
        statistics.slab_drops += 1;
        return;
    };
    match facts.tag {
        None => to.copy_from_slice(frame),
        Some(tag) => {
            insert_tag(tag, frame, to);
            statistics.vlan_tags_restored += 1;
        }
    }
    if facts.vnet.flags & VnetHeader::NEEDS_CHECKSUM != 0 {
        let start = usize::from(facts.vnet.csum_start) + shift;
        if complete_at(to, start, facts.vnet.csum_offset.into()) {
            statistics.checksums_completed += 1;
        }
    }
    push(handle, to.len(), facts, statistics, out);
}

/// Stores the segments of a super-packet.
fn store_segments(
    frame: &[u8],
    facts: &Facts,
    slabs: &mut Slabs,
    statistics: &mut ReceiveStatistics,
    out: &mut Vec<Received>,
) {
    let Some(segmentation) = Segmentation::plan(frame, &facts.vnet) else {
        statistics.unusable += 1;
        return;
    };
    statistics.super_packets += 1;
    let shift = if facts.tag.is_some() { TAG } else { 0 };
    for segment in 0..segmentation.segments() {
        let len = segmentation.len(segment);
        let Some((handle, to)) = slabs.allocate(len + shift) else {
            statistics.slab_drops += 1;
            continue;
        };
        segmentation.write(frame, segment, &mut to[shift..]);
        if let Some(tag) = facts.tag {
            to.copy_within(TAG..TAG + MACS, 0);
            to[MACS..MACS + TAG].copy_from_slice(&tag);
            statistics.vlan_tags_restored += 1;
        }
        statistics.segments += 1;
        push(handle, len + shift, facts, statistics, out);
    }
}

fn insert_tag(tag: [u8; TAG], frame: &[u8], to: &mut [u8]) {
    to[..MACS].copy_from_slice(&frame[..MACS]);
    to[MACS..MACS + TAG].copy_from_slice(&tag);
    to[MACS + TAG..].copy_from_slice(&frame[MACS..]);
}

#[inline]
fn push(
    handle: Handle,
    len: usize,
    facts: &Facts,
    statistics: &mut ReceiveStatistics,
    out: &mut Vec<Received>,
) {
    statistics.frames += 1;
    out.push(Received { handle, len: len as u32, ingress_ns: facts.ingress_ns });
}
