//! Classic ttcp (BRL, 1984): one stream or one series of datagrams from a transmitter to a receiver, without a
//! control connection. Each end reports only its own counts.

mod client;
mod codec;
mod server;
mod text;
mod transfer;

use std::net::SocketAddr;

use weir_flow::IntervalClock;
use weir_model::Refusal;
use weir_model::content::Content;
use weir_model::names::Host;
use weir_model::plan::{
    Alignment, ConnectionFields, Direction, FlowSpec, HeaderFormat, MAX_UDP_PAYLOAD_V4, Plan,
    Switch, Transport,
};
use weir_model::record::Record;
use weir_model::report::EndReport;
use weir_model::units::{ByteSize, SendRate, Span};
use weir_net::socket::AsSocket;
use weir_traffic::TrafficError;

use crate::sessions::Ended;
use crate::{Command, Form, Given, Opt, Protocol, Test};

const fn switch(name: &'static str, flag: char, help: &'static str) -> Opt {
    Opt { name, form: Form::Letter(flag), value: None, help }
}

/// A switch that Cisco's ttcp asks for, for which classic ttcp has no letter.
const fn long(name: &'static str, help: &'static str) -> Opt {
    Opt { name, form: Form::Long, value: None, help }
}

const fn valued(name: &'static str, flag: char, value: &'static str, help: &'static str) -> Opt {
    Opt { name, form: Form::Letter(flag), value: Some(value), help }
}

/// Declaration of the protocol.
pub(crate) const PROTOCOL: Protocol = Protocol {
    name: "ttcp",
    port: codec::PORT,
    transports: &["tcp", "udp"],
    command: Some(Command {
        about: "Run a test against classic ttcp, or as its receiver",
        details: "Defaults are those of ttcp: 2048 buffers of 8192 bytes, TCP, port 5001.\n\
              The far end is ttcp, weir ttcp or weir serve --peer ttcp. Lines in ttcp's format go to stderr. The result covers this end only, since ttcp has no control connection.",
        options: &[
            Opt {
                name: "host",
                form: Form::Positional,
                value: Some("HOST"),
                help: "The receiver, with -t",
            },
            switch("transmit", 't', "Transmit to HOST"),
            switch("receive", 'r', "Receive one test, then exit"),
            switch(
                "pattern",
                's',
                "Send a pattern, or discard what is received; without it: standard input or output",
            ),
            switch("udp", 'u', "Use UDP instead of TCP"),
            valued(
                "length",
                'l',
                "BYTES",
                "Bytes of each buffer: 1 to 16777216; UDP: 5 to 65507 [default: 8192]",
            ),
            valued("buffers", 'n', "N", "Number of buffers to transmit [default: 2048]"),
            valued("port", 'p', "PORT", "Port to send to or listen on [default: 5001]"),
            valued("window", 'b', "BYTES", "Size of the socket buffer [default: the system's]"),
            switch("no-delay", 'D', "Do not buffer TCP writes (TCP_NODELAY)"),
            valued(
                "format",
                'f',
                "UNIT",
                "Unit of the rate: k, m, g (bits), K, M, G (bytes) [default: K]",
            ),
            switch("verbose", 'v', "Print the CPU time as well"),
            valued(
                "align",
                'A',
                "BYTES",
                "Alignment of the buffers in memory: a power of two up to 65536 [default: 16384]",
            ),
            valued(
                "offset",
                'O',
                "BYTES",
                "Start the buffers this far behind the alignment; less than -A [default: 0]",
            ),
            switch("full-blocks", 'B', "Write to standard output in blocks of -l bytes, with -r"),
            switch("touch", 'T', "Read each received byte, with -r"),
            switch("debug", 'd', "Set SO_DEBUG on the socket (Linux: requires CAP_NET_ADMIN)"),
            long(
                "half-close",
                "Close the sending direction after the data and wait until the receiver has closed too: the time then includes \
             the delivery. With -t, over TCP",
            ),
            Opt {
                name: "delayed-ack",
                form: Form::Long,
                value: Some("SWITCH"),
                help: "Whether the receiver delays acknowledgements: on or off (TCP_QUICKACK), with -r, over TCP [default: the system's]",
            },
            long(
                "tcp-info",
                "Print the TCP information of the connection at the end; also with -v",
            ),
            long("cisco", "Print the figures as Cisco IOS does: with sleeps, without CPU time"),
        ],
        make: |given| Settings::parse(given).map(|settings| settings.test()),
    }),
    client: None,
    serve: Some(server::open),
    guests: None,
    is_served_by_name_only: false,
};

