//! Limits of plans: the last accepted value, the first refused value, and the named field.

use weir_model::ModelError;
use weir_model::content::Content;
use weir_model::document::{DocumentCode, DocumentError};
use weir_model::experiment::Scenario;
use weir_model::plan::{
    CatchUp, Connection, ConnectionFields, Family, FlowSpec, HeaderFormat, IpOptions, MAX_FLOWS,
    Plan, Shape, Switch, TcpOptions, Transport, TransportName,
};
use weir_model::record::{DirectionTotal, Record, Totals};
use weir_model::units::{BitRate, ByteSize, RateLimit, Seed, Span};
use weir_model::warning::{Severity, Warning};
use weir_model::{json, plan::Direction};

const HOUR: u64 = 3_600_000_000_000;
const DAY: u64 = 24 * HOUR;

fn plan(change: impl FnOnce(&mut Plan)) -> Plan {
    let mut p = Plan { connections: vec![Connection::default()], ..Plan::default() };
    change(&mut p);
    p
}

/// The refused field, or "" if the plan is valid.
fn refused(change: impl FnOnce(&mut Plan)) -> String {
    match plan(change).check() {
        Ok(()) => String::new(),
        Err(weir_model::ModelError::Field { field, .. }) => field,
        Err(other) => panic!("{other}"),
    }
}

fn connection(change: impl FnOnce(&mut Connection)) -> String {
    refused(|p| change(&mut p.connections[0])).replace("connection[0].", "")
}

fn udp(change: impl FnOnce(&mut Connection)) -> String {
    connection(|c| {
        c.transport = Transport::udp();
        change(c);
    })
}

fn ip(c: &mut Connection) -> &mut IpOptions {
    c.transport.ip_mut().unwrap()
}

fn tcp(change: impl FnOnce(&mut TcpOptions)) -> String {
    connection(|c| {
        let mut options = TcpOptions::default();
        change(&mut options);
        c.transport = options.into();
    })
}

fn document_error(plan: Result<Plan, ModelError>) -> DocumentError {
    match plan {
        Err(ModelError::Document(error)) => *error,
        other => panic!("{other:?}"),
    }
}

/// Options of other transports are refused with both transports named; unknown names with the nearest one.
#[test]
fn options_belong_to_their_transports() {
    let plan =
        |text: &str| Plan::parse(&format!("schema = \"weir.plan/1\"\n[[connection]]\n{text}"));
    let error = document_error(plan("rate = \"1M\"\nzero_copy = true\ntransport = \"udp\""));
    assert_eq!((error.code, error.line), (DocumentCode::Value, Some(4)));
    assert_eq!(error.field, "connection[0].zero_copy");
    assert_eq!(error.given, "true with transport udp");
    assert!(error.accepted.contains("tcp"), "{error}");
    for (transport, option) in [
        ("tcp", "gso = \"off\""),
        ("tcp", "gro = \"on\""),
        ("tcp", "dont_fragment = true"),
        ("udp", "mss = 1000"),
        ("udp", "no_delay = true"),
        ("udp", "congestion = \"reno\""),
        ("udp", "discard = true"),
    ] {
        let refused = plan(&format!("transport = \"{transport}\"\n{option}"));
        let name = option.split(' ').next().unwrap();
        let error = document_error(refused);
        assert_eq!((error.field, error.line), (format!("connection[0].{name}"), Some(4)));
    }
    let error = document_error(plan("zero_cpy = true"));
    assert_eq!((error.code, error.line), (DocumentCode::UnknownField, Some(3)));
    assert_eq!(error.field, "connection[0].zero_cpy");
    assert_eq!(error.nearest.as_deref(), Some("zero_copy"));
    // Misplaced options survive serialization, so every reader of the plan refuses them.
    let fields = ConnectionFields { gso: Some(Switch::On), ..ConnectionFields::default() };
    let c: Connection = fields.clone().into();
    assert_eq!(ConnectionFields::from(c.clone()), fields);
    assert_eq!(refused(|p| p.connections = vec![c]), "connection[0].gso");
}

