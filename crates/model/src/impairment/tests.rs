use super::*;
use crate::Refusal;
use crate::units::{BitRate, Span};

const VOICE: &str = r#"
schema = "weir.impair/1"
seed = "0x7"
[[flow]]
name = "voice"
filter = { protocol = "udp", destination_port = "5060-5090", dscp = 46 }
a_to_b = { loss = { percentage = 1.0 }, delay = { normal = { mean = "40ms", deviation = "5ms" }, order = "fifo-release" } }
b_to_a = { delay = { constant = "40ms" }, content = { percentage = 0.1, flip_bits = 1, checksum = "repair" } }
[[flow]]
name = "video"
filter = { protocol = "udp", destination_port = "9000" }
a_to_b = { loss = { gilbert_elliott = { loss_percentage = 2.0, mean_run = 4 } }, duplicate = { percentage = 0.1 } }
[other]
a_to_b = { rate = { bits = "100M", queue = "250ms" } }
[[aggregate]]
flows = ["video"]
a_to_b = { delay = { constant = "20ms" } }
"#;

fn refused(text: &str) -> Refusal {
    Refusal::from(&Impairment::parse(text).unwrap_err())
}

fn flow(text: &str) -> Refusal {
    refused(&format!("schema = \"weir.impair/1\"\n[[flow]]\nname = \"v\"\n{text}"))
}

#[test]
fn the_documented_file() {
    let read = Impairment::parse(VOICE).unwrap();
    let voice = &read.flows[0];
    assert_eq!(voice.laws(Direction::Forward).loss.unwrap().percentage, Some(Percentage(1.0)));
    assert_eq!(
        voice.laws(Direction::Reverse).delay.unwrap().constant,
        Some(Constant(Span(40_000_000)))
    );
    let back = &read.filters(Direction::Reverse, 1)[0].1;
    assert_eq!(back.source_port, Some(Ranges(vec![(5060, 5090)]).into()));
    assert_eq!(back.destination_port, None);
    assert_eq!(read.other.laws(Direction::Forward).rate.unwrap().bits.mean(), BitRate(100_000_000));
    assert_eq!(Impairment::parse(&read.to_toml().unwrap()).unwrap(), read);
    assert_eq!(Impairment::parse(&serde_json::to_string(&read).unwrap()).unwrap(), read);
}

