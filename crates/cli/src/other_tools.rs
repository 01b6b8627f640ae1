//! Commands and flags of other tools, and what Weir has instead. The parser's refusals show it as what is accepted.

/// Commands of other tools and their equivalents. README.md has examples of the same equivalents (tested below).
const COMMANDS: &[(&[&str], &str)] = &[
    (&["iperf2"], "weir iperf, with iperf's flags; weir test HOST --peer iperf2 has Weir's text"),
    (
        &["mgen"],
        "weir serve --peer mgen=PORT (mgen port PORT) or weir test HOST --peer mgen -u; its scripts are plans: weir test --mgen-script FILE",
    ),
    (&["ITGRecv", "server"], "weir serve"),
    (&["client"], "weir test HOST"),
    (&["nuttcp"], "weir serve (nuttcp -S) or weir test HOST; weir ttcp speaks its classic mode"),
    (&["ITGSend"], ITGSEND),
    (&["ITGDec"], "weir runs show or weir report, of the results that weir test stores"),
    (
        &["tc", "netem"],
        "weir impair A B --netem \"delay 40ms loss 1%\" between two interfaces, or weir impair exec --netem WORDS -- COMMAND on one host",
    ),
    (
        &["tcpreplay"],
        "weir test interface:NAME --replay FILE, or weir test HOST --replay FILE to a server that measures",
    ),
    (&["netdisturb"], "weir impair A B --config FILE, or weir serve --ui with the view Emulator"),
];

/// Verbs that Weir has by another name: the command (empty: none before it), the verbs, what to type.
const VERBS: &[(&str, &[&str], &str)] = &[
    ("", &["history", "list", "log", "logs", "ls", "result", "results"], "weir runs list"),
    ("", &["show", "info", "view"], "weir runs show RUN"),
    ("", &["diff"], "weir runs diff A B"),
    ("", &["rm", "remove", "delete"], "weir runs rm RUN"),
    ("", &["export"], "weir runs export RUN"),
    ("", &["import"], "weir runs import FILE"),
    ("", &["emulate", "emulator", "shape"], "weir impair A B"),
    ("", &["scenario", "campaign"], "weir run FILE"),
    ("", &["check"], "weir doctor, or weir run FILE --check"),
    ("", &["replay"], "weir test HOST --replay FILE, or weir test interface:NAME --replay FILE"),
    ("", &["ping"], "weir test HOST --icmp"),
    ("runs", &["compare", "cmp"], "weir runs diff A B"),
    ("runs", &["delete", "del", "remove"], "weir runs rm RUN"),
    ("runs", &["ls", "history", "log"], "weir runs list"),
    ("runs", &["find", "search"], "weir runs list --where CONDITION"),
    (
        "runs",
        &["get", "cat", "info", "print", "view", "plot"],
        "weir runs show RUN, or weir report RUN",
    ),
    ("runs", &["report"], "weir report RUN"),
    ("runs", &["stats"], "weir test HOST --runs N, or weir runs diff of two sets of runs"),
    ("runs", &["csv", "json", "save"], "weir runs export RUN"),
    ("lab", &["add", "create", "new", "start"], "weir lab up"),
    ("lab", &["delete", "del", "remove", "rm", "stop"], "weir lab down"),
    ("lab", &["ls", "show", "status"], "weir lab list"),
    ("lab", &["run", "enter", "shell"], "weir lab exec HOST -- COMMAND"),
];

const ITGSEND: &str = "weir test HOST; -T UDP is -u, -C RATE is -b RATEpps, -c SIZE is -l SIZE, -E RATE is -b RATEpps --spacing exponential, -N MEAN DEVIATION is --idt normal(mean=MEANms, deviation=DEVIATIONms), other laws likewise, -t MILLISECONDS is -t SECONDS";