/// The options of the command, checked.
#[derive(Debug, Clone, PartialEq)]
struct Settings {
    /// The receiver, to which this end transmits; absent: this end receives.
    host: Option<String>,
    udp: bool,
    /// Send a pattern or discard what arrives, instead of standard input and output.
    pattern: bool,
    full_blocks: bool,
    touches: bool,
    debug: bool,
    half_close: bool,
    delayed_ack: Option<Switch>,
    tcp_info: bool,
    cisco: bool,
    buffer_bytes: u64,
    buffers: u64,
    port: u16,
    window_bytes: Option<u64>,
    no_delay: bool,
    alignment: Alignment,
    unit: text::RateUnit,
    verbose: bool,
    plan: Plan,
}

impl Settings {
    /// # Errors
    /// A value that is not accepted, or options that don't go together.
    fn parse(given: &Given) -> Result<Settings, Box<Refusal>> {
        let refuse = |name: &str, given: &str, accepted: &str| {
            Err(crate::options::refuse(name, given, accepted))
        };
        match (given.has("transmit"), given.has("receive")) {
            (true, true) => return refuse("receive", "with -t", "-t or -r"),
            (false, false) => return refuse("transmit", "missing", "-t HOST or -r"),
            _ => {}
        }
        let (receives, pattern) = (given.has("receive"), given.has("pattern"));
        if given.has("full-blocks") && (!receives || pattern) {
            return refuse("full-blocks", "without standard output", "with -r, without -s");
        }
        if given.has("touch") && !receives {
            return refuse("touch", "with -t", "with -r");
        }
        if given.has("buffers") && !pattern {
            return refuse("buffers", "without -s", "with -s; standard input is sent to its end");
        }
        let udp = given.has("udp");
        if given.has("half-close") && (receives || udp) {
            return refuse(
                "half-close",
                if udp { "with -u" } else { "with -r" },
                "with -t, over TCP",
            );
        }
        if given.has("tcp-info") && udp {
            return refuse("tcp-info", "with -u", "without -u: UDP has no connection");
        }
        let delayed_ack = match given.text("delayed-ack") {
            None => None,
            Some(_) if !receives => return refuse("delayed-ack", "with -t", "with -r, over TCP"),
            Some(_) if udp => return refuse("delayed-ack", "with -u", "with -r, over TCP"),
            Some("on") => Some(Switch::On),
            Some("off") => Some(Switch::Off),
            Some(other) => return refuse("delayed-ack", other, "on or off"),
        };
        let host = match (given.text("host"), given.has("transmit")) {
            (Some(host), true) => match Host::parse(host) {
                Ok(named) if named.port.is_none() => Some(named.name),
                Ok(_) => return refuse("host", host, "a name or an address; -p names the port"),
                Err(e) => {
                    let refusal = Refusal { field: Some("host".into()), ..Refusal::from(&e) };
                    return Err(Box::new(refusal));
                }
            },
            (None, true) => return refuse("host", "missing", "a name or an address"),
            (Some(host), false) => return refuse("host", host, "no HOST with -r"),
            (None, false) => None,
        };
        // A smaller datagram would be a marker.
        let sizes =
            if udp { codec::MARKER_BYTES as u64 + 1..=MAX_UDP_PAYLOAD_V4 } else { 1..=16 << 20 };
        let unit = match given.text("format") {
            None => text::RateUnit::default(),
            Some(letter) => match text::RateUnit::parse(letter) {
                Some(unit) => unit,
                None => return refuse("format", letter, "k, m, g, K, M or G"),
            },
        };
        let align = given.number("align", 1..=1 << 16)?.unwrap_or(codec::ALIGNMENT);
        if !align.is_power_of_two() {
            return refuse("align", &align.to_string(), "a power of two up to 65536");
        }
        let offset = given.number("offset", 0..=align - 1)?.unwrap_or(0);
        let Some(alignment) = Alignment::new(align, offset) else {
            return refuse("align", &align.to_string(), "a power of two up to 65536");
        };
        let mut settings = Settings {
            host,
            udp,
            pattern,
            full_blocks: given.has("full-blocks"),
            touches: given.has("touch"),
            debug: given.has("debug"),
            half_close: given.has("half-close"),
            delayed_ack,
            tcp_info: given.has("tcp-info") || given.has("verbose"),
            cisco: given.has("cisco"),
            buffer_bytes: given.number("length", sizes)?.unwrap_or(codec::BUFFER_BYTES),
            buffers: given.number("buffers", 1..=u64::from(u32::MAX))?.unwrap_or(codec::BUFFERS),
            port: given.number("port", 1..=u16::MAX)?.unwrap_or(codec::PORT),
            window_bytes: given.number("window", 1..=1 << 30)?,
            no_delay: given.has("no-delay"),
            alignment,
            unit,
            verbose: given.has("verbose"),
            plan: Plan::default(),
        };
        settings.plan = settings.to_plan();
        Ok(settings)
    }

