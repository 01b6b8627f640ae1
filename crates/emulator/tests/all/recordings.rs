//! Captures and logs of an emulator between links in memory.
#![cfg(target_os = "linux")]

use std::fs::File;
use std::io::Write;
use std::path::Path;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use weir_emulator::control::{Connection, ControlSocket};
use weir_emulator::{
    AlarmKind, CapturePoint, Emulator, EmulatorConfig, EmulatorError, MAX_RECORDINGS, Recording,
    RecordingKind, RecordingReport, RecordingSelection, RecordingState,
};
use weir_link::capture::CaptureReader;
use weir_link::memory::{self, Outside};
use weir_model::impairment::Impairment;
use weir_model::plan::Direction;
use weir_net::clock::Clock;

use crate::{LIMIT, until};

/// Two flows by their UDP port, other packets, and a second hop with packets of the first flow.
const LAWS: &str = r#"
schema = "weir.impair/1"
seed = 7
[[flow]]
name = "one"
filter = { destination_port = 1 }
a_to_b = "loss every 3, delay 20ms"
[[flow]]
name = "two"
filter = { destination_port = 2 }
[[flow]]
name = "far"
hop = 2
filter = { destination_port = 1 }
a_to_b = "delay 5ms, corrupt 100% set ff at payload:1"
"#;

struct Running {
    emulator: Emulator,
    a: Outside,
    b: Outside,
    directory: tempfile::TempDir,
}

fn start_with(recordings: Vec<(Recording, File)>) -> Running {
    let (link_a, a) = memory::link("A", 10_000).unwrap();
    let (link_b, b) = memory::link("B", 10_000).unwrap();
    let config = EmulatorConfig {
        recordings,
        ..EmulatorConfig::new("eth0", "eth1", Impairment::parse(LAWS).unwrap())
    };
    let emulator = Emulator::between([link_a, link_b], config).unwrap();
    Running { emulator, a, b, directory: tempfile::tempdir().unwrap() }
}

fn start() -> Running {
    start_with(vec![])
}

/// A UDP datagram to a port, of 60 bytes, whose payload starts with a number.
fn datagram(port: u16, number: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00];
    frame.extend([0x45, 0, 0, 46, 0, 7, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend(9_u16.to_be_bytes());
    frame.extend(port.to_be_bytes());
    frame.extend([0, 26, 0, 0, number]);
    frame.resize(60, 0);
    frame
}

/// One from a port.
fn reply(port: u16, number: u8) -> Vec<u8> {
    let mut frame = datagram(9, number);
    frame[34..36].copy_from_slice(&port.to_be_bytes());
    frame
}

fn arp() -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 1, 8, 6]);
    frame.resize(60, 0);
    frame
}

impl Running {
    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    fn record(&self, recording: Recording) {
        let file = File::create(&recording.path).unwrap();
        self.emulator.remote().record(recording, file).unwrap();
    }

    fn refused(&self, recording: Recording, file: File) -> String {
        match self.emulator.remote().record(recording, file) {
            Err(EmulatorError::Refusal { what, .. }) => what,
            other => panic!("{other:?}"),
        }
    }

    fn capture(&self, name: &str) -> Recording {
        Recording::new(RecordingKind::Capture, &self.path(name))
    }

    fn log(&self, name: &str) -> Recording {
        Recording::new(RecordingKind::Log, &self.path(name))
    }

    fn of_flow(&self, recording: Recording, flow: &str) -> Recording {
        Recording { flow: Some(flow.into()), ..recording }
    }

    /// Puts packets in at A, and waits until all have left or were lost.
    fn put(&self, frames: &[Vec<u8>]) {
        let all = |running: &Running| {
            let report = running.emulator.report().unwrap();
            let direction = &report.directions[0];
            (direction.received_packets + direction.exempt_packets, direction.held_packets)
        };
        let (before, _) = all(self);
        let now = Clock::System.monotonic_ns();
        frames.iter().for_each(|frame| self.a.put(now, frame));
        until("all packets have passed", || {
            // Room for more.
            while self.b.take().is_some() {}
            all(self) == (before + frames.len() as u64, 0)
        });
    }

