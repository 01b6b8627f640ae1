//! Captures and logs of a running emulator between the hosts of a lab, started and ended by commands.

use crate::impair_path::Path;
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path as FilePath, PathBuf};
use std::process::Command;

use crate::common::{has_tools, run, signal, until};
use serde_json::Value;
use weir_link::capture::CaptureReader;

/// Two flows; every third echo request is lost, and the others are late.
const LAWS: &str = r#"
schema = "weir.impair/1"
[[flow]]
name = "echo"
filter = { protocol = "icmp" }
a_to_b = "loss every 3, delay 20ms"
[[flow]]
name = "echo6"
filter = { protocol = "icmpv6" }
"#;

/// The middle with these laws, and the words that start an emulator with them.
fn up(test: &str) -> Option<(Path, [String; 2])> {
    let path = Path::up(test, &["ping"])?;
    let file = path.file("laws.toml");
    std::fs::write(&file, LAWS).unwrap();
    Some((path, ["--config".into(), file.to_str().unwrap().into()]))
}

/// Sends echo requests from a to b; returns how many were answered.
fn ping(path: &Path, v6: bool, count: u32) -> usize {
    let b = path.lab.host("b").unwrap();
    let address = if v6 { b.ipv6.to_string() } else { b.ipv4.to_string() };
    let count = count.to_string();
    let words = ["ping", "-c", &count, "-i", "0.05", "-W", "1", &address];
    path.tool("a", &words).stdout.lines().filter(|line| line.contains("time=")).count()
}

/// Interface, time and ICMP sequence number of each packet of IPv4.
fn captured(path: &FilePath) -> Vec<(u32, u64, u16)> {
    let mut reader = CaptureReader::new(File::open(path).unwrap(), "x").unwrap();
    let mut out = vec![];
    while let Some(frame) = reader.next_frame().unwrap() {
        assert_eq!(frame.data[12..14], [8, 0], "a packet of another flow");
        let sequence = u16::from_be_bytes([frame.data[40], frame.data[41]]);
        out.push((frame.interface, frame.time_ns, sequence));
    }
    out
}

fn rows(path: &FilePath) -> Vec<HashMap<String, String>> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').map(ToOwned::to_owned));
    let columns: Vec<String> = lines.next().unwrap().collect();
    lines.map(|cells| columns.iter().cloned().zip(cells).collect()).collect()
}

