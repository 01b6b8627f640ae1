//! The command line of each order, its parts checked: a word of a request becomes neither a flag nor a path of its own.

use std::path::{Path, PathBuf};

use weir_experiment::lines::{TestLine, with_value as value};

use super::launch::Place;
use super::orders::{LabNode, Order, host, inside, interface, journal_name, socket_name, word};
use crate::types::LinkChoice;

pub(super) type CommandLine = (Option<LabNode>, Vec<String>);

/// The command line of an order, each part of it checked.
pub(super) fn arguments(place: &Place, order: &Order) -> Result<CommandLine, String> {
    let mut line: Vec<String> = vec![];
    let mut add = |word: String| line.push(word);
    let path = |path: &Path| path.display().to_string();
    let key = |file: &Option<PathBuf>| file.as_ref().map(|p| format!("--key-file={}", path(p)));
    let mut at = None;
    match order {
        Order::Serve {} => line.extend(place.serve.iter().cloned()),
        Order::Test { host: to, plan, socket, labels, key_file, from, no_store } => {
            let labels: Vec<_> = labels.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
            let test = TestLine {
                host: to,
                plan: Some(&inside(&place.directory, plan)?),
                key_file: key_file.as_deref(),
                labels: &labels,
                no_store: *no_store,
                control_socket: Some(&inside(&place.directory, socket)?),
                ..TestLine::default()
            };
            test.words()?.iter().for_each(|w| add(w.to_string_lossy().into_owned()));
            at.clone_from(from);
        }
        Order::Run { id, scenario, quick, simulate, hosts, key_file, seed } => {
            add("run".into());
            add("--json".into());
            add(value("--by-api", &word(id, 64)?)?);
            for (flag, wanted) in [("--quick", quick), ("--simulate", simulate)] {
                if *wanted {
                    add(flag.into());
                }
            }
            for (name, address) in hosts {
                add(value("--host", &format!("{name}={}", host(address)?))?);
            }
            key(key_file).into_iter().for_each(&mut add);
            if let Some(seed) = seed {
                add(value("--seed", seed)?);
            }
            add("--".into());
            add(path(scenario));
        }
        Order::Resume { id, head } => {
            add("run".into());
            add("--json".into());
            add(value("--resume", &word(id, 64)?)?);
            add(value("--head", &word(head, 64)?)?);
        }
        Order::Sweep {
            id,
            host: to,
            plan,
            over,
            runs,
            confidence,
            metrics,
            expect,
            in_order,
            lab,
            both,
            emulator,
            key_file,
        } => {
            add("sweep".into());
            add("--json".into());
            add(value("--by-api", &word(id, 64)?)?);
            add(value("--plan", &path(&inside(&place.directory, plan)?))?);
            for (flag, list) in [("--over", over), ("--metric", metrics), ("--expect", expect)] {
                for one in list {
                    add(value(flag, one)?);
                }
            }
            if let Some(n) = runs {
                add(value("--runs", &n.to_string())?);
            }
            if let Some(c) = confidence {
                add(value("--confidence", &format!("{c}%"))?);
            }
            for (flag, wanted) in [("--in-order", in_order), ("--lab", lab)] {
                if *wanted {
                    add(flag.into());
                }
            }
            if let Some(laws) = both {
                add(value("--both", laws)?);
            }
            if let Some(id) = emulator {
                let socket = place.runtime.join(socket_name(&word(id, 64)?));
                add(value("--emulator", &path(&socket))?);
            }
            key(key_file).into_iter().for_each(&mut add);
            if let Some(to) = to {
                add("--".into());
                add(host(to)?.into());
            }
        }
        Order::Emulator {
            id,
            interfaces,
            configuration,
            link,
            force,
            dead_man_seconds,
            duration_seconds,
            journal_bytes,
            at: node,
        } => {
            add("impair".into());
            add("--json".into());
            add("--few-capabilities".into());
            add(value("--config", &path(&inside(&place.directory, configuration)?))?);
            let socket = place.runtime.join(socket_name(&word(id, 64)?));
            add(value("--control-socket", &path(&socket))?);
            let mode = match link {
                LinkChoice::Auto => "auto",
                LinkChoice::Packet => "packet",
                LinkChoice::Xdp => "xdp",
                LinkChoice::XdpGeneric => "xdp-generic",
            };
            add(value("--link", mode)?);
            if *force {
                add("--force".into());
            }
            for (flag, time) in [("--dead-man", dead_man_seconds), ("--duration", duration_seconds)]
            {
                if let Some(seconds) = time {
                    add(value(flag, &format!("{seconds}s"))?);
                }
            }
            if let Some(bytes) = journal_bytes {
                let journal = place.journals().join(journal_name(&word(id, 64)?));
                add(value("--journal", &path(&journal))?);
                add(value("--journal-limit", &bytes.to_string())?);
            }
            add("--".into());
            for name in interfaces {
                add(interface(name)?.into());
            }
            at.clone_from(node);
        }
        Order::LabUp { name, hosts, mtu_bytes, cut, middle, impair } => {
            add("lab".into());
            add("up".into());
            add(value("--lab", &word(name, 32)?)?);
            for (flag, n) in [("--hosts", hosts), ("--mtu", mtu_bytes)] {
                if let Some(n) = n {
                    add(value(flag, &n.to_string())?);
                }
            }
            for (flag, wanted) in [("--cut", cut), ("--middle", middle)] {
                if *wanted {
                    add(flag.into());
                }
            }
            if let Some(laws) = impair {
                add(value("--impair", laws)?);
            }
        }
        Order::LabDown { name } => {
            add("lab".into());
            add("down".into());
            add(value("--lab", &word(name, 32)?)?);
        }
        Order::Calibrate { no_lab } => {
            add("calibrate".into());
            add("--json".into());
            if *no_lab {
                add("--no-lab".into());
            }
        }
        Order::Demo { seconds, simulate } => {
            add("demo".into());
            add("--json".into());
            add(value("--time", &seconds.to_string())?);
            if *simulate {
                add("--simulate".into());
            }
        }
        Order::Doctor {} => {
            add("doctor".into());
            add("--json".into());
        }
        Order::EndEmulator { .. } | Order::Stop { .. } => return Err("starts nothing".into()),
    }
    Ok((at, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> Place {
        Place {
            program: "/weir".into(),
            directory: "/shared".into(),
            runtime: "/run/weir".into(),
            serve: vec!["serve".into()],
            data: weir_runs::Place::in_directory("/data"),
        }
    }

    fn emulator(a: &str, configuration: &str, id: &str) -> Order {
        Order::Emulator {
            id: id.into(),
            interfaces: [a.into(), "b".into()],
            configuration: configuration.into(),
            link: LinkChoice::Auto,
            force: false,
            dead_man_seconds: Some(3),
            duration_seconds: None,
            journal_bytes: Some(4096),
            at: None,
        }
    }

    fn test(host: &str, plan: &str) -> Order {
        Order::Test {
            host: host.into(),
            plan: plan.into(),
            socket: "s".into(),
            labels: [("-k".into(), "--json".into())].into(),
            key_file: None,
            from: None,
            no_store: false,
        }
    }

    #[test]
    fn words_can_not_become_flags_or_paths() {
        let (_, line) = arguments(&place(), &test("host", "plan")).unwrap();
        assert_eq!(line.last().unwrap(), "host");
        assert_eq!(line[line.len() - 2], "--");
        assert!(line.contains(&"--label=-k=--json".to_owned()), "{line:?}");
        assert!(line.contains(&"--plan=/shared/plan".to_owned()), "{line:?}");
        for order in [
            test("--json", "plan"),
            test("a b", "plan"),
            test("", "plan"),
            test("a", "../plan"),
            test("a", "/etc/passwd"),
            test("a", ""),
            test("a", "x/y"),
            emulator("--force", "c", "1"),
            emulator("a/b", "c", "1"),
            emulator("abcdefghijklmnop", "c", "1"),
            emulator("a", "..", "1"),
            emulator("a", "c", "../x"),
            emulator("a", "c", ".."),
            Order::Resume { id: "../x".into(), head: "0".into() },
            Order::Resume { id: "--no-store".into(), head: "0".into() },
            Order::Resume { id: String::new(), head: "0".into() },
            Order::Resume { id: "x".into(), head: "0 --no-store".into() },
        ] {
            assert!(arguments(&place(), &order).is_err(), "{order:?}");
        }
        let (_, line) =
            arguments(&place(), &Order::Resume { id: "x-1".into(), head: "0a".into() }).unwrap();
        assert_eq!(line, ["run", "--json", "--resume=x-1", "--head=0a"]);
        let run = |id: &str| Order::Run {
            id: id.into(),
            scenario: "/s.json".into(),
            quick: false,
            simulate: false,
            hosts: Default::default(),
            key_file: None,
            seed: None,
        };
        let (_, line) = arguments(&place(), &run("x-1")).unwrap();
        assert_eq!(line, ["run", "--json", "--by-api=x-1", "--", "/s.json"]);
        assert!(arguments(&place(), &run("../x")).is_err());
        let (_, line) = arguments(&place(), &emulator("a", "c", "x-1")).unwrap();
        assert_eq!(line[line.len() - 3..], ["--", "a", "b"]);
        assert!(line.contains(&"--dead-man=3s".to_owned()), "{line:?}");
        // Where it is written is told by the id, by nothing else that was asked.
        assert!(line.contains(&"--journal=/data/emulators/x-1.packets".to_owned()), "{line:?}");
        assert!(line.contains(&"--journal-limit=4096".to_owned()), "{line:?}");
        assert!(line.contains(&"--control-socket=/run/weir/impair-x-1.socket".to_owned()));
    }
}
