//! Other tools as programs: how each is started for the same parameters, and how its output is parsed.
//!
//! Rates are of payload, at the receiver: `throughput`. The rate of a tool that reports only what it sent is
//! `sent_throughput`. What a tool does not report is absent. Each figure is the tool's own: Weir does not correct it.

use std::collections::BTreeMap;

use serde_json::Value;
use weir_model::plan::PeerName;
use weir_model::units::{RateLimit, SendRate};

/// The parameters of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    /// `tcp` or `udp`.
    pub is_udp: bool,
    /// UDP payload or TCP write size, bytes; absent: the tool's default.
    pub size: Option<u64>,
    /// TCP maximum segment size.
    pub mss: Option<u32>,
    /// Socket buffer of both ends, bytes.
    pub window: Option<u64>,
    /// TCP congestion control by its kernel name; absent: the system's.
    pub congestion: Option<String>,
    /// Connections.
    pub connections: u32,
    /// Rate of each connection; absent: unlimited.
    pub rate: Option<RateLimit>,
    /// Whole seconds.
    pub seconds: u32,
}

impl Default for Load {
    fn default() -> Load {
        Load {
            is_udp: false,
            size: None,
            mss: None,
            window: None,
            congestion: None,
            connections: 1,
            rate: None,
            seconds: 10,
        }
    }
}

impl Load {
    /// The rate for tools that know only bit/s; 0 is unlimited.
    fn bits(&self) -> Result<u64, &'static str> {
        match (self.rate, self.size) {
            (None | Some(RateLimit::Unlimited), _) => Ok(0),
            (Some(RateLimit::Bits(bits)), _) => Ok(bits.0),
            (Some(RateLimit::Packets(packets)), Some(size)) => {
                Ok((packets * size as f64 * 8.0).round() as u64)
            }
            (Some(RateLimit::Packets(_)), None) => {
                Err("its rate is in bit/s, so that packets/s need a size")
            }
        }
    }
}

/// A command line, or what the tool lacks for the load.
pub type Words = Result<Vec<String>, &'static str>;

/// A tool.
#[derive(Debug)]
pub struct Tool {
    /// Its name in scenarios.
    pub name: &'static str,
    /// Its programs, the client first.
    pub programs: &'static [&'static str],
    /// Arguments with which its client prints its version.
    pub version: &'static [&'static str],
    /// Arguments of its server, which may write a log to the named file. Only some servers end by themselves.
    pub server: fn(&Load, &str) -> Vec<String>,
    /// Port on which the server listens, and whether it is UDP.
    pub port: (u16, bool),
    /// Arguments of its client.
    pub client: fn(&Load, &str) -> Words,
    /// Arguments of the program that decodes the server's log, for a tool that reports its figures in no other way:
    /// its output replaces that of the server.
    pub decode: Option<fn(&str) -> Vec<String>>,
    /// Its protocol, if Weir speaks it: then each may be the other's client or server.
    pub peer: Option<PeerName>,
    /// Parses the output of client and server.
    pub parse: fn(&Load, &str, &str) -> Result<Figures, String>,
}

impl Tool {
    /// Why the tool can't produce a load, if so; `is_here`: its server is started by this program.
    #[must_use]
    pub(crate) fn refusal(&self, load: &Load, is_here: bool) -> Option<&'static str> {
        if let Err(lacks) = (self.client)(load, "") {
            return Some(lacks);
        }
        let needs_log = self.decode.is_some() && !is_here;
        needs_log.then_some("its figures are in the log of its server, which is remote")
    }
}

/// Metrics by their names in scenarios.
pub(crate) type Figures = BTreeMap<String, f64>;

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|w| (*w).to_owned()).collect()
}

fn push(out: &mut Vec<String>, flag: &str, value: impl ToString) {
    out.push(flag.into());
    out.push(value.to_string());
}

const NO_CONGESTION: &str = "it has no option for the congestion control";
const NO_SEVERAL: &str = "it has no option for several connections";

