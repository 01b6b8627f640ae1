//! Scripts of ITGSend: one flow a line, with the options of its command line. They become plans of tests with D-ITG.
//!
//! What a plan can't express is refused with its line and option.

use std::fmt::Write;

/// Intervals of a flow whose line states none, packets per second.
const RATE: &str = "1000pps";
/// Bytes of a header of RTP, and of a compressed one.
const RTP: (u64, u64) = (12, 2);
/// What voice activity detection leaves of a payload.
const VOICE_ACTIVITY: f64 = 0.65;

/// An option of a script that is not translated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {option} {given}; accepted: {accepted}")]
pub struct ScriptError {
    /// Number of the line, from 1.
    pub line: usize,
    /// The option.
    pub option: String,
    /// Its given value.
    pub given: String,
    /// What is accepted.
    pub accepted: String,
}

/// The plan of a script, as TOML, with the receiver that all its lines name.
///
/// # Errors
/// [`ScriptError`].
pub fn ditg_script(text: &str) -> Result<String, ScriptError> {
    let mut plan = String::from("schema = \"weir.plan/1\"\npeer = \"ditg\"\n");
    let mut connections = String::new();
    let mut host: Option<String> = None;
    let mut signalling: Option<String> = None;
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let mut words = Words { line: index + 1, words: line.split_whitespace(), option: "" };
        let flow = Flow::read(&mut words)?;
        let line = index + 1;
        same(&mut host, flow.host.unwrap_or("127.0.0.1"), line, "-a")?;
        same(&mut signalling, flow.signalling.unwrap_or("9000"), line, "-Sdp")?;
        connections += &flow.fields;
    }
    if let (Some(host), Some(port)) = (host, signalling) {
        // Neither has a character that TOML would read.
        let _ = writeln!(plan, "host = \"{host}\"\nport = {port}");
    }
    Ok(plan + &connections)
}

/// All flows have the same receiver.
fn same(
    known: &mut Option<String>,
    given: &str,
    line: usize,
    option: &str,
) -> Result<(), ScriptError> {
    let known = known.get_or_insert_with(|| given.into());
    if known == given {
        return Ok(());
    }
    let accepted = format!("one receiver in a script: {known}");
    Err(ScriptError { line, option: option.into(), given: given.into(), accepted })
}

/// The words of a line.
struct Words<'a> {
    line: usize,
    words: std::str::SplitWhitespace<'a>,
    /// The option that is read.
    option: &'a str,
}

impl<'a> Words<'a> {
    fn refused<T>(&self, given: &str, accepted: &str) -> Result<T, ScriptError> {
        Err(ScriptError {
            line: self.line,
            option: self.option.into(),
            given: given.into(),
            accepted: accepted.into(),
        })
    }

    fn text(&mut self, accepted: &str) -> Result<&'a str, ScriptError> {
        match self.words.next() {
            Some(word) => Ok(word),
            None => self.refused("without a value", accepted),
        }
    }

    /// A number from 0 to `most`.
    fn whole(&mut self, most: u64) -> Result<u64, ScriptError> {
        let accepted = format!("a whole number, 0 to {most}");
        let word = self.text(&accepted)?;
        let digits = word.strip_prefix("0x").map_or((word, 10), |digits| (digits, 16));
        match u64::from_str_radix(digits.0, digits.1) {
            Ok(number) if number <= most && !digits.0.starts_with('+') => Ok(number),
            _ => self.refused(word, &accepted),
        }
    }

    /// A number above 0.
    fn positive(&mut self) -> Result<f64, ScriptError> {
        const ACCEPTED: &str = "a number above 0, up to 1e12";
        let word = self.text(ACCEPTED)?;
        match word.parse::<f64>() {
            Ok(number) if number > 0.0 && number <= 1e12 => Ok(number),
            _ => self.refused(word, ACCEPTED),
        }
    }

    fn pair(&mut self) -> Result<(f64, f64), ScriptError> {
        Ok((self.positive()?, self.positive()?))
    }

    /// A law of two parameters.
    fn law(&mut self, law: Law, unit: &str) -> Result<String, ScriptError> {
        let (a, b) = self.pair()?;
        Ok(match law {
            Law::Normal => format!("normal(mean={a}{unit}, deviation={b}{unit}"),
            Law::Pareto => format!("pareto(shape={a}, scale={b}{unit}"),
            Law::Cauchy => format!("cauchy(location={a}{unit}, scale={b}{unit}"),
            Law::Gamma => format!("gamma(shape={a}, scale={b}{unit}"),
            Law::Weibull => format!("weibull(shape={a}, scale={b}{unit}"),
        })
    }
}