    fn end(&self, selection: &RecordingSelection) -> Vec<RecordingReport> {
        self.emulator.remote().end_recordings(selection).unwrap()
    }

    fn end_all(&self) -> Vec<RecordingReport> {
        self.end(&RecordingSelection::default())
    }

    fn reports(&self) -> Vec<RecordingReport> {
        self.emulator.report().unwrap().recordings
    }
}

#[derive(Debug, PartialEq)]
struct Captured {
    interface: u32,
    time_ns: u64,
    original_bytes: u32,
    bytes: Vec<u8>,
}

impl Captured {
    /// The port that it goes to, and its number.
    fn tag(&self) -> (u8, u8) {
        (self.bytes[37], self.bytes[42])
    }
}

fn captured(path: &Path) -> Vec<Captured> {
    let mut reader = CaptureReader::new(File::open(path).unwrap(), "x").unwrap();
    let mut out = vec![];
    while let Some(frame) = reader.next_frame().unwrap() {
        out.push(Captured {
            interface: frame.interface,
            time_ns: frame.time_ns,
            original_bytes: frame.original_len,
            bytes: frame.data.to_vec(),
        });
    }
    out
}

/// The rows of a log, by column.
fn rows(path: &Path) -> Vec<std::collections::HashMap<String, String>> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').map(ToOwned::to_owned));
    let columns: Vec<String> = lines.next().unwrap().collect();
    lines.map(|cells| columns.iter().cloned().zip(cells).collect()).collect()
}

const A_BEFORE: u32 = 0;
const B_AFTER: u32 = 3;

#[test]
fn a_capture_has_each_packet_before_and_those_not_lost_after_their_delay() {
    let running = start();
    running.record(running.capture("all"));
    let frames: Vec<_> = (0..6).map(|n| datagram(1, n)).chain([datagram(2, 9), arp()]).collect();
    running.put(&frames);
    let told = running.end_all();
    assert_eq!((told[0].records, told[0].state), (8 + 6, RecordingState::Ended));
    let all = captured(&running.path("all"));
    assert_eq!(running.path("all").metadata().unwrap().len(), told[0].bytes);
    assert!(all.is_sorted_by_key(|frame| frame.time_ns));
    let of = |interface| all.iter().filter(move |frame| frame.interface == interface);
    // Before, all bytes are as they arrived.
    assert!(of(A_BEFORE).map(|frame| &frame.bytes).eq(&frames));
    // After: every third of the first flow is lost, and the second hop changes the others.
    let left: Vec<_> = of(B_AFTER).filter(|frame| frame.tag().0 == 1).collect();
    assert_eq!(left.len(), 4);
    for (frame, number) in left.iter().zip([0_u8, 1, 3, 4]) {
        let before = of(A_BEFORE).find(|before| before.tag() == (1, number)).unwrap();
        assert!(frame.time_ns - before.time_ns >= 25_000_000, "{frame:?}");
        assert_eq!(frame.tag(), (1, 0xff));
    }
    // Exempt frames and those without laws too.
    assert_eq!(of(B_AFTER).count(), 6);
    // By the realtime clock.
    let now = Clock::System.realtime_ns();
    assert!(all.iter().all(|frame| now.abs_diff(frame.time_ns) < 60_000_000_000));
}

#[test]
fn segments_of_a_super_packet_are_captured_as_frames() {
    let running = start();
    running.record(running.capture("all"));
    // Three datagrams of 18 bytes.
    let mut frame = datagram(2, 1);
    frame[16..18].copy_from_slice(&[0, 28 + 54]);
    frame[38..40].copy_from_slice(&[0, 8 + 54]);
    frame.extend([[2; 18], [3; 18]].concat());
    running.a.put_super_packet(Clock::System.monotonic_ns(), &frame, 18);
    until("they have passed", || {
        let report = running.emulator.report().unwrap();
        report.directions[0].received_packets == 3 && report.directions[0].held_packets == 0
    });
    running.end_all();
    let all = captured(&running.path("all"));
    for interface in [A_BEFORE, B_AFTER] {
        let of: Vec<_> = all.iter().filter(|frame| frame.interface == interface).collect();
        assert_eq!(
            of.iter().map(|frame| frame.tag()).collect::<Vec<_>>(),
            [(2, 1), (2, 2), (2, 3)]
        );
        assert!(of.iter().all(|frame| (frame.bytes.len(), frame.bytes[17]) == (60, 46)));
    }
}