/// The supported tools.
pub const TOOLS: &[Tool] = &[
    Tool {
        name: "iperf3",
        programs: &["iperf3"],
        version: &["--version"],
        server: |_, _| words(&["iperf3", "-s", "-1"]),
        port: (5201, false),
        client: |load, host| {
            let mut out = words(&["iperf3", "-J", "-i", "0"]);
            push(&mut out, "-c", host);
            push(&mut out, "-t", load.seconds);
            push(&mut out, "-P", load.connections);
            if load.is_udp {
                out.push("-u".into());
            }
            if load.is_udp || load.rate.is_some() {
                push(&mut out, "-b", load.bits()?);
            }
            load.size.iter().for_each(|s| push(&mut out, "-l", s));
            load.mss.iter().for_each(|m| push(&mut out, "-M", m));
            // The client passes it on to the server.
            load.window.iter().for_each(|w| push(&mut out, "-w", w));
            load.congestion.iter().for_each(|c| push(&mut out, "-C", c));
            Ok(out)
        },
        decode: None,
        peer: Some(PeerName::Iperf3),
        parse: iperf3,
    },
    Tool {
        name: "iperf",
        programs: &["iperf"],
        version: &["--version"],
        server: |load, _| {
            let mut out = words(&["iperf", "-s", "-y", "C"]);
            if load.is_udp {
                out.push("-u".into());
            }
            load.window.iter().for_each(|w| push(&mut out, "-w", w));
            out
        },
        port: (5001, false),
        client: |load, host| {
            let mut out = words(&["iperf", "-y", "C"]);
            push(&mut out, "-c", host);
            push(&mut out, "-t", load.seconds);
            push(&mut out, "-P", load.connections);
            match load.bits()? {
                0 if load.is_udp => push(&mut out, "-b", "100g"),
                0 => {}
                bits => push(&mut out, "-b", bits),
            }
            if load.is_udp {
                out.push("-u".into());
            }
            load.size.iter().for_each(|s| push(&mut out, "-l", s));
            load.mss.iter().for_each(|m| push(&mut out, "-M", m));
            load.window.iter().for_each(|w| push(&mut out, "-w", w));
            load.congestion.iter().for_each(|c| push(&mut out, "-Z", c));
            Ok(out)
        },
        decode: None,
        peer: Some(PeerName::Iperf2),
        parse: iperf,
    },
    Tool {
        name: "nuttcp",
        programs: &["nuttcp"],
        version: &["-V"],
        server: |_, _| words(&["nuttcp", "-S", "--nofork"]),
        port: (5000, false),
        client: |load, host| {
            if load.is_udp && load.connections > 1 {
                return Err("it has no UDP test with several streams");
            }
            if load.congestion.is_some() {
                return Err(NO_CONGESTION);
            }
            let mut out = words(&["nuttcp", "-fparse"]);
            out.push(format!("-T{}", load.seconds));
            if load.is_udp {
                out.push("-u".into());
            } else if load.connections > 1 {
                out.push(format!("-N{}", load.connections));
            }
            match load.rate {
                Some(RateLimit::Packets(packets)) => out.push(format!("-R{packets:.0}p")),
                Some(RateLimit::Bits(bits)) => out.push(format!("-R{}", bits.0.div_ceil(1000))),
                _ if load.is_udp => out.push("-Ru".into()),
                _ => {}
            }
            load.size.iter().for_each(|s| out.push(format!("-l{s}")));
            load.mss.iter().for_each(|m| out.push(format!("-M{m}")));
            if let Some(window) = load.window {
                if window % 1024 != 0 {
                    return Err("its window is in units of 1024 bytes");
                }
                // The client's, then the server's.
                out.push(format!("-w{}", window / 1024));
                out.push(format!("-ws{}", window / 1024));
            }
            out.push(host.into());
            Ok(out)
        },
        decode: None,
        peer: Some(PeerName::Nuttcp),
        parse: nuttcp,
    },
    Tool {
        name: "netperf",
        programs: &["netperf", "netserver"],
        version: &["-V"],
        server: |_, _| words(&["netserver", "-D"]),
        port: (12865, false),
        client: |load, host| {
            if load.connections > 1 {
                return Err(NO_SEVERAL);
            }
            if load.rate.is_some() {
                return Err("it paces only if it was built for that");
            }
            let mut out = words(&["netperf", "-P", "0", "-f", "m"]);
            push(&mut out, "-H", host);
            push(&mut out, "-l", load.seconds);
            push(&mut out, "-t", if load.is_udp { "UDP_STREAM" } else { "TCP_STREAM" });
            let mut own = vec![];
            load.size.iter().for_each(|s| push(&mut own, "-m", s));
            load.mss.iter().for_each(|m| push(&mut own, "-G", m));
            if let Some(window) = load.window {
                // Of the client and of the server.
                push(&mut own, "-s", window);
                push(&mut own, "-S", window);
            }
            load.congestion.iter().for_each(|c| push(&mut own, "-K", c));
            if !own.is_empty() {
                out.push("--".into());
                out.append(&mut own);
            }
            Ok(out)
        },
        decode: None,
        peer: Some(PeerName::Netperf),
        parse: netperf,
    },
    Tool {
        name: "d-itg",
        programs: &["ITGSend", "ITGRecv", "ITGDec"],
        version: &["-h"],
        server: |_, log| words(&["ITGRecv", "-l", log]),
        port: (9000, false),
        client: |load, host| {
            // Several flows need a script.
            if load.connections > 1 {
                return Err(NO_SEVERAL);
            }
            if load.mss.is_some() {
                return Err("it has no option for the MSS");
            }
            if load.window.is_some() {
                return Err("it has no option for the window");
            }
            if load.congestion.is_some() {
                return Err(NO_CONGESTION);
            }
            let mut out = words(&["ITGSend", "-l", "/dev/null"]);
            push(&mut out, "-a", host);
            push(&mut out, "-T", if load.is_udp { "UDP" } else { "TCP" });
            push(&mut out, "-t", u64::from(load.seconds) * 1000);
            let size = load.size.unwrap_or(DITG_SIZE_BYTES);
            push(&mut out, "-c", size);
            // It always has a rate: one beyond any path is unlimited.
            let rate = match load.rate {
                Some(RateLimit::Packets(packets)) => packets,
                Some(RateLimit::Bits(bits)) => bits.0 as f64 / 8.0 / size as f64,
                Some(RateLimit::Unlimited) | None => 1e7,
            };
            push(&mut out, "-C", rate);
            Ok(out)
        },
        decode: Some(|log| words(&["ITGDec", log])),
        peer: Some(PeerName::Ditg),
        parse: ditg,
    },
];

