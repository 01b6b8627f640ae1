//! Refusals before anything is started: code, field, given, accepted and message of each, in one golden file.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use weir_model::Refusal;

use crate::common::{golden, refusal};

/// Command lines that are refused. `'…'` is one argument.
const LINES: &[&str] = &[
    // Missing or unknown.
    "",
    "frob",
    "tset h",
    "test",
    "test h --frob",
    "test h --udpp",
    "runs frob",
    "schema x",
    "completions x",
    "man impair frob",
    "ctl status",
    // The syntax of other tools.
    "-s",
    "-c h",
    "test -c h",
    "test h -X a",
    "test h --get-server-output",
    "test h -t -1",
    "test h -b -5M",
    "iperf -c h -U",
    "iperf2 -c h -u -b 10M",
    "iperf3 -s -u",
    "netperf -H h -N",
    "netserver -x",
    "nuttcp h",
    "ITGSend -a h -T UDP",
    "tc qdisc add dev eth0 root netem delay 100ms",
    "netdisturb",
    "test -H h",
    "test h -t TCP_RR",
    "test -a h -E 1000",
    "test h -C 1000 -c 160",
    "test h -T UDP",
    "runs export --all --csv",
    "ttcp -t -s -A 100 h",
    "impair eth0",
    "impair shw",
    "impair a b delay 100ms",
    "impair add dev eth0 root netem delay 100ms",
    "impair a b --both 'delay 100ms 10ms 25%'",
    "impair a b --both 'corrupt 1% 25%'",
    "impair a b --both 'loss 200%'",
    "impair a b --both 'delay 10ms reorder 25% 50%'",
    // Values.
    "test h --shape frob",
    "test h --rr --bidir",
    "test h --rr -l 100",
    "test h -u --rr --header none",
    "test h -u --shape crr",
    "test h --rr -b 10M",
    "test h --rr -b 100pps --outstanding 2",
    "test h --outstanding 2",
    "test h --request 5",
    "test h -u -l 65508",
    "test h -l 17M",
    "test h -l 0.5",
    "test h -P 0",
    "test h -P 200001",
    "test h --profile voip-g712",
    "test h --profile dns --transport tcp",
    "test h -u -l 0 -b 1M",
    "test h -u -b 0.4",
    "test h -b 10Q",
    "test h -b=-5M",
    "test h -i 5ms",
    "test h --spacing 20",
    "test h -l 'uniform(min=3)'",
    "test h -M 87",
    "test h -w 1",
    "test h -w 2G",
    "test h -t",
    "test h -t 8d",
    "test h -t 169h",
    "test h -n 0",
    "test h -k 0",
    "test h -S 256",
    "test h --dscp 64",
    "test h --transport upd",
    "test h --runs 0",
    "test h --connect-timeout 3000",
    "test h -p 65536",
    "test h -C 'no such'",
    "test http://h",
    "test h:99999",
    "serve -p 0",
    "serve --max-sessions 0",
    "serve --hello-time 0",
    "serve -B nowhere",
    // Conflicts.
    "test h -u -M 1000",
    "test h -N -u",
    "test h --verify --skip-rx-copy",
    "test h -u -t 1 -n 1",
    "test h -R --bidir",
    "test h --plan p.toml -b 1M",
    "test h --runs 2 --logfile x",
    "sweep h --over size=64 --emulator /nonexistent",
    "sweep h --over size=64 --max-runs 3",
    "impair a b --pcap-out x",
    "impair exec --both 'loss 1%' --silent -- true",
    // Axes.
    "sweep h --over size=0.1",
    "sweep h --over size=x",
    "sweep h -u --over size=70000",
    "sweep h --over connections=x",
    "sweep h --over size=5..1",
    "sweep h --over size",
    "sweep h --over sise=5",
    "sweep h --over size=5 --expect loss<1",
    "sweep h --over size=5 --metric speed",
    "sweep h --over size=5 --runs abc",
    "sweep h --over size=5 --confidence 200%",
    "sweep h --over time=1,2 -t 5",
    "sweep h --over size=1,2 -l 5",
    "sweep h --over time=1 -l 0.5",
    "compare h --over sise=5",
    "compare h --over size=0.1",
    "compare h --over seconds=1,2 -t 5",
    "compare h -P 0",
    // Files.
    "test h --plan none.toml",
    "run none.toml",
    "run s.toml --set runz=1",
    "run s.toml --host c=192.0.2.1",
    "run s.toml --csv - --html -",
    "run s.toml --junit - --csv -",
    "run s.toml --csv new --svg new",
    "run s.toml --html sub/x.svg --svg sub",
    "run s.toml --csv ./x.svg --svg .",
    "run s.toml --svg -",
    "run s.toml --csv s.toml",
    "test h -R --packet-log none/x",
    "test h --csv sub",
    "impair a b --packet-trace -",
    "impair a b --packet-trace sub",
    "impair a b --config laws.toml --packet-trace laws.toml",
    "report none.json",
    "report -o none/x.html run.json",
    "ctl --socket /no/such/socket status",
];

