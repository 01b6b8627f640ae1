//! Output of ITGDec 2.8.1.

use weir_exchange::read;

use super::{content, has_warning, one, receiver, sender};

#[test]
fn a_receivers_log() {
    let record = one("itgdec/receiver.txt");
    assert_eq!(record.labels["tool-version"], "2.8.1");
    assert_eq!((record.flows.len(), record.plan.connections.len()), (3, 3));
    let flow = &record.flows[1];
    assert_eq!((&*flow.source, &*flow.destination), ("127.0.0.1:49592", "127.0.0.1:9501"));
    let arrived = receiver(flow);
    assert_eq!((arrived.packets, arrived.bytes, arrived.seconds), (195, 97_500, 1.996_552));
    assert_eq!((arrived.lost_packets, arrived.loss_ratio), (Some(0), Some(0.0)));
    // Kbit are 1000 bit: the text has 390.673521.
    assert!((arrived.bits_per_second.unwrap() - 390_673.5).abs() < 1.0);
    let delay = arrived.one_way_delay.as_ref().unwrap();
    assert_eq!(
        (delay.min_seconds, delay.mean_seconds, delay.max_seconds),
        (0.000_015, 0.000_095, 0.003_169)
    );
    assert_eq!(delay.standard_deviation_seconds, Some(0.000_333));
    let variation = arrived.delay_variation.as_ref().unwrap();
    assert_eq!(variation.ipdv_mean_seconds, Some(0.000_129));
    assert!(arrived.jitter_seconds.is_none(), "that of RFC 3550 is another figure");
    assert!(has_warning(&record, "transport-unknown") && has_warning(&record, "start-unknown"));
    assert_eq!(record.total.forward.unwrap().receiver.unwrap().packets, 770, "as in the total");
}

#[test]
fn a_senders_log_has_no_delays() {
    let record = one("itgdec/sender.txt");
    assert_eq!(record.flows.len(), 2);
    assert!(record.flows.iter().all(|flow| flow.receiver.is_none()));
    assert_eq!(sender(&record.flows[1]).bytes, 135_100);
    assert!(has_warning(&record, "one-sided"));
}

#[test]
fn a_bad_line_is_named() {
    let text = String::from_utf8(content("itgdec/sender.txt")).unwrap();
    let bad = text.replace("=           195", "=           x");
    assert_eq!(read(bad.as_bytes(), None, 0).unwrap_err().line, Some(9));
    let missing = text.replace("Total packets", "Other packets");
    let error = read(missing.as_bytes(), None, 0).unwrap_err();
    assert_eq!(error.field.as_deref(), Some("Total packets"));
    // Clocks that differ.
    let text = String::from_utf8(content("itgdec/receiver.txt")).unwrap();
    let early = text.replace("=      0.000012 s", "=     -0.500000 s");
    let record = read(early.as_bytes(), None, 0).unwrap().swap_remove(0);
    let delay = receiver(&record.flows[0]).one_way_delay.clone().unwrap();
    assert_eq!(delay.min_seconds, -0.5);
}