/// The line of a program's output that has its version: the first one with a digit.
pub(crate) fn version_of(printed: &str) -> Option<String> {
    const MAX_CHARACTERS: usize = 100;
    let lines = printed.lines().map(str::trim);
    let mut lines = lines.filter(|line| line.contains(|c: char| c.is_ascii_digit()));
    Some(lines.next()?.chars().take(MAX_CHARACTERS).collect())
}

/// Flags of `weir test` for a load: one datagram per system call at both ends, as the other tools do, unless `coalesced`.
/// `peer`: the other tool whose server answers, which receives as it does.
pub(crate) fn own_flags(load: &Load, coalesced: bool, peer: Option<PeerName>) -> Vec<String> {
    let mut out = vec![];
    peer.iter().for_each(|peer| push(&mut out, "--peer", peer.label()));
    if load.is_udp {
        out.push("-u".into());
        if !coalesced {
            push(&mut out, "--gso", "off");
            if peer.is_none() {
                push(&mut out, "--gro", "off");
            }
        }
    }
    let rate = load.rate.map(|limit| SendRate { limit, burst: 1 });
    let rate = rate.or(load.is_udp.then_some(SendRate::UNLIMITED));
    rate.iter().for_each(|rate| push(&mut out, "-b", rate));
    push(&mut out, "-t", load.seconds);
    push(&mut out, "-P", load.connections);
    load.size.iter().for_each(|s| push(&mut out, "-l", s));
    load.mss.iter().for_each(|m| push(&mut out, "-M", m));
    load.window.iter().for_each(|w| push(&mut out, "-w", w));
    load.congestion.iter().for_each(|c| push(&mut out, "-C", c));
    out
}

/// D-ITG's own default.
const DITG_SIZE_BYTES: u64 = 512;

/// The metric of the datagram's payload size: each tool has its own default.
pub(crate) const PAYLOAD_SIZE: &str = "payload_size";

/// nuttcp's datagram size, from the received megabytes (2^20 bytes).
fn received_size(get: &dyn Fn(&str) -> Option<f64>, packets: f64) -> Option<f64> {
    let bytes = get("megabytes")? * 1_048_576.0;
    (packets > 0.0).then(|| (bytes / packets).round())
}

fn figures(list: &[(&str, Option<f64>)]) -> Result<Figures, String> {
    Ok(list
        .iter()
        .filter_map(|(n, v)| Some(((*n).to_owned(), v.filter(|v| v.is_finite())?)))
        .collect())
}

