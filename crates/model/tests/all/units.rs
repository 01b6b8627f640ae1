//! All suffixes of all units, numbers without a suffix, and invalid text.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use serde::de::DeserializeOwned;
use weir_model::units::{BitRate, ByteSize, Dscp, RateLimit, Seed, SendRate, Span};

fn reads<T: FromStr + PartialEq + Debug>(table: &[(&str, T)])
where
    T::Err: Debug,
{
    for (text, value) in table {
        assert_eq!(&text.parse::<T>().unwrap(), value, "{text}");
    }
}

fn refuses<T: FromStr + Debug>(texts: &[&str]) {
    for text in texts {
        assert!(text.parse::<T>().is_err(), "{text}");
    }
}

fn shows<T: Display>(table: &[(T, &str)]) {
    for (value, text) in table {
        assert_eq!(&value.to_string(), text);
    }
}

fn json<T: DeserializeOwned>(text: &str) -> Option<T> {
    serde_json::from_str(text).ok()
}

#[test]
fn rates() {
    reads(&[
        ("7", BitRate(7)),
        ("2k", BitRate(2000)),
        ("2M", BitRate(2_000_000)),
        ("2G", BitRate(2_000_000_000)),
        ("2T", BitRate(2_000_000_000_000)),
        ("0.0015k", BitRate(2)),
        ("0.0014k", BitRate(1)),
        (".5k", BitRate(500)),
        ("5.k", BitRate(5000)),
        ("9223372036854775807", BitRate((1 << 63) - 1)),
        ("3 Gbps", BitRate(3_000_000_000)),
    ]);
    refuses::<BitRate>(&[
        "",
        ".",
        "k",
        "9223372036854775808",
        "1.0000000000000000001k",
        "1e3",
        "10 M M",
    ]);
    shows(&[
        (BitRate(999), "999"),
        (BitRate(1500), "1.5k"),
        (BitRate(1_234_567), "1234.567k"),
        (BitRate(2_500_000_000), "2.5G"),
        (BitRate(3_000_000_000_000), "3T"),
    ]);
    assert_eq!(json("1000"), Some(BitRate(1000)));
    assert_eq!(json::<BitRate>("-1"), None);
    assert_eq!(json::<BitRate>("1e19"), None);
}

#[test]
fn sizes() {
    reads(&[
        ("2K", ByteSize(2 << 10)),
        ("2M", ByteSize(2 << 20)),
        ("2G", ByteSize(2 << 30)),
        ("2T", ByteSize(2 << 40)),
        ("2KiB", ByteSize(2 << 10)),
    ]);
    refuses::<ByteSize>(&["", "1P", "-1", "8388608T"]);
    shows(&[(ByteSize(1023), "1023"), (ByteSize(1536), "1536"), (ByteSize(3 << 30), "3G")]);
    assert_eq!(json("65536"), Some(ByteSize(65_536)));
    assert_eq!(json::<ByteSize>("1e19"), None);
}

#[test]
fn spans() {
    reads(&[
        ("3ns", Span(3)),
        ("3us", Span(3000)),
        ("3µs", Span(3000)),
        ("3ms", Span(3_000_000)),
        ("3s", Span(3_000_000_000)),
        ("3", Span(3_000_000_000)),
        ("3min", Span(180_000_000_000)),
        ("3h", Span(10_800_000_000_000)),
    ]);
    shows(&[
        (Span(0), "0s"),
        (Span(2_500_000_000), "2.5s"),
        (Span(40_000_000), "40ms"),
        (Span(1_000_001_000), "1000001us"),
        (Span(7), "7ns"),
    ]);
    assert_eq!(json("0.25"), Some(Span(250_000_000)));
    assert_eq!(json("2"), Some(Span(2_000_000_000)));
    assert_eq!(json::<Span>("1e10"), None);
    assert_eq!(json::<Span>("-1"), None);
}

#[test]
fn seeds() {
    reads(&[("0x1F", Seed(31)), ("0X1f", Seed(31)), ("31", Seed(31))]);
    refuses::<Seed>(&["", "0x", "1F", "18446744073709551616"]);
    assert_eq!(json("31"), Some(Seed(31)));
    // Doubles don't represent larger integers exactly, so it might be a different seed from the one written.
    assert_eq!(json::<Seed>("9.1e15"), None);
    assert_eq!(json::<Seed>("1.5"), None);
}

#[test]
fn send_rates() {
    let packets = |p| SendRate { limit: RateLimit::Packets(p), burst: 1 };
    reads(&[
        ("5pps", packets(5.0)),
        ("5kpps", packets(5000.0)),
        ("5Mpps", packets(5e6)),
        ("5pkt/s", packets(5.0)),
        ("1000Mpps", packets(1e9)),
        ("0.5pps/3", SendRate { limit: RateLimit::Packets(0.5), burst: 3 }),
    ]);
    refuses::<SendRate>(&["1001Mpps", "0pps", "5Gpps", "5pps/0", "5pps/x"]);
    shows(&[
        ("5kpps/3".parse::<SendRate>().unwrap(), "5000pps/3"),
        (SendRate::UNLIMITED, "0"),
        ("10M".parse().unwrap(), "10M"),
    ]);
    assert_eq!(json("0"), Some(SendRate::UNLIMITED));
    assert_eq!(json("8000"), Some("8000".parse::<SendRate>().unwrap()));
    assert_eq!(json::<SendRate>("-1"), None);
    assert_eq!(json::<SendRate>("1e19"), None);
}

#[test]
fn packet_rates_and_shares() {
    let rate = |text: &str| text.parse::<SendRate>().unwrap();
    assert_eq!(rate("8M").packets_per_second(1000.0), Some(1000.0));
    assert_eq!(rate("8").packets_per_second(0.0), Some(1.0), "an empty payload counts as a byte");
    assert_eq!(rate("250pps").packets_per_second(1000.0), Some(250.0));
    assert_eq!(rate("0").packets_per_second(1000.0), None);
    assert_eq!(rate("10M/4").divided(5), rate("2M/4"));
    assert_eq!(rate("100pps").divided(8), rate("12.5pps"));
    assert_eq!(rate("3").divided(10), rate("1"), "never 0, which is unlimited");
    assert_eq!(rate("3").divided(0), rate("3"));
    assert_eq!(rate("0").divided(10), rate("0"));
}

#[test]
fn code_points() {
    reads(&[("0x2e", Dscp(46)), ("63", Dscp(63)), ("AF41", Dscp(34)), ("le", Dscp(1))]);
    refuses::<Dscp>(&["64", "0x40", "-1", "af44", ""]);
    shows(&[(Dscp(0), "cs0"), (Dscp(5), "5")]);
    assert_eq!(json("46"), Some(Dscp(46)));
    for bad in ["64", "-1", "1.5"] {
        assert_eq!(json::<Dscp>(bad), None, "{bad}");
    }
}
