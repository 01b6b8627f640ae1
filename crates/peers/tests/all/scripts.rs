//! Scripts: mgen sends one, Weir its translation, and both are counted alike.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use weir_model::record::Record;
use weir_peers::scripts::{Destination, read_mgen};
use weir_traffic::{ClientConfig, Limits, Stop};

use crate::common::{Program, Serving, received, served};

/// Messages, bytes, and the time from the first to the last message, of each session by its flow's number.
fn counted(server: &Serving, sessions: usize) -> BTreeMap<String, Vec<(u64, u64, f64)>> {
    let mut counted: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for _ in 0..sessions {
        let record: Record = served(server);
        let flow = &record.flows[0];
        let receiver = flow.receiver.as_ref().unwrap();
        assert_eq!((receiver.lost_packets, receiver.unreadable_packets), (Some(0), Some(0)));
        let (bytes, packets) = received(flow);
        let seconds = receiver.end_seconds.unwrap() - receiver.start_seconds.unwrap();
        counted.entry(flow.name.clone()).or_default().push((packets, bytes, seconds));
    }
    counted
}

/// Two even flows, one of which changes its rate, one with a limit, random intervals, and bursts of fixed and random durations.
fn script(port: u16) -> String {
    format!(
        "TXCHECKSUM\n\
         0.0 ON 1 UDP DST 127.0.0.1/{port} PERIODIC [50 100]\n\
         1.0 MOD 1 PERIODIC [100 100]\n\
         2.0 OFF 1\n\
         0.5 ON 2 UDP DST 127.0.0.1/{port} PERIODIC [40 1000] COUNT 30\n\
         0.0 ON 3 UDP DST 127.0.0.1/{port} POISSON [200 60]\n\
         2.0 OFF 3\n\
         0.0 ON 4 UDP DST 127.0.0.1/{port} BURST [REGULAR 1.0 PERIODIC [100 64] FIXED 0.5]\n\
         1.8 OFF 4\n\
         0.0 ON 5 UDP DST 127.0.0.1/{port} BURST [RANDOM 0.01 POISSON [4000 60] EXP 0.005]\n\
         2.0 OFF 5\n"
    )
}

#[test]
fn weir_sends_what_mgen_sends_by_the_same_script() {
    let ours = Serving::start("mgen", "127.0.0.1", Limits::default());
    let script_of_ours = script(ours.address.port());
    let read =
        read_mgen(&script_of_ours, Destination::Script, &mut |_| Err(String::new())).unwrap();
    assert_eq!(read.notes, []);
    let config = ClientConfig::new(read.plan, "");
    weir_peers::check(&config).unwrap();
    let record = weir_peers::run(config, Stop::new(), &mut |_| {}).unwrap();
    assert_eq!(record.flows.len(), 5);
    let by_weir = counted(&ours, 5);
    let counts = |flow: &str| by_weir[flow][0];
    assert_eq!((counts("1").0, counts("1").1), (150, 15_000));
    assert_eq!((counts("2").0, counts("2").1), (30, 30_000));
    assert_eq!((counts("4").0, counts("4").1), (100, 6_400));
    assert!((counts("2").2 - 29.0 / 40.0).abs() < 0.1, "{by_weir:?}");

    let theirs = Serving::start("mgen", "127.0.0.1", Limits::default());
    let folder = std::env::temp_dir().join(format!("weir-script-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("test.mgn");
    std::fs::write(&file, script(theirs.address.port())).unwrap();
    let started = Command::new("mgen")
        .arg("input")
        .arg(&file)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(child) = started else {
        println!("SKIPPED weir_sends_what_mgen_sends_by_the_same_script: no mgen");
        return;
    };
    let _mgen = Program(child);
    let by_mgen = counted(&theirs, 5);
    std::fs::remove_dir_all(&folder).unwrap();
    let both = |f: &'static str| (f, [by_mgen[f][0], by_weir[f][0]]);
    for (flow, [mgen, weir]) in ["1", "2", "3", "4", "5"].map(both) {
        let most = match flow {
            // Six standard deviations of each Poisson count.
            "3" => 6 * 2 * 20,
            // 171 bursts of 20 ± 20.5 messages: 6.1 standard deviations of the difference, which is exceeded once in 10^9.
            // Without pauses there were 8000 messages.
            "5" => 2300,
            "2" => 0,
            // mgen's timers of an event and of a message may expire in either order; its first burst lacks a message.
            _ => 4,
        };
        assert!(mgen.0.abs_diff(weir.0) <= most, "flow {flow}: {mgen:?} {weir:?}");
        assert_eq!(mgen.1 / mgen.0, weir.1 / weir.0, "flow {flow}");
        assert!((mgen.2 - weir.2).abs() < 0.2, "flow {flow}: {mgen:?} {weir:?}");
    }
}
