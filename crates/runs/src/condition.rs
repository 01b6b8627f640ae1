//! Conditions for searching runs: `transport=udp`, `rate>=10M`, `loss<0.1%`.

use std::str::FromStr;

use rusqlite::types::Value;
use weir_model::ModelError;
use weir_model::plan::TransportName;
use weir_model::units::{BitRate, ByteSize, RateLimit, SendRate, Span};

/// The names and syntax of conditions.
const FORM: &str = "NAME=VALUE, or !=, <, <=, >, >= for numbers; of a connection of the plan: \
transport (its name, such as udp), direction (forward, reverse), family (ipv4, ipv6), size or payload (1460, 64K), rate (10M, \
50000pps; 0 is unlimited), time or duration (10s); of the run: connections (a number), throughput (10M, of either direction), \
forward_throughput, reverse_throughput, loss (0.1%, with its sign), warnings (a number), status (complete, partial, \
interrupted)";

/// One condition. An absent value meets no condition.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    column: Column,
    comparison: Comparison,
    value: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Transport,
    Direction,
    Family,
    Payload,
    Rate,
    PacketRate,
    Unlimited,
    Duration,
    Connections,
    Throughput,
    ForwardThroughput,
    ReverseThroughput,
    Loss,
    Warnings,
    Status,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Equal,
    Unequal,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

impl Comparison {
    fn sql(self) -> &'static str {
        match self {
            Comparison::Equal => "=",
            Comparison::Unequal => "<>",
            Comparison::Less => "<",
            Comparison::AtMost => "<=",
            Comparison::Greater => ">",
            Comparison::AtLeast => ">=",
        }
    }
}

impl FromStr for Condition {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<Self, ModelError> {
        let bad = || ModelError::Value { what: "condition", given: text.into(), accepted: FORM };
        let at = text.find(['=', '!', '<', '>']).ok_or_else(bad)?;
        let (name, rest) = text.split_at(at);
        // Longer signs first.
        let signs = [
            ("!=", Comparison::Unequal),
            ("<=", Comparison::AtMost),
            (">=", Comparison::AtLeast),
            ("==", Comparison::Equal),
            ("=", Comparison::Equal),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ];
        let (comparison, value) = signs
            .into_iter()
            .find_map(|(sign, comparison)| Some((comparison, rest.strip_prefix(sign)?.trim())))
            .ok_or_else(bad)?;
        let (column, value) = read(name.trim(), value).ok_or_else(bad)?;
        let equality = matches!(comparison, Comparison::Equal | Comparison::Unequal);
        let ordered = !matches!(value, Value::Text(_) | Value::Null);
        if !(equality || ordered) {
            return Err(bad());
        }
        Ok(Condition { column, comparison, value })
    }
}

/// The column of a name, and its value.
fn read(name: &str, value: &str) -> Option<(Column, Value)> {
    let word = |column, words: &[&str]| {
        words.contains(&value).then(|| (column, Value::Text(value.into())))
    };
    let bits = || Some(Value::Real(value.parse::<BitRate>().ok()?.0 as f64));
    let count = || Some(Value::Integer(i64::from(value.parse::<u32>().ok()?)));
    Some(match name {
        "transport" => {
            let name = value.parse::<TransportName>().ok()?;
            (Column::Transport, Value::Text(name.label().into()))
        }
        "direction" => return word(Column::Direction, &["forward", "reverse"]),
        "family" => return word(Column::Family, &["ipv4", "ipv6"]),
        "status" => return word(Column::Status, &["complete", "partial", "interrupted"]),
        "size" | "length" | "payload" | "payload_bytes" => {
            let bytes = i64::try_from(value.parse::<ByteSize>().ok()?.0).ok()?;
            (Column::Payload, Value::Integer(bytes))
        }
        "rate" | "bitrate" => match value.parse::<SendRate>().ok()? {
            SendRate { burst: 2.., .. } => return None,
            SendRate { limit: RateLimit::Unlimited, .. } => (Column::Unlimited, Value::Null),
            SendRate { limit: RateLimit::Bits(b), .. } => (Column::Rate, Value::Real(b.0 as f64)),
            SendRate { limit: RateLimit::Packets(p), .. } => (Column::PacketRate, Value::Real(p)),
        },
        "time" | "seconds" | "duration" => {
            (Column::Duration, Value::Real(value.parse::<Span>().ok()?.seconds()))
        }
        "connections" => (Column::Connections, count()?),
        "warnings" => (Column::Warnings, count()?),
        "throughput" => (Column::Throughput, bits()?),
        "forward_throughput" => (Column::ForwardThroughput, bits()?),
        "reverse_throughput" => (Column::ReverseThroughput, bits()?),
        "loss" => {
            // `loss<1` means 1 %: as a ratio it would match everything. 0 is the same in either.
            let number = match value.strip_suffix('%') {
                Some(number) => number.trim().parse::<f64>().ok()?,
                None => value.parse::<f64>().ok().filter(|n| *n == 0.0)?,
            };
            let ratio = number / 100.0;
            (0.0..=1.0).contains(&ratio).then_some((Column::Loss, Value::Real(ratio)))?
        }
        _ => return None,
    })
}