/// A flag of another tool: the command of Weir on which it is given, its spellings, its values, its equivalent.
type Flag = (&'static str, &'static [&'static str], fn(&str) -> bool, &'static str);

/// The first match counts. A flag that Weir has with another meaning is here by its long name, with the values that
/// Weir refuses.
const FLAGS: &[Flag] = &[
    // D-ITG.
    ("test", &["-a"], any, ITGSEND),
    ("test", &["-c"], is_number, "-l SIZE (-c of ITGSend)"),
    ("test", &["--congestion"], is_number, "-b RATEpps (-C of ITGSend)"),
    ("test", &["-E"], any, "-b RATEpps --spacing exponential"),
    ("test", &["-m"], is_meter, "not needed: one-way delay and round trips are always measured"),
    ("test", &["-r"], |value| value == "p", "-p PORT (-rp of ITGSend)"),
    // netperf.
    ("test", &["-H"], any, "weir test HOST; netperf's -l TIME is -t TIME"),
    ("test", &["-I"], any, "--precision PERCENT and --confidence PERCENT"),
    ("test", &["--time"], |value| value == "TCP_STREAM", "no flag: TCP is the default"),
    ("test", &["--time"], |value| value == "UDP_STREAM", "-u"),
    ("test", &["--time"], |value| value == "TCP_MAERTS", "-R"),
    ("test", &["--time"], |value| value == "TCP_RR", "--rr"),
    ("test", &["--time"], |value| value == "UDP_RR", "-u --rr"),
    ("test", &["--time"], |value| value == "DLCL_STREAM", "--ethernet"),
    ("test", &["--time"], |value| value == "DLCL_RR", "--ethernet --rr"),
    (
        "test",
        &["--time"],
        |value| value == "DLCO_STREAM" || value == "DLCO_RR",
        "--ethernet: frames without a connection, as in DLCL_STREAM and DLCL_RR; Linux has no DLPI connections",
    ),
    ("test", &["--time"], |value| value == "TCP_CRR", "--shape crr"),
    ("test", &["--time"], |value| value == "TCP_CC", "--shape cc"),
    // iperf 2 and iperf3. `weir -c HOST` without a command is their syntax.
    ("test", &["-c", "--client"], any, "weir test HOST"),
    ("test", &["-s", "--server"], any, "weir serve"),
    ("test", &["-D", "--daemon", "-1", "--one-off"], any, "a flag of weir serve"),
    ("test", &["-d", "--dualtest", "-r", "--tradeoff", "--full-duplex"], any, "--bidir"),
    (
        "test",
        &["--get-server-output"],
        any,
        "not needed: the result holds both ends, -V and --json show them",
    ),
    (
        "test",
        &["-X", "--xbind", "--sctp", "--nstreams"],
        any,
        "SCTP is not supported yet; --transport lists what is",
    ),
    (
        "test",
        &["--transport"],
        |value| ["sctp", "quic"].contains(&value),
        "tcp, udp and others: SCTP and QUIC are not supported yet",
    ),
    ("test", &["--num"], any, "-n SIZE (bytes) or -k N (packets)"),
    ("test", &["--connect-only"], any, "--shape cc, with -k N"),
    ("test", &["--working-load"], any, "not needed: the latency under load is measured"),
    ("test", &["--isochronous"], any, "--profile video"),
    ("test", &["--repeat", "--repetitions"], any, "--runs N"),
    ("test", &["--pages"], any, "--transfers VOLUME --objects N"),
    (
        "test",
        &["--repeating-payload"],
        any,
        "--content pattern:30313233343536373839 repeats the digits 0 to 9",
    ),
    ("test", &["--bounceback"], any, "--rr with --request SIZE and --response SIZE"),
    ("test", &["-m", "--mptcp"], any, "--transport mptcp"),
    ("test", &["--ssm-host"], any, "--multicast GROUP --source-specific: the sender is the source"),
    (
        "serve",
        &["--ssm-host"],
        any,
        "no flag: weir test HOST --multicast GROUP lets the server join",
    ),
    ("test", &["--udp-counters-64bit"], any, "--header iperf3-64bit"),
    ("test", &["--rcv-timeout"], any, "not needed: a test without its peer ends by itself"),
    ("test", &["--cntl-ka"], any, "not needed: the control connection is kept alive"),
    ("test", &["--pacing-timer"], any, "not needed: packets are sent at their own times"),
    ("test", &["--forceflush"], any, "not needed: every line is written immediately"),
    (
        "test",
        &["--username", "--rsa-public-key-path"],
        any,
        "--key-file or WEIR_KEY, made by weir keygen",
    ),
    ("serve", &["-s", "--server"], any, "no flag: weir serve is the server"),
    // Other commands of Weir.
    ("runs", &["--csv"], any, "weir runs export RUN --format csv"),
    ("report", &["--csv"], any, "--format csv"),
];

fn any(_: &str) -> bool {
    true
}

fn is_number(value: &str) -> bool {
    value.parse::<f64>().is_ok()
}

/// D-ITG's `-m owdm` and `-m rttm`.
fn is_meter(value: &str) -> bool {
    ["owdm", "rttm"].contains(&value)
}

/// The equivalent of another tool's command.
pub(crate) fn of_command(name: &str) -> Option<&'static str> {
    let is_named = |names: &&[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(name));
    COMMANDS.iter().find(|(names, _)| is_named(names)).map(|(_, instead)| *instead)
}

