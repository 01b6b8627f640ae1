//! Search parameters of runs other than results: the resolved connections of the plan.

use std::collections::{BTreeSet, HashMap};

use rusqlite::{Transaction, params};
use weir_model::plan::{Connection, Direction, Family};
use weir_model::record::{Flow, Record};
use weir_model::units::{RateLimit, Span};

/// One connection of a plan; open or unsupported parameters are absent.
#[derive(Debug, Clone, PartialEq)]
struct Parameters {
    transport: &'static str,
    direction: &'static str,
    family: Option<&'static str>,
    payload_bytes: Option<u64>,
    rate_bits_per_second: Option<f64>,
    rate_packets_per_second: Option<f64>,
    duration_seconds: Option<f64>,
}

/// Replaces the parameters of a run.
pub(crate) fn keep_parameters(
    transaction: &Transaction<'_>,
    run: &str,
    record: &Record,
) -> rusqlite::Result<()> {
    let count: u64 = record.plan.connections.iter().map(|c| u64::from(c.count)).sum();
    transaction.execute(
        "UPDATE runs SET connections = ?2 WHERE id = ?1",
        params![run, i64::try_from(count).unwrap_or(i64::MAX)],
    )?;
    transaction.execute("DELETE FROM connections WHERE run = ?", [run])?;
    let mut insert =
        transaction.prepare_cached("INSERT INTO connections VALUES (?,?,?,?,?,?,?,?,?)")?;
    for (number, p) in parameters(record).into_iter().enumerate() {
        insert.execute(params![
            run,
            number as i64,
            p.transport,
            p.direction,
            p.family,
            p.payload_bytes.and_then(|bytes| i64::try_from(bytes).ok()),
            p.rate_bits_per_second,
            p.rate_packets_per_second,
            p.duration_seconds
        ])?;
    }
    Ok(())
}

/// The distinct connections of a record's plan.
fn parameters(record: &Record) -> Vec<Parameters> {
    let flows: HashMap<u64, &Flow> =
        record.flows.iter().map(|flow| (u64::from(flow.id), flow)).collect();
    let mut id = 1u64;
    let mut seen = BTreeSet::new();
    let mut found = vec![];
    for connection in &record.plan.connections {
        // Flows are numbered in the order of the plan.
        let of_connection = of(connection, record.plan.family, flows.get(&id).copied());
        id = id.saturating_add(u64::from(connection.count));
        // By its bits, since floats have no order.
        if seen.insert(format!("{of_connection:?}")) {
            found.push(of_connection);
        }
    }
    found
}

/// One connection with the defaults of `weir test`; the flow has those that depend on the path.
fn of(connection: &Connection, family: Option<Family>, flow: Option<&Flow>) -> Parameters {
    let payload = connection.payload.as_ref().map(|size| size.moments().mean_bytes.round() as u64);
    let payload = payload.or(flow.map(|f| f.payload_bytes));
    let rate = connection.send_rate();
    let bits = payload.map(|bytes| 8.0 * bytes as f64).filter(|bits| *bits > 0.0);
    let (rate_bits, rate_packets) = match rate.limit {
        _ if connection.rate_schedule.is_some() => (None, None),
        RateLimit::Unlimited => (None, None),
        RateLimit::Bits(limit) => (Some(limit.0 as f64), bits.map(|bits| limit.0 as f64 / bits)),
        RateLimit::Packets(limit) => (bits.map(|bits| limit * bits), Some(limit)),
    };
    let duration = match connection.duration {
        Some(Span(0)) => None,
        Some(span) => Some(span.seconds()),
        None if connection.bytes.is_some() || connection.packets.is_some() => None,
        None => Some(10.0),
    };
    Parameters {
        transport: connection.transport.label(),
        direction: match connection.direction {
            Direction::Forward => "forward",
            Direction::Reverse => "reverse",
        },
        family: family.or(flow.and_then(|f| f.family)).map(|family| match family {
            Family::Ipv4 => "ipv4",
            Family::Ipv6 => "ipv6",
        }),
        payload_bytes: payload,
        rate_bits_per_second: rate_bits,
        rate_packets_per_second: rate_packets,
        duration_seconds: duration,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_plan(plan: &str, flows: Vec<Flow>) -> Vec<Parameters> {
        let text = format!("schema = \"weir.plan/1\"\n{plan}");
        let plan = weir_model::plan::Plan::parse(&text).unwrap();
        parameters(&Record { plan, flows, ..Default::default() })
    }

    #[test]
    fn rates_are_known_in_both_units_where_the_payload_is() {
        let found = of_plan(
            "[[connection]]\ntransport='udp'\nrate='50000pps'\npayload=125\n\
             [[connection]]\ntransport='udp'\nrate='10M'\npayload=125\n\
             [[connection]]\nrate='10M'\nduration=3\n[[connection]]\nbytes='1M'",
            vec![],
        );
        let rates: Vec<_> =
            found.iter().map(|p| (p.rate_bits_per_second, p.rate_packets_per_second)).collect();
        assert_eq!(
            rates,
            [(Some(50e6), Some(50e3)), (Some(10e6), Some(10e3)), (Some(10e6), None), (None, None)]
        );
        let durations: Vec<_> = found.iter().map(|p| p.duration_seconds).collect();
        assert_eq!(durations, [Some(10.0), Some(10.0), Some(3.0), None]);
    }

    #[test]
    fn what_the_plan_leaves_open_the_flow_knows_and_equals_are_kept_once() {
        let flow = |id, payload_bytes| Flow {
            id,
            payload_bytes,
            family: Some(Family::Ipv6),
            ..Default::default()
        };
        let found = of_plan(
            "[[connection]]\ncount=3\n[[connection]]\ntransport='udp'\ndirection='reverse'\n[[connection]]",
            vec![flow(1, 524_288), flow(4, 1452), flow(5, 524_288)],
        );
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!((found[0].payload_bytes, found[0].family), (Some(524_288), Some("ipv6")));
        assert_eq!((found[1].payload_bytes, found[1].direction), (Some(1452), "reverse"));
        assert_eq!(found[1].rate_bits_per_second, Some(1e6));
    }
}
