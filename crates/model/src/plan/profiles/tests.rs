use std::collections::BTreeSet;

use super::*;
use crate::Refusal;
use crate::plan::{Direction, Family, HeaderFormat, VoiceCodec};

fn plan(connections: &str) -> Result<Plan, ModelError> {
    Plan::parse(&format!("schema = \"weir.plan/1\"\n{connections}"))
}

fn refused(error: &ModelError) -> (Option<String>, Option<String>) {
    let refusal = Refusal::from(error);
    (refusal.field, refusal.given)
}

#[test]
fn every_profile_is_a_plan_with_its_source() {
    let all: Vec<_> = BUILT_IN.iter().filter_map(|(name, _)| TrafficProfile::named(name)).collect();
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/profiles")).unwrap();
    let files: BTreeSet<String> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    let names: BTreeSet<String> =
        all.iter().map(|profile| format!("{}.toml", profile.name)).collect();
    assert_eq!(files, names);
    for profile in &all {
        let plan = profile.plan().unwrap_or_else(|e| panic!("{}: {e}", profile.name));
        assert!(plan.title.is_some() && plan.host.is_none(), "{}", profile.name);
        assert!(profile.source().len() > 80, "{}", profile.name);
        assert!(TrafficProfile::is_name(&profile.name) && !profile.is_users);
    }
}

/// Mean payload in bytes and mean interval in ms, as the sources have them. Per cent of tolerance where a law of the
/// source is clamped or rounded.
#[test]
fn means_are_those_of_the_sources() {
    // ITU-T P.59: 1.004 s of speech, 1.587 s of pause.
    let active = 1.004 / (1.004 + 1.587);
    let idle = 27.0 * 0.8312
        + 28.0 * 0.0018
        + 29.0 * 0.0453
        + 30.0 * 0.0195
        + 31.0 * 0.0879
        + 32.0 * 0.0024
        + 33.0 * 0.0106
        + 35.0 * 0.0013;
    let keys = 0.65 + 0.26 + 0.21 + 0.2 + 0.15 + 0.01 * (6.0 + 7.0 + 8.0 + 9.0) + 0.005 * 75.0;
    let published = [
        ("voip-g711", 12.0 + 160.0, 1e3 / 50.0, 0.0),
        ("voip-g711-10ms", 12.0 + 80.0, 1e3 / 100.0, 0.0),
        ("voip-g711-vad", 12.0 + 160.0, 20.0 / active, 0.01),
        ("voip-g711-crtp", 2.0 + 160.0, 1e3 / 50.0, 0.0),
        ("voip-g729", 12.0 + 20.0, 1e3 / 50.0, 0.0),
        ("voip-g729-30ms", 12.0 + 30.0, 30.0, 0.0),
        ("voip-g729-vad", 12.0 + 20.0, 20.0 / active, 0.01),
        ("voip-g729-crtp", 2.0 + 20.0, 1e3 / 50.0, 0.0),
        ("voip-g723", 12.0 + 24.0, 30.0, 0.0),
        ("voip-g723-vad", 12.0 + 24.0, 30.0 / active, 0.01),
        ("voip-g723-crtp", 2.0 + 24.0, 30.0, 0.0),
        ("ditg-g723", 12.0 + 30.0, 1e3 / 26.0, 1e-5),
        ("counter-strike-active", 0.3732 * 34.835 + 0.6268 * 49.49, 41.6994, 1.0),
        ("counter-strike-idle", idle, 41.6858, 0.1),
        ("quake3", 64.15, 0.6 * 4.29 + 0.4 * 10.75, 1.0),
        ("dns", (100.0 + 320.0) / 2.0, 1e3 / 0.56, 0.001),
        // The interval is that of the clamp.
        ("telnet", keys, 25.7, 1.0),
        ("imix", (7.0 * 40.0 + 4.0 * 576.0 + 1500.0) / 12.0 - 28.0, 1.0, 0.001),
        ("video", 4e6 / 8.0 / 25.0, 1e3 / 25.0, 0.1),
        // The published mean is that before truncation, which takes a part of the tail of embedded objects.
        ("web", 7758.0, 30e3, 10.0),
    ];
    let names: Vec<_> = published.iter().map(|one| one.0).collect();
    assert_eq!(
        BUILT_IN.iter().map(|(name, _)| *name).collect::<BTreeSet<_>>(),
        names.into_iter().collect()
    );
    for (name, bytes, interval_ms, percent) in published {
        let plan = TrafficProfile::named(name).unwrap().plan().unwrap();
        for flow in plan.flows(Family::Ipv4, 1500) {
            let near = |value: f64, of: f64| (value / of - 1.0).abs() <= percent / 100.0 + 1e-9;
            let connection = &flow.connection;
            let mean = connection.volume.as_ref().unwrap_or(&flow.size).moments().mean_bytes;
            assert!(near(mean, bytes), "{name}: {mean} bytes, {bytes} published");
            let pause = connection.pause.as_ref().and_then(|pause| pause.moments().mean_ns);
            let mean = pause
                .map_or_else(|| 1e3 / flow.packets_per_second().unwrap(), |mean_ns| mean_ns / 1e6);
            assert!(near(mean, interval_ms), "{name}: {mean} ms, {interval_ms} published");
        }
    }
}

