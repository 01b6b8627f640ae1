//! A capture: frames as pcapng.

use std::sync::{Arc, RwLock};

use weir_laws::Direction;
use weir_link::capture::{CaptureFormat, CaptureInterface, CaptureWriter, FrameNotes};

use super::recorder::{Frames, NO_FLOW};
use super::writer::{Format, Pending};
use super::{CapturePoint, Recording};
use crate::error::EmulatorError;

/// The names of all flows by number.
pub(super) type FlowNames = Arc<RwLock<Vec<String>>>;

/// Formats frames.
pub(super) struct CaptureFormatter {
    writer: CaptureWriter<Vec<u8>>,
    /// Realtime minus monotonic clock, ns, when the capture started.
    offset_ns: i64,
    /// Whether packets arrive at each interface.
    is_received: Vec<bool>,
    /// The flows' names, if each frame has that of its flow.
    names: Option<FlowNames>,
}

/// An interface of the capture: A or B, at a point.
fn interface(
    recording: &Recording,
    at_b: bool,
    point: CapturePoint,
    interfaces: &[String; 2],
) -> [String; 2] {
    let side = if at_b { "B" } else { "A" };
    let device = &interfaces[usize::from(at_b)];
    let way = if at_b == (point == CapturePoint::Before) { "B to A" } else { "A to B" };
    let what = match &recording.flow {
        None => "all packets".to_owned(),
        Some(flow) => format!("flow {flow}"),
    };
    let (name, place) = match point {
        CapturePoint::Before => ("before", "before the laws"),
        CapturePoint::After => ("after", "after the laws"),
    };
    let mut description = format!("{device}, {way}, {place}: {what}");
    description.truncate(description.floor_char_boundary(1024));
    [format!("{side} {name}"), description]
}

/// The numbers of the interfaces where packets of a direction arrive and leave; `None` where they are not captured.
pub(super) type InterfaceNumbers = [Option<u8>; 2];

impl CaptureFormatter {
    /// The formatter, the header of the file, and for each direction the numbers of the interfaces where its packets
    /// arrive and leave.
    ///
    /// # Errors
    /// None that can occur with these interfaces.
    pub(super) fn new(
        recording: &Recording,
        interfaces: &[String; 2],
        names: &FlowNames,
        offset_ns: i64,
    ) -> Result<(Self, Vec<u8>, [InterfaceNumbers; 2]), EmulatorError> {
        let mut numbers = [[None; 2]; 2];
        let mut described = vec![];
        let mut is_received = vec![];
        let points = [CapturePoint::Before, CapturePoint::After];
        for point in points.into_iter().filter(|at| recording.point.is_none_or(|only| only == *at))
        {
            for at_b in [false, true] {
                let is_forward = at_b != (point == CapturePoint::Before);
                let direction = if is_forward { Direction::Forward } else { Direction::Reverse };
                if recording.covers(direction) {
                    numbers[direction as usize][point as usize] = Some(described.len() as u8);
                    described.push(interface(recording, at_b, point, interfaces));
                    is_received.push(point == CapturePoint::Before);
                }
            }
        }
        let snap_bytes = recording.snap_bytes.unwrap_or(0);
        let described: Vec<_> = described
            .iter()
            .map(|[name, description]| CaptureInterface { name, description, snap_bytes })
            .collect();
        let name = recording.path.clone();
        let mut writer =
            CaptureWriter::describing(Vec::new(), name, CaptureFormat::PcapNg, &described)?;
        let header = std::mem::take(writer.output_mut());
        let names = recording.flow.is_none().then(|| names.clone());
        Ok((CaptureFormatter { writer, offset_ns, is_received, names }, header, numbers))
    }
}

/// A time of the monotonic clock on the realtime clock.
pub(super) fn realtime_ns(monotonic_ns: u64, offset_ns: i64) -> u64 {
    monotonic_ns.saturating_add_signed(offset_ns)
}

impl Format for CaptureFormatter {
    type Batch = Frames;

    fn format(&mut self, batch: &Frames, out: &mut Pending) {
        let names =
            self.names.as_ref().map(|names| names.read().unwrap_or_else(|e| e.into_inner()));
        let mut start = 0;
        for head in &batch.heads {
            let frame = &batch.bytes[start..start + head.captured_bytes as usize];
            start += frame.len();
            let name = names.as_ref().filter(|_| head.flow != NO_FLOW);
            let notes = FrameNotes {
                is_received: Some(self.is_received[usize::from(head.interface)]),
                comment: name.and_then(|all| all.get(head.flow as usize)).map_or("", |name| name),
            };
            let time_ns = realtime_ns(head.time_ns, self.offset_ns);
            let (interface, length) = (u32::from(head.interface), head.original_bytes);
            // Frames are shorter than a capture's maximum, the interfaces are described, and memory takes any length.
            let _ = self.writer.write_noted(interface, time_ns, length, frame, &notes);
            let block = self.writer.output_mut();
            out.add(head.time_ns, |bytes| bytes.append(block));
        }
    }
}
