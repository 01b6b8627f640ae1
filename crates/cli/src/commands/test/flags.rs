//! The table of flags that shape a test. Each flag is declared once, in [`super::args`], with its help, its type and the field
//! that it sets. The plan, the refusal of a flag with an axis or a plan file, and the flag named by an error derive from that.

use std::sync::LazyLock;

use clap::{Args, FromArgMatches};
use weir_model::plan::{ConnectionFields, Plan};

use super::args::TestArgs;

/// A flag and the field that it sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flag {
    /// Its name in the parser, such as `no_delay` for `--no-delay`.
    pub(crate) id: &'static str,
    /// The field of a plan or of its connections, which is also the name of the axis.
    pub(crate) field: &'static str,
    /// Whether the flag is on the command line.
    pub(crate) is_given: bool,
}

/// A group of flags that set fields.
pub(crate) trait Shaping {
    /// Each flag, in the order of the help.
    fn flags(&self) -> Vec<Flag>;
    /// Sets the fields of the flags that were given.
    fn apply(&self, plan: &mut Plan, connection: &mut ConnectionFields);
}

/// The value of a flag, if it was given.
pub(crate) trait Given {
    type Value;
    fn given(&self) -> Option<Self::Value>;
}

impl Given for bool {
    type Value = bool;
    fn given(&self) -> Option<bool> {
        self.then_some(true)
    }
}

impl<T: Clone> Given for Option<T> {
    type Value = T;
    fn given(&self) -> Option<T> {
        self.clone()
    }
}