#[test]
fn pages_have_the_published_numbers_of_objects_and_main_volumes() {
    let plan = TrafficProfile::named("web").unwrap().plan().unwrap();
    let user = &plan.connections[0];
    let [objects, main] =
        [&user.objects, &user.main_volume].map(|law| law.as_ref().unwrap().moments());
    // 5.64 embedded objects, 53 at most, and the main one.
    assert!((objects.mean_bytes - 6.64).abs() < 0.03, "{objects:?}");
    assert_eq!((objects.min_bytes, objects.max_bytes), (1, 54));
    assert!((main.mean_bytes / 10_710.0 - 1.0).abs() < 0.01, "{main:?}");
}

#[test]
fn calls_are_rated_in_both_directions() {
    for profile in TrafficProfile::all().iter().filter(|profile| profile.name.starts_with("voip")) {
        let plan = profile.plan().unwrap();
        let directions: Vec<_> = plan.connections.iter().map(|c| c.direction).collect();
        assert_eq!(directions, [Direction::Forward, Direction::Reverse], "{}", profile.name);
        for connection in &plan.connections {
            let facts = connection.voice.unwrap().facts();
            let spacing = connection.spacing.to_string();
            let media = connection.payload.as_ref().unwrap().moments().max_bytes
                - connection.header.before_media_bytes();
            let media = media - u64::from(profile.name.ends_with("crtp")) * 2;
            assert_eq!(media % facts.frame_bytes, 0, "{}", profile.name);
            let ms = media / facts.frame_bytes * facts.frame_ns / 1_000_000;
            assert!(spacing.contains(&format!("{ms}ms")), "{}: {spacing}", profile.name);
        }
    }
}

#[test]
fn a_connection_becomes_those_of_its_profile() {
    let plan = plan("[[connection]]\nprofile = \"voip-g711\"\ncount = 5\nheader = \"native\"\npackets = 9\n[[connection]]\nname = \"web\"").unwrap();
    let all: Vec<_> = plan.connections.iter().map(|c| (&*c.name, c.direction, c.count)).collect();
    assert_eq!(
        all,
        [
            ("caller", Direction::Forward, 5),
            ("callee", Direction::Reverse, 5),
            ("web", Direction::Forward, 1)
        ]
    );
    let call = &plan.connections[0];
    assert_eq!(call.voice, Some(VoiceCodec::G711Plc), "what is not given stays the profile's");
    assert_eq!(call.header, HeaderFormat::Native, "a given default replaces another value");
    assert_eq!((call.packets, call.profile.as_ref()), (Some(9), None));
    // It is written as what it is.
    assert_eq!(Plan::parse(&plan.to_toml().unwrap()), Ok(plan));
}

#[test]
fn limits_replace_each_other_and_names_stay_unique() {
    let plan = plan("[[connection]]\nprofile = \"dns\"\npackets = 9\n[[connection]]\nprofile = \"dns\"\n[[connection]]\nname = \"a\"\nprofile = \"dns\"\n[[connection]]\nname = \"b\"\nprofile = \"voip-g711\"").unwrap();
    assert_eq!(plan.connections[0].duration, None);
    assert!(plan.connections[1].duration.is_some());
    let names: Vec<_> = plan.connections.iter().map(|c| &*c.name).collect();
    assert_eq!(names, ["dns", "dns 2", "a", "b caller", "b callee"]);
}

