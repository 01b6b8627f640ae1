//! Logs of packets of D-ITG 2.8.1, and what its ITGDec prints of them.

use weir_exchange::{Format, read};
use weir_model::record::{Flow, Record};

use super::{content, has_warning, is_near, one, receiver, sender};

const ENTRY: usize = 144;

/// The log of ITGRecv without some of its entries, whose text by ITGDec is `lossy.txt`.
fn lossy() -> Vec<u8> {
    let missing = [0, 9, 10, 11, 30, 31, 32, 33, 50];
    let log = content("ditg/receiver.log");
    let entries = log.chunks(ENTRY).enumerate().filter(|(n, _)| !missing.contains(n));
    entries.flat_map(|(_, entry)| entry.to_vec()).collect()
}

fn of(bytes: &[u8]) -> Record {
    read(bytes, None, 0).unwrap().swap_remove(0)
}

/// The log with the times of its entries moved by whole minutes.
fn moved(log: &[u8], minutes: u32) -> Vec<u8> {
    let mut log = log.to_vec();
    for entry in log.chunks_mut(ENTRY) {
        for at in [16, 24] {
            let word = |at: usize| u32::from_le_bytes(entry[at..at + 4].try_into().unwrap());
            let all = (60 * word(at) + word(at + 4) + minutes) % (24 * 60);
            entry[at..at + 4].copy_from_slice(&(all / 60).to_le_bytes());
            entry[at + 4..at + 8].copy_from_slice(&(all % 60).to_le_bytes());
        }
    }
    log
}

/// Mean length of the loss periods, packets.
fn mean_loss_period(flow: &Flow) -> f64 {
    let periods = receiver(flow).loss_periods.clone().unwrap_or_default();
    let count: u64 = periods.values().sum();
    let lost: u64 = periods.iter().map(|(length, n)| length.parse::<u64>().unwrap() * n).sum();
    if count == 0 { 0.0 } else { lost as f64 / count as f64 }
}

/// The figures that ITGDec prints of a flow, by their names; the last block is that of the total.
fn figures(text: &str, block: usize, name: &str) -> f64 {
    let values: Vec<f64> = text
        .lines()
        .filter(|line| line.starts_with(name))
        .map(|line| line.split('=').nth(1).unwrap().split_whitespace().next().unwrap())
        .map(|value| value.parse().unwrap())
        .collect();
    assert_eq!(values.len(), 3, "two flows and the total");
    values[block]
}

/// Compares the figures of a log with what ITGDec prints of it: with six digits after the point.
fn compare(record: &Record, text: &str) {
    assert_eq!(record.flows.len(), 2);
    for (block, flow) in record.flows.iter().enumerate() {
        let of = |name: &str| figures(text, block, name);
        let arrived = receiver(flow);
        assert_eq!(arrived.packets as f64, of("Total packets"));
        assert_eq!(arrived.bytes as f64, of("Bytes received"));
        assert_eq!(arrived.lost_packets, Some(of("Packets dropped") as u64));
        let near = |value: f64, name: &str| {
            assert!((value - of(name)).abs() < 1e-6, "{name}: {value} {}", of(name));
        };
        near(arrived.seconds, "Total time");
        let delay = arrived.one_way_delay.as_ref().unwrap();
        near(delay.min_seconds, "Minimum delay");
        near(delay.max_seconds, "Maximum delay");
        near(delay.mean_seconds, "Average delay");
        near(delay.standard_deviation_seconds.unwrap(), "Delay standard deviation");
        near(mean_loss_period(flow), "Average loss-burst size");
        let rates = (1e3 * of("Average bitrate"), of("Average packet rate"));
        assert!(is_near(arrived.bits_per_second.unwrap(), rates.0, 1e-6));
        assert!(is_near(arrived.packets_per_second.unwrap(), rates.1, 1e-6));
        // ITGDec's jitter includes pairs between which packets are missing.
        if arrived.lost_packets == Some(0) {
            let variation = arrived.delay_variation.as_ref().unwrap();
            near(variation.ipdv_mean_seconds.unwrap(), "Average jitter");
        }
    }
    let of = |name: &str| figures(text, 2, name);
    let total = record.total.forward.clone().unwrap().receiver.unwrap();
    assert_eq!(total.packets as f64, of("Total packets"));
    assert_eq!(total.bytes as f64, of("Bytes received"));
    assert_eq!(total.lost_packets, Some(of("Packets dropped") as u64));
}

fn text(name: &str) -> String {
    String::from_utf8_lossy(&content(name)).into_owned()
}

