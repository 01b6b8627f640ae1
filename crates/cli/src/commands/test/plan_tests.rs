//! Command lines and their plans: `tests/golden/plans.txt`, rewritten with WEIR_BLESS=1.

use std::ffi::OsString;

use clap::Parser;
use weir_model::Refusal;
use weir_model::plan::Plan;
use weir_model::units::Seed;

use super::TestArgs;
use super::flags::with_flags;
use super::plan::{Planned, plan};
use crate::error::CliError;
use crate::parsed;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: TestArgs,
}

fn try_planned(line: &str, file: Option<&str>) -> Result<Planned, Box<Refusal>> {
    let words: Vec<OsString> = format!("test {line}").split_whitespace().map(Into::into).collect();
    let parsed = parsed::read(&words, |words| Line::try_parse_from(words));
    let parsed = parsed.map_err(|e| Box::new(parsed::refusal(&e, &[])))?;
    plan(&parsed.args, file, Seed(0x77)).map_err(|e| Box::new(e.refusal()))
}

fn planned(line: &str) -> Planned {
    try_planned(line, None).unwrap_or_else(|e| panic!("{line}: {e}"))
}

/// Command lines that iperf3 users rely on, and each flag once.
const LINES: [&str; 59] = [
    "h",
    "h -u",
    "h -u -b 0",
    "h -u -b 10M -P 4",
    "h -u -b 10M -P 4 --total-rate",
    "h -u -b 50000pps/32 -l 160 -t 2.5",
    "h -u -l 0",
    "h -u --header none",
    "h -u --engine xdp -b 0 -l 64",
    "h --ethernet --engine xdp -l 64",
    "h -u -l 0 -b 0 -k 100",
    "h -n 1G",
    "h -n 1M -P 4",
    "h -k 5K -l 64K",
    "h -t 0",
    "h -R -t 30 -O 2 -i 0",
    "h --bidir -P 2 -b 1G --cport 5000",
    "h --transport udp --catch-up burst:4 --loss-threshold 500ms --data-ports dedicated",
    "h -w 256K -M 1400 -N -C bbr --snd-timeout 5s -Z --skip-rx-copy",
    "h -l 64K --align 4K+8",
    "h -S 0x10",
    "h --dscp ef",
    "h -u --dscp ef --ecn on",
    "h -6 -L 1000 --ttl 3",
    "h -L 7",
    "h -u -4 -B 192.0.2.7 --dont-fragment",
    "h -B fe80::1%eth0",
    "h --shape crr -B 10.0.0.0/28 --cport 5000-5999",
    "h --bind-dev eth0 --fq-rate 100M",
    "unix:/run/x -n 1M",
    "unix:/run/x -u -k 10",
    "h:5000",
    "[2001:db8::1]:5000 -p 5000",
    "fe80::1%eth0 -6",
    "h other:5000 -P 2 --bidir --cport 6000 -b 8M --total-rate",
    "h -p 5000 -T title --seed 0x7 --content ratio:4 --verify -u --gso off --gro on",
    "h --no-latency --nominal 100M",
    "h --nominal auto --connect-timeout 500ms",
    "h -A 0,2-3 --no-store --label site=lab --csv f --json --packet-log p --control-socket s -V -f M",
    "h --rr --request 100 --response 8K --outstanding 16",
    "h -u --rr -b 1000pps -k 1000",
    "h --shape crr --response 1K",
    "h --echo -n 1M",
    "h -u --echo=64 -l 200",
    "h --mtu 1000 --no-half-close",
    "h -u --mtu 1000 -6",
    "h --shape cc -P 4",
    "h --transfers 30K --objects 1..40 --main-volume 100K --page-connections 8 --users 3 --think-time 1s -R",
    "h -u -b 1M --rate-schedule 5s:2x,10s-20s:500K",
    "--save-plan f -u",
    "h -u --voice g729a --jitter-buffer 40ms -l 32 --header rtp --idt 20ms",
    "h --profile voip-g711",
    "h --profile imix -b 2000pps -k 50 -P 3 --dscp af41 -6",
    "h other:5000 --profile quake3 -t 3",
    "h --udp-lite --checksum-coverage 20",
    "h --ethernet --bidir -l 64 --priority 3",
    "h other:5000 --multicast 239.1.1.1 --source-specific --ttl 4 --interface eth1 --join-after 1s --leave-after 3s --cport 6000",
    "h --multicast [ff15::1]:5000 -u",
    "h --broadcast 192.0.2.255:5000",
];

