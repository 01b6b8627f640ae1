//! The configuration of a NATS server for a fleet.

use std::fmt::Write;
use std::path::Path;

use crate::names::{AgentName, permissions};

/// The configuration of `nats-server` that lets `controllers` (public keys) do everything, and each agent (name and public
/// key) what [`permissions`] says. With `store`, it is complete for a server on loopback; without, it is the part to include
/// in a configuration that has addresses, TLS and JetStream.
///
/// Each message is on the disk before it is acknowledged (`sync_interval: always`).
#[must_use]
pub fn server_configuration(
    controllers: &[String],
    agents: &[(AgentName, String)],
    store: Option<(&Path, u16)>,
) -> String {
    let mut text = String::new();
    if let Some((store, port)) = store {
        // Strings of NATS's configuration have JSON's escapes.
        let store = serde_json::Value::from(store.display().to_string());
        let _ = write!(
            text,
            "listen: \"127.0.0.1:{port}\"\n\
             jetstream {{\n  store_dir: {store}\n  sync_interval: always\n}}\n"
        );
    }
    text += "authorization {\n  users = [\n";
    for key in controllers {
        let _ = writeln!(text, "    {{ nkey: {key} }}");
    }
    for (name, key) in agents {
        let allowed = permissions(name);
        let list = |subjects: &[String]| {
            subjects.iter().map(|subject| format!("\"{subject}\"")).collect::<Vec<_>>().join(", ")
        };
        let _ = write!(
            text,
            "    # agent {name}\n    {{\n      nkey: {key}\n      permissions: {{\n        \
             publish: {{ allow: [{}] }}\n        subscribe: {{ allow: [{}] }}\n        \
             # Each request to it may have one reply.\n        allow_responses: {{ max: 1, expires: \"1m\" }}\n      }}\n    }}\n",
            list(&allowed.publish),
            list(&allowed.subscribe)
        );
    }
    text + "  ]\n}\n"
}
