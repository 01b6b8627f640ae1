//! From capture to capture: the same engine with the capture's times. The same bytes and seed give the same bytes.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use weir_impair::ImpairError;
use weir_laws::Direction;
use weir_link::capture::{CaptureFormat, CaptureReader, CaptureWriter, LINK_TYPE_ETHERNET};
use weir_model::counted;
use weir_model::impairment::Impairment;

use crate::datapath::Datapath;
use crate::error::EmulatorError;
use crate::expressions::compile_filters;
use crate::lateness::seconds;
use crate::packet_trace::PacketTrace;
use crate::report::{AppliedConfiguration, ImpairmentReport, LinkReport, REPORT_SCHEMA, Report};
use crate::result::EmulatorResult;

/// How to process a capture.
#[derive(Clone, Debug)]
pub struct Replay {
    /// Flows and laws; the seed is in it.
    pub impairment: Impairment,
    /// Frames with this source address enter at A, all others at B. `None`: frames of a pcapng's interface 1 enter at B,
    /// all others at A.
    pub a_mac: Option<[u8; 6]>,
    /// Where to write each packet's verdict.
    pub packet_trace: Option<PathBuf>,
}

impl Replay {
    /// Sends the frames of `input` through the laws to `output`; names are for messages. The output has the input's
    /// format, frames in the order of their departures, times in ns; in pcapng, interface 0 is what entered at A.
    ///
    /// A damaged capture, and a packet trace that cannot be written, are returned with the report so far.
    ///
    /// # Errors
    /// An input that is no capture, or not of Ethernet; a failing output.
    pub fn run(
        &self,
        input: (impl Read, &str),
        output: (impl Write, &str),
    ) -> Result<EmulatorResult, EmulatorError> {
        compile_filters(&self.impairment).map_err(ImpairError::Config)?;
        let (name_in, name_out) = (input.1.to_owned(), output.1.to_owned());
        let mut reader = CaptureReader::new(input.0, &name_in)?;
        let format = reader.format();
        let sides: &[&str] = match format {
            CaptureFormat::Pcap => &["A"],
            CaptureFormat::PcapNg => &["A", "B"],
        };
        let packet_trace = match &self.packet_trace {
            None => None,
            Some(path) => {
                let names = ["A".to_owned(), "B".to_owned()];
                let clock = "the capture's, ns since 1970-01-01 UTC";
                Some(PacketTrace::create(path, None, None, &names, &self.impairment, clock)?)
            }
        };
        let datapath = |direction| {
            let writing =
                packet_trace.as_ref().map(|packet_trace| packet_trace.writing(direction, true));
            Datapath::new(&self.impairment, direction, writing)
        };
        let mut ways = ReplayPaths {
            datapaths: [datapath(Direction::Forward)?, datapath(Direction::Reverse)?],
            writer: CaptureWriter::new(output.0, &name_out, format, sides)?,
            single: format == CaptureFormat::Pcap,
        };
        let mut links = [LinkReport::default(); 2];
        let (mut first_ns, mut now_ns) = (None, 0_u64);
        let (mut stepped_back, mut cut) = (0_u64, 0_u64);
        let mut error: Option<EmulatorError> = None;
        loop {
            let frame = match reader.next_frame() {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(damage) => {
                    // What precedes the damage is intact and leaves, queued packets included.
                    error = Some(damage.into());
                    break;
                }
            };
            if frame.link_type != LINK_TYPE_ETHERNET {
                return Err(EmulatorError::Refusal {
                    what: name_in,
                    given: format!("frames of link type {}", frame.link_type),
                    accepted: format!("Ethernet ({LINK_TYPE_ETHERNET})"),
                });
            }
            if first_ns.is_none() {
                first_ns = Some(frame.time_ns);
                ways.datapaths.iter_mut().for_each(|datapath| datapath.arm(frame.time_ns));
            }
            stepped_back += u64::from(frame.time_ns < now_ns);
            cut += u64::from((frame.data.len() as u32) < frame.original_len);
            now_ns = now_ns.max(frame.time_ns);
            ways.until(now_ns)?;
            let at = usize::from(match self.a_mac {
                Some(mac) => frame.data.get(6..12) != Some(&mac[..]),
                None => frame.interface == 1,
            });
            if ways.datapaths[at].put_in(frame.data, now_ns) {
                ways.step(at, now_ns)?;
            } else {
                links[at].memory_dropped_packets += 1;
            }
        }
        ways.until(u64::MAX)?;
        ways.writer.flush()?;
        let config = Arc::new(self.impairment.clone());
        let times_ns = [first_ns.unwrap_or(now_ns), now_ns];
        let mut directions: Vec<_> = ways
            .datapaths
            .iter()
            .zip(links)
            .map(|(datapath, link)| datapath.snapshot(config.clone(), link, times_ns).report())
            .collect();
        let mut lists: Vec<_> =
            directions.iter_mut().map(|d| std::mem::take(&mut d.flows).into_iter()).collect();
        let mut flows = Vec::new();
        while let (Some(a), Some(b)) = (lists[0].next(), lists[1].next()) {
            flows.extend([a, b]);
        }
        for datapath in &mut ways.datapaths {
            datapath.close_records();
        }
        let watching = packet_trace.as_ref().map(PacketTrace::watching);
        if let Some(Err(failure)) = packet_trace.map(PacketTrace::finish) {
            error = error.or(Some(failure));
        }
        let mut notes = Vec::new();
        if stepped_back > 0 {
            notes.push(format!(
                "{} with times before those of earlier frames, processed at the earlier frame's time",
                counted(stepped_back, "frame")
            ));
        }
        if cut > 0 {
            notes.push(format!(
                "{} truncated in the capture; rates count the captured bytes",
                counted(cut, "frame")
            ));
        }
        let end_reason = match &error {
            Some(error) => error.with_causes(),
            None => "end of the capture".into(),
        };
        let report = Report {
            schema: REPORT_SCHEMA.into(),
            interfaces: ["A".into(), "B".into()],
            links: vec![format!("capture {name_in}"), format!("capture {name_out}")],
            seconds: seconds(now_ns - first_ns.unwrap_or(now_ns)),
            end_reason: Some(end_reason),
            impairment: ImpairmentReport { config: self.impairment.clone(), flows },
            directions,
            configurations: vec![AppliedConfiguration {
                number: 0,
                is_change: true,
                at_seconds: [0.0, 0.0],
            }],
            alarms: Vec::new(),
            alarm_thresholds: None,
            packet_trace: watching.map(|watching| watching.report()),
            recordings: Vec::new(),
            notes,
        };
        Ok(EmulatorResult { report, error })
    }
}