fn iperf3(load: &Load, client: &str, _server: &str) -> Result<Figures, String> {
    let result: Value = serde_json::from_str(client).map_err(|e| format!("no JSON: {e}"))?;
    if let Some(error) = result["error"].as_str() {
        return Err(error.into());
    }
    let end = &result["end"];
    if !load.is_udp {
        let rate = end["sum_received"]["bits_per_second"].as_f64();
        let again = end["sum_sent"]["retransmits"].as_f64();
        return figures(&[
            ("throughput", Some(rate.ok_or("no sum_received")?)),
            ("retransmits", again),
        ]);
    }
    // 3.12 has the receiver's loss in `sum`, with the sender's packets and time; later versions in `sum_received`.
    let total = if end["sum_received"].is_object() { &end["sum_received"] } else { &end["sum"] };
    let (packets, lost) = (total["packets"].as_f64(), total["lost_packets"].as_f64());
    let (packets, lost) = packets.zip(lost).ok_or("no packets")?;
    let seconds = |sum: &Value| sum["seconds"].as_f64().filter(|s| *s > 0.0);
    let seconds = seconds(total).or_else(|| seconds(&end["sum"])).ok_or("no time")?;
    let size = result["start"]["test_start"]["blksize"].as_f64().or(load.size.map(|s| s as f64));
    let rate = (packets - lost) / seconds;
    // `sum` is the sender's, except for the receiver's losses.
    let received = end["sum_received"]["bits_per_second"].as_f64();
    figures(&[
        ("packet_rate", Some(rate)),
        ("throughput", received.or(size.map(|s| rate * s * 8.0))),
        ("lost_packets", Some(lost)),
        ("loss", (packets > 0.0).then(|| lost / packets)),
        ("jitter", total["jitter_ms"].as_f64().map(|ms| ms / 1000.0)),
        (PAYLOAD_SIZE, size),
    ])
}

/// `-y C`: date, source, port, destination, port, id, interval, bytes, bit/s; for UDP also jitter (ms), lost, total, per cent
/// lost, out of order. In the sender's own line of UDP the total is -1, or these are missing.
fn iperf(load: &Load, client: &str, server: &str) -> Result<Figures, String> {
    let rows = |text: &str| -> Vec<Vec<String>> {
        let rows = text.lines().map(|l| l.split(',').map(Into::into).collect::<Vec<String>>());
        rows.filter(|r| r.len() >= 9).collect()
    };
    let number = |row: &[String], i: usize| row.get(i).and_then(|c| c.trim().parse::<f64>().ok());
    if load.is_udp {
        // The client repeats the server's line if it received it; the sum of several connections has the id -1.
        let (server, client) = (rows(server), rows(client));
        let of_connections = |rows: &[Vec<String>]| -> Vec<Vec<String>> {
            rows.iter().filter(|r| r[5].trim() != "-1").cloned().collect()
        };
        let is_received = |row: &Vec<String>| number(row, 11).is_some_and(|total| total >= 0.0);
        let mut seen = std::collections::BTreeSet::new();
        let received: Vec<Vec<String>> = of_connections(&[client.clone(), server].concat())
            .into_iter()
            .filter(|row| {
                // The two print the ends in different order.
                let mut ends = [row[2].clone(), row[4].clone()];
                ends.sort();
                is_received(row) && seen.insert(ends)
            })
            .collect();
        let sum = |rows: &[Vec<String>], i: usize| -> Option<f64> {
            rows.iter().map(|row| number(row, i)).sum()
        };
        if received.is_empty() {
            let sent: Vec<_> =
                of_connections(&client).into_iter().filter(|r| !is_received(r)).collect();
            if sent.len() < load.connections as usize {
                return Err("the server's report is missing".into());
            }
            return figures(&[("sent_throughput", sum(&sent, 8))]);
        }
        if received.len() < load.connections as usize {
            return Err(format!(
                "reports of {} of {} connections",
                received.len(),
                load.connections
            ));
        }
        let (lost, total) = sum(&received, 10).zip(sum(&received, 11)).ok_or("no packets")?;
        let jitter = sum(&received, 9).map(|ms| ms / 1000.0 / received.len() as f64);
        let bytes = sum(&received, 7);
        let size = bytes.filter(|_| total > lost).map(|bytes| (bytes / (total - lost)).round());
        let packet_rate = |row: &Vec<String>| {
            let (start, end) = row[6].split_once('-')?;
            let seconds = end.trim().parse::<f64>().ok()? - start.trim().parse::<f64>().ok()?;
            let packets = number(row, 11)? - number(row, 10)?;
            (seconds > 0.0).then_some(packets / seconds)
        };
        return figures(&[
            ("throughput", sum(&received, 8)),
            ("packet_rate", received.iter().map(packet_rate).sum()),
            ("lost_packets", Some(lost)),
            ("loss", (total > 0.0).then(|| lost / total)),
            ("jitter", jitter),
            (PAYLOAD_SIZE, load.size.map(|s| s as f64).or(size)),
        ]);
    }
    // The server's lines are what arrived; for several connections they have no sum. What the client counts on top is
    // still in its buffers.
    let (server, client) = (rows(server), rows(client));
    let of_server = server.iter().filter(|r| r.len() < 13);
    let total = |rows: &mut dyn DoubleEndedIterator<Item = &Vec<String>>| {
        let all: Vec<&Vec<String>> = rows.collect();
        match all.iter().rfind(|r| r[5].trim() == "-1") {
            Some(sum) => number(sum, 8).ok_or("no rate".to_owned()),
            None if all.len() < load.connections as usize => {
                Err(format!("reports of {} of {} connections", all.len(), load.connections))
            }
            None => all.iter().map(|r| number(r, 8)).sum::<Option<f64>>().ok_or("no rate".into()),
        }
    };
    // A remote server's output is not available.
    match server.is_empty() {
        true => figures(&[("sent_throughput", Some(total(&mut client.iter())?))]),
        false => figures(&[("throughput", Some(total(&mut of_server.into_iter())?))]),
    }
}

