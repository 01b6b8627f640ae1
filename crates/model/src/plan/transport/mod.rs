//! The transports of a connection. Each has a file with its description, options and limits; this file
//! registers them.
//!
//! The rest of Weir depends on a transport's [`Description`], never on its name. A new transport needs a file
//! here, its `mod` line and its line in `transports!`.

mod broadcast;
mod description;
mod ethernet;
mod frames;
pub(super) mod icmp;
mod mptcp;
mod multicast;
mod options;
mod tcp;
mod udp;
mod udp_lite;
mod unix;
mod unix_datagram;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fields::ConnectionFields;
pub use super::fields::{
    CoverageOptions, GroupOptions, IpOptions, StreamOptions, TcpOptions, UdpOptions,
};

pub use description::{Description, Headers};
pub use options::Misplaced;
pub(super) use options::{Group, Options, Refusal, Value, connection};

/// Declares the transports: variant, module (and constructor), options.
macro_rules! transports {
    ($($(#[$meta:meta])* $variant:ident: $module:ident($options:ty),)*) => {
        /// The transport of a connection.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "kebab-case")]
        #[schemars(rename = "Transport")]
        pub enum TransportName {
            $($(#[$meta])* $variant,)*
        }

        impl TransportName {
            /// All transports, in the order of lists; the first is the default.
            pub const ALL: &[TransportName] = &[$(TransportName::$variant),*];
        }

        impl TransportName {
            /// What it can do.
            #[must_use]
            pub(crate) fn description(self) -> &'static dyn Description {
                match self {
                    $(TransportName::$variant => &$module::$variant,)*
                }
            }
        }

        /// What it can do.
        impl std::ops::Deref for TransportName {
            type Target = dyn Description;
            fn deref(&self) -> &Self::Target {
                self.description()
            }
        }

        /// The transport of a connection, with the options that it has.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Transport {
            $($(#[$meta])* $variant($options),)*
        }

        impl From<TransportName> for Transport {
            fn from(name: TransportName) -> Self {
                match name {
                    $(TransportName::$variant => Transport::$variant(Default::default()),)*
                }
            }
        }

        impl Transport {
            $(
                #[doc = concat!("The transport `", stringify!($module), "` with its default options.")]
                #[must_use]
                pub fn $module() -> Self {
                    TransportName::$variant.into()
                }
            )*

            /// Its name.
            #[must_use]
            pub fn name(&self) -> TransportName {
                match self {
                    $(Transport::$variant(_) => TransportName::$variant,)*
                }
            }

            fn options(&self) -> &dyn Options {
                match self {
                    $(Transport::$variant(options) => options,)*
                }
            }

            fn options_mut(&mut self) -> &mut dyn Options {
                match self {
                    $(Transport::$variant(options) => options,)*
                }
            }
        }
    };
}

transports! {
    /// Transmission Control Protocol.
    Tcp: tcp(TcpOptions),
    /// User Datagram Protocol.
    Udp: udp(UdpOptions),
    /// Multipath TCP; falls back to TCP if the peer or the path does not support it.
    Mptcp: mptcp(mptcp::MptcpOptions),
    /// Unix stream socket; the host is unix:PATH.
    Unix: unix(unix::UnixOptions),
    /// Unix datagram socket; the host is unix:PATH.
    UnixDatagram: unix_datagram(unix_datagram::UnixDatagramOptions),
    /// UDP-Lite: a checksum that may cover only the first bytes of a datagram.
    UdpLite: udp_lite(udp_lite::UdpLiteOptions),
    /// UDP datagrams to a multicast group, which the servers join.
    Multicast: multicast(multicast::MulticastOptions),
    /// UDP datagrams to a broadcast address of IPv4.
    Broadcast: broadcast(broadcast::BroadcastOptions),
    /// Ethernet frames without IP, between two interfaces of one link.
    Ethernet: ethernet(ethernet::EthernetOptions),
    /// ICMP or ICMPv6 echo: requests that the host itself answers, without a server of Weir.
    Icmp: icmp(icmp::IcmpOptions),
    /// Frames of a capture, sent on an interface as they are; the host is interface:NAME.
    Frames: frames(frames::FramesOptions),
}

impl Transport {
    /// Options of the IP layer, if the transport has any.
    #[must_use]
    pub fn ip(&self) -> Option<&IpOptions> {
        self.options().ip()
    }

    /// Mutable options of the IP layer.
    pub fn ip_mut(&mut self) -> Option<&mut IpOptions> {
        self.options_mut().ip_mut()
    }

    /// Options of a byte stream, if the transport is one.
    #[must_use]
    pub fn stream(&self) -> Option<&StreamOptions> {
        self.options().stream()
    }

    /// Options of TCP, if the transport uses it.
    #[must_use]
    pub fn tcp_options(&self) -> Option<&TcpOptions> {
        self.options().tcp()
    }

    /// Mutable options of TCP.
    pub(crate) fn tcp_options_mut(&mut self) -> Option<&mut TcpOptions> {
        self.options_mut().tcp_mut()
    }

    /// Options of UDP, if the transport uses it.
    #[must_use]
    pub fn udp_options(&self) -> Option<&UdpOptions> {
        self.options().udp()
    }

    /// Mutable options of UDP.
    pub(crate) fn udp_options_mut(&mut self) -> Option<&mut UdpOptions> {
        self.options_mut().udp_mut()
    }

    /// Options of datagrams that may reach several receivers, if it sends such.
    #[must_use]
    pub fn group(&self) -> Option<&GroupOptions> {
        self.options().group()
    }

    /// Options of the checksum's coverage, if the transport has any.
    #[must_use]
    pub fn coverage(&self) -> Option<&CoverageOptions> {
        self.options().coverage()
    }

    /// Moves the transport's own options out of a document.
    pub(super) fn take(fields: &mut ConnectionFields) -> Transport {
        let mut transport = Transport::from(std::mem::take(&mut fields.transport));
        transport.options_mut().take(fields);
        transport
    }

    /// A document's options as the transport `name` writes them: those at their defaults are left out.
    pub(super) fn written(name: TransportName, mut fields: ConnectionFields) -> ConnectionFields {
        let mut transport = Transport::from(name);
        transport.options_mut().take(&mut fields);
        let mut written = ConnectionFields::default();
        transport.put(&mut written);
        written
    }

    /// Writes the transport's name and options into a document.
    pub(super) fn put(&self, fields: &mut ConnectionFields) {
        fields.transport = self.name();
        self.options().put(fields);
    }

    /// The first option with a value that is not accepted.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        self.options().check()
    }
}

impl Default for TransportName {
    fn default() -> Self {
        TransportName::ALL[0]
    }
}

impl From<TcpOptions> for Transport {
    fn from(options: TcpOptions) -> Self {
        Transport::Tcp(options)
    }
}

impl From<UdpOptions> for Transport {
    fn from(options: UdpOptions) -> Self {
        Transport::Udp(options)
    }
}

impl Default for Transport {
    fn default() -> Self {
        TransportName::default().into()
    }
}

/// What it can do.
impl std::ops::Deref for Transport {
    type Target = dyn Description;
    fn deref(&self) -> &Self::Target {
        self.name().description()
    }
}

impl TransportName {
    /// The transports that have the option of this field; empty for fields of all transports or of none.
    #[must_use]
    pub fn with_option(field: &str) -> Vec<TransportName> {
        let has = |name: &&TransportName| {
            let mut fields = vec![];
            Transport::from(**name).options().names(&mut fields);
            fields.contains(&field)
        };
        Self::ALL.iter().filter(has).copied().collect()
    }
}

crate::names::labelled!(TransportName, "transport");
