use super::*;
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

fn refused(text: &str) -> String {
    Impairment::parse(text).unwrap_err().to_string()
}

fn flow(text: &str) -> String {
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
    let back = voice.filter(Direction::Reverse).unwrap();
    assert_eq!(back.source_port, Some(Ranges(vec![(5060, 5090)])));
    assert_eq!(back.destination_port, None);
    assert_eq!(read.other.laws(Direction::Forward).rate.unwrap().bits, BitRate(100_000_000));
    assert_eq!(Impairment::parse(&read.to_toml().unwrap()).unwrap(), read);
    assert_eq!(Impairment::parse(&serde_json::to_string(&read).unwrap()).unwrap(), read);
}

#[test]
fn refusals_name_the_field() {
    assert!(refused("schema = \"weir.impair/2\"").contains("weir.impair/1"));
    for (text, named) in [
        ("speed = 1", "speed"),
        ("a_to_b = { loss = { percentage = 1, every_nth = 2 } }", "flow[0].a_to_b.loss"),
        ("a_to_b = { loss = {} }", "flow[0].a_to_b.loss"),
        ("b_to_a = { loss = { percentage = 100.5 } }", "flow[0].b_to_a.loss.percentage: 100.5"),
        ("b_to_a = { loss = { gilbert_elliott = { loss_percentage = 1 } } }", "gilbert_elliott"),
        (
            "b_to_a = { loss = { gilbert_elliott = { mean_run = 2, good_to_bad_percentage = 1 } } }",
            "gilbert_elliott",
        ),
        (
            "b_to_a = { loss = { gilbert_elliott = { good_to_bad_percentage = 0, bad_to_good_percentage = 0 } } }",
            "no transitions",
        ),
        (
            "a_to_b = { delay = { constant = \"1ms\", uniform = { min = 0, max = 1 } } }",
            "2 delay laws",
        ),
        ("a_to_b = { delay = { order = \"max\" } }", "0 delay laws"),
        (
            "a_to_b = { delay = { exponential = { mean = \"5ms\", min = \"6ms\" } } }",
            "exponential.min",
        ),
        ("a_to_b = { rate = { bits = \"1M\", discipline = \"codel\" } }", "tail-drop"),
        ("a_to_b = { rate = { bits = 0 } }", "a_to_b.rate.bits"),
        ("a_to_b = { content = { percentage = 1, flip_bits = 0 } }", "flip_bits"),
        ("a_to_b = { order = [\"rate\", \"rate\"] }", "flow[0].a_to_b.order"),
        ("filter = { vlan = 4096 }", "flow[0].filter.vlan: 4096"),
        ("filter_b = { destination_port = \"1-70000\" }", "flow[0].filter_b.destination_port"),
        ("filter = { source = \"10.0.0.0/40\" }", "10.0.0.0/40"),
        ("profile = \"7g\"", "3g-good"),
        ("[[flow]]\nname = \"v\"", "flow[1].name"),
        ("[[flow]]\nname = \"other\"", "flow[1].name"),
        ("[[aggregate]]\nflows = []", "aggregate[0].flows"),
        ("[[aggregate]]\nflows = [\"w\"]", "aggregate[0].flows: w"),
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
            "follow each other",
        ),
    ] {
        let error = flow(text);
        assert!(error.contains(named), "{text}\n{error}");
    }
    assert!(refused("schema = \"weir.impair/1\"\nmemory = 5").contains("memory"));
}

/// A flow, what no filter matches and an aggregate, each with these laws.
fn everywhere(laws: &str) -> String {
    format!(
        "schema = \"weir.impair/1\"\n[[flow]]\nname = \"v\"\n{laws}\n[other]\n{laws}\n\
         [[flow]]\nname = \"w\"\n[[aggregate]]\nflows = [\"w\"]\n{laws}\n"
    )
}

