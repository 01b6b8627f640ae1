//! The protocols of servers that a test can speak to, by name. What each protocol carries is decided by its implementation
//! in `peers`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DEFAULT_PORT, TransportName};

/// Declares the protocols: variant, name, default port, transports.
macro_rules! peers {
    ($($(#[$meta:meta])* $variant:ident: $label:literal, $port:expr, [$($transport:ident),*];)*) => {
        /// Protocol of the server.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
        pub enum PeerName {
            $($(#[$meta])* #[serde(rename = $label)] $variant,)*
        }

        impl PeerName {
            /// All protocols; the first is the default.
            pub const ALL: &[PeerName] = &[$(PeerName::$variant),*];

            /// Its name in documents and records, and on the command line: `iperf3`.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self {
                    $(PeerName::$variant => $label,)*
                }
            }

            /// The port on which its servers usually listen.
            #[must_use]
            pub const fn default_port(self) -> u16 {
                match self {
                    $(PeerName::$variant => $port,)*
                }
            }

            /// The transports of its data; empty: all.
            #[must_use]
            pub const fn transports(self) -> &'static [TransportName] {
                match self {
                    $(PeerName::$variant => &[$(TransportName::$transport),*],)*
                }
            }
        }
    };
}

peers! {
    /// Weir's own.
    #[default]
    Weir: "weir", DEFAULT_PORT, [];
    /// Weir's own, or that of the tool that answers.
    Auto: "auto", DEFAULT_PORT, [];
    /// That of iperf3.
    Iperf3: "iperf3", 5201, [Tcp, Udp, Mptcp];
    /// That of iperf2.
    Iperf2: "iperf2", 5001, [Tcp, Udp];
    /// That of netperf.
    Netperf: "netperf", 12_865, [Tcp, Udp];
    /// That of nuttcp.
    Nuttcp: "nuttcp", 5000, [Tcp, Udp];
    /// MGEN's messages, without a control connection.
    Mgen: "mgen", 5000, [Tcp, Udp];
    /// That of D-ITG.
    Ditg: "ditg", 9000, [Tcp, Udp, Icmp];
    /// The echo protocol (RFC 862), which sends back what it receives.
    Echo: "echo", 7, [Tcp, Udp];
    /// STAMP (RFC 8762), without authentication.
    Stamp: "stamp", 862, [Udp];
    /// TWAMP Light (RFC 5357, appendix I), without authentication.
    TwampLight: "twamp-light", 862, [Udp];
}

impl PeerName {
    /// Whether the connections of a test may have servers of their own: there is no control connection.
    #[must_use]
    pub(super) fn has_several_servers(self) -> bool {
        self == PeerName::Mgen
    }

    /// Whether its receivers count what arrives in messages of ICMP, which other servers only send back.
    #[must_use]
    pub const fn counts_icmp(self) -> bool {
        matches!(self, PeerName::Ditg)
    }

    /// Whether a connection's port is that of its data, beside the server's own.
    #[must_use]
    pub(super) fn has_data_ports(self) -> bool {
        matches!(self, PeerName::Ditg | PeerName::Nuttcp)
    }
}

crate::names::labelled!(PeerName, "peer");
