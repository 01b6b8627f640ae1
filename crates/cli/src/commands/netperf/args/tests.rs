use weir_report::NetperfForm;

use super::*;

#[derive(Debug, Parser)]
struct Top {
    #[command(flatten)]
    args: NetperfArgs,
}

fn asked(line: &str) -> Asked {
    let words: Vec<OsString> =
        std::iter::once("netperf").chain(line.split_whitespace()).map(OsString::from).collect();
    let parse = |words: &[OsString]| Top::try_parse_from(words);
    let top = parsed::read(&words, parse).unwrap_or_else(|e| panic!("{line}: {e}"));
    top.args.asked(&words).unwrap_or_else(|e| panic!("{line}: {e}")).unwrap()
}

fn refused(line: &str) -> Option<String> {
    let words: Vec<OsString> =
        std::iter::once("netperf").chain(line.split_whitespace()).map(OsString::from).collect();
    let top = Top::try_parse_from(&words).unwrap();
    top.args.asked(&words).unwrap_err().refusal().field
}

#[test]
fn every_line_is_one_of_weir_test() {
    for line in [
        "",
        "-H h -l 5 -t TCP_MAERTS -D -0.2 -c -C",
        "-H h -t TCP_RR -- -r 100,1000 -b 3 -D -P 5000,6000",
        "-H h -l -1000 -t tcp_crr -cC",
        "-H h,inet6 -t UDP_STREAM -P 0 -v 0 -- -m 1400 -R 1 -s 1M",
        "-6 -t UDP_RR -I 95,10 -i 5,3 -Y CS5,CS5 -y 3 -F /dev/zero -- -e 2",
        "-t OMNI -- -d rr -T udp -k THROUGHPUT -u id",
        "-4 -L 127.0.0.1,4 -- -o -m 16K -M 16K -S 64K -K cubic -L 127.0.0.1 -C -G 1000",
    ] {
        let typed = asked(line).words.into_iter().map(OsString::from);
        crate::commands::tool::Line::try_parse_from(typed)
            .unwrap_or_else(|e| panic!("{line}: {e}"));
    }
}

#[test]
fn as_flent_calls_it() {
    let line = "-P 0 -v 0 -D -0.20 -4 -Y CS5,CS5 -H 127.0.0.1 -p 12865 -t TCP_MAERTS -l 10 -F /dev/urandom -f m -- -H 127.0.0.1 -k THROUGHPUT,DIRECTION";
    let asked = asked(line);
    for word in ["--interval=0.2s", "--tos=160", "--reverse", "--time=10", "--ipv4"] {
        assert!(asked.words.iter().any(|other| other == word), "{word} in {:?}", asked.words);
    }
    assert_eq!(asked.words.last().unwrap(), "127.0.0.1");
    assert_eq!(asked.wanted.data_address, None, "it is that of the control connection");
    assert_eq!(asked.wanted.server.as_ref().unwrap().tos, Some(160));
    assert!(asked.has_interim && !asked.options.headings);
    assert!(matches!(asked.options.form, NetperfForm::Keyval(_)));
}

#[test]
fn values_are_of_this_end_of_the_server_or_of_both() {
    let wanted = asked("-t TCP_MAERTS -- -m 100,200 -s 64K,32K -S ,16K -K cubic,reno");
    let server = wanted.wanted.server.unwrap();
    assert_eq!((server.send_size, server.send_buffer), (Some(200), None));
    assert_eq!((server.receive_buffer, server.congestion.as_deref()), (Some(16_384), Some("reno")));
    assert!(wanted.words.contains(&"--window=32768".into()), "{:?}", wanted.words);
    assert_eq!(wanted.requested_buffers, [Some(65_536), Some(32_768)]);
    assert!(wanted.buffers.iter().all(Option::is_some));
    let cpu = |line| asked(line).wanted.cpu;
    assert_eq!((cpu("-c -H h"), cpu("-cC"), cpu("-C")), ([true, false], [true; 2], [false, true]));
}

#[test]
fn confidence_has_defaults_and_limits() {
    assert_eq!(asked("").options.confidence, None);
    let runs = |line| asked(line).options.confidence.unwrap();
    assert_eq!(runs("-I 95").runs, [3, 10]);
    assert_eq!(runs("-i 100,1").runs, [3, 30]);
    assert_eq!((runs("-i 5").runs, runs("-i 5").level_percent), ([5, 5], 99));
    assert_eq!(runs("-I 95,10").width_percent, 10.0);
}

#[test]
fn what_is_not_accepted_is_refused_by_its_flag() {
    for (line, flag) in [
        ("-t FOO", "-t"),
        ("-l x", "-l"),
        ("-D 0", "-D"),
        ("-I 90", "-I"),
        ("-Y fast", "-Y"),
        ("-H h,ipx", "-H"),
        ("-c x", "-c"),
        ("-- -m x", "-m"),
        ("-- -M ,5", "-M"),
        ("-t TCP_RR -- -s 1,2", "-s"),
        ("-t OMNI -- -T sctp", "-T"),
        ("-t OMNI -- -d sideways", "-d"),
        ("-L 127.0.0.1 -- -L 127.0.0.2", "-L"),
        ("-- -w 5", "-w"),
    ] {
        assert_eq!(refused(line).as_deref(), Some(flag), "{line}");
    }
    for flag in ["-N", "-T", "-W", "-w"] {
        assert!(Top::try_parse_from(["netperf", flag, "1"]).is_err(), "{flag}");
    }
}