#[test]
fn laws_in_one_line_are_the_tables_they_stand_for() {
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
        // What a file says is one thing, however it was written.
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
fn the_schema_takes_both_alone_as_the_parser_does() {
    let schema = crate::schema::impair_schema();
    for (table, at) in [("ImpairFlow", "flow"), ("Other", "other"), ("Aggregate", "aggregate")] {
        let beside = &schema["$defs"][table]["dependentSchemas"];
        for keys in
            [vec!["both"], vec!["a_to_b", "b_to_a"], vec!["both", "a_to_b"], vec!["b_to_a", "both"]]
        {
            // What JSON Schema says of these two words, for a table of these keys.
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
fn a_line_is_refused_where_it_stands_and_never_beside_another() {
    // Line 4 is the first of the laws.
    for (laws, line, named) in [
        ("both = \"loss 1%\"\na_to_b = \"loss 1%\"", 4, "both: a direction's laws given twice"),
        (
            "b_to_a = { loss = { every_nth = 9 } }\nboth = \"none\"",
            5,
            "both: a direction's laws given twice",
        ),
        ("both = \"loss 1\"", 4, "loss 5%"),
        ("a_to_b = \"delay 5\"", 4, "unit"),
        ("both = { loss = { percentage = 1 } }", 4, "tables belong to a_to_b and b_to_a"),
        ("both = 3", 4, "laws in one line such as"),
        ("b_to_a = 3", 4, "laws in one line such as"),
        ("b_to_a = { speed = 1 }", 4, "unknown field `speed`"),
        ("both = \"loss 1%\"\nspeed = 1", 5, "unknown field `speed`"),
        ("bth = \"loss 1%\"", 4, "`both`"),
    ] {
        let error = flow(laws);
        assert!(error.contains(named), "{laws}\n{error}");
        assert!(error.contains(&format!("line {line}")), "{laws}\n{error}");
    }
    // JSON has an order, and may say a key twice.
    for keys in [
        r#""both":"loss 1%","both":"none""#,
        r#""both":"loss 1%","b_to_a":"none""#,
        r#""a_to_b":{},"both":"none""#,
    ] {
        let error = refused(&format!(r#"{{"schema":"weir.impair/1","other":{{{keys}}}}}"#));
        assert!(error.contains("given twice; accepted: both alone"), "{keys}: {error}");
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
    let port = |n| Filter { destination_port: Some(Ranges(vec![(n, n)])), ..Filter::default() };
    let (f, r) = (Direction::Forward, Direction::Reverse);
    let all = ImpairFlow::default();
    assert_eq!((all.filter(f), all.filter(r)), (Some(Filter::default()), Some(Filter::default())));
    let own = ImpairFlow { filter: Some(port(1)), filter_b: Some(port(2)), ..all.clone() };
    assert_eq!((own.filter(f), own.filter(r)), (Some(port(1)), Some(port(2))));
    let only_a = ImpairFlow { filter_a: Some(port(1)), ..all.clone() };
    assert_eq!((only_a.filter(f), only_a.filter(r)), (Some(port(1)), None));
    let one_way = ImpairFlow { direction: FlowDirection::BToA, filter: Some(port(1)), ..all };
    assert_eq!((one_way.filter(f), one_way.filter(r)), (None, Some(port(1).mirrored())));
}

#[test]
fn order_is_completed() {
    let laws: Laws = "order delay rate".parse().unwrap();
    use Stage::{Content, Delay, Duplicate, Loss, Rate};
    assert_eq!(laws.stages(), [Delay, Rate, Loss, Duplicate, Content]);
    // Duplication stays right behind loss, until an order names it.
    let stages = |text: &str| text.parse::<Laws>().unwrap().stages();
    assert_eq!(stages("order loss delay"), [Loss, Duplicate, Delay, Rate, Content]);
    assert_eq!(stages("order duplicate delay"), [Duplicate, Delay, Loss, Rate, Content]);
    assert_eq!(stages("order rate duplicate loss"), [Rate, Duplicate, Loss, Delay, Content]);
    assert_eq!(Laws::default().stages(), Stage::DEFAULT_ORDER);
}

#[test]
fn the_default_queue() {
    let limit = |text: &str| text.parse::<Laws>().unwrap().rate.unwrap().queue_limit();
    assert_eq!(limit("rate 100M"), QueueLimit::Bytes(ByteSize(3_125_000)));
    assert_eq!(limit("rate 20k"), QueueLimit::Bytes(ByteSize(16 * 1518)));
}
