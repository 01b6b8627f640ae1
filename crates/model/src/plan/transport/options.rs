//! Reading, writing and validation of options that only some transports have. They are declared in
//! [`crate::plan::fields`].

use crate::plan::{
    ConnectionFields, CoverageOptions, Ecn, GroupOptions, IpOptions, StreamOptions, Switch,
    TcpOptions, UdpOptions,
};

/// An invalid value: field, given value, accepted values.
pub(crate) type Refusal = (&'static str, String, String);

/// Conversion of a transport's options from and to a document's flat table.
pub(crate) trait Options {
    /// Moves the options out of a document.
    fn take(&mut self, fields: &mut ConnectionFields);
    /// Writes the options that are set into a document.
    fn put(&self, fields: &mut ConnectionFields);
    /// Adds the names of their fields.
    fn names(&self, out: &mut Vec<&'static str>);
    /// Checks the values; returns the first invalid one.
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
    fn tcp_mut(&mut self) -> Option<&mut TcpOptions> {
        None
    }
    fn udp(&self) -> Option<&UdpOptions> {
        None
    }
    fn udp_mut(&mut self) -> Option<&mut UdpOptions> {
        None
    }
    fn coverage(&self) -> Option<&CoverageOptions> {
        None
    }
    fn group(&self) -> Option<&GroupOptions> {
        None
    }
}

/// A group of options, of which a transport may have a part.
pub(crate) trait Group: Options + Clone + Default {
    /// Resets all options but the wanted ones.
    fn keep(&mut self, wanted: &dyn Fn(&str) -> bool);

    /// Moves the named options, and no others, out of a document.
    fn take_only(&mut self, names: &[&str], fields: &mut ConnectionFields) {
        self.take(fields);
        let mut others = self.clone();
        self.keep(&|name| names.contains(&name));
        others.keep(&|name| !names.contains(&name));
        others.put(fields);
    }
}

/// An option, which documents omit at its default.
pub trait Value: Sized {
    /// Its type in documents.
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

impl Value for Ecn {
    type Given = Ecn;
    fn read(given: Option<Ecn>) -> Self {
        given.unwrap_or_default()
    }
    fn write(&self) -> Option<Ecn> {
        (*self != Ecn::default()).then_some(*self)
    }
}

/// Declares the fields of a connection: [`ConnectionFields`], a document's flat table; [`Connection`](crate::plan::Connection)
/// with its transport's options; and the groups of options, each of which may include others by `with`.
macro_rules! connection {
    (
        common {
            $(
                $(#[doc = $doc:literal])*
                $(#[serde($($serde:tt)*)])*
                $(#[schemars($($common:tt)*)])*
                $field:ident: $type:ty = $default:expr,
            )*
        }
        options {
            $(
                $(#[doc = $group_doc:literal])*
                $group:ident {
                    $(
                        $(#[doc = $option_doc:literal])*
                        $(#[schemars($($schemars:tt)*)])*
                        $option:ident: $option_type:ty,
                    )*
                }
                with {
                    $($(#[doc = $inner_doc:literal])* $inner:ident: $inner_type:ty,)*
                }
                impl { $($more:item)* }
            )*
        }
    ) => {
        /// A connection as one flat table in a document. Options that only some transports have are absent
        /// unless given.
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        #[schemars(transform = $crate::schema::in_order::<ConnectionFields>)]
        pub struct ConnectionFields {
            /// Name, unique in the plan; flows of a `count` above 1 get `-1`, `-2`, … behind it.
            #[schemars(extend("x-group" = "what"))]
            pub name: String,
            /// Transport protocol.
            #[schemars(extend("x-group" = "what"))]
            pub transport: $crate::plan::TransportName,
            $(
                $(#[doc = $doc])*
                $(#[serde($($serde)*)])*
                $(#[schemars($($common)*)])*
                pub $field: $type,
            )*
            $($(
                $(#[doc = $option_doc])*
                #[serde(skip_serializing_if = "Option::is_none")]
                $(#[schemars($($schemars)*)])*
                pub $option: Option<<$option_type as $crate::plan::transport::Value>::Given>,
            )*)*
        }

        impl Default for ConnectionFields {
            fn default() -> Self {
                ConnectionFields {
                    name: String::new(),
                    transport: Default::default(),
                    $($field: $default,)*
                    $($($option: None,)*)*
                }
            }
        }

        /// One connection of a plan (or several alike, by `count`). Every field has the default of `weir test`.
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(from = "ConnectionFields", into = "ConnectionFields")]
        pub struct Connection {
            /// Name, unique in the plan; flows of a `count` above 1 get `-1`, `-2`, … behind it.
            pub name: String,
            /// Transport, with the options that it has.
            pub transport: $crate::plan::Transport,
            $($(#[doc = $doc])* pub $field: $type,)*
            /// Options that the document has but the transport does not.
            pub misplaced: $crate::plan::Misplaced,
        }

        impl From<ConnectionFields> for Connection {
            fn from(mut fields: ConnectionFields) -> Self {
                let rest = ConnectionFields::default();
                Connection {
                    transport: $crate::plan::Transport::take(&mut fields),
                    name: std::mem::take(&mut fields.name),
                    $($field: std::mem::replace(&mut fields.$field, rest.$field),)*
                    misplaced: $crate::plan::Misplaced::of(fields),
                }
            }
        }

        impl From<Connection> for ConnectionFields {
            fn from(connection: Connection) -> Self {
                let mut fields = ConnectionFields {
                    name: connection.name,
                    $($field: connection.$field,)*
                    ..connection.misplaced.fields().cloned().unwrap_or_default()
                };
                connection.transport.put(&mut fields);
                fields
            }
        }

        $(
            $(#[doc = $group_doc])*
            #[derive(Debug, Clone, PartialEq, Default)]
            pub struct $group {
                $($(#[doc = $option_doc])* pub $option: $option_type,)*
                $($(#[doc = $inner_doc])* pub $inner: $inner_type,)*
            }

            impl $crate::plan::transport::Options for $group {
                fn take(&mut self, fields: &mut ConnectionFields) {
                    $(self.$option = $crate::plan::transport::Value::read(fields.$option.take());)*
                    $(self.$inner.take(fields);)*
                }

                fn put(&self, fields: &mut ConnectionFields) {
                    $(
                        if let Some(value) = $crate::plan::transport::Value::write(&self.$option) {
                            fields.$option = Some(value);
                        }
                    )*
                    $(self.$inner.put(fields);)*
                }

                fn names(&self, out: &mut Vec<&'static str>) {
                    $(out.push(stringify!($option));)*
                    $(self.$inner.names(out);)*
                }

                $($more)*
            }

            impl $crate::plan::transport::Group for $group {
                fn keep(&mut self, wanted: &dyn Fn(&str) -> bool) {
                    $(
                        if !wanted(stringify!($option)) {
                            self.$option = Default::default();
                        }
                    )*
                    $(self.$inner.keep(wanted);)*
                }
            }
        )*
    };
}

pub(in crate::plan) use connection;

/// Options of a document that its transport does not have. They only arise from reading a document, and the
/// check refuses them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Misplaced(Option<Box<ConnectionFields>>);

impl Misplaced {
    /// The rest of a document after all fields of the connection were taken out.
    pub(crate) fn of(rest: ConnectionFields) -> Self {
        Misplaced((rest != ConnectionFields::default()).then(|| Box::new(rest)))
    }

    /// The options as fields of a document.
    pub(crate) fn fields(&self) -> Option<&ConnectionFields> {
        self.0.as_deref()
    }
}