#[test]
fn a_capture_of_a_flow_is_around_its_hop() {
    let running = start();
    for flow in ["one", "far", "two"] {
        running.record(running.of_flow(running.capture(flow), flow));
    }
    running.put(&(0..6).map(|n| datagram(1, n)).collect::<Vec<_>>());
    running.end_all();
    let tags = |flow: &str, interface| {
        let all = captured(&running.path(flow));
        let of = all.iter().filter(|frame| frame.interface == interface);
        of.map(|frame| (frame.tag().1, frame.time_ns)).collect::<Vec<_>>()
    };
    let numbers = |flow, interface| tags(flow, interface).into_iter().map(|(n, _)| n);
    assert!(numbers("one", A_BEFORE).eq(0..6));
    // Not yet changed by the next hop.
    assert!(numbers("one", B_AFTER).eq([0, 1, 3, 4]));
    assert!(numbers("far", A_BEFORE).eq([0, 1, 3, 4]));
    assert!(numbers("far", B_AFTER).eq([0xff; 4]));
    // A packet enters a hop when it leaves the one before.
    assert_eq!(tags("one", B_AFTER), tags("far", A_BEFORE));
    assert!(captured(&running.path("two")).is_empty());
}

/// From B to A the hop with all packets is the last one.
#[test]
fn a_capture_of_all_packets_is_around_the_emulator_in_both_directions() {
    let running = start();
    running.record(running.capture("all"));
    running.record(running.of_flow(running.capture("far"), "far"));
    let now = Clock::System.monotonic_ns();
    for frame in [reply(1, 1), reply(2, 2), arp()] {
        running.b.put(now, &frame);
    }
    let mut left = 0;
    until("all have left", || {
        left += std::iter::from_fn(|| running.a.take()).count();
        left == 3
    });
    running.end_all();
    let count = |name: &str, interface| {
        let all = captured(&running.path(name));
        all.iter().filter(|frame| frame.interface == interface).count()
    };
    assert_eq!([0, 1, 2, 3].map(|interface| count("all", interface)), [0, 3, 3, 0]);
    assert_eq!([0, 1, 2, 3].map(|interface| count("far", interface)), [0, 1, 1, 0]);
}

#[test]
fn points_directions_and_lengths_are_chosen() {
    let running = start();
    let capture = |name: &str| running.of_flow(running.capture(name), "two");
    running.record(Recording { point: Some(CapturePoint::Before), ..capture("before") });
    running.record(Recording { point: Some(CapturePoint::After), ..capture("after") });
    running.record(Recording { direction: Some(Direction::Forward), ..capture("there") });
    running.record(Recording { direction: Some(Direction::Reverse), ..capture("back") });
    running.record(Recording { snap_bytes: Some(43), ..capture("snap") });
    running.record(Recording { direction: Some(Direction::Reverse), ..running.log("log") });
    running.put(&[datagram(2, 1)]);
    running.b.put(Clock::System.monotonic_ns(), &reply(2, 2));
    until("it arrives at A", || running.a.take().is_some());
    running.end_all();
    let of = |name: &str| {
        let frames = captured(&running.path(name));
        frames.iter().map(|frame| (frame.interface, frame.tag().1)).collect::<Vec<_>>()
    };
    // Interface 0 is A and 1 is B, before and after; of one direction: where packets arrive, and where they leave.
    assert_eq!(of("before"), [(0, 1), (1, 2)]);
    assert_eq!(of("after"), [(1, 1), (0, 2)]);
    assert_eq!(of("there"), [(0, 1), (1, 1)]);
    assert_eq!(of("back"), [(0, 2), (1, 2)]);
    assert_eq!(of("snap"), [(0, 1), (3, 1), (1, 2), (2, 2)]);
    for frame in captured(&running.path("snap")) {
        assert_eq!((frame.original_bytes, frame.bytes.len()), (60, 43));
    }
    let rows = rows(&running.path("log"));
    assert_eq!((rows.len(), rows[0]["direction"].as_str()), (1, "b_to_a"));
}