/// What the server sends back or stores must arrive there, in a form that it can.
#[test]
fn echoes_and_files_are_refused_where_they_have_no_place() {
    let refused = |text: &str| {
        let plan = Plan::parse(&format!("schema = \"weir.plan/1\"\n[[connection]]\n{text}"));
        match plan {
            Ok(_) => String::new(),
            error => document_error(error).field.replace("connection[0].", ""),
        }
    };
    for (text, field) in [
        ("echo = \"whole\"", ""),
        ("transport = \"udp\"\necho = \"64\"", ""),
        ("transport = \"ethernet\"\necho = \"whole\"", ""),
        ("echo = \"64\"", "echo"),
        ("transport = \"udp\"\necho = \"31\"", "echo"),
        ("transport = \"icmp\"\nshape = \"rr\"\necho = \"whole\"", "echo"),
        ("transport = \"multicast\"\ngroup = \"239.1.1.1\"\necho = \"whole\"", "echo"),
        ("echo = \"whole\"\nshape = \"rr\"", "shape"),
        ("echo = \"whole\"\nshape = \"crr\"", "shape"),
        ("echo = \"whole\"\ndirection = \"reverse\"", "direction"),
        ("echo = \"whole\"\ndiscard = true", "discard"),
        ("transport = \"udp\"\necho = \"whole\"\nheader = \"none\"", "header"),
        ("transport = \"udp\"\necho = \"whole\"\npayload = \"31\"", "payload"),
        ("transport = \"udp\"\necho = \"whole\"\npayload = \"16..64\"", "payload"),
        ("to_file = true", ""),
        ("transport = \"udp\"\nto_file = true", "to_file"),
        ("to_file = true\nshape = \"rr\"", "to_file"),
        ("to_file = true\ndirection = \"reverse\"", "direction"),
        ("to_file = true\ndiscard = true", "discard"),
        ("to_file = true\necho = \"whole\"", "echo"),
        ("no_half_close = true", ""),
        ("no_half_close = true\nshape = \"rr\"", "no_half_close"),
        ("transport = \"udp\"\nno_half_close = true", "no_half_close"),
    ] {
        assert_eq!(refused(text), field, "{text}");
    }
}

/// In the schema, options name the transports that have them.
#[test]
fn schema_names_the_transports_of_options() {
    let schema = weir_model::schema::plan_schema();
    let of =
        |field: &str| schema["$defs"]["Connection"]["properties"][field]["x-transports"].clone();
    assert_eq!(of("gso"), serde_json::json!(["udp"]));
    assert_eq!(of("mss")[0], "tcp");
    assert_eq!(of("rate"), serde_json::Value::Null);
    let properties = schema["$defs"]["Connection"]["properties"].as_object().unwrap();
    let misfits: Vec<_> =
        properties.keys().filter(|f| TransportName::with_option(f).is_empty()).collect();
    assert!(misfits.len() >= 14, "{misfits:?}");
}

#[test]
fn fields_of_the_run() {
    assert_eq!(refused(|_| {}), "");
    for (ns, ok) in
        [(0, true), (9_999_999, false), (10_000_000, true), (HOUR, true), (HOUR + 1, false)]
    {
        assert_eq!(refused(|p| p.interval = Span(ns)).is_empty(), ok, "interval {ns}");
    }
    assert_eq!(refused(|p| p.omit = Span(HOUR)), "");
    assert_eq!(refused(|p| p.omit = Span(HOUR + 1)), "omit");
    for (ns, ok) in
        [(999_999, false), (1_000_000, true), (600_000_000_000, true), (600_000_000_001, false)]
    {
        assert_eq!(refused(|p| p.loss_threshold = Some(Span(ns))).is_empty(), ok, "threshold {ns}");
    }
    for (rate, ok) in [(999, false), (1000, true), (1_000_000_000, true), (1_000_000_001, false)] {
        assert_eq!(refused(|p| p.control_rate = Some(BitRate(rate))).is_empty(), ok, "rate {rate}");
    }
    assert_eq!(refused(|p| p.connections.clear()), "connection");
    let two = |first: u32, second: u32| {
        refused(|p| {
            p.connections.push(Connection::default());
            (p.connections[0].count, p.connections[1].count) = (first, second);
        })
    };
    assert_eq!(two(MAX_FLOWS - 1, 1), "");
    assert_eq!(two(MAX_FLOWS - 1, 2), "connection");
    assert_eq!(refused(|p| p.connections.push(Connection::default())), "", "two without a name");
}

