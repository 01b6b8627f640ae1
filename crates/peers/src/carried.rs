//! What a protocol carries of a test: the options of a connection by their fields. All others are refused.

use weir_model::plan::{Connection, ConnectionFields, Direction, PeerName};
use weir_traffic::{ClientConfig, TrafficError};

/// Which ends an option concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The protocol carries it, or it has no effect on the far end.
    Both,
    /// Only the sender: accepted where this end sends.
    Sender,
    /// Only the receiver.
    Receiver,
}

/// Options of the end that sends or receives, of which the other end need not know.
pub(crate) const LOCAL: &[(&str, Side)] = &[
    ("rate_schedule", Side::Sender),
    ("spacing", Side::Sender),
    ("content", Side::Sender),
    ("catch_up", Side::Sender),
    ("gso", Side::Sender),
    ("dont_fragment", Side::Sender),
    ("zero_copy", Side::Sender),
    ("kernel_pacing", Side::Sender),
    ("congestion", Side::Sender),
    ("cork", Side::Sender),
    ("user_timeout", Side::Sender),
    ("priority", Side::Sender),
    ("ttl", Side::Sender),
    ("flow_label", Side::Sender),
    ("mtu", Side::Sender),
    ("discard", Side::Receiver),
    ("delayed_ack", Side::Receiver),
];

/// Refuses what no protocol of another tool has, and options of a connection that are not `accepted`.
///
/// # Errors
/// [`TrafficError`] that names the field.
pub(crate) fn check(
    config: &ClientConfig,
    accepted: impl Fn(&str) -> Option<Side>,
) -> Result<(), TrafficError> {
    let peer = config.plan.peer;
    for (field, is_set, accepted) in [
        ("key", config.key.is_some(), "no key"),
        ("packet_log", config.packet_log.is_some(), "no packet log"),
        ("fetch", config.fetch.is_some(), "no file of the server"),
        ("control_socket", config.control_socket.is_some(), "no control socket"),
        // A protocol that sends the content of a file lists it as `supply`.
        (
            "content",
            config.supply.is_some() && accepted("supply").is_none(),
            "content that is generated",
        ),
    ] {
        if is_set {
            return Err(of_test(peer, field, "given", accepted));
        }
    }
    for (index, connection) in config.plan.connections.iter().enumerate() {
        if let Some((field, given, accepted)) = refused(connection, &accepted) {
            return Err(of_connection(peer, index, &field, given, accepted));
        }
    }
    Ok(())
}

/// The same, with tables of the accepted options and the ends that each concerns; the first row of an option counts.
///
/// # Errors
/// As [`check`].
pub(crate) fn check_sides(
    config: &ClientConfig,
    accepted: &[&[(&str, Side)]],
) -> Result<(), TrafficError> {
    let rows = accepted.iter().copied().flatten();
    check(config, |field| rows.clone().find(|(name, _)| *name == field).map(|(_, side)| *side))
}

/// The first option of a connection that is not accepted: field, given value, accepted values.
fn refused(
    connection: &Connection,
    accepted: impl Fn(&str) -> Option<Side>,
) -> Option<(String, String, &'static str)> {
    let fields = |c: &Connection| serde_json::to_value(ConnectionFields::from(c.clone())).ok();
    let (given, default) = (fields(connection)?, fields(&Connection::default())?);
    let sends = connection.direction == Direction::Forward;
    given.as_object()?.iter().find_map(|(field, value)| {
        if default.get(field) == Some(value) {
            return None;
        }
        let accepted = match accepted(field) {
            Some(Side::Both) => return None,
            Some(Side::Sender) if sends => return None,
            Some(Side::Receiver) if !sends => return None,
            Some(Side::Sender) => "its default where the server sends",
            Some(Side::Receiver) => "its default where the server receives",
            None => "its default",
        };
        let text = value.as_str().map_or_else(|| value.to_string(), Into::into);
        Some((field.clone(), text, accepted))
    })
}

/// The refusal of a field of a test.
pub(crate) fn of_test(
    peer: PeerName,
    field: &'static str,
    given: impl std::fmt::Display,
    accepted: &str,
) -> TrafficError {
    let given = format!("{given} with peer {peer}");
    TrafficError::Input { field, given, accepted: accepted.into() }
}

/// The refusal of a field of a connection.
pub(crate) fn of_connection(
    peer: PeerName,
    index: usize,
    field: &str,
    given: impl std::fmt::Display,
    accepted: &str,
) -> TrafficError {
    let field = format!("connection[{index}].{field}");
    let given = format!("{given} with peer {peer}");
    weir_model::ModelError::Field { field, given, accepted: accepted.into() }.into()
}

/// Lets a stream whose messages have headers end with a whole one. A message has at least `least` bytes.
///
/// # Errors
/// [`TrafficError`]: shorter messages, or a number of bytes where sizes vary.
pub(crate) fn whole_messages(
    peer: PeerName,
    index: usize,
    connection: &mut Connection,
    least: u64,
) -> Result<(), TrafficError> {
    let size = connection.payload.as_ref().map(|size| size.moments());
    if let Some(size) = size.filter(|size| size.min_bytes < least) {
        let accepted = format!("at least {least} bytes, those of the header of a message");
        return Err(of_connection(peer, index, "payload", size.min_bytes, &accepted));
    }
    if let (Some(bytes), Some(size)) = (connection.bytes, size) {
        if size.min_bytes != size.max_bytes {
            let accepted = "a number of packets or a duration where sizes vary";
            return Err(of_connection(peer, index, "bytes", bytes, accepted));
        }
        connection.packets = Some(bytes.0.div_ceil(size.max_bytes));
        connection.bytes = None;
    }
    Ok(())
}
