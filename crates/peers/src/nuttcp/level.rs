//! Several flows of one test, as a receiver of nuttcp reads them: one buffer or datagram of each in turn, until one has ended.
//! What the others have sent beyond that is not counted, so that a sender makes all flows equally long before it ends them.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use weir_model::plan::{Connection, ConnectionFields, FlowSpec};
use weir_traffic::session::{End, SenderTotal};

use super::codec::Marker;

/// Bytes of a write.
const BLOCK: usize = 64 << 10;
/// Most time to make streams equally long.
const LEVELLING: Duration = Duration::from_secs(30);
/// Most datagrams by which a flow is made longer: one that lacks more stays shorter.
const MAX_LACK: u64 = 1000;
/// Datagrams after which other tasks have their turn.
const TURN: u64 = 16;
/// Pause between the two markers before datagrams.
const BEGINNING: Duration = Duration::from_millis(250);
/// Pause between two markers of the end, each of which states by its number how many pauses ago the data ended.
pub(super) const ENDING: Duration = Duration::from_millis(500);
/// The last marker of the end.
pub(super) const LAST_END: u8 = 4;

/// A stream, and the flow that it carries.
pub(super) type Stream = (u32, tokio::net::TcpStream);

/// What each flow lacks, in the order of the flows. `amount`: that of a flow; `unit`: what is read of one flow before the next.
fn missing<'a>(
    specs: &'a [FlowSpec],
    totals: &'a [SenderTotal],
    amount: impl Fn(&SenderTotal) -> u64 + 'a,
    unit: u64,
) -> Vec<(&'a FlowSpec, u64)> {
    let of = |spec: &FlowSpec| totals.iter().find(|total| total.flow == spec.id).map_or(0, &amount);
    let all: Vec<u64> = specs.iter().map(of).collect();
    let (most, least) =
        (all.iter().max().copied().unwrap_or(0), all.iter().min().copied().unwrap_or(0));
    // The first flows may have one more: the reader then ends with the last one.
    let is_in_turn = most - least <= unit && all.windows(2).all(|pair| pair[0] >= pair[1]);
    let lacks = |own: u64| if is_in_turn { 0 } else { most - own };
    specs
        .iter()
        .zip(all)
        .map(|(spec, own)| (spec, lacks(own)))
        .filter(|(_, lack)| *lack > 0)
        .collect()
}

/// The options of a stream that may have to be made longer.
pub(super) fn open_ended(connection: &Connection) -> Connection {
    let fields = ConnectionFields { no_half_close: Some(true), ..connection.clone().into() };
    fields.into()
}

/// Makes streams equally long and closes this end's direction of each. A single stream has closed by itself.
pub(super) async fn end_streams(
    end: &End,
    specs: &[FlowSpec],
    totals: &[SenderTotal],
    streams: &mut [Stream],
) {
    if specs.len() < 2 {
        return;
    }
    let unit = specs[0].max_payload();
    let missing = missing(specs, totals, |total| total.bytes, unit);
    let writes = streams.iter_mut().filter_map(|(flow, stream)| {
        let (_, lack) = missing.iter().find(|(spec, _)| spec.id == *flow)?;
        Some(fill(end, *flow, stream, *lack))
    });
    let _ = tokio::time::timeout(LEVELLING, all(writes.collect())).await;
    specs.iter().for_each(|spec| end.half_close(spec.id));
}