#[test]
fn one_flow_is_captured_and_logged_while_it_is_asked_for() {
    let test = "one_flow_is_captured_and_logged_while_it_is_asked_for";
    let Some((path, laws)) = up(test) else { return };
    let emulator = path.emulator(&[&laws[0], &laws[1]]);
    let (capture, log) = (path.file("echo.pcapng"), path.file("echo.csv"));
    let name = |path: &PathBuf| path.to_str().unwrap().to_owned();
    // Before it: three requests, of which the third is lost.
    assert_eq!(ping(&path, false, 3), 2);
    path.verb(&["capture", "on", &name(&capture), "--flow", "echo"]).good();
    path.verb(&["log", "on", &name(&log), "--flow", "echo", "--a-to-b"]).good();
    assert_eq!((ping(&path, false, 6), ping(&path, true, 2)), (4, 2));
    let shown: Value = serde_json::from_str(&path.verb(&["show", "--json"]).good()).unwrap();
    assert_eq!(shown["recordings"].as_array().unwrap().len(), 2, "{shown}");
    let ended = path.verb(&["capture", "off", "--flow", "echo"]).good();
    assert!(ended.contains(&name(&capture)), "{ended}");
    path.verb(&["log", "off", &name(&log)]).good();
    ping(&path, false, 3);
    let (report, _) = emulator.report();
    let recordings = report["recordings"].as_array().unwrap();
    for (recording, records) in recordings.iter().zip([6 + 4 + 4 + 4, 6]) {
        assert_eq!(recording["state"], "ended", "{recording}");
        assert_eq!(
            (&recording["records"], &recording["dropped_records"]),
            (&records.into(), &0.into())
        );
    }
    // A before, B before, A after, B after: requests arrive at A and leave at B.
    let all = captured(&capture);
    let of = |interface| {
        let of = all.iter().filter(move |(on, ..)| *on == interface);
        of.map(|(_, time, sequence)| (*sequence, *time)).collect::<Vec<_>>()
    };
    let sequences =
        |interface| of(interface).iter().map(|(sequence, _)| *sequence).collect::<Vec<_>>();
    assert_eq!(sequences(0), [1, 2, 3, 4, 5, 6]);
    for interface in 1..4 {
        assert_eq!(sequences(interface), [1, 2, 4, 5], "{interface}");
    }
    for (sequence, left) in of(3) {
        let arrived = of(0).into_iter().find(|(of, _)| *of == sequence).unwrap().1;
        assert!(left - arrived >= 20_000_000, "{sequence}: {arrived} {left}");
    }
    let rows = rows(&log);
    let verdicts: Vec<_> = rows.iter().map(|row| row["verdict"].as_str()).collect();
    assert_eq!(verdicts.iter().filter(|verdict| **verdict == "lost").count(), 2);
    assert!(rows.iter().all(|row| row["flow"] == "echo" && row["direction"] == "a_to_b"));
    // The times of both files are the same.
    for row in rows.iter().filter(|row| row["verdict"] == "forwarded") {
        let ns = |column: &str| row[column].replace('.', "").parse::<u64>().unwrap();
        let (arrived, left) = (ns("arrived_unix_seconds"), ns("departed_unix_seconds"));
        assert!(all.iter().any(|(interface, time, _)| (*interface, *time) == (0, arrived)));
        assert!(all.iter().any(|(interface, time, _)| (*interface, *time) == (3, left)));
    }
    if has_tools(test, &["tshark"]) {
        let mut tshark = Command::new("tshark");
        tshark.args(["-n", "-r", &name(&capture), "-Y", "icmp.type == 8", "-T", "fields"]);
        tshark.args(["-e", "frame.interface_name", "-e", "icmp.seq"]);
        tshark.args(["-e", "frame.interface_description"]);
        let text = run(tshark).good();
        let count = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
        assert_eq!((count("A before\t"), count("B after\t")), (6, 4), "{text}");
        assert!(text.contains("to-a") && text.contains("flow echo"), "{text}");
    }
}

#[test]
fn all_packets_of_an_emulator_are_captured_from_its_start_with_their_flows() {
    let test = "all_packets_of_an_emulator_are_captured_from_its_start_with_their_flows";
    let Some((path, laws)) = up(test) else { return };
    let (capture, log) = (path.file("all.pcapng"), path.file("all.csv"));
    let (capture_name, log_name) = (capture.to_str().unwrap(), log.to_str().unwrap());
    let words = [&laws[0], &laws[1], "--capture", capture_name, "--log", log_name];
    let emulator = path.emulator(&words);
    assert_eq!(ping(&path, false, 3), 2);
    // SIGKILL leaves what was written.
    let captured = || {
        let mut reader = CaptureReader::new(File::open(&capture).unwrap(), "x").unwrap();
        let mut count = 0;
        while let Ok(Some(frame)) = reader.next_frame() {
            count += usize::from(frame.data[12..14] == [8, 0]);
        }
        count
    };
    let is_whole = || {
        let log = rows(&log);
        log.iter().filter(|row| row["flow"] == "echo").count() == 5 && captured() == 9
    };
    until("both are written", is_whole);
    signal("KILL", &emulator.child);
    emulator.ended();
    let mut reader = CaptureReader::new(File::open(&capture).unwrap(), "x").unwrap();
    let mut exempt = 0;
    while let Some(frame) = reader.next_frame().unwrap() {
        exempt += u32::from(frame.data[12..14] == [8, 6]);
    }
    assert!(exempt >= 2, "ARP enters and leaves");
    if has_tools(test, &["tshark"]) {
        let mut tshark = Command::new("tshark");
        tshark.args(["-n", "-r", capture_name, "-Y", "icmp and frame.comment == \"echo\""]);
        tshark.args([
            "-T",
            "fields",
            "-e",
            "frame.interface_name",
            "-e",
            "frame.packet_flags_direction",
        ]);
        let text = run(tshark).good();
        // Received is 1 and sent is 2, as a number or in hexadecimal.
        let count = |name: &str, direction: char| {
            let lines = text.lines().filter(|line| line.starts_with(name));
            lines.filter(|line| line.ends_with(direction)).count()
        };
        assert_eq!((count("A before\t", '1'), count("B after\t", '2')), (3, 2), "{text}");
        assert_eq!((count("B before\t", '1'), count("A after\t", '2')), (2, 2), "{text}");
        assert_eq!(text.lines().count(), 9, "{text}");
    }
    // A start that is refused creates and empties no file.
    let new = path.file("new.pcapng");
    let words = ["impair", "to-a", "nosuch", "--capture", new.to_str().unwrap(), "--log", log_name];
    let refused = run(path.weir("m", &words));
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(!new.exists() && log.metadata().unwrap().len() > 0);
}