    fn transmits(&self) -> bool {
        self.host.is_some()
    }

    /// The plan of this end: transmitting is forward, receiving is reverse.
    fn to_plan(&self) -> Plan {
        let transmits = self.transmits();
        let fields = ConnectionFields {
            direction: if transmits { Direction::Forward } else { Direction::Reverse },
            payload: Some(ByteSize(self.buffer_bytes).into()),
            packets: (transmits && self.pattern).then_some(self.buffers),
            duration: (!transmits || !self.pattern).then_some(Span(0)),
            align: (!self.udp).then_some(self.alignment),
            window: self.window_bytes.map(ByteSize),
            no_delay: (!self.udp && self.no_delay).then_some(true),
            delayed_ack: self.delayed_ack,
            ..fields(self.udp)
        };
        Plan { host: self.host.clone(), port: Some(self.port), ..plan(fields) }
    }

    fn test(self) -> Box<dyn Test> {
        let is_simple = self.pattern && !self.touches && !self.half_close;
        match (self.transmits(), is_simple) {
            (_, false) => Box::new(transfer::Transfer(self)),
            (true, true) => Box::new(client::Sender(self)),
            (false, true) => Box::new(server::Once(self)),
        }
    }
}

/// Options of every ttcp connection: no header, no pacing, no GSO or GRO.
fn fields(udp: bool) -> ConnectionFields {
    let transport = if udp { Transport::udp() } else { Transport::tcp() };
    let alone = udp.then_some(Switch::Off);
    ConnectionFields {
        transport: transport.name(),
        header: HeaderFormat::None,
        rate: Some(SendRate::UNLIMITED),
        content: Content::Ascii,
        gso: alone,
        gro: alone,
        ..ConnectionFields::default()
    }
}

/// Sets SO_DEBUG on a socket if `-d` was given.
fn set_debug(settings: &Settings, socket: &impl AsSocket) -> Result<(), TrafficError> {
    let set = if settings.debug { weir_net::socket::set_debug(socket) } else { Ok(()) };
    set.map_err(|e| TrafficError::Unavailable {
        field: "debug",
        given: "-d".into(),
        reason: e.to_string(),
    })
}

fn plan(fields: ConnectionFields) -> Plan {
    Plan {
        port: Some(codec::PORT),
        latency: false,
        connections: vec![fields.into()],
        ..Plan::default()
    }
}

