//! Isochronous tests (`--isochronous`): frames of log-normal sizes at a steady rate, as video has them. Over UDP a frame is cut into
//! datagrams, which leave one after the other; over TCP it is a write. The headers of both state the frame.

use std::sync::Arc;

use weir_flow::{Recording, Supply};
use weir_laws::{Direction, DrawPosition, Philox, flow_hash, normal_quantile, open_unit_interval};
use weir_model::content::Content;
use weir_model::plan::{CatchUp, Connection, Direction as Sending, Family, HeaderFormat, Plan};
use weir_model::units::{RateLimit, SendRate};
use weir_traffic::TrafficError;
use weir_traffic::session::Framing;

use super::client::Extras;
use super::codec::{ASKING_BYTES, AskedFrames, HEADER_BYTES, Header, Mode, NUMBER_BYTES};
use super::settings;

/// Bytes of the header of a stream, and of each of its frames.
pub(super) const STREAM_BYTES: usize = HEADER_BYTES + 20;
/// Bytes of a datagram up to the end of its frame's fields: no datagram is shorter.
const LEAST_DATAGRAM: usize = NUMBER_BYTES + HEADER_BYTES + 32;
/// Largest frame of a stream, bytes, and its distance from the mean in standard deviations.
const MAX_FRAME: u64 = 4 << 20;
const MAX_DEVIATIONS: f64 = 8.0;
/// Maximum number of datagrams, and of their bytes, that are prepared: those of a whole test.
const MAX_DATAGRAMS: u64 = 200_000;
const MAX_BYTES: u64 = 128 << 20;

/// The frames of an isochronous test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Isochronous {
    /// Frames per second.
    pub frames_per_second: f64,
    /// Mean rate, bit/s.
    pub mean: f64,
    /// Standard deviation of the rate, bit/s.
    pub deviation: f64,
}

impl Isochronous {
    /// Checks the frames.
    ///
    /// # Errors
    /// [`TrafficError::Input`].
    pub(super) fn check(&self, plan: &Plan) -> Result<(), TrafficError> {
        let Isochronous { frames_per_second, mean, deviation } = *self;
        let given = || format!("{frames_per_second}:{mean},{deviation}");
        if !self.is_valid() {
            let accepted = "0.1 to 10000 frames per second, and a rate";
            return settings::refused("isochronous", given(), accepted);
        }
        // Those of both directions are otherwise alike.
        let Some(connection) = plan.connections.first() else { return Ok(()) };
        if settings::mode(plan) != Mode::Forward {
            if self.mean.max(self.deviation) > f64::from(u32::MAX) {
                let accepted = "rates up to 4294967295 bit/s where the server sends";
                return settings::refused("isochronous", given(), accepted);
            }
            let smallest = connection.payload.as_ref().map_or(0, |size| size.moments().min_bytes);
            if connection.transport.datagrams() && smallest < ASKING_BYTES as u64 {
                let accepted = "at least 160 bytes where the server sends frames";
                return settings::refused("payload", smallest, accepted);
            }
        }
        if connection.bytes.is_some() || connection.packets.is_some() {
            return settings::refused("bytes", "given", "a duration, for isochronous frames");
        }
        if connection.transport.datagrams() {
            if connection.header == HeaderFormat::Iperf2Narrow {
                return settings::refused("header", connection.header, "iperf2, for frames");
            }
            if connection.time_limit().is_none() {
                return settings::refused(
                    "duration",
                    0,
                    "a limit, for isochronous frames over UDP",
                );
            }
            if self.frame()[0] > MAX_BYTES as f64 {
                return settings::refused("isochronous", given(), "frames of at most 128 MiB");
            }
        } else if self.frame()[0] > MAX_FRAME as f64 {
            return settings::refused("isochronous", given(), "frames of at most 4 MiB over TCP");
        }
        Ok(())
    }

    /// The frames that a client's header asks for.
    ///
    /// # Errors
    /// The reason for which they are not sent.
    pub(super) fn asked(header: &Header) -> Result<Self, String> {
        let refused = || "isochronous frames of this rate or size".to_owned();
        let asked = header.frames.ok_or_else(refused)?;
        let [whole, millionths] = asked.per_second;
        let frames = Isochronous {
            frames_per_second: f64::from(whole) + f64::from(millionths) / 1e6,
            mean: asked.mean.into(),
            deviation: asked.deviation.into(),
        };
        let is_served =
            millionths < 1_000_000 && frames.is_valid() && frames.frame()[0] <= MAX_FRAME as f64;
        is_served.then_some(frames).ok_or_else(refused)
    }