#[test]
fn refusals_name_the_field() {
    assert_eq!(refused("schema = \"weir.impair/2\"").field.as_deref(), Some("schema"));
    for (text, field) in [
        ("speed = 1", "flow[0].speed"),
        ("a_to_b = { loss = { percentage = 1, every_nth = 2 } }", "flow[0].a_to_b.loss"),
        ("a_to_b = { loss = {} }", "flow[0].a_to_b.loss"),
        ("b_to_a = { loss = { percentage = 100.5 } }", "flow[0].b_to_a.loss.percentage"),
        (
            "b_to_a = { loss = { gilbert_elliott = { loss_percentage = 1 } } }",
            "flow[0].b_to_a.loss.gilbert_elliott",
        ),
        (
            "b_to_a = { loss = { gilbert_elliott = { mean_run = 2, good_to_bad_percentage = 1 } } }",
            "flow[0].b_to_a.loss.gilbert_elliott",
        ),
        (
            "b_to_a = { loss = { gilbert_elliott = { good_to_bad_percentage = 0, bad_to_good_percentage = 0 } } }",
            "flow[0].b_to_a.loss.gilbert_elliott",
        ),
        (
            "a_to_b = { delay = { constant = \"1ms\", uniform = { min = 0, max = 1 } } }",
            "flow[0].a_to_b.delay",
        ),
        ("a_to_b = { delay = { order = \"max\" } }", "flow[0].a_to_b.delay"),
        (
            "a_to_b = { delay = { exponential = { mean = \"5ms\", min = \"6ms\" } } }",
            "flow[0].a_to_b.delay.exponential.min",
        ),
        (
            "a_to_b = { rate = { bits = \"1M\", aqm = { codel = { target = \"0ms\" } } } }",
            "flow[0].a_to_b.rate.aqm.codel.target",
        ),
        ("a_to_b = { rate = { bits = \"1M\", aqm = {} } }", "flow[0].a_to_b.rate.aqm"),
        ("a_to_b = { rate = { bits = 0 } }", "flow[0].a_to_b.rate.bits"),
        (
            "a_to_b = { content = { percentage = 1, flip_bits = 0 } }",
            "flow[0].a_to_b.content.flip_bits",
        ),
        ("a_to_b = { order = [\"rate\", \"rate\"] }", "flow[0].a_to_b.order"),
        ("filter = { vlan = 4096 }", "flow[0].filter.vlan"),
        ("filter_b = { destination_port = \"1-70000\" }", "flow[0].filter_b.destination_port"),
        ("filter = { source = \"10.0.0.0/40\" }", "flow[0].filter.source"),
        ("profile = \"7g\"", "flow[0].profile"),
        ("[[flow]]\nname = \"v\"", "flow[1].name"),
        ("[[flow]]\nname = \"other\"", "flow[1].name"),
        ("[[aggregate]]\nflows = []", "aggregate[0].flows"),
        ("[[aggregate]]\nflows = [\"w\"]", "aggregate[0].flows"),
        (
            "a_to_b = { delay = { constant = 1 } }\n[[aggregate]]\nflows = [\"v\"]\na_to_b = { rate = { bits = 9 } }",
            "flow[0].a_to_b",
        ),
        (
            "[[aggregate]]\nflows = [\"v\"]\na_to_b = { loss = { percentage = 9 } }",
            "aggregate[0].a_to_b",
        ),
        ("[[aggregate]]\nflows = [\"v\"]\n[[aggregate]]\nflows = [\"v\"]", "aggregate[1].flows"),
        (
            "[[flow]]\nname = \"w\"\n[[flow]]\nname = \"x\"\n[[aggregate]]\nflows = [\"v\", \"x\"]",
            "aggregate[0].flows",
        ),
    ] {
        let refusal = flow(text);
        assert_eq!(refusal.field.as_deref(), Some(field), "{text}\n{refusal}");
        assert!(refusal.given.is_some() && refusal.accepted.is_some(), "{text}\n{refusal:?}");
    }
    let memory = refused("schema = \"weir.impair/1\"\nmemory = 5");
    assert_eq!((memory.field.as_deref(), memory.given.as_deref()), (Some("memory"), Some("5")));
}

/// A file with a flow, Other and an aggregate, each with these laws.
fn everywhere(laws: &str) -> String {
    format!(
        "schema = \"weir.impair/1\"\n[[flow]]\nname = \"v\"\n{laws}\n[other]\n{laws}\n\
         [[flow]]\nname = \"w\"\n[[aggregate]]\nflows = [\"w\"]\n{laws}\n"
    )
}

#[test]
fn laws_in_one_line_equal_their_tables() {
    let tables = "{ rate = { bits = \"1M\" }, delay = { constant = \"40ms\" } }";
    let detailed = Impairment::parse(&everywhere(&format!("a_to_b = {tables}\nb_to_a = {tables}")));
    let detailed = detailed.unwrap();
    assert_eq!(detailed.other.b_to_a.to_string(), "rate 1M, delay 40ms");
    for short in [
        "both = \"delay 40ms, rate 1M\"",
        "a_to_b = \"delay 40ms, rate 1M\"\nb_to_a = \"rate 1M, delay 40ms\"",
        &format!("b_to_a = \"rate 1M, delay 40ms\"\na_to_b = {tables}"),
    ] {
        let read = Impairment::parse(&everywhere(short)).unwrap();
        assert_eq!(read, detailed, "{short}");
        // The canonical form does not depend on the form that was read.
        assert_eq!(read.to_toml().unwrap(), detailed.to_toml().unwrap());
    }
    let json = r#"{"schema":"weir.impair/1","other":{"profile":"3g-good","both":"loss 1%"}}"#;
    let read = Impairment::parse(json).unwrap().other;
    assert_eq!(read.profile.as_deref(), Some("3g-good"));
    assert_eq!(
        (read.a_to_b.to_string(), read.b_to_a.to_string()),
        ("loss 1%".into(), "loss 1%".into())
    );
    let one = Impairment::parse(&everywhere("a_to_b = \"rate 9k\"")).unwrap();
    assert_eq!(one.other.b_to_a, Laws::default());
}

