//! Options that only some transports have. Each struct here is the one declaration of which options belong together:
//! reading, writing, the schema's `x-transports` and refusals follow from it.

use crate::plan::{ConnectionFields, Switch};
use crate::units::BitRate;

/// A value that is not accepted: field, what was given, what is accepted.
pub(crate) type Refusal = (&'static str, String, String);

/// The options of a transport, between their type and a document's flat table.
pub(crate) trait Options {
    /// Takes the options out of a document.
    fn take(&mut self, fields: &mut ConnectionFields);
    /// Writes the options into a document.
    fn put(&self, fields: &mut ConnectionFields);
    /// Adds the names of their fields.
    fn names(&self, out: &mut Vec<&'static str>);
    /// The first value that is not accepted.
    fn check(&self) -> Result<(), Refusal> {
        Ok(())
    }
    fn ip(&self) -> Option<&IpOptions> {
        None
    }
    fn ip_mut(&mut self) -> Option<&mut IpOptions> {
        None
    }
    fn stream(&self) -> Option<&StreamOptions> {
        None
    }
    fn tcp(&self) -> Option<&TcpOptions> {
        None
    }
    fn udp(&self) -> Option<&UdpOptions> {
        None
    }
}

/// One option: absent from a document at its default.
trait Value: Sized {
    type Given;
    fn read(given: Option<Self::Given>) -> Self;
    fn write(&self) -> Option<Self::Given>;
}

impl<T: Clone> Value for Option<T> {
    type Given = T;
    fn read(given: Option<T>) -> Self {
        given
    }
    fn write(&self) -> Option<T> {
        self.clone()
    }
}

impl Value for bool {
    type Given = bool;
    fn read(given: Option<bool>) -> Self {
        given.unwrap_or(false)
    }
    fn write(&self) -> Option<bool> {
        self.then_some(true)
    }
}

impl Value for Switch {
    type Given = Switch;
    fn read(given: Option<Switch>) -> Self {
        given.unwrap_or_default()
    }
    fn write(&self) -> Option<Switch> {
        (*self != Switch::default()).then_some(*self)
    }
}

/// Declares a struct of options and how they are read and written. `with` includes the options of others.
macro_rules! options {
    (
        $(#[$meta:meta])* $name:ident {
            $($(#[$doc:meta])* $field:ident: $type:ty,)*
        }
        with {
            $($(#[$group_doc:meta])* $group:ident: $group_type:ty,)*
        }
        $($more:item)*
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Default)]
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)*
            $($(#[$group_doc])* pub $group: $group_type,)*
        }

        impl Options for $name {
            fn take(&mut self, fields: &mut ConnectionFields) {
                $(self.$field = Value::read(fields.$field.take());)*
                $(self.$group.take(fields);)*
            }

            fn put(&self, fields: &mut ConnectionFields) {
                $(fields.$field = Value::write(&self.$field);)*
                $(self.$group.put(fields);)*
            }

            fn names(&self, out: &mut Vec<&'static str>) {
                $(out.push(stringify!($field));)*
                $(self.$group.names(out);)*
            }

            $($more)*
        }
    };
}

options! {
    /// Options of the IP layer.
    IpOptions {
        /// The whole TOS or traffic-class byte.
        tos: Option<u8>,
        /// IPv6 flow label, 20 bits.
        flow_label: Option<u32>,
        /// Time to live or hop limit, 1 to 255.
        ttl: Option<u8>,
        /// The kernel paces as well (SO_MAX_PACING_RATE), bit/s.
        kernel_pacing: Option<BitRate>,
        /// Source port on the side that runs `weir test`.
        client_port: Option<u16>,
    }
    with {}
}

options! {
    /// Options of a byte stream.
    StreamOptions {
        /// Sending without a copy (sendfile from memory).
        zero_copy: bool,
        /// The receiver discards in the kernel instead of copying (MSG_TRUNC).
        discard: bool,
    }
    with {}
}

options! {
    /// Options of TCP.
    TcpOptions {
        /// Maximum segment size, 88 to 32 767 bytes.
        mss: Option<u32>,
        /// TCP_NODELAY: Nagle's algorithm off.
        no_delay: bool,
        /// Congestion control by its kernel name.
        congestion: Option<String>,
    }
    with {
        /// Of its byte stream.
        stream: StreamOptions,
        /// Of the IP layer.
        ip: IpOptions,
    }

    fn ip(&self) -> Option<&IpOptions> {
        Some(&self.ip)
    }

    fn ip_mut(&mut self) -> Option<&mut IpOptions> {
        Some(&mut self.ip)
    }

    fn stream(&self) -> Option<&StreamOptions> {
        Some(&self.stream)
    }

    fn tcp(&self) -> Option<&TcpOptions> {
        Some(self)
    }

    fn check(&self) -> Result<(), Refusal> {
        if let Some(m) = self.mss.filter(|m| !(88..=32_767).contains(m)) {
            return Err(("mss", m.to_string(), "88 to 32767".into()));
        }
        let is_name = |c: &str| {
            let known = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
            (1..=15).contains(&c.len()) && c.bytes().all(known)
        };
        match self.congestion.as_ref().filter(|c| !is_name(c)) {
            Some(c) => {
                Err(("congestion", c.clone(), "a kernel name such as cubic, reno, bbr".into()))
            }
            None => Ok(()),
        }
    }
}

options! {
    /// Options of UDP.
    UdpOptions {
        /// Segmentation offload at the sender (UDP_SEGMENT).
        gso: Switch,
        /// Receive offload at the receiver (UDP_GRO).
        gro: Switch,
        /// Don't-fragment (IPv4) and no local fragmentation.
        dont_fragment: bool,
    }
    with {
        /// Of the IP layer.
        ip: IpOptions,
    }

    fn ip(&self) -> Option<&IpOptions> {
        Some(&self.ip)
    }

    fn ip_mut(&mut self) -> Option<&mut IpOptions> {
        Some(&mut self.ip)
    }

    fn udp(&self) -> Option<&UdpOptions> {
        Some(self)
    }
}

/// Options of a document that its transport does not have. Only reading a document makes them; the check refuses them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Misplaced(Option<Box<ConnectionFields>>);

impl Misplaced {
    /// What is left of a document once everything that has a place was taken out.
    pub(crate) fn of(rest: ConnectionFields) -> Self {
        Misplaced((rest != ConnectionFields::default()).then(|| Box::new(rest)))
    }

    /// The options as a document has them.
    pub(crate) fn fields(&self) -> Option<&ConnectionFields> {
        self.0.as_deref()
    }
}