    /// The same as a client's header states them.
    pub(super) fn stated(&self) -> AskedFrames {
        let millionths = (self.frames_per_second * 1e6).round() as u64;
        AskedFrames {
            per_second: [(millionths / 1_000_000) as u32, (millionths % 1_000_000) as u32],
            mean: self.mean as u32,
            deviation: self.deviation as u32,
        }
    }

    fn is_valid(&self) -> bool {
        (0.1..=10_000.0).contains(&self.frames_per_second)
            && (1.0..=1e12).contains(&self.mean)
            && (0.0..=1e12).contains(&self.deviation)
    }

    /// Mean and standard deviation of a frame, bytes.
    fn frame(&self) -> [f64; 2] {
        [self.mean, self.deviation].map(|rate| rate / 8.0 / self.frames_per_second)
    }

    /// The header of a test with these frames.
    pub(super) fn headed(&self, header: Header) -> Header {
        let is_back = matches!(header.mode, Mode::Reverse | Mode::FullDuplex);
        Header { is_isochronous: true, frames: is_back.then(|| self.stated()), ..header }
    }

    fn period_us(&self) -> u32 {
        (1e6 / self.frames_per_second) as u32
    }

    /// Makes the frames of the streams that this end sends: writes of these sizes at this rate.
    ///
    /// # Errors
    /// [`TrafficError::Plan`].
    pub(super) fn stream(&self, plan: &mut Plan) -> Result<(), TrafficError> {
        let [mean, deviation] = self.frame();
        let least = STREAM_BYTES as u64;
        // Of which the memory of a stream follows.
        let most = (mean + MAX_DEVIATIONS * deviation).ceil() as u64;
        let most = most.clamp(least + 1, MAX_FRAME);
        let sent = plan.connections.iter_mut();
        for connection in sent.filter(|c| c.direction == Sending::Forward) {
            let text = match deviation > 0.0 {
                true => format!(
                    "log_normal(mean={mean:.0}, deviation={deviation:.0}, min={least}, max={most})"
                ),
                false => (mean as u64).max(STREAM_BYTES as u64).to_string(),
            };
            connection.payload = Some(text.parse().map_err(TrafficError::Plan)?);
            let limit = RateLimit::Packets(self.frames_per_second);
            connection.rate = Some(SendRate { limit, burst: 1 });
        }
        plan.check().map_err(TrafficError::Plan)
    }

    /// Makes the datagrams of the test, and fits the plan to them.
    ///
    /// # Errors
    /// [`TrafficError`].
    pub(super) fn datagrams(
        &self,
        plan: &mut Plan,
        header: &Header,
    ) -> Result<Supply, TrafficError> {
        let connection = sent(plan)?;
        let length = connection.payload.as_ref().map_or(0, |size| size.moments().max_bytes);
        let length = usize::try_from(length).unwrap_or(0);
        let least = if header.frames.is_some() { ASKING_BYTES } else { LEAST_DATAGRAM };
        if length < least {
            let accepted = format!("at least {least} bytes with frames");
            return settings::refused("payload", length, &accepted);
        }
        let seconds = connection.time_limit().map_or(f64::INFINITY, |limit| limit.0 as f64 / 1e9);
        let frames = ((seconds * self.frames_per_second).ceil() as u64).saturating_add(1);
        let sizes = self.sizes(plan.seed.0);
        let mut recording = Recording::default();
        let mut datagram = vec![0; length];
        let request = header.request_bytes();
        datagram[NUMBER_BYTES..NUMBER_BYTES + request.len()].copy_from_slice(&request);
        // The latencies of frames count from here.
        let start = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let start = start.unwrap_or_default();
        for (frame, size) in (0..frames.max(2)).zip(sizes) {
            let at_ns = (frame as f64 * 1e9 / self.frames_per_second) as u64;
            let mut left = size;
            while left > 0 {
                if recording.packets() >= MAX_DATAGRAMS || recording.bytes() >= MAX_BYTES {
                    let accepted = "a test whose frames fit 200000 datagrams and 128 MiB";
                    return settings::refused("duration", format!("{seconds} s"), accepted);
                }
                let part = left.min(length as u64);
                let end = (part as usize).max(least);
                let words = [
                    self.period_us(),
                    start.as_secs() as u32,
                    start.subsec_micros(),
                    frame as u32,
                    frame as u32 + 1,
                    size as u32,
                    // A receiver knows the last datagram of a frame by its length, that of padding included.
                    left.max(end as u64) as u32,
                ];
                put(&mut datagram, NUMBER_BYTES + HEADER_BYTES, &words);
                recording.push(at_ns, &datagram[..end], 0);
                left -= part;
            }
        }
        let supply = recording.at_speed(Some(1.0));
        let fitted = supply.as_ref().and_then(|supply| supply.sizes().zip(supply.gaps()));
        let (Some(supply), Some((sizes, gaps))) = (supply, fitted) else {
            return settings::refused("isochronous", "no frames", "at least two in the test");
        };
        let size = match sizes.min == sizes.max {
            true => sizes.max.to_string(),
            false => format!(
                "recorded(min={}, max={}, mean={:.1}, deviation={:.1})",
                sizes.min, sizes.max, sizes.mean, sizes.deviation
            ),
        };
        let spacing = format!(
            "recorded(mean={}ns, min={}ns, max={}ns, deviation={}ns)",
            gaps.mean.round(),
            gaps.min,
            gaps.max,
            gaps.deviation.round()
        );
        let connection = sent(plan)?;
        connection.content = Content::File;
        connection.rate = None;
        connection.payload = Some(size.parse().map_err(TrafficError::Plan)?);
        connection.spacing = spacing.parse().map_err(TrafficError::Plan)?;
        // The datagrams of a frame leave as soon as they are due.
        connection.catch_up = CatchUp::Burst(u32::MAX);
        plan.check().map_err(TrafficError::Plan)?;
        Ok(supply)
    }