fn nuttcp(load: &Load, client: &str, _server: &str) -> Result<Figures, String> {
    let found: BTreeMap<&str, f64> = client
        .split_whitespace()
        .filter_map(|w| w.split_once('='))
        .filter_map(|(n, v)| Some((n, v.parse().ok()?)))
        .collect();
    let get = |name: &str| found.get(name).copied();
    let rate =
        get("rate_Mbps").ok_or_else(|| client.trim().chars().take(200).collect::<String>())?;
    if !load.is_udp {
        return figures(&[("throughput", Some(rate * 1e6)), ("retransmits", get("retrans"))]);
    }
    let (packets, drop) = get("pkt").zip(get("drop")).ok_or("no packets")?;
    figures(&[
        ("throughput", Some(rate * 1e6)),
        ("packet_rate", get("real_seconds").filter(|s| *s > 0.0).map(|s| (packets - drop) / s)),
        ("lost_packets", Some(drop)),
        ("loss", (packets > 0.0).then(|| drop / packets)),
        (PAYLOAD_SIZE, load.size.map(|s| s as f64).or_else(|| received_size(&get, packets - drop))),
    ])
}

/// `-P 0 -f m`. TCP_STREAM: one line with the rate sent by the client. UDP_STREAM: the sender's line (socket, size,
/// time, sent, errors, rate) and the receiver's (socket, time, received, rate).
fn netperf(load: &Load, client: &str, _server: &str) -> Result<Figures, String> {
    let rows: Vec<Vec<f64>> = client
        .lines()
        .map(|l| l.split_whitespace().filter_map(|w| w.parse().ok()).collect::<Vec<f64>>())
        .filter(|r| r.len() >= 4)
        .collect();
    if !load.is_udp {
        let rate = rows.last().and_then(|r| r.last()).ok_or("no rate")?;
        return figures(&[("sent_throughput", Some(rate * 1e6))]);
    }
    let (sender, receiver) =
        (rows.first().ok_or("no sender's line")?, rows.get(1).ok_or("no receiver's line")?);
    let (sent, received) =
        (sender.get(3).ok_or("no packets")?, receiver.get(2).ok_or("no packets")?);
    figures(&[
        ("throughput", receiver.last().map(|r| r * 1e6)),
        ("lost_packets", Some(sent - received)),
        ("loss", (*sent > 0.0).then(|| (sent - received) / sent)),
        (PAYLOAD_SIZE, sender.get(1).copied()),
    ])
}