#[test]
fn a_log_has_a_row_for_each_verdict_on_its_flow() {
    let running = start();
    running.record(running.of_flow(running.log("one"), "one"));
    running.record(running.log("all"));
    let frames: Vec<_> = (0..6).map(|n| datagram(1, n)).chain([datagram(2, 9), arp()]).collect();
    running.put(&frames);
    running.end_all();
    let of_one = rows(&running.path("one"));
    assert_eq!(of_one.len(), 6);
    for row in &of_one {
        assert_eq!((row["flow"].as_str(), row["size_bytes"].as_str()), ("one", "60"));
        let is_lost = row["packet"].parse::<u64>().unwrap() % 3 == 2;
        assert_eq!(row["verdict"], if is_lost { "lost" } else { "forwarded" });
        let delay: Option<f64> = row["delay_seconds"].parse().ok();
        assert_eq!(delay.is_none(), is_lost);
        assert!(delay.is_none_or(|delay| delay >= 0.02), "{row:?}");
        assert_eq!(row["delayed"], if is_lost { "0" } else { "1" });
    }
    // Each hop has its own verdict; exempt frames have none.
    let all = rows(&running.path("all"));
    let count = |flow: &str| all.iter().filter(|row| row["flow"] == flow).count();
    assert_eq!(["one", "two", "far", "other"].map(count), [6, 1, 4, 0]);
    let is_changed = |row: &&std::collections::HashMap<_, _>| row["modified"] == "1";
    assert_eq!(all.iter().filter(is_changed).count(), 4);
}

#[test]
fn recordings_start_and_end_while_packets_pass() {
    let running = start();
    running.put(&[datagram(2, 1)]);
    running.record(running.of_flow(running.capture("two"), "two"));
    running.record(running.of_flow(running.capture("one"), "one"));
    running.record(running.of_flow(running.log("log"), "two"));
    running.put(&[datagram(2, 2), datagram(1, 2)]);
    // A new configuration keeps the recordings of its flows.
    let mut config = running.emulator.remote().wanted().0;
    config.flows.remove(0);
    running.emulator.remote().set(config).unwrap();
    running.put(&[datagram(2, 3), datagram(1, 3)]);
    let two = RecordingSelection { flow: Some("two".into()), ..RecordingSelection::default() };
    let captures = RecordingSelection { kind: Some(RecordingKind::Capture), ..two.clone() };
    assert_eq!(running.end(&captures).len(), 1);
    assert_eq!(running.end(&captures), []);
    running.put(&[datagram(2, 4)]);
    let numbers = |name: &str| {
        let all = captured(&running.path(name));
        all.iter().map(|frame| frame.tag().1).collect::<Vec<_>>()
    };
    assert_eq!(numbers("two"), [2, 2, 3, 3]);
    let states: Vec<_> = running.reports().iter().map(|report| report.state).collect();
    assert_eq!(states, [RecordingState::Ended, RecordingState::Running, RecordingState::Running]);
    assert_eq!(running.end(&two)[0].records, 3);
    let path = running.path("one");
    let by_path = RecordingSelection {
        path: Some(path.display().to_string()),
        ..RecordingSelection::default()
    };
    assert_eq!(running.end(&by_path).len(), 1);
    assert_eq!(numbers("one"), [2, 2]);
}

#[test]
fn those_of_the_start_have_the_first_packet_and_end_with_the_emulator() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("capture");
    let recording = Recording::new(RecordingKind::Capture, &path);
    let running = start_with(vec![(recording, File::create(&path).unwrap())]);
    running.put(&[datagram(2, 1)]);
    let report = running.emulator.finish("test").report;
    assert_eq!((report.recordings.len(), report.recordings[0].records), (1, 2));
    assert_eq!(report.recordings[0].state, RecordingState::Ended);
    assert_eq!(captured(&path).len(), 2);
}