#[test]
fn schema_and_parser_accept_both_only_alone() {
    let schema = crate::schema::impair_schema();
    for (table, at) in [("ImpairFlow", "flow"), ("Other", "other"), ("Aggregate", "aggregate")] {
        let beside = &schema["$defs"][table]["dependentSchemas"];
        for keys in
            [vec!["both"], vec!["a_to_b", "b_to_a"], vec!["both", "a_to_b"], vec!["b_to_a", "both"]]
        {
            // The meaning of these two keywords in JSON Schema, for a table of these keys.
            let has = |key: &serde_json::Value| keys.iter().any(|k| *key == **k);
            let is_refused = beside.as_object().unwrap().iter().any(|(key, rule)| {
                let any = rule["not"]["anyOf"].as_array().unwrap();
                let holds =
                    |one: &serde_json::Value| one["required"].as_array().unwrap().iter().all(has);
                has(&key.clone().into()) && any.iter().any(holds)
            });
            let laws: Vec<String> = keys.iter().map(|key| format!("{key} = \"loss 1%\"")).collect();
            let laws = laws.join("\n");
            let text = match at {
                "other" => format!("schema = \"weir.impair/1\"\n[other]\n{laws}"),
                "flow" => format!("schema = \"weir.impair/1\"\n[[flow]]\nname = \"v\"\n{laws}"),
                _ => format!(
                    "schema = \"weir.impair/1\"\n[[flow]]\nname = \"w\"\n[[aggregate]]\nflows = [\"w\"]\n{}",
                    laws.replace("loss 1%", "rate 1M")
                ),
            };
            let read = Impairment::parse(&text);
            assert_eq!(read.is_err(), is_refused, "{table} {keys:?}: {read:?}");
        }
    }
}