/// Waits for all futures, which make progress together: the reader waits for each in turn.
async fn all(mut futures: Vec<impl Future<Output = ()>>) {
    let mut pinned: Vec<_> = futures.drain(..).map(Box::pin).collect();
    std::future::poll_fn(|context| {
        pinned.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if pinned.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

async fn fill(end: &End, flow: u32, stream: &mut tokio::net::TcpStream, mut lack: u64) {
    let block = [0; BLOCK];
    while lack > 0 {
        let length = usize::try_from(lack).map_or(BLOCK, |lack| lack.min(BLOCK));
        // A broken connection ends the flow by itself.
        if stream.write_all(&block[..length]).await.is_err() {
            return;
        }
        end.sent_by_protocol(flow, 0, length as u64);
        lack -= length as u64;
    }
}

/// Sends the markers before the data.
pub(super) async fn begin_datagrams(end: &End, specs: &[FlowSpec]) {
    let Some(first) = specs.first() else { return };
    let _ = end.send_message(first.id, &Marker::bytes(false, 0));
    tokio::time::sleep(BEGINNING).await;
    let _ = end.send_message(first.id, &Marker::bytes(false, 1));
}

/// The markers after the data.
pub(super) struct Markers {
    /// All flows, and the index of the one that is read next.
    flows: Vec<u32>,
    at: usize,
    next: u8,
}

impl Markers {
    /// Makes all flows equally long, and sends the first marker.
    pub(super) async fn send_first(
        end: &End,
        specs: &[FlowSpec],
        totals: &[SenderTotal],
    ) -> Markers {
        let missing = missing(specs, totals, |total| total.packets, 1);
        for (spec, lack) in missing.iter().filter(|(_, lack)| *lack <= MAX_LACK) {
            let datagram = vec![0; usize::try_from(spec.max_payload()).unwrap_or(0)];
            for number in 0..*lack {
                if number % TURN == 0 {
                    tokio::task::yield_now().await;
                }
                if end.send_message(spec.id, &datagram).is_ok() {
                    end.sent_by_protocol(spec.id, 1, datagram.len() as u64);
                }
            }
        }
        let packets =
            |spec: &FlowSpec| totals.iter().find(|t| t.flow == spec.id).map_or(0, |t| t.packets);
        let most = specs.iter().map(packets).max().unwrap_or(0);
        let shorter = specs.iter().position(|spec| missing.is_empty() && packets(spec) < most);
        let flows = specs.iter().map(|spec| spec.id).collect();
        let mut markers = Markers { flows, at: shorter.unwrap_or(0), next: 0 };
        markers.send_next(end);
        markers
    }

    /// Sends the next marker; does nothing after the last one.
    pub(super) fn send_next(&mut self, end: &End) {
        if self.next <= LAST_END
            && let Some(flow) = self.flows.get(self.flow_index())
        {
            let _ = end.send_message(*flow, &Marker::bytes(true, self.next));
            self.next += 1;
        }
    }

    /// The flow of the next marker. After a loss the reader waits for another flow: as with nuttcp, each marker from the
    /// third on is on the flow after the one before.
    fn flow_index(&self) -> usize {
        (self.at + usize::from(self.next.saturating_sub(1))) % self.flows.len().max(1)
    }

    pub(super) fn is_last_sent(&self) -> bool {
        self.next > LAST_END
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::plan::{Family, Plan};

    #[test]
    fn flows_are_equally_long_unless_they_are_in_turn() {
        let text = "schema = \"weir.plan/1\"\n[[connection]]\ncount = 3";
        let specs = Plan::parse(text).unwrap().flows(Family::Ipv4, 1500);
        let lacks = |packets: [u64; 3]| {
            let total = |(spec, packets): (&FlowSpec, u64)| SenderTotal {
                flow: spec.id,
                packets,
                bytes: 0,
                omitted_packets: 0,
                end_ns: None,
            };
            let totals: Vec<SenderTotal> = specs.iter().zip(packets).map(total).collect();
            let missing = missing(&specs, &totals, |total| total.packets, 1);
            missing.iter().map(|(spec, lack)| (spec.id, *lack)).collect::<Vec<_>>()
        };
        assert_eq!(lacks([5, 5, 5]), []);
        assert_eq!(lacks([6, 5, 5]), []);
        assert_eq!(lacks([5, 6, 5]), [(1, 1), (3, 1)]);
        assert_eq!(lacks([9, 7, 7]), [(2, 2), (3, 2)]);
        assert_eq!(lacks([0, 0, 0]), []);
    }

    #[test]
    fn the_last_markers_are_on_all_flows() {
        let on = |next| Markers { flows: vec![1, 2, 3], at: 1, next }.flow_index();
        assert_eq!((0..=LAST_END).map(on).collect::<Vec<_>>(), [1, 1, 2, 0, 1]);
    }
}