#[test]
fn files_are_those_of_the_client_and_a_full_disk_is_named() {
    let test = "files_are_those_of_the_client_and_a_full_disk_is_named";
    let Some((path, laws)) = up(test) else { return };
    if !has_tools(test, &["unshare", "mount"]) {
        return;
    }
    let emulator = path.emulator(&[&laws[0], &laws[1]]);
    // A relative path is the client's, and its disk is one that only the client has.
    let small = path.file("small");
    std::fs::create_dir(&small).unwrap();
    let mut client = path.weir("m", &[]);
    let mut wrapped = path.lab.command("m", "unshare").unwrap();
    wrapped.args([
        "-m",
        "sh",
        "-c",
        "mount -t tmpfs -o size=16k none \"$PWD\" && cd \"$PWD\" && exec \"$0\" impair capture on x.pcapng",
    ]);
    wrapped.arg(client.get_program()).current_dir(&small);
    for (name, value) in client.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    client.stdin(std::process::Stdio::null());
    run(wrapped).good();
    let recording = || path.stats()["recordings"][0].clone();
    assert_eq!(recording()["path"], small.join("x.pcapng").to_str().unwrap());
    until("the disk is full", || {
        ping(&path, true, 20);
        recording()["state"] != "running"
    });
    let found = recording();
    assert_eq!(
        (&found["state"], &found["dropped_records"]),
        (&"disk_full".into(), &0.into()),
        "{found}"
    );
    assert!(found["bytes"].as_u64().is_some_and(|bytes| bytes > 4096 && bytes <= 16384), "{found}");
    assert!(small.read_dir().unwrap().next().is_none());
    // An unknown flow: nothing is created, and no file is emptied.
    std::fs::write(path.file("old"), "text").unwrap();
    for name in ["old", "new"] {
        let file = path.file(name);
        let refused = path.verb(&["log", "on", file.to_str().unwrap(), "--flow", "nosuch"]);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    }
    assert!(!path.file("new").exists());
    assert_eq!(std::fs::read_to_string(path.file("old")).unwrap(), "text");
    // Packets have not waited for it.
    let (report, _) = emulator.report();
    assert_eq!(report["directions"][0]["unplanned_dropped_packets"], 0, "{report}");
}

#[test]
fn a_capture_on_standard_output_is_that_of_the_client() {
    let test = "a_capture_on_standard_output_is_that_of_the_client";
    let Some((path, laws)) = up(test) else { return };
    let emulator = path.emulator(&[&laws[0], &laws[1]]);
    let file = path.file("out.pcapng");
    let mut command = path.weir("m", &["impair", "capture", "on", "-", "--flow", "echo6"]);
    command.stdout(File::create(&file).unwrap());
    assert!(command.status().unwrap().success());
    assert_eq!(ping(&path, true, 2), 2);
    let ended = path.verb(&["capture", "off"]).good();
    let count = {
        let mut reader = CaptureReader::new(File::open(&file).unwrap(), "x").unwrap();
        std::iter::from_fn(|| reader.next_frame().unwrap().map(drop)).count()
    };
    assert!(count >= 8, "{ended}");
    assert_eq!(emulator.interrupt().0, Some(130));
}