    /// The sizes of the frames, bytes.
    fn sizes(&self, seed: u64) -> impl Iterator<Item = u64> {
        let [mean, deviation] = self.frame();
        let variance = (deviation / mean).powi(2).ln_1p();
        let median = mean * (-variance / 2.0).exp();
        let philox = Philox::new(seed);
        (0..).map(move |packet| {
            let flow = flow_hash("isochronous");
            let position = DrawPosition { flow, direction: Direction::Forward, slot: 0, packet };
            let uniform = open_unit_interval(position.draws(&philox).bits());
            let size = median * (variance.sqrt() * normal_quantile(uniform)).exp();
            (size.round() as u64).clamp(1, u64::from(u32::MAX >> 1))
        })
    }
}

/// The connection of a plan that this end sends.
fn sent(plan: &mut Plan) -> Result<&mut Connection, TrafficError> {
    let mut all = plan.connections.iter_mut();
    match all.find(|connection| connection.direction == Sending::Forward) {
        Some(connection) => Ok(connection),
        None => settings::refused("direction", "reverse", "forward, for prepared frames"),
    }
}

/// Prepares the datagrams of a test's frames; `None` without any.
///
/// # Errors
/// [`TrafficError`].
pub(super) fn prepared(
    plan: &mut Plan,
    extras: &Extras,
) -> Result<Option<Arc<Supply>>, TrafficError> {
    let Some(isochronous) = extras.isochronous else { return Ok(None) };
    let is_sent = settings::mode(plan) != Mode::Reverse;
    if !is_sent || !plan.connections[0].transport.datagrams() {
        return Ok(None);
    }
    let spec = plan.flows(Family::Ipv4, u32::MAX).swap_remove(0);
    let port = plan.server_port();
    let header = isochronous.headed(settings::header(plan, &spec, port));
    isochronous.datagrams(plan, &header).map(Arc::new).map(Some)
}

fn put(bytes: &mut [u8], at: usize, words: &[u32]) {
    let Some(rest) = bytes.get_mut(at..) else { return };
    for (bytes, word) in rest.chunks_exact_mut(4).zip(words) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
}

/// The headers of a stream's frames.
pub(super) struct Frames {
    header: [u8; STREAM_BYTES],
    period_us: u32,
    start: Option<[u32; 2]>,
    /// Bytes of all frames so far.
    bytes: u64,
}

impl Frames {
    /// Those of a server, whose header has only the frame.
    pub(super) fn of_server(isochronous: &Isochronous) -> Self {
        let mut digits = (b'0'..=b'9').cycle();
        Frames::new(isochronous, [(); STREAM_BYTES].map(|()| digits.next().unwrap_or(b'0')))
    }

    pub(super) fn new(isochronous: &Isochronous, header: [u8; STREAM_BYTES]) -> Self {
        Frames { header, period_us: isochronous.period_us(), start: None, bytes: 0 }
    }
}

impl Framing for Frames {
    fn header_bytes(&self) -> usize {
        STREAM_BYTES
    }