#[test]
fn a_receivers_log_has_the_figures_of_itgdec() {
    let record = one("ditg/receiver.log");
    compare(&record, &text("ditg/receiver.txt"));
    let flow = &record.flows[0];
    assert_eq!((&*flow.name, &*flow.destination), ("2", "192.0.2.2:9102"));
    assert_eq!(record.plan.peer.label(), "ditg");
    let rows: u64 = record
        .intervals
        .iter()
        .filter_map(|row| row.total.forward.as_ref()?.receiver.as_ref())
        .map(|count| count.packets)
        .sum();
    assert_eq!(rows, 77, "the rows have all packets");
    assert!(has_warning(&record, "transport-unknown"), "{:?}", record.warnings);
    assert!(has_warning(&record, "clocks-unrelated") && !has_warning(&record, "one-sided"));
}

#[test]
fn losses_are_those_of_itgdec() {
    let record = of(&lossy());
    compare(&record, &text("ditg/lossy.txt"));
    assert!(record.flows.iter().all(|flow| receiver(flow).lost_packets > Some(0)));
}

#[test]
fn midnight_changes_no_figure() {
    let log = lossy();
    let word = |at: usize| u32::from_le_bytes(log[at..at + 4].try_into().unwrap());
    // The first entries are moved to the last minute of a day. A part of the test follows after midnight.
    let minutes = 24 * 60 - 1 - (60 * word(16) + word(20));
    let second = |entry: &[u8]| f64::from_le_bytes(entry[128..136].try_into().unwrap());
    let first = second(&log);
    let mut late = moved(&log, minutes);
    for entry in late.chunks_mut(ENTRY) {
        // The test is moved to half a second before midnight.
        for (hour, at) in [(16, 128), (24, 136)] {
            let seconds = f64::from_le_bytes(entry[at..at + 8].try_into().unwrap());
            let moved = seconds - first + 59.5;
            assert!((59.0..61.5).contains(&moved), "the log is of one minute");
            if moved >= 60.0 {
                entry[hour..hour + 8].fill(0);
            }
            entry[at..at + 8].copy_from_slice(&(moved % 60.0).to_le_bytes());
        }
    }
    let (before, after) = (of(&log), of(&late));
    assert!(late[ENTRY * 60 + 16] == 0 && late[16] == 23);
    for (a, b) in before.flows.iter().zip(&after.flows) {
        let (a, b) = (receiver(a), receiver(b));
        assert_eq!((a.packets, a.lost_packets), (b.packets, b.lost_packets));
        let delays = [a, b].map(|end| end.one_way_delay.clone().unwrap());
        assert!((delays[0].mean_seconds - delays[1].mean_seconds).abs() < 1e-8);
        assert!((a.seconds - b.seconds).abs() < 1e-8 && b.seconds < 2.0);
    }
}

#[test]
fn a_senders_log_has_no_receiver() {
    let record = one("ditg/sender.log");
    assert!(record.flows.iter().all(|flow| flow.receiver.is_none()));
    let sent = sender(&record.flows[0]);
    assert_eq!(sent.packets as f64, figures(&text("ditg/sender.txt"), 0, "Total packets"));
    assert!((sent.seconds - figures(&text("ditg/sender.txt"), 0, "Total time")).abs() < 1e-6);
    assert!(has_warning(&record, "one-sided") && !has_warning(&record, "clocks-unrelated"));
    // A packet is missing: the log is of a receiver whose packets have no send times (ITGSend -p 1).
    let log = content("ditg/sender.log");
    let record = of(&log[ENTRY..]);
    assert!(record.flows.iter().all(|flow| flow.sender.is_none()));
    let arrived = record.flows.iter().map(receiver);
    assert_eq!(arrived.clone().filter_map(|end| end.lost_packets).sum::<u64>(), 1);
    assert!(arrived.clone().all(|end| end.one_way_delay.is_none() && end.jitter_seconds.is_none()));
    assert!(has_warning(&record, "no-send-times"));
}

#[test]
fn delays_are_of_the_flows_with_send_times() {
    let mut timed = entry(1, 8, 3);
    timed[136..].copy_from_slice(&1.5_f64.to_le_bytes());
    let record = of(&[entry(1, 7, 3), timed.clone(), entry(2, 7, 3)].concat());
    let delays = record.flows.iter().map(|flow| receiver(flow).one_way_delay.clone());
    let means: Vec<Option<f64>> = delays.map(|delay| Some(delay?.mean_seconds)).collect();
    assert_eq!(means, [None, Some(1.5)]);
    assert!(has_warning(&record, "no-send-times") && has_warning(&record, "clocks-unrelated"));
    assert!(!has_warning(&of(&timed), "no-send-times"));
}