/// Plans without their first line, for `weir test h --plan p.toml`.
const PLANS: &[&str] = &[
    "[[connection]]\nspeed = 1\n",
    "[[connection]]\nrate = \"10Q\"\n",
    "[[connection]]\ntransport = \"sctp\"\n",
    "[[connection]]\ntransport = \"udp\"\nno_delay = true\n",
    "connection = []\n",
    "[[connection]]\n[[connection]]\ncount = 0\n",
    "[[connection]]\nwindow = 5\n",
    "[[connection]]\nname = \"a\"\n[[connection]]\nname = \"a\"\n",
    "port = 70000\n[[connection]]\n",
    "[[connection\n",
];

/// Steps of scenarios with a host `b`, for `weir run --check`.
const STEPS: &[&str] = &[
    "[[step]]\ntset = { args = \"-u\" }",
    "[[step]]\ntest = { args = \"-u --bogus\" }",
    "[[step]]\ntest = { args = \"-u\", form = \"a\" }",
    "[[step]]\ntest = { args = \"-u\", to = \"c\" }",
    "[[step]]\ntest = {}\nexpect = [\"throughput >= 3 ms\"]",
    "[[step]]\ntest = { args = \"{x}\" }",
    "[[step]]\nsweep = { over = [\"colour=red\"], test = {} }",
    "[[step]]\nsweep = { over = [\"size=5..1\"], test = {} }",
    "[[step]]\nsweep = { over = [\"size=64..256\"], test = {} }",
    "[[step]]\nexpect = [\"loss < 1 %\"]\nsweep = { over = [\"size=64..256\"], test = {} }",
    "[[step]]\ntest = { args = \"-u\" }\nexpect = [\"loss < 1\"]",
    "[[step]]\nimpair = { both = \"loss 1%\" }",
    "[[step]]\ncommand = { run = [\"id\"], host = \"b\" }",
    "[[step]]\nwait = { test = \"none\" }",
    "[[step]]\nwait = { time = 1 }\ntest = {}",
    "",
    "[emulator.m]\ncontrol_socket = \"x\"\nboth = \"loss 1%\"\na_to_b = \"none\"\n[[step]]\ntest = {}",
    "[[step]]\ntest = { args = \"-u\" }\nexpect = [\"jitter < 5\"]",
    "[[step]]\ncommand = \"ls\"",
    "[[step]\n",
];

#[test]
fn refusals_match_the_golden_file() {
    let dir = tempfile::tempdir().unwrap();
    let make = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    std::fs::create_dir(dir.path().join("sub")).unwrap();
    make("laws.toml", "schema = 'weir.impair/1'\n");
    let scenario = "schema = \"weir.scenario/1\"\nname = \"s\"\n";
    make(
        "s.toml",
        &format!("{scenario}[host.b]\naddress = \"192.0.2.1\"\n[[step]]\ntest = {{}}\n"),
    );
    make("run.json", include_str!("../../../report/tests/golden/udp_loss.json"));
    let mut text = String::new();
    for line in LINES {
        tell(&mut text, line, &refused(dir.path(), line));
    }
    for plan in PLANS {
        make("p.toml", &format!("schema = \"weir.plan/1\"\n{plan}"));
        tell(&mut text, plan.trim_end(), &refused(dir.path(), "test h --plan p.toml"));
    }
    for step in STEPS {
        let host = "[host.b]\naddress = \"192.0.2.1\"\n";
        make("s.toml", &format!("{scenario}{host}{step}\n"));
        tell(&mut text, step.trim_end(), &refused(dir.path(), "run --check s.toml"));
    }
    golden("refusals.txt", &text);
}

/// Runs a command line, which must print nothing but a refusal as data.
fn refused(dir: &Path, line: &str) -> Refusal {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    for (i, part) in line.split('\'').enumerate() {
        match i % 2 {
            0 => command.args(part.split_whitespace()),
            _ => command.arg(part),
        };
    }
    command.current_dir(dir).env("WEIR_ERRORS", "json").env("WEIR_DATA_DIR", dir.join("data"));
    command.env_remove("WEIR_KEY").env("WEIR_RUNTIME_DIR", dir.join("runtime"));
    let output = command.stdin(Stdio::null()).output().unwrap();
    let refused = refusal(&output);
    assert_eq!(output.status.code(), Some(refused.exit_code), "{line}: {refused:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{line}");
    refused
}

fn tell(text: &mut String, head: &str, refused: &Refusal) {
    for (i, line) in head.lines().chain(head.is_empty().then_some("")).enumerate() {
        let _ = writeln!(text, "{} {line}", if i == 0 { "$" } else { ">" });
    }
    let Refusal { code, field, given, accepted, nearest, line, message, exit_code } = refused;
    let _ = writeln!(text, "  code:     {code}, exit code {exit_code}");
    let line = line.map(|line| line.to_string());
    let parts = [("field", field), ("given", given), ("accepted", accepted)];
    let parts = parts.into_iter().chain([("nearest", nearest), ("line", &line)]);
    for (name, value) in parts.filter_map(|(name, v)| Some((name, v.as_ref()?))) {
        let _ = writeln!(text, "  {:<9} {value}", format!("{name}:"));
    }
    let _ = writeln!(text, "  message:  {}\n", message.replace('\n', "\n            "));
}