impl Condition {
    /// Whether it is about a connection of the plan, not about the run.
    pub(crate) fn of_connection(&self) -> bool {
        use Column::{
            Direction, Duration, Family, PacketRate, Payload, Rate, Transport, Unlimited,
        };
        matches!(
            self.column,
            Transport | Direction | Family | Payload | Rate | PacketRate | Unlimited | Duration
        )
    }

    /// Its SQL, and the values of the question marks in it.
    pub(crate) fn sql(&self) -> (String, Vec<Value>) {
        let sign = self.comparison.sql();
        let plain = |name: &str| (format!("{name} {sign} ?"), vec![self.value.clone()]);
        match self.column {
            Column::Transport => plain("connections.transport"),
            Column::Direction => plain("connections.direction"),
            Column::Family => plain("connections.family"),
            Column::Payload => plain("connections.payload_bytes"),
            Column::Rate => plain("connections.rate_bits_per_second"),
            Column::PacketRate => plain("connections.rate_packets_per_second"),
            // A limited rate has a value in at least one of the units.
            Column::Unlimited => {
                let known = "coalesce(connections.rate_bits_per_second, connections.rate_packets_per_second)";
                let is =
                    if self.comparison == Comparison::Equal { "IS NULL" } else { "IS NOT NULL" };
                (format!("{known} {is}"), vec![])
            }
            Column::Duration => plain("connections.duration_seconds"),
            Column::Connections => plain("runs.connections"),
            Column::Throughput => (
                format!(
                    "(runs.forward_bits_per_second {sign} ? OR runs.reverse_bits_per_second {sign} ?)"
                ),
                vec![self.value.clone(), self.value.clone()],
            ),
            Column::ForwardThroughput => plain("runs.forward_bits_per_second"),
            Column::ReverseThroughput => plain("runs.reverse_bits_per_second"),
            Column::Loss => plain("runs.loss_ratio"),
            Column::Warnings => plain("runs.warnings"),
            Column::Status => plain("runs.status"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_read_units_as_flags_do() {
        for (text, sql, value) in [
            ("transport=udp", "connections.transport = ?", Value::Text("udp".into())),
            ("transport != tcp", "connections.transport <> ?", Value::Text("tcp".into())),
            ("rate>=10M", "connections.rate_bits_per_second >= ?", Value::Real(1e7)),
            ("rate<50000pps", "connections.rate_packets_per_second < ?", Value::Real(5e4)),
            ("payload==64K", "connections.payload_bytes = ?", Value::Integer(65536)),
            // By the name that an axis of a sweep has.
            ("size=160", "connections.payload_bytes = ?", Value::Integer(160)),
            ("time<=2", "connections.duration_seconds <= ?", Value::Real(2.0)),
            ("duration>90s", "connections.duration_seconds > ?", Value::Real(90.0)),
            ("loss<=0.1%", "runs.loss_ratio <= ?", Value::Real(0.001)),
            ("loss>50 %", "runs.loss_ratio > ?", Value::Real(0.5)),
            ("loss>0", "runs.loss_ratio > ?", Value::Real(0.0)),
            ("warnings>0", "runs.warnings > ?", Value::Integer(0)),
            ("status=partial", "runs.status = ?", Value::Text("partial".into())),
        ] {
            let condition: Condition = text.parse().unwrap();
            assert_eq!(condition.sql(), (sql.into(), vec![value]), "{text}");
        }
        let unlimited: Condition = "rate=0".parse().unwrap();
        assert!(unlimited.sql().0.ends_with("IS NULL") && unlimited.of_connection());
        let either: Condition = "throughput>1G".parse().unwrap();
        assert_eq!((either.sql().1.len(), either.of_connection()), (2, false));
    }

    #[test]
    fn an_invalid_condition_is_refused_with_the_syntax() {
        for bad in [
            "",
            "loss<1",
            "loss>0.5",
            "transport",
            "transport=sctp",
            "transport>tcp",
            "speed=1",
            "rate>0",
            "rate=10M/32",
            "rate=fast",
            "size=0.1",
            "loss=2",
            "loss=-1%",
            "loss=nan",
            "warnings=-1",
            "!udp",
            "warnings!1",
            "transport=' OR 1 --",
        ] {
            let error = bad.parse::<Condition>().unwrap_err();
            assert!(matches!(error, ModelError::Value { given, .. } if given == bad), "{bad}");
        }
    }
}