#[test]
fn a_capture_ends_at_its_limit_with_whole_packets_and_an_alarm() {
    let running = start();
    running.record(Recording { limit_bytes: Some(4096), ..running.capture("small") });
    running.put(&(0..100).map(|n| datagram(2, n)).collect::<Vec<_>>());
    let state = || running.reports()[0].state;
    until("the limit is reached", || state() == RecordingState::LimitReached);
    let alarmed = || {
        let alarms = running.emulator.report().unwrap().alarms;
        alarms.iter().any(|alarm| alarm.kind == AlarmKind::RecordingIncomplete)
    };
    until("the alarm is raised", alarmed);
    let told = &running.reports()[0];
    let length = running.path("small").metadata().unwrap().len();
    assert!(length <= 4096 && length > 4096 - 150, "{length}");
    assert_eq!((told.bytes, told.dropped_records), (length, 0));
    assert_eq!(captured(&running.path("small")).len() as u64, told.records);
    // Its file may be written again, without a command that ends it.
    running.record(running.capture("small"));
    running.put(&[datagram(2, 1)]);
    assert_eq!(running.end_all()[0].records, 2);
    assert_eq!(captured(&running.path("small")).len(), 2);
}

#[test]
fn a_full_disk_ends_a_recording_and_nothing_else() {
    let Ok(full) = File::options().write(true).open("/dev/full") else {
        return eprintln!("SKIPPED a_full_disk_ends_a_recording_and_nothing_else: no /dev/full");
    };
    let running = start();
    // The header is refused.
    match running.emulator.remote().record(running.capture("x"), full) {
        Err(EmulatorError::File { source, .. }) => {
            assert_eq!(source.kind(), std::io::ErrorKind::StorageFull);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(running.reports(), []);
    running.put(&[datagram(2, 1)]);
}

/// A pipe that is not read takes some packets and then none; packets of the emulator do not wait for it.
#[test]
fn a_slow_file_costs_records_and_not_packets() {
    let running = start();
    let (reader, writer) = std::io::pipe().unwrap();
    let file = File::from(std::os::fd::OwnedFd::from(writer));
    running.emulator.remote().record(running.capture("pipe"), file).unwrap();
    let mut sent = 0;
    let frames: Vec<_> = (0..2000).map(|n| datagram(2, n as u8)).collect();
    until("records are dropped", || {
        running.put(&frames);
        sent += 2000;
        running.reports()[0].dropped_records > 0
    });
    let report = running.emulator.report().unwrap();
    let flow = report.impairment.flows.iter().find(|flow| flow.name == "two").unwrap();
    assert_eq!(flow.counters.sent_packets, sent);
    drop(reader);
    let told = &running.end_all()[0];
    assert_eq!(told.state, RecordingState::Failed);
    assert!(told.reason.is_some() && !told.lack().is_empty());
}

#[test]
fn what_can_not_be_recorded_is_refused() {
    let running = start();
    let file = || tempfile::tempfile().unwrap();
    let capture = || running.capture("x");
    assert_eq!(running.refused(running.of_flow(capture(), "nosuch"), file()), "flow");
    assert_eq!(
        running.refused(Recording { snap_bytes: Some(0), ..capture() }, file()),
        "snap_bytes"
    );
    // A file that is open for reading.
    let path = running.path("read");
    std::fs::write(&path, "text").unwrap();
    assert_eq!(running.refused(capture(), File::open(&path).unwrap()), "path");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "text");
    for number in 0..MAX_RECORDINGS {
        running.record(running.capture(&number.to_string()));
    }
    assert_eq!(running.refused(capture(), file()), "recordings");
    running.end(&RecordingSelection {
        path: Some(running.path("3").display().to_string()),
        ..Default::default()
    });
    // One of the others writes to this file.
    let open = |name: &str| File::options().write(true).open(running.path(name)).unwrap();
    assert_eq!(running.refused(capture(), open("4")), "path");
    running.emulator.remote().record(capture(), open("3")).unwrap();
    assert_eq!(running.end_all().len(), MAX_RECORDINGS);
}

#[test]
fn a_file_in_use_by_another_program_is_refused_and_kept() {
    let running = start();
    let path = running.path("held");
    std::fs::write(&path, "text").unwrap();
    let open = || File::options().write(true).open(&path).unwrap();
    let held = open();
    held.try_lock().unwrap();
    assert_eq!(running.refused(running.capture("held"), open()), "path");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "text");
    drop(held);
    running.emulator.remote().record(running.capture("held"), open()).unwrap();
}