/// Both directions and their outputs.
struct ReplayPaths<W> {
    datapaths: [Datapath; 2],
    writer: CaptureWriter<W>,
    /// Classic pcap: one interface for both.
    single: bool,
}

impl<W: Write> ReplayPaths<W> {
    /// Processes everything that is due at `now_ns`, in order of time; A to B first at equal times.
    fn until(&mut self, now_ns: u64) -> weir_link::Result<()> {
        loop {
            let next = [0, 1]
                .into_iter()
                .filter_map(|at| Some((self.datapaths[at].next_deadline_ns()?, at)))
                .min()
                .filter(|(deadline, _)| *deadline <= now_ns);
            match next {
                Some((deadline, at)) => self.step(at, deadline)?,
                None => return Ok(()),
            }
        }
    }

    fn step(&mut self, at: usize, now_ns: u64) -> weir_link::Result<()> {
        let (writer, interface) = (&mut self.writer, if self.single { 0 } else { at as u32 });
        self.datapaths[at].judge(now_ns);
        self.datapaths[at].send_all(|time_ns, frame| {
            writer.write(interface, time_ns, frame.len() as u32, frame)
        })?;
        // The output has each frame on the interface at which packets of its direction arrive.
        let opposite = if self.single { 0 } else { 1 - at as u32 };
        for frame in self.datapaths[at].take_messages() {
            writer.write(opposite, now_ns, frame.len() as u32, &frame)?;
        }
        Ok(())
    }
}