#[test]
fn names_and_counts() {
    assert_eq!(connection(|c| c.name = "x".repeat(64)), "");
    assert_eq!(connection(|c| c.name = "x".repeat(65)), "name");
    assert_eq!(connection(|c| c.name = "a\nb".into()), "name");
    for (count, field) in [(0, "count"), (1, ""), (MAX_FLOWS, ""), (MAX_FLOWS + 1, "count")] {
        assert_eq!(connection(|c| c.count = count), field, "count {count}");
    }
}

#[test]
fn payloads() {
    let of = |p: u64| move |c: &mut Connection| c.payload = Some(ByteSize(p).into());
    for (bytes, ok) in [(0, false), (1, true), (16 << 20, true), ((16 << 20) + 1, false)] {
        assert_eq!(connection(of(bytes)).is_empty(), ok, "write of {bytes}");
    }
    assert_eq!(
        (udp(of(0)), udp(of(65_507)), udp(of(65_508))),
        ("".into(), "".into(), "payload".into())
    );
    let six = |bytes| {
        refused(|p| {
            p.family = Some(Family::Ipv6);
            p.connections[0].transport = Transport::udp();
            p.connections[0].payload = Some(ByteSize(bytes).into());
        })
    };
    assert_eq!((six(65_527).as_str(), six(65_528).as_str()), ("", "connection[0].payload"));
    let empty_at = |rate: &str| {
        udp(|c| {
            c.payload = Some(ByteSize(0).into());
            c.rate = Some(rate.parse().unwrap());
        })
    };
    assert_eq!((empty_at("10M"), empty_at("10pps")), ("rate".into(), "".into()));
}

#[test]
fn headers_need_payload_and_transport() {
    for format in HeaderFormat::ALL {
        let least = format.min_payload_bytes();
        let with =
            |payload| udp(|c| (c.header, c.payload) = (*format, Some(ByteSize(payload).into())));
        assert_eq!(with(least), "", "{format}");
        if let Some(below) = least.checked_sub(1) {
            assert_eq!(with(below), "payload", "{format}");
        }
        let verified = udp(|c| (c.header, c.verify) = (*format, true));
        assert_eq!(verified, if format.verifiable() { "" } else { "verify" }, "{format}");
        assert_eq!(format.label().parse(), Ok(*format));
    }
    assert_eq!(connection(|c| c.header = HeaderFormat::None), "", "a stream has no header anyway");
    let small = Plan {
        connections: vec![Connection {
            transport: Transport::udp(),
            header: HeaderFormat::Iperf3,
            payload: Some(ByteSize(15).into()),
            ..Connection::default()
        }],
        ..Plan::default()
    };
    let Err(ModelError::Field { field, given, accepted }) = small.check() else { panic!() };
    assert_eq!((field.as_str(), given.as_str()), ("connection[0].payload", "15"));
    assert_eq!(accepted, "at least 16 bytes with header iperf3");
    assert!("nativ".parse::<HeaderFormat>().is_err());
    let text = "schema = \"weir.plan/1\"\n[[connection]]\ntransport = \"udp\"\nheader = \"none\"";
    let parsed = Plan::parse(text).unwrap();
    assert_eq!(parsed.flows(Family::Ipv4, 1500)[0].connection.header, HeaderFormat::None);
    assert_eq!(Plan::parse(&parsed.to_toml().unwrap()), Ok(parsed));
}