/// The record of this end of a test with `peer`.
fn record(
    plan: Plan,
    spec: FlowSpec,
    peer: SocketAddr,
    local: EndReport,
    intervals: IntervalClock,
    ended: Ended,
) -> Record {
    crate::sessions::record(PROTOCOL.name, plan, vec![spec], peer, (local, None), intervals, ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Settings parsed from a command line of flags.
    pub(super) fn settings(words: &str) -> Result<Settings, Box<Refusal>> {
        let mut given = vec![];
        let mut words = words.split_whitespace();
        while let Some(word) = words.next() {
            let is_meant = |opt: &&Opt| match opt.form {
                Form::Letter(letter) => word == format!("-{letter}"),
                Form::Long => word.strip_prefix("--") == Some(opt.name),
                Form::Positional => !word.starts_with('-'),
            };
            let opt = PROTOCOL.command.unwrap().options.iter().find(is_meant).unwrap();
            let value = match (opt.form, opt.value) {
                (Form::Positional, _) => word,
                (_, Some(_)) => words.next().unwrap(),
                _ => "",
            };
            given.push((opt.name.to_owned(), value.to_owned()));
        }
        Given::new(given, PROTOCOL.command.unwrap().options)
            .and_then(|given| Settings::parse(&given))
    }

    #[test]
    fn defaults_are_those_of_ttcp() {
        let s = settings("-t -s h").unwrap();
        assert_eq!((s.buffer_bytes, s.buffers, s.port), (8192, 2048, 5001));
        assert_eq!(Some(s.alignment), Alignment::new(16_384, 0));
        let connection = &s.plan.connections[0];
        assert_eq!(
            (connection.packets, connection.payload.clone()),
            (Some(2048), Some(ByteSize(8192).into()))
        );
        assert_eq!(s.plan.host.as_deref(), Some("h"));
        s.plan.check().unwrap();
        let s = settings("-r -s -u").unwrap();
        assert_eq!(s.plan.connections[0].direction, Direction::Reverse);
        assert_eq!(s.plan.connections[0].rate, Some(SendRate::UNLIMITED));
        s.plan.check().unwrap();
    }

    #[test]
    fn every_flag_sets_its_field() {
        let s = settings("-t -s -u -l 5 -n 7 -p 9 -b 65536 -D -f g -v -A 64 -O 2 -d h").unwrap();
        assert_eq!((s.udp, s.buffer_bytes, s.buffers, s.port), (true, 5, 7, 9));
        assert_eq!((s.window_bytes, s.no_delay, s.verbose), (Some(65_536), true, true));
        assert_eq!((Some(s.alignment), s.debug), (Alignment::new(64, 2), true));
        let receiver = settings("-r -B -T").unwrap();
        assert_eq!((receiver.full_blocks, receiver.touches, receiver.pattern), (true, true, false));
        let cisco = settings("-r -s --delayed-ack off --tcp-info --cisco").unwrap();
        let options = cisco.plan.connections[0].transport.tcp_options().unwrap();
        assert_eq!((options.delayed_ack, cisco.tcp_info, cisco.cisco), (Switch::Off, true, true));
        assert!(settings("-t -s --half-close h").unwrap().half_close);
        // An option of TCP has no effect on UDP, as in ttcp.
        s.plan.check().unwrap();
        let tcp = settings("-t -s -D h").unwrap();
        assert!(tcp.plan.connections[0].transport.tcp_options().unwrap().no_delay);
    }

    #[test]
    fn refusals_name_the_option() {
        for (words, field) in [
            ("-s h", "transmit"),
            ("-t -r -s h", "receive"),
            ("-t -s -B h", "full-blocks"),
            ("-r -s -B", "full-blocks"),
            ("-t -T h", "touch"),
            ("-t -n 5 h", "buffers"),
            ("-t -s -A 3 h", "align"),
            ("-t -s -A 131072 h", "align"),
            ("-t -s -A 64 -O 64 h", "offset"),
            ("-t -s", "host"),
            ("-r -s h", "host"),
            ("-t -s h:5001", "host"),
            ("-t -s -l 0 h", "length"),
            ("-t -s -u -l 4 h", "length"),
            ("-t -s -u -l 65508 h", "length"),
            ("-t -s -n 0 h", "buffers"),
            ("-t -s -p 65536 h", "port"),
            ("-t -s -f x h", "format"),
            ("-r -s -b 0", "window"),
            ("-r -s --half-close", "half-close"),
            ("-t -s -u --half-close h", "half-close"),
            ("-t -s --delayed-ack on h", "delayed-ack"),
            ("-r -s -u --delayed-ack on", "delayed-ack"),
            ("-r -s --delayed-ack maybe", "delayed-ack"),
            ("-r -s -u --tcp-info", "tcp-info"),
        ] {
            let refusal = settings(words).unwrap_err();
            assert_eq!(refusal.field.as_deref(), Some(field), "{words}");
            assert!(refusal.accepted.is_some() && refusal.exit_code == 2, "{words}");
        }
    }
}
