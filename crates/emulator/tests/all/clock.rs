//! The realtime clock, by which the kernel stamps packets, is stepped while the emulator runs: delays stay as asked.
#![cfg(target_os = "linux")]

use std::net::UdpSocket;
use std::time::Duration;

use weir_emulator::{AlarmKind, Emulator, EmulatorConfig};
use weir_lab::{Lab, LabSpec, Topology};
use weir_link::{LinkChoice, LinkOptions, Mode};
use weir_model::impairment::Impairment;
use weir_net::clock::InjectedClock;
use weir_net::namespace::effective_user_id;

#[test]
fn a_step_of_the_clock_changes_no_delay_and_is_reported() {
    if effective_user_id() != 0 {
        eprintln!("SKIPPED a_step_of_the_clock_changes_no_delay_and_is_reported: needs root");
        return;
    }
    let lab = Lab::up(&LabSpec { topology: Topology::MIDDLE, ..LabSpec::default() }).unwrap();
    let injected = InjectedClock::new();
    let options = LinkOptions { clock: injected.clock(), ..LinkOptions::default() };
    let open = |name: &str| {
        let open = || weir_link::open(name, LinkChoice::Mode(Mode::Packet), &options).unwrap();
        lab.run_in("m", open).unwrap()
    };
    let links = [open("to-a"), open("to-b")];
    let laws = Impairment::of_both("delay 20ms".parse().unwrap());
    let emulator = Emulator::between(links, EmulatorConfig::new("to-a", "to-b", laws)).unwrap();
    let b = lab.host("b").unwrap().ipv4;
    let bind = |host, address| lab.run_in(host, move || UdpSocket::bind(address).unwrap()).unwrap();
    let (sender, receiver) = (bind("a", "0.0.0.0:0".to_owned()), bind("b", format!("{b}:5000")));
    receiver.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    for (number, step_hours) in [0, 1, -3, 24].into_iter().enumerate() {
        injected.step_realtime_ns(step_hours * 3_600_000_000_000);
        for _ in 0..5 {
            lab.run_in("a", || sender.send_to(&[1; 100], (b, 5000)).unwrap()).unwrap();
            // An hour's error in a stamp would be an hour more to wait, or none at all.
            receiver.recv(&mut [0; 200]).unwrap();
        }
        let report = emulator.report().unwrap();
        assert_eq!(report.directions[0].link.clock_steps, number as u64, "{step_hours} h");
    }
    let started = std::time::Instant::now();
    while !emulator.remote().alarms_after(0).0.iter().any(|a| a.kind == AlarmKind::ClockStepped) {
        assert!(started.elapsed() < Duration::from_secs(30), "no alarm");
        std::thread::sleep(Duration::from_millis(5));
    }
    let report = emulator.finish("test").report;
    assert_eq!(report.directions[0].unplanned_dropped_packets, 0);
    let flow = &report.impairment.flows[0];
    assert!(flow.counters.sent_packets >= 20);
    // From arrival by the kernel's stamp to departure, none of which a step reaches by more than the 10 ms within which
    // a stamp is believed.
    let least = flow.realised.delay_min_seconds.unwrap();
    let most = flow.realised.delay_max_seconds.unwrap();
    assert!(least >= 0.02 && most < 5.0, "{least} {most}");
}