    fn write(&mut self, number: u64, length: usize, realtime_ns: u64, header: &mut [u8]) {
        let now =
            [(realtime_ns / 1_000_000_000) as u32, (realtime_ns % 1_000_000_000 / 1000) as u32];
        let start = *self.start.get_or_insert(now);
        self.bytes = self.bytes.saturating_add(length as u64);
        let kept = header.len().min(STREAM_BYTES);
        header[..kept].copy_from_slice(&self.header[..kept]);
        put(header, 12, &[start[0], start[1], now[0], now[1]]);
        let frame = (number as u32).wrapping_add(1);
        put(header, 40, &[self.period_us, frame, length as u32, self.bytes as u32]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The datagrams of a test with these options.
    fn datagrams(video: Isochronous, options: &str) -> Result<Supply, TrafficError> {
        let text = format!(
            "schema = \"weir.plan/1\"\npeer = \"iperf2\"\nhost = \"h\"\n[[connection]]\ntransport = \"udp\"\npayload = 1450\n{options}"
        );
        let mut plan = Plan::parse(&text).unwrap();
        plan.connections[0].header = HeaderFormat::Iperf2;
        video.check(&plan)?;
        let spec = plan.flows(Family::Ipv4, u32::MAX).swap_remove(0);
        let header = settings::header(&plan, &spec, 5001);
        video.datagrams(&mut plan, &header)
    }

    #[test]
    fn a_padded_datagram_ends_its_frame() {
        // Frames of 1500 bytes: 1450, and 50 that are padded.
        let video = Isochronous { frames_per_second: 10.0, mean: 120e3, deviation: 0.0 };
        let supply = datagrams(video, "duration = \"1s\"").unwrap();
        assert_eq!(supply.packets(), Some(22));
        for (sequence, length, left) in [(0, 1450, 1500_u32), (1, 108, 108), (21, 108, 108)] {
            let datagram = supply.recorded(sequence).unwrap();
            let words: Vec<u32> = datagram[76..104]
                .chunks_exact(4)
                .map(|word| u32::from_be_bytes(word.try_into().unwrap()))
                .collect();
            let frame = sequence as u32 / 2;
            assert_eq!((datagram.len(), words[0]), (length, 100_000));
            assert!(words[1] > 1_600_000_000, "{words:?}");
            assert_eq!(words[3..], [frame, frame + 1, 1500, left]);
        }
    }

    #[test]
    fn tests_beyond_the_prepared_frames_are_refused() {
        let refused = |video, options| match datagrams(video, options).unwrap_err() {
            TrafficError::Input { field, .. } => field,
            other => panic!("{other}"),
        };
        let video = Isochronous { frames_per_second: 10.0, mean: 120e3, deviation: 0.0 };
        assert_eq!(refused(video, "duration = \"0s\""), "duration");
        assert_eq!(refused(video, "duration = \"3h\""), "duration");
        assert_eq!(refused(Isochronous { mean: 1e9, ..video }, "duration = \"2s\""), "duration");
        assert_eq!(
            refused(Isochronous { mean: 1e12, ..video }, "duration = \"1s\""),
            "isochronous"
        );
    }

    #[test]
    fn frames_have_the_mean_and_deviation_that_are_asked_for() {
        // 60 frames of 41 667 bytes a second.
        let video = Isochronous { frames_per_second: 60.0, mean: 20e6, deviation: 4e6 };
        let sizes: Vec<f64> = video.sizes(7).take(20_000).map(|size| size as f64).collect();
        let mean = sizes.iter().sum::<f64>() / sizes.len() as f64;
        let squares: f64 = sizes.iter().map(|size| (size - mean).powi(2)).sum();
        let deviation = (squares / sizes.len() as f64).sqrt();
        assert!((mean / 41_666.7 - 1.0).abs() < 0.01, "{mean}");
        assert!((deviation / 8333.3 - 1.0).abs() < 0.03, "{deviation}");
        let even = Isochronous { deviation: 0.0, ..video };
        assert!(even.sizes(7).take(100).all(|size| size == 41_667));
    }

    #[test]
    fn a_frame_states_its_number_and_size() {
        let video = Isochronous { frames_per_second: 10.0, mean: 100e3, deviation: 10e3 };
        let mut frames = Frames::new(&video, [1; STREAM_BYTES]);
        let mut header = [0; STREAM_BYTES];
        frames.write(0, 1389, 5_000_006_000, &mut header);
        frames.write(1, 1201, 6_000_007_000, &mut header);
        let words = [5, 6, 6, 7].map(u32::to_be_bytes).concat();
        assert_eq!((&header[..12], &header[12..28]), (&[1; 12][..], &words[..]));
        let words = [100_000, 2, 1201, 2590].map(u32::to_be_bytes).concat();
        assert_eq!(header[40..56], words);
    }
}