#[test]
fn profiles_and_voice_are_refused_by_field() {
    let of = |text: &str| refused(&plan(&format!("[[connection]]\n{text}")).unwrap_err());
    let field =
        |name: &str, given: &str| (Some(format!("connection[0].{name}")), Some(given.to_owned()));
    assert_eq!(of("profile = \"voip-g712\""), field("profile", "voip-g712"));
    assert_eq!(of("profile = \"../dns\""), field("profile", "../dns"));
    assert_eq!(of("profile = \"dns\"\nsize = 3"), field("size", "size"));
    assert_eq!(of("voice = \"g711\""), field("voice", "g711 with transport tcp"));
    assert_eq!(of("transport = \"udp\"\njitter_buffer = \"5ms\""), field("jitter_buffer", "5ms"));
    let deep = "transport = \"udp\"\nvoice = \"g711\"\njitter_buffer = \"11s\"";
    assert_eq!(of(deep), field("jitter_buffer", "11s"));
    let many = "[[connection]]\nprofile = \"dns\"\n".repeat(MAX_PROFILED + 1);
    assert!(plan(&many).is_err());
}

#[test]
fn a_profile_can_not_name_a_profile() {
    let text = "schema = \"weir.plan/1\"\n[[connection]]\nprofile = \"dns\"".into();
    let profile = TrafficProfile { name: "own".into(), text, is_users: true, unreadable: None };
    let expected = (Some("connection[0].profile".into()), Some("set in a profile".into()));
    assert_eq!(refused(&profile.plan().unwrap_err()), expected);
}

#[test]
fn the_users_profiles_come_first() {
    fn text(name: &str) -> Option<Result<String, String>> {
        if name == "unreadable" {
            return Some(Err("unreadable.toml: no".into()));
        }
        let plan = "# Mine.\nschema = \"weir.plan/1\"\n[[connection]]\npackets = 3";
        (name == "own-traffic").then(|| Ok(plan.into()))
    }
    TrafficProfile::find_users(UserProfiles {
        text,
        names: || vec!["own-traffic".into(), "No Name".into()],
    });
    let own = TrafficProfile::named("own-traffic").unwrap();
    assert_eq!((own.is_users, own.source().as_str()), (true, "Mine."));
    let last = TrafficProfile::all().pop().unwrap();
    assert_eq!(last, own);
    let plan = plan("[[connection]]\nprofile = \"own-traffic\"").unwrap();
    assert_eq!(plan.connections[0].packets, Some(3));
    let unreadable = TrafficProfile::named("unreadable").unwrap().plan().unwrap_err();
    let expected = (Some("profile".into()), Some("unreadable.toml: no".into()));
    assert_eq!(refused(&unreadable), expected);
}

#[test]
fn a_given_rate_and_given_intervals_replace_each_other() {
    let of = |text: &str| plan(&format!("[[connection]]\n{text}")).unwrap().connections.remove(0);
    let faster = of("profile = \"quake3\"\nrate = \"500pps\"");
    assert_eq!(faster.send_rate(), "500pps".parse().unwrap());
    assert!(faster.spacing.is_constant());
    let regular = of("profile = \"imix\"\nspacing = \"10ms\"");
    assert_eq!((regular.send_rate(), regular.rate), ("100pps".parse().unwrap(), None));
    // A law without a mean of its own needs the rate.
    let random = of("profile = \"imix\"\nspacing = \"exponential\"");
    assert_eq!(random.send_rate(), "1000pps".parse().unwrap());
}

#[test]
fn an_opened_plan_names_no_profiles() {
    let of = |text: &str| without_profiles(serde_json::from_str::<Value>(text).unwrap());
    let schema = "\"schema\":\"weir.plan/1\"";
    let plain = of(&format!("{{{schema},\"connection\":[{{\"profile\":null,\"count\":3}}]}}"));
    assert_eq!(plain.unwrap().connections[0].count, 3);
    let named = of(&format!("{{{schema},\"connection\":[{{}},{{\"profile\":\"dns\"}}]}}"));
    assert!(named.unwrap_err().to_string().contains("connection[1].profile"));
}