/// Declares a group of flags. After `=>` is the field that a flag sets: `connection.FIELD` or `plan.FIELD`, with
/// `= CONVERSION` if the field's type differs, or the name of a field that [`super::plan`] sets from several flags.
macro_rules! flags {
    (
        $(#[$meta:meta])*
        $name:ident {
            $(
                $(#[$flag_meta:meta])*
                $flag:ident: $type:ty => $target:ident $(.$field:ident $(= $with:expr)?)?,
            )*
        }
    ) => {
        #[derive(Debug, clap::Args)]
        $(#[$meta])*
        pub(crate) struct $name {
            $($(#[$flag_meta])* pub(crate) $flag: $type,)*
        }

        impl $crate::commands::test::flags::Shaping for $name {
            fn flags(&self) -> Vec<$crate::commands::test::flags::Flag> {
                vec![$($crate::commands::test::flags::Flag {
                    id: stringify!($flag),
                    field: $crate::commands::test::flags::field!($target $(.$field)?),
                    is_given: $crate::commands::test::flags::Given::given(&self.$flag).is_some(),
                },)*]
            }

            #[allow(unused_variables)]
            fn apply(
                &self,
                plan: &mut weir_model::plan::Plan,
                connection: &mut weir_model::plan::ConnectionFields,
            ) {
                $($crate::commands::test::flags::set!(
                    self, $flag, plan, connection, $target $(.$field $(= $with)?)?
                );)*
            }
        }
    };
}

/// The name of the field that a flag sets.
macro_rules! field {
    ($target:ident.$field:ident) => {
        stringify!($field)
    };
    ($field:ident) => {
        stringify!($field)
    };
}

/// Sets the field of a flag, if the flag was given.
macro_rules! set {
    ($args:ident, $flag:ident, $plan:ident, $connection:ident, connection.$field:ident $(= $with:expr)?) => {
        $crate::commands::test::flags::set!(@ $connection.$field, $args.$flag $(, $with)?)
    };
    ($args:ident, $flag:ident, $plan:ident, $connection:ident, plan.$field:ident $(= $with:expr)?) => {
        $crate::commands::test::flags::set!(@ $plan.$field, $args.$flag $(, $with)?)
    };
    ($args:ident, $flag:ident, $plan:ident, $connection:ident, $field:ident) => {};
    (@ $field:expr, $given:expr $(, $with:expr)?) => {
        if let Some(value) = $crate::commands::test::flags::Given::given(&$given)$(.map($with))? {
            $field = value.into();
        }
    };
}

pub(crate) use {field, flags, set};

impl TestArgs {
    /// Every flag that shapes a test.
    pub(crate) fn flags(&self) -> Vec<Flag> {
        let groups: [&dyn Shaping; 4] = [&self.traffic, &self.rate, &self.socket, &self.measure];
        let mut flags: Vec<Flag> = groups.iter().flat_map(|group| group.flags()).collect();
        if let Some(bind) = &self.socket.bind {
            // -B sets two fields.
            flags
                .iter_mut()
                .filter(|f| f.id == "bind")
                .for_each(|f| f.is_given = bind.address.is_some());
            flags.push(Flag { id: "bind", field: "device", is_given: bind.interface.is_some() });
        }
        let ports = self.socket.cport;
        let is_given = ports.is_some_and(|ports| ports.last.is_some());
        flags.push(Flag { id: "cport", field: "client_port_last", is_given });
        flags
    }

    /// Sets the fields of the flags that were given.
    pub(crate) fn apply(&self, plan: &mut Plan, connection: &mut ConnectionFields) {
        let groups: [&dyn Shaping; 4] = [&self.traffic, &self.rate, &self.socket, &self.measure];
        groups.iter().for_each(|group| group.apply(plan, connection));
    }

    /// The flag to name in an error about a field of the plan: the one that was given, else the first that sets the field.
    pub(crate) fn flag_of(&self, field: &str) -> Option<String> {
        let name = field.rsplit('.').next().unwrap_or(field);
        let field = match name {
            "host" => return Some("HOST".into()),
            "port" => return Some(spelled("port")),
            "connection" => "count",
            // A flow label implies IPv6.
            "family" if !self.socket.ipv4 && !self.socket.ipv6 => "flow_label",
            name => name,
        };
        let flags = self.flags();
        let of_field = || flags.iter().filter(|flag| flag.field == field);
        let flag = of_field().find(|flag| flag.is_given).or_else(|| of_field().next());
        flag.map(|flag| spelled(flag.id))
    }
}

/// The first flag that sets a field of a test, independent of the command line.
pub(crate) fn flag_of_field(field: &str) -> Option<String> {
    let of_field = || TABLE.iter().filter(|flag| flag.field == field);
    // Of several flags, such as --udp and --transport, the one that is named like the field.
    let found = of_field().find(|flag| flag.id == field).or_else(|| of_field().next());
    found.map(|flag| spelled(flag.id))
}

/// Replaces the fields that a text of the model quotes as `` `field` `` by their flags.
pub(crate) fn with_flags(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let parts = parts.map(|(i, part)| match (i % 2, flag_of_field(part)) {
        (0, _) => part.to_owned(),
        (_, Some(flag)) => flag,
        (_, None) => format!("`{part}`"),
    });
    parts.collect()
}

/// All flags, none of them given.
static TABLE: LazyLock<Vec<Flag>> = LazyLock::new(|| {
    let matches = PARSER.clone().try_get_matches_from(["weir", "HOST"]).ok();
    let args = matches.and_then(|matches| TestArgs::from_arg_matches(&matches).ok());
    args.map(|args| args.flags()).unwrap_or_default()
});

static PARSER: LazyLock<clap::Command> =
    LazyLock::new(|| TestArgs::augment_args(clap::Command::new("weir")));

/// A flag of a test as users write it: `-t/--time`, or `--ttl` if it has no short form.
pub(crate) fn spelled(id: &str) -> String {
    let flag = PARSER.get_arguments().find(|flag| flag.get_id() == id);
    let long = flag.and_then(|flag| flag.get_long()).unwrap_or(id);
    match flag.and_then(|flag| flag.get_short()) {
        Some(short) => format!("-{short}/--{long}"),
        None => format!("--{long}"),
    }
}