#[test]
fn options_of_a_connection() {
    for (mss, ok) in [(87, false), (88, true), (32_767, true), (32_768, false)] {
        assert_eq!(tcp(|o| o.mss = Some(mss)).is_empty(), ok, "mss {mss}");
    }
    for (window, ok) in [(1023, false), (1024, true), (1 << 30, true), ((1 << 30) + 1, false)] {
        assert_eq!(connection(|c| c.window = Some(ByteSize(window))).is_empty(), ok, "{window}");
    }
    let label = |family, label| {
        refused(|p| {
            p.family = family;
            ip(&mut p.connections[0]).flow_label = Some(label);
        })
    };
    let six = Some(Family::Ipv6);
    assert_eq!(label(six, (1 << 20) - 1), "");
    for (family, value) in [(six, 1 << 20), (None, 1), (Some(Family::Ipv4), 1)] {
        assert_eq!(label(family, value), "connection[0].flow_label", "{family:?}");
    }
    assert_eq!(
        (connection(|c| ip(c).ttl = Some(0)), connection(|c| ip(c).ttl = Some(1))),
        ("ttl".into(), "".into())
    );
    assert_eq!(connection(|c| c.duration = Some(Span(7 * DAY))), "");
    assert_eq!(connection(|c| c.duration = Some(Span(7 * DAY + 1))), "duration");
    assert_eq!(connection(|c| c.start_after = Span(7 * DAY)), "");
    assert_eq!(connection(|c| c.start_after = Span(7 * DAY + 1)), "start_after");
    assert_eq!(connection(|c| c.packets = Some(0)), "packets");
    assert_eq!(connection(|c| c.bytes = Some(ByteSize(0))), "bytes");
    let empty = |c: &mut Connection| {
        c.payload = Some(ByteSize(0).into());
        c.bytes = Some(ByteSize(1));
    };
    assert_eq!(udp(empty), "bytes");
    assert_eq!(connection(|c| ip(c).client_port = Some(0)), "client_port");
    let ports = |first, count| connection(|c| (ip(c).client_port, c.count) = (Some(first), count));
    assert_eq!((ports(65_534, 2), ports(65_535, 2)), ("".into(), "client_port".into()));
    for (name, ok) in [
        ("bbr", true),
        ("a_b-c9", true),
        ("", false),
        ("fifteen_letters", true),
        ("sixteen__letters", false),
        ("../bbr", false),
    ] {
        assert_eq!(tcp(|o| o.congestion = Some(name.into())).is_empty(), ok, "{name:?}");
    }
}

#[test]
fn shapes_refuse_what_they_do_not_have() {
    let rr = |change: fn(&mut Connection)| {
        connection(|c| {
            c.shape = Shape::Rr;
            change(c);
        })
    };
    let udp_rr = |change: fn(&mut Connection)| {
        udp(|c| {
            c.shape = Shape::Rr;
            change(c);
        })
    };
    let size = |bytes| Some(ByteSize(bytes));
    for (found, field) in [
        (rr(|_| {}), ""),
        (rr(|c| c.request = Some(ByteSize(16 << 20))), ""),
        (rr(|c| c.request = Some(ByteSize((16 << 20) + 1))), "request"),
        (rr(|c| c.response = Some(ByteSize(0))), "response"),
        (rr(|c| c.outstanding = Some(1024)), ""),
        (rr(|c| c.outstanding = Some(1025)), "outstanding"),
        (rr(|c| c.outstanding = Some(0)), "outstanding"),
        (rr(|c| c.rate = Some("100pps".parse().unwrap())), ""),
        (rr(|c| c.rate = Some("0".parse().unwrap())), ""),
        (rr(|c| c.rate = Some("10M".parse().unwrap())), "rate"),
        (rr(|c| c.direction = Direction::Reverse), "direction"),
        (rr(|c| c.payload = Some(ByteSize(8).into())), "payload"),
        (rr(|c| c.bytes = Some(ByteSize(8))), "bytes"),
        (rr(|c| c.verify = true), "verify"),
        (udp_rr(|c| c.header = HeaderFormat::None), "header"),
        (udp_rr(|c| c.request = Some(ByteSize(65_507))), ""),
        (udp_rr(|c| c.request = Some(ByteSize(65_508))), "request"),
        (udp_rr(|c| c.response = Some(ByteSize(1))), ""),
        // Several datagrams in flight need whole numbers.
        (udp_rr(|c| (c.response, c.outstanding) = (Some(ByteSize(3)), Some(2))), "response"),
        (udp_rr(|c| (c.response, c.outstanding) = (Some(ByteSize(4)), Some(2))), ""),
        (
            udp_rr(|c| {
                c.rate = Some("10pps".parse().unwrap());
                c.request = Some(ByteSize(3));
            }),
            "request",
        ),
        (
            udp_rr(|c| {
                c.rate = Some("10pps".parse().unwrap());
                c.outstanding = Some(2);
            }),
            "outstanding",
        ),
        (connection(|c| c.request = size(1)), "request"),
        (connection(|c| c.outstanding = Some(1)), "outstanding"),
        (connection(|c| c.shape = Shape::Cc), ""),
        (connection(|c| (c.shape, c.response) = (Shape::Cc, size(1))), "response"),
        (connection(|c| (c.shape, c.response) = (Shape::Crr, size(1))), ""),
        (udp(|c| c.shape = Shape::Crr), "shape"),
        (udp(|c| c.shape = Shape::Cc), "shape"),
    ] {
        assert_eq!(found, field);
    }
    // One port can't have many connections to one server.
    let fixed = |shape| {
        connection(|c| {
            c.shape = shape;
            ip(c).client_port = Some(5000);
        })
    };
    assert_eq!((fixed(Shape::Rr).as_str(), fixed(Shape::Crr).as_str()), ("", "client_port"));
}