/// A law of two parameters, in the order of ITGSend.
#[derive(Clone, Copy)]
enum Law {
    Normal,
    Pareto,
    Cauchy,
    Gamma,
    Weibull,
}

impl Law {
    fn of(letter: &str) -> Option<Law> {
        match letter {
            "N" => Some(Law::Normal),
            "V" => Some(Law::Pareto),
            "Y" => Some(Law::Cauchy),
            "G" => Some(Law::Gamma),
            "W" => Some(Law::Weibull),
            _ => None,
        }
    }
}

/// A flow of a script.
struct Flow<'a> {
    host: Option<&'a str>,
    signalling: Option<&'a str>,
    /// Its connection, as TOML.
    fields: String,
}

/// The characters of a host or a port.
fn is_plain(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|c| c.is_ascii_alphanumeric() || ['.', ':', '-', '_', '%'].contains(&c))
}

impl<'a> Flow<'a> {
    /// Reads a line.
    fn read(words: &mut Words<'a>) -> Result<Flow<'a>, ScriptError> {
        let (mut host, mut signalling) = (None, None);
        let (mut transport, mut ends) = ("udp", 0);
        let (mut fields, mut rate) = (String::new(), None);
        let (mut size, mut spacing) = (None, None);
        let (mut header, mut application) = (None, None);
        while let Some(option) = words.words.next() {
            words.option = option;
            let mut set = |field: &str, value: &dyn std::fmt::Display| {
                let _ = writeln!(fields, "{field} = {value}");
            };
            match option {
                "-a" => {
                    let name = words.text("an address or a name")?;
                    if !is_plain(name) {
                        return words.refused(name, "an address or a name");
                    }
                    host = Some(name);
                }
                "-Sdp" => {
                    let port = words.text("a port, 1 to 65535")?;
                    if !port.parse::<u16>().is_ok_and(|port| port > 0) || port.starts_with('+') {
                        return words.refused(port, "a port, 1 to 65535");
                    }
                    signalling = Some(port);
                }
                "-T" => {
                    const ACCEPTED: &str = "UDP, TCP or ICMP";
                    transport = match words.text(ACCEPTED)? {
                        "UDP" => "udp",
                        "TCP" => "tcp",
                        "ICMP" => "icmp",
                        other => return words.refused(other, ACCEPTED),
                    };
                }
                "-m" => match words.text("owdm or rttm")? {
                    "owdm" => {}
                    "rttm" => set("echo", &"\"whole\""),
                    other => return words.refused(other, "owdm or rttm"),
                },
                "-t" | "-z" | "-k" => {
                    ends += 1;
                    if ends > 1 {
                        return words.refused("with another limit", "one of -t, -z and -k");
                    }
                    match option {
                        "-t" => set("duration", &format!("\"{}ms\"", words.whole(1 << 32)?)),
                        "-z" => set("packets", &words.whole(1 << 53)?),
                        _ => set("bytes", &(words.whole(1 << 40)? * 1024)),
                    }
                }
                "-d" => set("start_after", &format!("\"{}ms\"", words.whole(1 << 32)?)),
                "-b" => set("tos", &words.whole(255)?),
                "-f" => set("ttl", &words.whole(255)?),
                "-rp" => set("port", &words.whole(65_535)?),
                "-sp" => set("client_port", &words.whole(65_535)?),
                "-D" => set("no_delay", &true),
                "-p" => {
                    header = match words.whole(2)? {
                        0 => None,
                        1 => Some("ditg-short"),
                        _ => Some("none"),
                    };
                }
                // Weir decides when to spin.
                "-poll" => {}
                "-j" => {
                    if words.whole(1)? == 0 {
                        set("catch_up", &"\"none\"");
                    }
                }
                "-C" => rate = Some(format!("{}pps", words.positive()?)),
                "-U" => {
                    let (least, most) = words.pair()?;
                    spacing = Some(format!("uniform(min={most}pps, max={least}pps)"));
                }
                "-E" => spacing = Some(format!("exponential(mean={}pps)", words.positive()?)),
                "-O" => spacing = Some(format!("poisson(mean={}pps)", words.positive()?)),
                "-c" => size = Some(words.whole(65_507)?.to_string()),
                "-u" => {
                    let (least, most) = (words.whole(65_507)?, words.whole(65_507)?);
                    size = Some(format!("{least}..{most}"));
                }
                "-e" => size = Some(format!("exponential(mean={}, ", words.positive()?)),
                "-o" => size = Some(format!("poisson(mean={}, ", words.positive()?)),
                "DNS" => application = Some("dns"),
                "Quake3" => application = Some("quake3"),
                "CSa" => application = Some("counter-strike-active"),
                "CSi" => application = Some("counter-strike-idle"),
                "VoIP" => {
                    let (bytes, packets) = voice(words)?;
                    (size, rate) = (Some(bytes.to_string()), Some(format!("{packets}pps")));
                }
                _ => {
                    let letter = option.strip_prefix('-').unwrap_or("");
                    let of_interval = Law::of(letter);
                    let of_size = Law::of(&letter.to_uppercase()).filter(|_| of_interval.is_none());
                    match (of_interval, of_size) {
                        (Some(law), _) => spacing = Some(words.law(law, "ms")? + ")"),
                        (_, Some(law)) => size = Some(words.law(law, "")? + ", "),
                        (None, None) => {
                            return words.refused(
                                "is not translated",
                                "options of a flow that a plan can express",
                            );
                        }
                    }
                }
            }
        }
        let mut out = String::from("[[connection]]\n");
        if let Some(profile) = application {
            words.option = "profile";
            if transport != "udp" || size.is_some() || spacing.is_some() || rate.is_some() {
                return words
                    .refused(profile, "an application over UDP without -C, -c and the like");
            }
            let _ = writeln!(out, "profile = \"{profile}\"");
        } else {
            let _ = writeln!(out, "transport = \"{transport}\"");
            // The smallest message is a header; the largest datagrams are those of one packet.
            let (least, most) = if transport == "tcp" { (24, 65_507) } else { (20, 1452) };
            let size = match size {
                Some(law) if law.ends_with(", ") => format!("{law}min={least}, max={most})"),
                Some(size) => size,
                None => "512".into(),
            };
            let _ = writeln!(out, "payload = \"{size}\"");
            match (spacing, rate) {
                (Some(law), _) => writeln!(out, "spacing = \"{law}\""),
                (None, rate) => writeln!(out, "rate = \"{}\"", rate.as_deref().unwrap_or(RATE)),
            }
            // A string takes it.
            .unwrap_or(());
        }
        if let Some(header) = header {
            words.option = "-p";
            if transport == "tcp" {
                return words.refused(header, "0 with TCP");
            }
            let _ = writeln!(out, "header = \"{header}\"");
        }
        Ok(Flow { host, signalling, fields: out + &fields })
    }
}

/// Payload bytes and packets per second of a codec, with its options, which are the last of a line.
fn voice(words: &mut Words) -> Result<(u64, u64), ScriptError> {
    const CODECS: &str = "G.711.1, G.711.2, G.729.2, G.729.3 or G.723.1";
    let ((mut payload, mut packets), mut header, mut is_detected) = ((80, 100), RTP.0, false);
    while let Some(option) = words.words.next() {
        words.option = option;
        match option {
            "-x" => {
                (payload, packets) = match words.text(CODECS)? {
                    "G.711.1" => (80, 100),
                    "G.711.2" => (160, 50),
                    "G.729.2" => (20, 50),
                    "G.729.3" => (30, 33),
                    "G.723.1" => (30, 26),
                    other => return words.refused(other, CODECS),
                };
            }
            "-h" => {
                header = match words.text("RTP or CRTP")? {
                    "RTP" => RTP.0,
                    "CRTP" => RTP.1,
                    other => return words.refused(other, "RTP or CRTP"),
                };
            }
            "-VAD" => is_detected = true,
            _ => return words.refused("after VoIP", "-x, -h and -VAD"),
        }
    }
    let payload = if is_detected { (payload as f64 * VOICE_ACTIVITY) as u64 } else { payload };
    Ok((payload + header, packets))
}

/// Fuzz body: a script is refused, or is a document of a plan that is valid or refused.
pub fn fuzz_ditg_script(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(plan) = ditg_script(&text) {
        let _ = weir_model::plan::Plan::parse(&plan);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::plan::{Echo, Family, HeaderFormat, Plan};
    use weir_traffic::ClientConfig;

    /// The plan of a script, as a test with D-ITG runs it.
    fn plan(text: &str) -> Plan {
        let plan = Plan::parse(&ditg_script(text).unwrap()).unwrap();
        let host = plan.host.clone().unwrap_or_default();
        super::super::settings::prepared(&ClientConfig::new(plan, host)).unwrap()
    }

    fn refused(text: &str) -> (usize, String) {
        let error = ditg_script(text).unwrap_err();
        (error.line, error.option)
    }

    #[test]
    fn each_line_is_a_connection() {
        let plan = plan(
            "-a 10.0.0.3 -rp 10001 -C 1000 -c 512 -T UDP\n\n\
             -a 10.0.0.3 -rp 10002 -T TCP -c 700 -z 30 -d 500 -D -b 0x10\n\
             -a 10.0.0.3 -m rttm -E 200 -u 64 900 -t 2500 -f 5 -sp 4000\n\
             -a 10.0.0.3 -p 1 -N 10 2 -k 2 -j 0 -poll\n\
             -a 10.0.0.3 -T ICMP -C 50 -c 100 -z 3\n",
        );
        assert_eq!((plan.host.as_deref(), plan.port), (Some("10.0.0.3"), Some(9000)));
        let flows = plan.flows(Family::Ipv4, 1500);
        let [a, b, c, d, e] = &flows[..] else { panic!("{}", flows.len()) };
        let ports: Vec<Option<u16>> = plan.connections.iter().map(|c| c.port).collect();
        assert_eq!(ports, [Some(10_001), Some(10_002), None, None, None]);
        assert_eq!((a.payload_bytes(), a.packets_per_second()), (512, Some(1000.0)));
        assert_eq!(a.duration_ns, Some(10_000_000_000));
        let of_b = (b.connection.packets, b.connection.start_after.0, b.connection.no_delay());
        assert_eq!(of_b, (Some(30), 500_000_000, true));
        assert_eq!((b.connection.tos(), b.packets_per_second()), (Some(16), Some(1000.0)));
        assert_eq!((c.connection.echo, c.duration_ns), (Some(Echo::Whole), Some(2_500_000_000)));
        assert_eq!((c.size.moments().min_bytes, c.size.moments().max_bytes), (64, 900));
        assert!((c.packets_per_second().unwrap() - 200.0).abs() < 1e-6);
        assert_eq!(d.connection.header, HeaderFormat::DitgShort);
        assert_eq!(d.connection.bytes.unwrap().0, 2048);
        let of_e = (e.connection.transport.name().label(), e.connection.packets);
        assert_eq!((of_e, e.packets_per_second()), (("icmp", Some(3)), Some(50.0)));
    }

    #[test]
    fn laws_have_the_parameters_of_itgsend() {
        for (options, mean) in [
            ("-U 100 400", (10.0 + 2.5) / 2.0),
            ("-O 100", 10.0),
            ("-G 2 5", 10.0),
            ("-W 1 10", 10.0),
            ("-V 3 2", 3.0),
        ] {
            let plan = plan(&format!("-a h {options}"));
            let rate = plan.flows(Family::Ipv4, 1500)[0].packets_per_second().unwrap();
            assert!((1000.0 / rate - mean).abs() < 0.01 * mean, "{options}: {rate}");
        }
        for (options, mean) in [("-n 700 10", 700.0), ("-o 300", 300.0), ("-g 100 5", 500.0)] {
            let plan = plan(&format!("-a h {options}"));
            let size = plan.flows(Family::Ipv4, 1500)[0].size.moments().mean_bytes;
            assert!((size - mean).abs() < 2.0, "{options}: {size}");
        }
    }

    #[test]
    fn applications_are_profiles_and_voice_is_its_packets() {
        for application in ["DNS", "Quake3", "CSa", "CSi"] {
            let plan = plan(&format!("-a h -t 1000 {application}"));
            assert!(!plan.connections.is_empty(), "{application}");
        }
        for (options, bytes, packets) in [
            ("VoIP", 92, 100.0),
            ("VoIP -x G.729.3 -h CRTP", 32, 33.0),
            ("VoIP -x G.711.2 -h RTP -VAD", 116, 50.0),
        ] {
            let plan = plan(&format!("-a h {options}"));
            let flow = &plan.flows(Family::Ipv4, 1500)[0];
            let of = (flow.payload_bytes(), flow.packets_per_second());
            assert_eq!(of, (bytes, Some(packets)), "{options}");
        }
    }

    #[test]
    fn what_is_not_translated_is_refused_with_its_line_and_option() {
        for (text, line, option) in [
            ("-a h\n-a h2", 2, "-a"),
            ("-a \"h", 1, "-a"),
            ("-a h -T SCTP 1 2", 1, "-T"),
            ("-a h\n\n-a h -H", 3, "-H"),
            ("-a h -Ft file", 1, "-Ft"),
            ("-a h -B C 1000 C 1000", 1, "-B"),
            ("-a h -s 0.5", 1, "-s"),
            ("-a h -t 1000 -z 5", 1, "-z"),
            ("-a h -c", 1, "-c"),
            ("-a h -c 65508", 1, "-c"),
            ("-a h -C 0", 1, "-C"),
            ("-a h -C nan", 1, "-C"),
            ("-a h -x log", 1, "-x"),
            ("-a h Telnet", 1, "Telnet"),
            ("-a h -T TCP DNS", 1, "profile"),
            ("-a h -T TCP -p 1", 1, "-p"),
            ("-a h VoIP -x G.722", 1, "-x"),
            ("-a h -rp 65536", 1, "-rp"),
            ("# a comment", 1, "#"),
        ] {
            assert_eq!(refused(text), (line, option.into()), "{text}");
        }
    }

    #[test]
    fn mutated_scripts_are_translated_or_refused() {
        let corpus = [
            &b"-a 10.0.0.3 -rp 10001 -C 1000 -u 64 512 -T UDP -t 500\n-a 10.0.0.3 -m rttm -E 5 -c 90 -z 3"[..],
            b"-a h -G 2 5 -n 700 10 -d 5 -b 0x10 -Sdp 9001\n-a h -Sdp 9001 VoIP -x G.729.2 -VAD",
        ];
        weir_laws::mutation::replay(&corpus, 2000, fuzz_ditg_script);
    }
}