#[test]
fn errors_of_a_line_have_its_field_and_line() {
    // Line 4 is the first of the laws.
    const LINE: &str = "laws in one line such as \"delay 40ms, loss 0.5%\"";
    let tables = format!("{LINE}, or a table");
    let alone = format!("{LINE}; tables belong to a_to_b and b_to_a");
    for (laws, line, field, accepted) in [
        ("both = \"loss 1%\"\na_to_b = \"loss 1%\"", 2, "flow[0]", TWICE_ACCEPTED),
        ("b_to_a = { loss = { every_nth = 9 } }\nboth = \"none\"", 2, "flow[0]", TWICE_ACCEPTED),
        ("both = { loss = { percentage = 1 } }", 4, "flow[0].both", &alone),
        ("both = 3", 4, "flow[0].both", &alone),
        ("b_to_a = 3", 4, "flow[0].b_to_a", &tables),
    ] {
        let refusal = flow(laws);
        assert_eq!(refusal.field.as_deref(), Some(field), "{laws}");
        assert_eq!(
            (refusal.accepted.as_deref(), refusal.line),
            (Some(accepted), Some(line)),
            "{laws}"
        );
    }
    for (laws, line, field) in
        [("both = \"loss 1\"", 4, "flow[0].both"), ("a_to_b = \"delay 5\"", 4, "flow[0].a_to_b")]
    {
        let refusal = flow(laws);
        assert_eq!((refusal.field.as_deref(), refusal.line), (Some(field), Some(line)), "{laws}");
    }
    for (laws, line, field, nearest) in [
        ("b_to_a = { speed = 1 }", 4, "flow[0].b_to_a.speed", None),
        ("both = \"loss 1%\"\nspeed = 1", 5, "flow[0].speed", None),
        ("bth = \"loss 1%\"", 4, "flow[0].bth", Some("both")),
    ] {
        let refusal = flow(laws);
        assert_eq!((refusal.code.as_str(), refusal.line), ("unknown-field", Some(line)), "{laws}");
        assert_eq!(refusal.field.as_deref(), Some(field), "{laws}");
        assert_eq!(refusal.nearest.as_deref(), nearest, "{laws}");
    }
    for (keys, field) in [
        (r#""both":"loss 1%","both":"none""#, "other.both"),
        (r#""both":"loss 1%","b_to_a":"none""#, "other"),
        (r#""a_to_b":{},"both":"none""#, "other"),
    ] {
        let refusal = refused(&format!(r#"{{"schema":"weir.impair/1","other":{{{keys}}}}}"#));
        assert_eq!(refusal.field.as_deref(), Some(field), "{keys}");
    }
}

#[test]
fn a_preset_fills_the_empty_slots() {
    let text = "schema = \"weir.impair/1\"\n[other]\nprofile = \"3g-good\"\na_to_b = { loss = { percentage = 3 } }";
    let read = Impairment::parse(text).unwrap();
    let up = read.other.laws(Direction::Forward).to_string();
    assert_eq!(up, "loss 3%, rate 420k, delay 100ms");
    assert_eq!(read.other.laws(Direction::Reverse).to_string(), "rate 850k, delay 90ms");
    assert!(Impairment::of_profile("nope").is_err());
}

#[test]
fn filters_of_each_side() {
    let port =
        |n| Filter { destination_port: Some(Ranges(vec![(n, n)]).into()), ..Filter::default() };
    let (f, r) = (Direction::Forward, Direction::Reverse);
    let of = |flow: &ImpairFlow, direction| {
        let group = |name: &str, ports: &[u32]| FilterGroup {
            name: name.into(),
            filters: ports.iter().map(|n| port(*n)).collect(),
        };
        let filter_groups = vec![group("two", &[8, 9]), group("one", &[7])];
        let flows = vec![ImpairFlow { name: "a".into(), ..flow.clone() }];
        let all = Impairment { filter_groups, flows, ..Impairment::default() };
        all.check().unwrap();
        all.filters(direction, 1).into_iter().map(|(_, filter)| filter).collect::<Vec<_>>()
    };
    let back = |n| port(n).seen_in(r);
    assert_eq!(back(1).source_port, port(1).destination_port);
    let all = ImpairFlow::default();
    assert_eq!((of(&all, f), of(&all, r)), (vec![Filter::default()], vec![Filter::default()]));
    let own = ImpairFlow { filter: Some(port(1)), filter_b: Some(port(2)), ..all.clone() };
    assert_eq!((of(&own, f), of(&own, r)), (vec![port(1)], vec![port(2)]));
    let only_a = ImpairFlow { filter_a: Some(port(1)), ..all.clone() };
    assert_eq!((of(&only_a, f), of(&only_a, r)), (vec![port(1)], vec![]));
    let one_way =
        ImpairFlow { direction: FlowDirection::BToA, filter: Some(port(1)), ..all.clone() };
    assert_eq!((of(&one_way, f), of(&one_way, r)), (vec![], vec![back(1)]));
    // Groups add to the flow's own filter, in the order of their names.
    let named = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    let groups = ImpairFlow { filter_groups: named(&["one", "two"]), ..all };
    assert_eq!(of(&groups, f), [port(7), port(8), port(9)]);
    assert_eq!(of(&groups, r), [back(7), back(8), back(9)]);
    let both = ImpairFlow { filter: Some(port(1)), ..groups.clone() };
    assert_eq!(of(&both, f), [port(1), port(7), port(8), port(9)]);
    let at_a = ImpairFlow { filter_a: Some(port(1)), filter_groups: named(&["one"]), ..groups };
    assert_eq!((of(&at_a, f), of(&at_a, r)), (vec![port(1), port(7)], vec![back(7)]));
}

#[test]
fn filter_groups_are_checked_by_field() {
    for (groups, names, field) in [
        ("filters = []", "'g'", "filter_group[0].filters"),
        ("filters = [{ vlan = 4096 }]", "'g'", "filter_group[0].filters[0].vlan"),
        ("filters = [{}]", "'h'", "flow[0].filter_groups"),
        ("filters = [{}]", "'g', 'g'", "flow[0].filter_groups"),
        (
            "filters = [{}]\n[[filter_group]]\nname = 'g'\nfilters = [{}]",
            "'g'",
            "filter_group[1].name",
        ),
    ] {
        let text = format!(
            "schema = 'weir.impair/1'\n[[filter_group]]\nname = 'g'\n{groups}\n[[flow]]\nname = 'f'\nfilter_groups = [{names}]\n"
        );
        let Err(ModelError::Document(error)) = Impairment::parse(&text) else { panic!("{field}") };
        assert_eq!(error.field, field);
    }
    // 65 534 filters in all.
    let group =
        |name: &str| FilterGroup { name: name.into(), filters: vec![Filter::default(); 30_000] };
    let flow = |name: &str| ImpairFlow {
        name: name.into(),
        filter_groups: vec!["g".into(), "h".into()],
        ..ImpairFlow::default()
    };
    let mut all = Impairment {
        filter_groups: vec![group("g"), group("h")],
        flows: vec![flow("a")],
        ..Impairment::default()
    };
    all.check().unwrap();
    all.flows.push(flow("b"));
    let Err(ModelError::Field { field, .. }) = all.check() else { panic!("accepted") };
    assert_eq!(field, "flow[1].filter_groups");
}

#[test]
fn order_is_completed() {
    let laws: Laws = "order delay rate".parse().unwrap();
    use Stage::{Batch, Content, Delay, Duplicate, Loss, Mtu, Police, Rate, Reorder};
    assert_eq!(laws.stages(), [Delay, Reorder, Rate, Loss, Duplicate, Police, Mtu, Batch, Content]);
    // Duplication immediately follows loss unless an order names it.
    let stages = |text: &str| text.parse::<Laws>().unwrap().stages();
    assert_eq!(
        stages("order loss delay"),
        [Loss, Duplicate, Delay, Reorder, Police, Mtu, Rate, Batch, Content]
    );
    assert_eq!(
        stages("order duplicate delay"),
        [Duplicate, Delay, Reorder, Loss, Police, Mtu, Rate, Batch, Content]
    );
    assert_eq!(
        stages("order rate duplicate loss"),
        [Rate, Duplicate, Loss, Police, Mtu, Delay, Reorder, Batch, Content]
    );
    assert_eq!(Laws::default().stages(), Stage::DEFAULT_ORDER);
}

#[test]
fn the_default_queue() {
    let limit = |text: &str| text.parse::<Laws>().unwrap().rate.unwrap().queue_limit();
    assert_eq!(limit("rate 100M"), QueueLimit::Bytes(ByteSize(3_125_000)));
    assert_eq!(limit("rate 20k"), QueueLimit::Bytes(ByteSize(16 * 1518)));
}

#[test]
fn laws_are_stateless_if_each_packet_is_judged_on_its_own() {
    let is_stateless = |text: &str| text.parse::<Laws>().unwrap().is_stateless();
    for text in [
        "none",
        "delay 40ms",
        "delay 1ms..5ms",
        "delay 40ms ±5ms allow",
        "loss 1%",
        "loss ber 1e-6",
        "duplicate 1%",
        "corrupt 1%",
        "mtu 1400 icmp",
        "loss 1%, delay 40ms, corrupt 1%",
    ] {
        assert!(is_stateless(text), "{text}");
    }
    for text in [
        "rate 10M",
        "police 10M burst 32K",
        "reorder 1%",
        "batch every 1ms",
        "loss every 3",
        "loss 1% run 4",
        "duplicate every 3",
        "duplicate 1% 20%",
        "duplicate 1% after 5ms",
        "delay 40ms ±5ms smooth half-life 1s",
        "delay 40ms ±5ms max",
        "delay 40ms ±5ms correlation 20%",
        "delay sine(min=1ms, max=5ms, cycle=1s)",
        "loss 1%, trigger command",
    ] {
        assert!(!is_stateless(text), "{text}");
    }
}