/// A closed loop has no rate that could be changed, and an open loop keeps one.
#[test]
fn the_loop_of_transactions_stays_open_or_closed() {
    let closed = Connection { shape: Shape::Rr, ..Connection::default() };
    let open = Connection { rate: Some("10pps".parse().unwrap()), ..closed.clone() };
    let rate = |text: &str| text.parse().unwrap();
    assert!(closed.check_rate(rate("10pps")).is_err() && open.check_rate(rate("0")).is_err());
    assert!(open.check_rate(rate("10M")).is_err());
    assert!(open.check_rate(rate("20pps")).is_ok());
}

fn flows(connections: Vec<Connection>, mtu: u32) -> Vec<FlowSpec> {
    Plan { connections, ..Plan::default() }.flows(Family::Ipv4, mtu)
}

#[test]
fn flows_have_distinct_names_ports_and_ids() {
    let named = |name: &str, count: u32| {
        Connection { name: name.into(), count, ..Connection::default() }
            .with_ip(|ip| ip.client_port = Some(5000))
    };
    let got: Vec<_> = flows(vec![named("", 1), named("a", 2), named("b", 1)], 1500)
        .into_iter()
        .map(|f| (f.id, f.name, f.connection.client_port().unwrap(), f.connection.count))
        .collect();
    let expected = [
        (1, "tcp-forward-1".into(), 5000, 1),
        (2, "a-1".into(), 5000, 1),
        (3, "a-2".into(), 5001, 1),
        (4, "b".to_string(), 5000, 1),
    ];
    assert_eq!(got, expected);
    assert_eq!(flows(vec![named("", 1)], 1500)[0].name, "tcp-forward", "one alone needs no number");
}

#[test]
fn defaults_of_flows_are_resolved() {
    let of = |change: fn(&mut Connection)| {
        let mut c = Connection::default();
        change(&mut c);
        flows(vec![c], 1500).remove(0)
    };
    assert_eq!(of(|_| {}).duration_ns, Some(10_000_000_000));
    assert_eq!(of(|c| c.duration = Some(Span(0))).duration_ns, None, "until stopped");
    assert_eq!(of(|c| c.packets = Some(1)).duration_ns, None);
    assert_eq!(of(|c| c.bytes = Some(ByteSize(1))).duration_ns, None);
    assert_eq!(of(|_| {}).rate.limit, RateLimit::Unlimited);
    assert_eq!(of(|c| c.transport = Transport::udp()).rate, "1M".parse().unwrap());
    let empty = |c: &mut Connection| {
        (c.transport, c.payload) = (Transport::udp(), Some(ByteSize(0).into()));
    };
    assert_eq!(of(empty).rate, "1000pps".parse().unwrap());
    let payload = |rate: &str| {
        let c = Connection { rate: Some(rate.parse().unwrap()), ..Connection::default() };
        flows(vec![c], 1500)[0].payload_bytes()
    };
    // A thousand writes a second, within bounds.
    assert_eq!((payload("1M"), payload("80M"), payload("10G")), (1448, 10_000, 128 << 10));
    assert_eq!((payload("5pps"), payload("0")), (128 << 10, 512 << 10));
    let datagram = |mtu| {
        let c = Connection { transport: Transport::udp(), ..Connection::default() };
        flows(vec![c], mtu)[0].payload_bytes()
    };
    assert_eq!([100, 576, 1500, 9000, 65_536].map(datagram), [548, 548, 1472, 8972, 8972]);
}