/// What to type for `verb` of a command, or without one.
pub(crate) fn of_verb(command: &str, verb: &str) -> Option<&'static str> {
    let is_it = |(of, verbs, _): &&(&str, &[&str], &str)| *of == command && verbs.contains(&verb);
    VERBS.iter().find(is_it).map(|(.., instead)| *instead)
}

/// The equivalent of another tool's `flag`, given with `value` (empty: none) to a command of Weir.
pub(crate) fn of_flag(command: &str, flag: &str, value: &str) -> Option<&'static str> {
    let command = if command == flag { "test" } else { command };
    let is_it = |(of, spellings, accepts, _): &&Flag| {
        *of == command && spellings.contains(&flag) && accepts(value)
    };
    FLAGS.iter().find(is_it).map(|(.., instead)| *instead)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of README.md's table: the other tool's command and Weir's, without their code marks.
    fn rows() -> Vec<(&'static str, &'static str)> {
        const README: &str = include_str!("../../../README.md");
        let (_, rest) = README.split_once("## Coming from another tool").unwrap();
        let section = rest.split("\n## ").next().unwrap();
        let rows = section.lines().filter_map(|line| {
            let cells: Vec<&str> = line.strip_prefix("| ")?.split(" | ").collect();
            let [_, theirs, weirs] = cells[..] else { return None };
            Some((theirs.strip_prefix('`')?, weirs.strip_prefix('`')?))
        });
        rows.collect()
    }

    #[test]
    fn the_readme_has_the_same_equivalents() {
        let mut named = 0;
        for (theirs, weirs) in rows() {
            let program = theirs.split([' ', '`']).next().unwrap();
            let Some(instead) = of_command(program) else {
                // An elided command, or one that Weir has too.
                assert!(
                    ["…", "ttcp", "iperf", "iperf3", "netperf", "netserver"].contains(&program),
                    "{program} is not refused by name"
                );
                continue;
            };
            named += 1;
            let command: Vec<&str> = weirs.split([' ', '`']).take(2).collect();
            assert!(
                instead.contains(&command.join(" ")),
                "{program}: {instead} without {command:?}"
            );
        }
        assert!(named >= 5, "{named}");
    }

    #[test]
    fn no_row_hides_another() {
        let line = crate::app::command_line();
        for (names, instead) in COMMANDS {
            for name in *names {
                assert_eq!(of_command(name), Some(*instead), "{name}");
                assert!(line.find_subcommand(name).is_none(), "{name} is a command of Weir");
            }
        }
        for (command, verbs, instead) in VERBS {
            let of = line.find_subcommand(command).unwrap_or(&line);
            for verb in *verbs {
                assert_eq!(of_verb(command, verb), Some(*instead), "{verb}");
                assert!(of.find_subcommand(verb).is_none(), "{command} has {verb}");
            }
            // What it says to type exists.
            let mut words = instead.split([' ', ',']).skip(1);
            let named = line.find_subcommand(words.next().unwrap()).unwrap();
            if named.has_subcommands() {
                assert!(
                    words
                        .next()
                        .is_some_and(|verb| named.find_subcommand(verb).is_some() || verb == "A")
                );
            }
        }
        for (command, spellings, ..) in FLAGS {
            let command = line.find_subcommand(command).unwrap();
            let has = |flag: &str| {
                command.get_arguments().any(|arg| match flag.strip_prefix("--") {
                    Some(long) => arg.get_long() == Some(long),
                    None => arg.get_short() == flag.chars().nth(1),
                })
            };
            let [first, ..] = spellings else { panic!("a row without a flag") };
            // By value, or not a flag of this command.
            assert!(
                ["--time", "--congestion", "--transport"].contains(first)
                    || !spellings.iter().any(|f| has(f)),
                "{spellings:?}"
            );
        }
    }
}