#[test]
fn a_pipe_that_takes_nothing_holds_up_neither_commands_nor_the_end() {
    let running = start();
    let (reader, mut writer) = std::io::pipe().unwrap();
    let flags = fcntl_getfl(&writer).unwrap();
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
    while writer.write(&[0; 4096]).is_ok() {}
    fcntl_setfl(&writer, flags).unwrap();
    let file = File::from(std::os::fd::OwnedFd::from(writer));
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        running.emulator.remote().record(running.capture("-"), file).unwrap();
        running.put(&[datagram(1, 1)]);
        assert_eq!(running.reports()[0].bytes, 0);
        assert!(running.emulator.finish("test").error.is_none());
        done.send(()).unwrap();
    });
    is_done.recv_timeout(LIMIT).expect("it hangs");
    drop(reader);
}

#[test]
fn a_capture_changes_no_verdict() {
    const LAWS: &str = r#"
        schema = "weir.impair/1"
        seed = 7
        [[flow]]
        name = "some"
        filter = { packet_share = "37%" }
        a_to_b = "loss 50%"
        [[flow]]
        name = "port"
        filter = { destination_port = 5 }
        a_to_b = "loss 100%"
    "#;
    // A fragment arrives before the first one of its datagram, whose port it lacks.
    let fragment = |number: u8, offset: u8| {
        let mut frame = datagram(if offset == 0 { 5 } else { 0 }, number);
        frame[18..20].copy_from_slice(&[1, number]);
        frame[20..22].copy_from_slice(&[if offset == 0 { 0x20 } else { 0 }, offset]);
        frame
    };
    let frames: Vec<_> = (0..200)
        .flat_map(|n| [datagram(1, n), fragment(n, 3), fragment(n, 0), fragment(n, 6)])
        .collect();
    let run = |captures: bool| {
        let (link_a, a) = memory::link("A", 10_000).unwrap();
        let (link_b, b) = memory::link("B", 10_000).unwrap();
        let config = EmulatorConfig::new("eth0", "eth1", Impairment::parse(LAWS).unwrap());
        let emulator = Emulator::between([link_a, link_b], config).unwrap();
        if captures {
            let file = tempfile::tempfile().unwrap();
            let capture = Recording::new(RecordingKind::Capture, Path::new("x"));
            emulator.remote().record(capture, file).unwrap();
        }
        let now = Clock::System.monotonic_ns();
        frames.iter().for_each(|frame| a.put(now, frame));
        until("they have passed", || {
            emulator.report().unwrap().directions[0].received_packets == frames.len() as u64
        });
        assert!(emulator.finish("test").error.is_none());
        std::iter::from_fn(|| b.take()).collect::<Vec<_>>()
    };
    let without = run(false);
    assert!((200..700).contains(&without.len()), "{}", without.len());
    assert!(run(true) == without);
}

#[test]
fn a_control_socket_takes_an_open_file_and_no_name() {
    let running = start();
    let socket = running.path("socket");
    let _listening = ControlSocket::listen(&socket, running.emulator.remote().clone()).unwrap();
    let mut connection = Connection::open(&socket).unwrap();
    let path = running.path("capture");
    let request = serde_json::json!({ "verb": "record", "kind": "capture", "path": path });
    let refused = connection.ask(&request).unwrap();
    assert_eq!((&refused["ok"], &refused["field"]), (&false.into(), &"record".into()));
    assert!(!path.exists());
    let file = File::create(&path).unwrap();
    let answer = connection.ask_with(&request, &file).unwrap();
    assert_eq!(answer["ok"], true, "{answer}");
    running.put(&[datagram(2, 1)]);
    let shown = connection.ask(&serde_json::json!({ "verb": "show" })).unwrap();
    assert_eq!(shown["recordings"][0]["state"], "running", "{shown}");
    let end = serde_json::json!({ "verb": "end_recordings", "kind": "capture" });
    // A file that no request needs is closed.
    let ended = connection.ask_with(&end, &file).unwrap();
    assert_eq!(ended["recordings"][0]["records"], 2, "{ended}");
    assert_eq!(captured(&path).len(), 2);
}