#[test]
fn policies_and_contents_have_bounds() {
    for (text, ok) in [
        ("none", true),
        ("spread:0.1%", true),
        ("spread:1000", true),
        ("spread:1000.1%", false),
        ("spread:0%", false),
        ("spread:-1%", false),
        ("burst:1", true),
        ("burst:0", false),
        ("soon", false),
    ] {
        assert_eq!(text.parse::<CatchUp>().is_ok(), ok, "{text}");
    }
    for (text, ok) in
        [("ratio:1", true), ("ratio:1000", true), ("ratio:1000.5", false), ("ratio:0.9", false)]
    {
        assert_eq!(text.parse::<Content>().is_ok(), ok, "{text}");
    }
}

#[test]
fn nulls_are_omitted_at_any_depth() {
    #[derive(serde::Serialize)]
    struct Inner {
        rate: f64,
        text: &'static str,
    }
    #[derive(serde::Serialize)]
    struct Outer {
        list: Vec<Inner>,
        one: Inner,
    }
    let inner = |rate| Inner { rate, text: "null" };
    let value = Outer { list: vec![inner(f64::NAN), inner(1.0)], one: inner(f64::INFINITY) };
    let expected = r#"{"list":[{"text":"null"},{"rate":1.0,"text":"null"}],"one":{"text":"null"}}"#;
    assert_eq!(json::to_line(&value).unwrap(), expected);
    let pretty: serde_json::Value =
        serde_json::from_str(&json::to_pretty(&value).unwrap()).unwrap();
    assert_eq!(pretty, serde_json::from_str::<serde_json::Value>(expected).unwrap());
}

#[test]
fn warnings_have_value_and_bound() {
    let w = Warning::new("c", Severity::Info, "t").with_value(3.0, 2.0).for_flow(7);
    assert_eq!((w.value, w.bound, w.flow), (Some(3.0), Some(2.0), Some(7)));
}

#[test]
fn directions_have_separate_totals() {
    let total = |packets| {
        let sender = weir_model::record::Sums { packets, ..Default::default() };
        Some(DirectionTotal { sender: Some(sender), receiver: None })
    };
    let r = Record {
        total: Totals { forward: total(1), reverse: total(2) },
        seed: Seed(1),
        ..Record::default()
    };
    let sent = |d| r.direction(d).unwrap().sender.as_ref().unwrap().packets;
    assert_eq!((sent(Direction::Forward), sent(Direction::Reverse)), (1, 2));
    assert_eq!(Record::default().direction(Direction::Forward), None);
}

/// `refused_plans.json`: invalid plans as arguments and as documents. This test covers the documents, alone
/// and in a scenario; tests of the command line and the API use the same table.
#[test]
fn errors_name_field_given_and_accepted() {
    let table: Vec<serde_json::Value> =
        serde_json::from_str(include_str!("../refused_plans.json")).unwrap();
    for row in &table {
        let field = row["field"].as_str().unwrap();
        let mut plan = row["plan"].clone();
        plan["schema"] = "weir.plan/1".into();
        let refused = document_error(Plan::parse(&plan.to_string()));
        assert_eq!(refused.field, field, "{row}");
        assert!(!refused.given.is_empty() && !refused.accepted.is_empty(), "{row}");
        let toml = toml::to_string(&plan).unwrap();
        let again = document_error(Plan::parse(&toml));
        // Lines in TOML differ from those in JSON, and are unknown for missing fields.
        let expected = DocumentError { line: again.line, ..refused };
        assert_eq!(again, expected, "{toml}");

        let scenario = serde_json::json!({
            "schema": "weir.scenario/1",
            "name": "s",
            "host": { "b": { "address": "192.0.2.1" } },
            "step": [{ "test": { "plan": plan } }],
        });
        let parsed =
            Scenario::parse(&scenario.to_string(), false, &Default::default(), &Default::default());
        let Err(ModelError::Document(inside)) = parsed else {
            panic!("not refused in a scenario: {row}")
        };
        assert_eq!(inside.field, format!("step[0].test.plan: {field}"), "{row}");
    }
}