/// The total that ITGDec prints for the receiver's log, after a section for each flow. Losses at the end of a flow
/// are not in it.
fn ditg(load: &Load, _client: &str, decoded: &str) -> Result<Figures, String> {
    let (_, total) = decoded.rsplit_once("TOTAL RESULTS").ok_or("its log could not be decoded")?;
    let get = |name: &str| -> Option<f64> {
        let line = total.lines().find(|l| l.trim_start().starts_with(name))?;
        line.split_once('=')?.1.split_whitespace().next()?.parse().ok()
    };
    let (bytes, seconds) = get("Bytes received").zip(get("Total time")).ok_or("no total")?;
    if seconds <= 0.0 {
        return Err("its receiver received nothing".into());
    }
    let mut list = vec![("throughput", Some(bytes * 8.0 / seconds))];
    if load.is_udp {
        let (packets, dropped) =
            get("Total packets").zip(get("Packets dropped")).ok_or("no packets")?;
        list.push(("packet_rate", Some(packets / seconds)));
        list.push(("lost_packets", Some(dropped)));
        list.push(("loss", (packets + dropped > 0.0).then(|| dropped / (packets + dropped))));
        list.push(("jitter", get("Average jitter")));
        list.push((PAYLOAD_SIZE, Some(load.size.unwrap_or(DITG_SIZE_BYTES) as f64)));
    }
    figures(&list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::units::BitRate;

    fn load(is_udp: bool) -> Load {
        Load { is_udp, size: Some(160), seconds: 2, ..Load::default() }
    }

    #[test]
    fn what_the_tools_print_becomes_figures() {
        let tcp = iperf3(
            &load(false),
            r#"{"end":{"sum_received":{"bits_per_second":9.4e8},"sum_sent":{"retransmits":3}}}"#,
            "",
        );
        assert_eq!(
            tcp.unwrap(),
            [("throughput".to_owned(), 9.4e8), ("retransmits".to_owned(), 3.0)].into()
        );
        let udp = iperf3(
            &load(true),
            r#"{"start":{"test_start":{"blksize":160}},"end":{"sum":{"seconds":2.0,"packets":1000,"lost_packets":100,"jitter_ms":0.5}}}"#,
            "",
        )
        .unwrap();
        assert_eq!((udp["packet_rate"], udp["loss"], udp["jitter"]), (450.0, 0.1, 0.0005));
        assert_eq!(udp["throughput"], 576_000.0);
        assert!(
            iperf3(&load(false), r#"{"error":"unable to connect"}"#, "")
                .unwrap_err()
                .contains("unable")
        );

        let line = "20261122,10.0.0.1,5001,10.0.0.2,40000,3,0.0-2.0,250000,1000000";
        assert_eq!(iperf(&load(false), line, line).unwrap()["throughput"], 1e6);
        // The received rate of all connections: iperf 2.1.8 prints no sum.
        let row =
            |port: u32, rate| format!("2026,10.0.0.1,5001,10.0.0.2,{port},1,0.0-2.0,9,{rate}\n");
        let two = Load { connections: 2, ..load(false) };
        let (client, server) = (row(1, 700) + &row(2, 300), row(2, 200) + &row(1, 600));
        assert_eq!(iperf(&two, &client, &server).unwrap()["throughput"], 800.0);
        // A remote server: the rate sent.
        let sent = iperf(&two, &client, "").unwrap();
        assert_eq!(sent, [("sent_throughput".to_owned(), 1000.0)].into());
        assert!(iperf(&two, &client, &row(1, 600)).unwrap_err().contains("1 of 2"));
        let sum = "2026,10.0.0.1,5001,10.0.0.2,0,-1,0.0-2.0,9,790\n";
        assert_eq!(iperf(&two, &client, &(server + sum)).unwrap()["throughput"], 790.0);
        let report = format!("{line}\n{line},0.010,5,1000,0.5,0\n");
        let udp = iperf(&load(true), &report, "").unwrap();
        assert_eq!((udp["throughput"], udp["lost_packets"], udp["loss"]), (1e6, 5.0, 0.005));
        assert_eq!(
            iperf(&load(true), line, "").unwrap(),
            [("sent_throughput".to_owned(), 1e6)].into()
        );

        let text = "megabytes=1.0 real_seconds=2.00 rate_Mbps=4.2 tx_cpu=1 rx_cpu=2 drop=10 pkt=1000 data_loss=1.0";
        let udp = nuttcp(&load(true), text, "").unwrap();
        assert_eq!((udp["throughput"], udp["packet_rate"], udp["loss"]), (4.2e6, 495.0, 0.01));

        assert_eq!(
            netperf(&load(false), "131072 16384 16384 2.00 940.5\n", "").unwrap()["sent_throughput"],
            940.5e6
        );
        let udp = netperf(&load(true), "212992 160 2.00 1000 0 0.64\n212992 2.00 900 0.57\n", "")
            .unwrap();
        assert_eq!((udp["throughput"], udp["loss"]), (0.57e6, 0.1));
    }

    /// The requested size, the size that a tool prints, or bytes divided by packets.
    #[test]
    fn the_size_of_a_tool_s_datagrams_is_known() {
        let own = Load { size: None, ..load(true) };
        let size = |found: Result<Figures, String>| found.unwrap()[PAYLOAD_SIZE];
        let json = r#"{"start":{"test_start":{"blksize":1448}},"end":{"sum":{"seconds":2.0,"packets":1000,"lost_packets":100}}}"#;
        assert_eq!(size(iperf3(&own, json, "")), 1448.0);
        let row = "2026,10.0.0.1,5001,10.0.0.2,4,3,0.0-2.0,1323000,1,0.010,100,1000,0.5,0\n";
        assert_eq!(size(iperf(&own, row, "")), 1470.0);
        let text = "megabytes=1.0 real_seconds=2.00 rate_Mbps=4.2 drop=0 pkt=1024";
        assert_eq!(size(nuttcp(&own, text, "")), 1024.0);
        assert_eq!(size(nuttcp(&load(true), text, "")), 160.0);
        let text = "212992 65507 2.00 1000 0 0.64\n212992 2.00 900 0.57\n";
        assert_eq!(size(netperf(&own, text, "")), 65507.0);
    }

    /// iperf 2.1.8 prints its own line for what it sent first, with a total of -1, and repeats the server's if its
    /// answer arrived. The server always prints its line; its ids are in another order.
    #[test]
    fn iperfs_figure_is_its_receivers() {
        let row = |port: u32, id: u32, rest: &str| {
            format!("19700101000000,198.18.0.1,{port},198.18.0.2,5001,{id},0.0-2.0,{rest}\n")
        };
        let client = row(7, 1, "501500,2003799,0.000,0,-1,-0.000,0")
            + &row(8, 2, "501500,2003871,0.000,0,-1,-0.000,0");
        let server = row(8, 1, "353500,1401209,1.034,297,1004,29.582,0")
            + &row(7, 2, "361000,1429509,1.667,283,1005,28.159,0");
        let two = Load { connections: 2, ..load(true) };
        let found = iperf(&two, &client, &server).unwrap();
        assert_eq!((found["throughput"], found["lost_packets"]), (2_830_718.0, 580.0));
        assert_eq!((found["loss"], found["packet_rate"]), (580.0 / 2009.0, 1429.0 / 2.0));
        assert!((found["jitter"] - 0.001_350_5).abs() < 1e-9);
        // Repeated by the client, with either end first.
        let repeated = client.clone() + &server.replace("198.18.0.1", "x");
        assert_eq!(iperf(&two, &repeated, &server).unwrap(), found);
        assert_eq!(iperf(&two, &repeated, "").unwrap(), found);
        let sent = iperf(&two, &client, "").unwrap();
        assert_eq!(sent, [("sent_throughput".to_owned(), 4_007_670.0)].into());
        let one = server.lines().next().unwrap();
        assert!(iperf(&two, &client, one).unwrap_err().contains("1 of 2"));
    }

    /// As iperf3 3.12 reports it: `sum` has the sender's bytes with the receiver's losses.
    #[test]
    fn iperf3s_figure_is_its_receivers() {
        let text = r#"{"start":{"test_start":{"blksize":500}},"end":{
            "sum":{"seconds":2.0,"bytes":500000,"bits_per_second":2e6,"jitter_ms":0.5,"lost_packets":296,"packets":1000},
            "sum_sent":{"seconds":2.0,"bytes":500000,"bits_per_second":2e6,"lost_packets":0,"packets":1000},
            "sum_received":{"seconds":2.5,"bytes":352000,"bits_per_second":1126400.0,"jitter_ms":0.5,
                "lost_packets":296,"packets":1000}}}"#;
        let found = iperf3(&load(true), text, "").unwrap();
        assert_eq!((found["throughput"], found["loss"]), (1_126_400.0, 0.296));
        assert_eq!((found["packet_rate"], found["jitter"]), (704.0 / 2.5, 0.0005));
    }

    #[test]
    fn the_total_of_a_decoded_log_is_d_itgs() {
        // As ITGDec 2.8.1 prints it, after its spinner.
        let total = "\nTotal time               =      2.000000 s\nTotal packets            =           900\n\
                     Average jitter           =      0.000017 s\nBytes received           =        144000\n\
                     Average bitrate          =    576.000000 Kbit/s\nPackets dropped          =           100 (10.00 %)\n";
        let text = format!("|\\-/|\\-/Flow number: 1{total}\n**  TOTAL RESULTS   **{total}");
        let udp = ditg(&load(true), "", &text).unwrap();
        assert_eq!((udp["throughput"], udp["packet_rate"]), (576_000.0, 450.0));
        assert_eq!((udp["loss"], udp["lost_packets"], udp["jitter"]), (0.1, 100.0, 0.000_017));
        assert_eq!(
            ditg(&load(false), "", &text).unwrap(),
            [("throughput".to_owned(), 576_000.0)].into()
        );
        assert!(ditg(&load(false), "", "|\\-/").unwrap_err().contains("decoded"));
        let empty = text.replace("2.000000", "0.000000");
        assert!(ditg(&load(true), "", &empty).unwrap_err().contains("nothing"));
        let of = TOOLS.iter().find(|t| t.name == "d-itg").unwrap();
        let rate = Some(RateLimit::Bits(BitRate(1_280_000)));
        let words = (of.client)(&Load { rate, ..load(true) }, "h").unwrap().join(" ");
        assert_eq!(words, "ITGSend -l /dev/null -a h -T UDP -t 2000 -c 160 -C 1000");
    }

    #[test]
    fn a_load_that_a_tool_lacks_an_option_for_is_left_out() {
        let many = Load { connections: 2, ..load(true) };
        let of = |name: &str| TOOLS.iter().find(|t| t.name == name).unwrap();
        assert!((of("nuttcp").client)(&many, "h").is_err());
        assert!((of("iperf3").client)(&many, "h").is_ok());
        assert!(of("nuttcp").refusal(&many, true).is_some());
        assert_eq!(of("iperf3").refusal(&many, true), None);
        assert_eq!(of("iperf3").refusal(&many, false), None);
        assert_eq!(of("d-itg").refusal(&load(true), true), None);
        assert!(of("d-itg").refusal(&load(true), false).is_some_and(|r| r.contains("log")));
        let words =
            (of("iperf3").client)(&Load { mss: Some(536), ..load(false) }, "h").unwrap().join(" ");
        assert_eq!(words, "iperf3 -J -i 0 -c h -t 2 -P 1 -l 160 -M 536");
    }

    /// A window is set at both ends; a rate of a stream only by tools that pace it.
    #[test]
    fn each_tool_has_its_own_words_for_a_setting() {
        let of = |name: &str| TOOLS.iter().find(|t| t.name == name).unwrap();
        let client = |name: &str, load: &Load| (of(name).client)(load, "h").map(|w| w.join(" "));
        let own = Load { size: None, ..load(false) };
        let small = Load { window: Some(8192), mss: Some(128), ..own.clone() };
        let iperf = "iperf -y C -c h -t 2 -P 1 -M 128 -w 8192";
        assert_eq!(client("iperf", &small).as_deref(), Ok(iperf));
        assert_eq!((of("iperf").server)(&small, "").join(" "), "iperf -s -y C -w 8192");
        let iperf3 = "iperf3 -J -i 0 -c h -t 2 -P 1 -M 128 -w 8192";
        assert_eq!(client("iperf3", &small).as_deref(), Ok(iperf3));
        assert_eq!(client("nuttcp", &small).as_deref(), Ok("nuttcp -fparse -T2 -M128 -w8 -ws8 h"));
        let netperf = "netperf -P 0 -f m -H h -l 2 -t TCP_STREAM -- -G 128 -s 8192 -S 8192";
        assert_eq!(client("netperf", &small).as_deref(), Ok(netperf));
        assert!(client("d-itg", &small).is_err());
        assert!(client("nuttcp", &Load { window: Some(8000), ..own.clone() }).is_err());
        assert_eq!(own_flags(&small, false, None).join(" "), "-t 2 -P 1 -M 128 -w 8192");

        let paced = Load { rate: Some(RateLimit::Packets(1000.0)), ..load(false) };
        let ditg = "ITGSend -l /dev/null -a h -T TCP -t 2000 -c 160 -C 1000";
        assert_eq!(client("d-itg", &paced).as_deref(), Ok(ditg));
        assert!(client("iperf3", &paced).unwrap().contains("-b 1280000"));
        assert!(client("iperf3", &Load { size: None, ..paced.clone() }).is_err());
        assert!(client("nuttcp", &paced).unwrap().contains("-R1000p"));
        assert!(client("netperf", &paced).is_err());
        assert_eq!(own_flags(&paced, false, None).join(" "), "-b 1000pps -t 2 -P 1 -l 160");

        let pinned = Load { congestion: Some("reno".into()), ..own };
        assert!(client("iperf", &pinned).unwrap().ends_with("-Z reno"));
        assert!(client("iperf3", &pinned).unwrap().ends_with("-C reno"));
        assert!(client("nuttcp", &pinned).is_err());
    }

    #[test]
    fn weir_sends_datagrams_by_themselves_as_the_other_tools_do() {
        let flags = |is_udp, coalesced| own_flags(&load(is_udp), coalesced, None).join(" ");
        assert_eq!(flags(true, false), "-u --gso off --gro off -b 0 -t 2 -P 1 -l 160");
        assert_eq!(flags(true, true), "-u -b 0 -t 2 -P 1 -l 160");
        assert_eq!(flags(false, false), "-t 2 -P 1 -l 160");
        // The other tool's server receives as it does.
        let iperf3 = own_flags(&load(true), false, Some(PeerName::Iperf3)).join(" ");
        assert_eq!(iperf3, "--peer iperf3 -u --gso off -b 0 -t 2 -P 1 -l 160");
    }

    #[test]
    fn the_version_is_the_first_line_with_a_digit() {
        let itg = "ITGSend version 2.8.1 (r1023)\nCompile-time options: sctp dccp\n";
        assert_eq!(version_of(itg).as_deref(), Some("ITGSend version 2.8.1 (r1023)"));
        assert_eq!(
            version_of("\n  iperf 3.12 (cJSON 1.7.15)\nLinux vm 6\n").as_deref(),
            Some("iperf 3.12 (cJSON 1.7.15)")
        );
        assert_eq!(version_of("usage"), None);
    }
}