#[test]
fn packets_without_numbers_have_no_losses() {
    let mut log = content("ditg/receiver.log");
    log.chunks_mut(ENTRY).for_each(|entry| entry[4..8].fill(0));
    for flow in &of(&log).flows {
        let arrived = receiver(flow);
        assert!(arrived.packets > 20 && arrived.lost_packets.is_none());
        assert!(arrived.loss_periods.is_none() && arrived.duplicate_packets.is_none());
    }
}

#[test]
fn a_log_that_is_cut_or_wrong() {
    let log = content("ditg/receiver.log");
    let record = of(&log[..ENTRY * 10 + 7]);
    assert!(has_warning(&record, "entry-incomplete"));
    let packets: u64 = record.flows.iter().map(|flow| receiver(flow).packets).sum();
    assert_eq!(packets, 10);
    let ditg = Format::find("ditg");
    assert!(read(&log[..100], None, 0).is_err() && read(&log[..100], ditg, 0).is_err());
    let mut wrong = log.clone();
    wrong[ENTRY * 20 + 24] = 25;
    let error = read(&wrong, None, 0).unwrap_err();
    assert_eq!(error.field.as_deref(), Some("entry[20].arrival_time"));
    // The first entries do not look like a log.
    wrong[16] = 25;
    assert_eq!(read(&wrong, None, 0).unwrap_err().field.as_deref(), Some("FILE"));
}

/// An entry of flow 1 from 192.0.2.1.
fn entry(number: u32, port: u16, hour: u32) -> Vec<u8> {
    let words = [1, number, port.into(), 9, hour, 0, hour, 0, 100];
    let mut out: Vec<u8> = words.iter().flat_map(|word: &u32| word.to_le_bytes()).collect();
    for address in ["192.0.2.1", "192.0.2.2"] {
        let mut field = [0; 46];
        field[..address.len()].copy_from_slice(address.as_bytes());
        out.extend(field);
    }
    out.extend([0; 16]);
    out
}

#[test]
fn hostile_logs_are_bounded() {
    let flows: Vec<u8> = (0..10_001).flat_map(|port| entry(1, port, 3)).collect();
    let error = read(&flows, None, 0).unwrap_err();
    assert_eq!((error.field.as_deref(), &*error.given), (Some("entry[10000].flow"), "1"));
    // Each entry is 11 hours after the one before.
    let span: Vec<u8> = (0..100).flat_map(|n| entry(n, 7, 11 * n % 24)).collect();
    // It reaches 30 days with the entry 66.
    let error = read(&span, None, 0).unwrap_err();
    assert_eq!(error.field.as_deref(), Some("entry[66].arrival_time"));
    assert_eq!(error.given, "06:00:00");
    // Many flows over many days have few rows.
    let rows: Vec<u8> =
        (0..2000).flat_map(|n| entry(1, n, 11 * (u32::from(n) / 40) % 24)).collect();
    let rows: usize = of(&rows).intervals.iter().map(|row| row.flows.len()).sum();
    assert!(rows <= 200_000, "{rows}");
    // Numbers that are further apart than the tracker remembers.
    let far: Vec<u8> = [1, u32::MAX, 7].iter().flat_map(|n| entry(*n, 7, 3)).collect();
    let far = of(&far);
    let arrived = receiver(&far.flows[0]);
    assert_eq!(arrived.packets + arrived.lost_packets.unwrap(), u64::from(u32::MAX));
    assert_eq!((arrived.late_packets, arrived.ambiguous), (Some(1), Some(true)));
    // The tracker remembers numbers in proportion to the packets: a bitmap for a million is not made for three.
    let few: Vec<u8> = [1, 1_000_000, 7].iter().flat_map(|n| entry(*n, 7, 3)).collect();
    let few = of(&few);
    let arrived = receiver(&few.flows[0]);
    assert_eq!((arrived.late_packets, arrived.reordered_packets), (Some(1), Some(0)));
    assert_eq!(arrived.lost_packets, Some(999_998));
    // Near numbers of as many packets are reordered.
    let near: Vec<u8> = [1, 8000, 7].iter().flat_map(|n| entry(*n, 7, 3)).collect();
    let near = of(&near);
    let arrived = receiver(&near.flows[0]);
    assert_eq!((arrived.late_packets, arrived.reordered_packets), (None, Some(1)));
}