#[test]
fn command_lines_and_their_plans() {
    let mut text = String::new();
    for line in LINES {
        let p = planned(line);
        let toml = p.plan.to_toml().unwrap();
        assert_eq!(Plan::parse(&toml).unwrap(), p.plan, "{line}: a saved plan reads back");
        text += &format!("$ weir test {line}\n{toml}");
        if p.nominal_auto {
            text += "# nominal: the interface's speed\n";
        }
        text.push('\n');
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/plans.txt");
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::create_dir_all(std::path::Path::new(path).parent().unwrap()).unwrap();
        std::fs::write(path, &text).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(committed == text, "plans.txt differs: WEIR_BLESS=1 writes it; got\n{text}");
}

#[test]
fn flags_mean_what_they_mean_in_iperf3() {
    let one = |line: &str| planned(line).plan.connections[0].clone();
    assert_eq!(one("h -b 10M -P 4").rate, "10M".parse().ok(), "-b is per connection");
    assert_eq!(one("h -u").rate, None, "-u alone leaves the default, 1M");
    assert_eq!(one("h -n 1M").duration, None, "-n replaces -t");
    assert_eq!(
        one("h --dscp 46").transport.ip().unwrap().tos,
        Some(184),
        "a code point is the upper six bits"
    );
    assert_eq!(one("h -S 46").transport.ip().unwrap().tos, Some(46), "-S is the whole byte");
    assert_eq!(planned("h --bidir").plan.connections.len(), 2);
    assert_eq!(planned("h --connect-timeout 500ms").connect_timeout.as_millis(), 500);
}

#[test]
fn a_refusal_has_the_flag_and_what_was_given() {
    for (line, code, flag, given) in [
        ("", "missing-argument", "HOST", "nothing"),
        ("h -R --bidir", "usage", "--reverse", "given with --bidir"),
        ("h -u --transport tcp", "usage", "--udp", "given with --transport"),
        ("h -S 1 --dscp 1", "usage", "--tos", "given with --dscp"),
        ("h --json --json-stream", "usage", "--json", "given with --json-stream"),
        ("h -4 -6", "usage", "--ipv4", "given with --ipv6"),
        ("h -b 10Q", "value", "--bitrate", "10Q"),
        ("h -b -5", "value", "--bitrate", "-5"),
        ("h -C 1000", "value", "--congestion", "1000"),
        ("h -T UDP", "usage", "--title", "UDP"),
        ("h -u -T tcp", "usage", "--title", "tcp"),
        ("h --total-rate", "missing-argument", "--bitrate", "nothing"),
        ("h -t 8000000", "value", "--time", "8000000"),
        ("h -t 8d", "value", "--time", "8d"),
        ("h -t 8w", "value", "--time", "8w"),
        ("h -P 0", "value", "--parallel", "0"),
        ("h -p 80x", "value", "--port", "80x"),
        ("h -S 256", "value", "--tos", "256"),
        ("h --dscp 64", "value", "--dscp", "64"),
        ("h -p 70000", "value", "--port", "70000"),
        ("h:1 -p 2", "usage", "--port", "2, while HOST says 1"),
        ("h -B host", "value", "--bind", "host"),
        ("h -B fe80::1%eth0 --bind-dev eth1", "usage", "--bind-dev", "eth1, while -B says eth0"),
        ("h -f x", "value", "--format", "x"),
        ("h --content noise", "value", "--content", "noise"),
        ("h --content file", "value", "--content", "file"),
        ("h --content file:x -R", "usage", "--reverse", "reverse with content file"),
        ("h --content file:x --verify", "usage", "--verify", "true with content file"),
        ("h --content file:x -Z", "usage", "--zerocopy", "true with content file"),
        ("h --content file:x --rr", "usage", "--rr", "rr with content file"),
        ("h -u --content file:x -l 64..100", "usage", "--length", "64..100 with content file"),
        ("h --catch-up fast", "value", "--catch-up", "fast"),
        ("h --align 100", "value", "--align", "100"),
        ("h -u --ecn ce", "value", "--ecn", "ce"),
        ("h --cport 9-5", "value", "--cport", "9-5"),
        ("h -B 10.0.0.9-10.0.0.1", "value", "--bind", "10.0.0.9-10.0.0.1"),
        ("h --label x", "value", "--label", "x"),
        ("h --transport sctp", "value", "--transport", "sctp"),
        ("h -A x", "value", "--affinity", "x"),
        ("h --scheduling rr", "value", "--scheduling", "rr"),
        ("h --spin 11ms", "value", "--spin", "11ms"),
        ("h --plan f -b 1M", "usage", "--bitrate", "given with --plan"),
        ("h --profile voip", "usage", "--profile", "voip"),
        ("h --profile dns -R", "usage", "--reverse", "given with --profile"),
        ("h --voice g7", "value", "--voice", "g7"),
        ("h --plan f --profile dns", "usage", "--plan", "given with --profile"),
        ("h --plan f -i 1 --bidir", "usage", "--bidir", "given with --plan"),
    ] {
        let refused = try_planned(line, None).expect_err(line);
        let parts = (&*refused.code, refused.field.as_deref(), refused.given.as_deref());
        assert_eq!(parts, (code, Some(flag), Some(given)), "{line}");
        assert_eq!(refused.exit_code, 2, "{line}");
        assert!(refused.accepted.is_some_and(|accepted| !accepted.is_empty()), "{line}");
    }
    // A title that is also the transport in use.
    assert!(try_planned("h -u -T UDP", None).is_ok() && try_planned("h -T TCP", None).is_ok());
}

/// An invalid plan is refused by flag or by field of the plan file, with the same value and the same accepted values.
#[test]
fn invalid_plans_are_refused_by_flag_and_by_field() {
    use clap::error::{ContextKind, ContextValue};

    let table = include_str!("../../../../model/tests/refused_plans.json");
    let table: Vec<serde_json::Value> = serde_json::from_str(table).unwrap();
    for row in &table {
        let (line, flag) = (row["arguments"].as_str().unwrap(), row["flag"].as_str().unwrap());
        let mut file = row["plan"].clone();
        file["schema"] = "weir.plan/1".into();
        if file["host"].is_null() {
            file["host"] = "h".into();
        }
        let of_file = Line::try_parse_from(["test", "--plan", "f"]).unwrap();
        let there = plan(&of_file.args, Some(&file.to_string()), Seed(0x77)).unwrap_err().refusal();
        assert_eq!((there.code.as_str(), there.field.as_deref()), ("plan", row["field"].as_str()));
        let given_there = there.given.unwrap_or_default();
        let accepted_there = there.accepted.unwrap_or_default();

        let host = if row["plan"]["host"].is_null() { vec!["h"] } else { vec![] };
        let words = ["test"].into_iter().chain(host).chain(line.split(' '));
        match Line::try_parse_from(words) {
            // The parser refuses a value that is out of range by itself.
            Err(error) => {
                let argument = error.get(ContextKind::InvalidArg);
                let Some(ContextValue::String(argument)) = argument else {
                    panic!("{row}: {error}")
                };
                assert!(argument.contains(flag), "{row}: {argument}");
            }
            Ok(line) => {
                let refused = plan(&line.args, None, Seed(0x77));
                let Err(CliError::Flag { flag: named, given, accepted }) = refused else {
                    panic!("{row}: {refused:?}")
                };
                assert!(named.ends_with(flag), "{row}: {named}");
                // These differ: the port may be in HOST or in -p, and --cport sets the ports of both directions.
                if !["--port", "--cport"].contains(&flag) {
                    let there = (with_flags(&given_there), with_flags(&accepted_there));
                    assert_eq!((given, accepted), there, "{row}");
                }
            }
        }
    }
}

#[test]
fn a_host_of_the_command_line_is_checked_with_the_plan_file() {
    let file = "schema = 'weir.plan/1'\nfamily = 'ipv6'\nhost = '2001:db8::1'\n[[connection]]\n";
    assert!(try_planned("--plan f", Some(file)).is_ok());
    let line = Line::try_parse_from(["test", "192.0.2.1", "--plan", "f"]).unwrap();
    let refused = plan(&line.args, Some(file), Seed(0x77)).unwrap_err();
    assert_eq!(refused.refusal().field.as_deref(), Some("family"));
}

const FILE: &str =
    "schema = 'weir.plan/1'\nhost = 'from-plan'\nport = 7000\n[[connection]]\ntransport = 'udp'\n";

#[test]
fn several_hosts_are_refused_with_a_plan_file_or_another_port() {
    let of = |words: &[&str]| {
        let line = Line::try_parse_from([&["test"], words].concat()).unwrap();
        let refusal = plan(&line.args, line.args.general.plan.as_ref().map(|_| FILE), Seed(0x77));
        refusal.unwrap_err().refusal().field
    };
    assert_eq!(of(&["a", "b", "--plan", "f"]).as_deref(), Some("HOST"));
    assert_eq!(of(&["a", "b:7000", "-p", "8000"]).as_deref(), Some("--port"));
    assert_eq!(of(&["a", "b:0"]).as_deref(), Some("HOST"));
    assert_eq!(of(&["a", "b", "--cport", "65535"]).as_deref(), Some("--cport"));
}

#[test]
fn the_command_lines_host_overrides_the_plan_files() {
    let p = try_planned("--plan f", Some(FILE)).unwrap();
    assert_eq!((p.host.as_deref(), p.plan.port), (Some("from-plan"), Some(7000)));
    let p = try_planned("other:8000 --plan f -T title", Some(FILE)).unwrap();
    assert_eq!((p.host.as_deref(), p.plan.port), (Some("other"), Some(8000)));
    assert_eq!((p.plan.host.as_deref(), p.plan.title.as_deref()), (Some("other"), Some("title")));
    let error =
        try_planned("--plan f", Some("schema = 'weir.plan/1'\n[[connection]]")).unwrap_err();
    assert_eq!(error.field.as_deref(), Some("HOST"));
}

#[test]
fn a_plan_file_without_a_seed_gets_a_new_one() {
    let of = |text: &str| try_planned("--plan f", Some(text)).unwrap().plan.seed;
    assert_eq!(of(FILE), Seed(0x77));
    assert_eq!(of(&FILE.replace("\nport", "\nseed = '0x0'\nport")), Seed(0));
    assert_eq!(of(&FILE.replace("\nport", "\nseed = '7'\nport")), Seed(7));
}

#[test]
fn a_wrong_plan_file_is_refused_by_field() {
    let file = "schema = 'weir.plan/1'\n[[connection]]\nmss = 5";
    let error = try_planned("h --plan f", Some(file)).unwrap_err();
    assert_eq!((&*error.code, error.field.as_deref()), ("plan", Some("connection[0].mss")));
    assert!(error.given.unwrap().starts_with('5'));
}

#[test]
fn an_error_of_the_engine_has_the_flag() {
    use crate::engine::TrafficError;
    let p = planned("h -B 192.0.2.7").plan;
    let parts = |error| {
        let refused = super::plan::of_engine(error, &p).refusal();
        (refused.code, refused.field.unwrap_or_default(), refused.given.unwrap_or_default())
    };
    let of = |code: &str, field: &str, given: &str| (code.into(), field.into(), given.into());
    let (field, given) = ("congestion", "foo".to_owned());
    let error = TrafficError::Unavailable { field, given, reason: "the kernel has reno".into() };
    assert_eq!(parts(error), of("not-available", "--congestion", "foo"));
    let source = std::io::Error::from_raw_os_error(2);
    let error = TrafficError::File { field: "packet_log", path: "/nope/x".into(), source };
    assert_eq!(parts(error), of("file", "--packet-log", "/nope/x"));
    let error = weir_net::Error::System {
        operation: "bind",
        object: "a socket".into(),
        source: std::io::Error::from_raw_os_error(99),
    };
    assert_eq!(parts(TrafficError::Net(error)), of("not-available", "--bind", "192.0.2.7"));
    let error = TrafficError::Input {
        field: "dont_fragment",
        given: "datagrams of 9000 bytes (`payload`)".into(),
        accepted: "up to 1472 bytes".into(),
    };
    let given = "datagrams of 9000 bytes (-l/--length)";
    assert_eq!(parts(error), of("usage", "--dont-fragment", given));
    for (flag, group) in [("--broadcast", "192.0.2.9"), ("--multicast", "239.1.1.1")] {
        let (given, accepted) = (group.into(), "another".into());
        let error = TrafficError::Input { field: "group", given, accepted };
        assert_eq!(parts(error), of("usage", flag, group));
    }
}

/// The words of a command line up to its comment, with single quotes as in a shell.
fn words_of(line: &str) -> Vec<String> {
    let line = line.split(" #").next().unwrap_or(line);
    let parts = line.split('\'').enumerate();
    let parts = parts.flat_map(|(at, part)| match at % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    });
    parts.collect()
}

#[test]
fn the_examples_of_the_pages_are_plans() {
    let pages = [
        (include_str!("../../../../../docs/guide.md"), 40),
        (include_str!("../../../../../docs/laws.md"), 3),
        (include_str!("../../../../../docs/echo.md"), 5),
        (include_str!("../../../../../docs/files.md"), 2),
        (include_str!("../../../../../docs/transactions.md"), 10),
        (include_str!("../../../../../docs/transfers.md"), 5),
        (include_str!("../../../../../README.md"), 5),
    ];
    for (page, least) in pages {
        // Those that read a file need that file.
        let reads = |line: &&str| {
            ["@", "--plan ", "--replay ", " -F "].iter().any(|flag| line.contains(flag))
        };
        let lines = page.lines().filter_map(|line| line.strip_prefix("weir "));
        let lines: Vec<&str> =
            lines.filter(|line| line.starts_with("test ") && !reads(line)).collect();
        assert!(lines.len() >= least, "{lines:?}");
        for example in lines {
            let line = Line::try_parse_from(words_of(example))
                .unwrap_or_else(|e| panic!("{example}: {e}"));
            plan(&line.args, None, Seed(0x77)).unwrap_or_else(|e| panic!("{example}: {e}"));
        }
    }
}

#[test]
fn the_older_iperf3_name_of_the_rate_is_accepted() {
    assert_eq!(planned("h --bandwidth 10M").plan, planned("h -b 10M").plan);
}
