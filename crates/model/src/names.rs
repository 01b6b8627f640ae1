//! Validation of names from documents that become words of a command line: anything that could be read as
//! other than a name is refused early.

/// Makes a type with `ALL` and `label` printed and parsed by its labels; `what` names it in errors.
macro_rules! labelled {
    ($name:ty, $what:literal) => {
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                f.pad(self.label())
            }
        }

        impl std::str::FromStr for $name {
            type Err = crate::ModelError;
            fn from_str(text: &str) -> Result<Self, crate::ModelError> {
                let found = Self::ALL.iter().find(|known| known.label() == text);
                found.copied().ok_or_else(|| crate::ModelError::Value {
                    what: $what,
                    given: text.into(),
                    accepted: Self::accepted(),
                })
            }
        }

        impl $name {
            /// All labels, for help and errors.
            #[must_use]
            pub fn accepted() -> &'static str {
                static LABELS: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
                    crate::phrases::one_of(<$name>::ALL.iter().map(|known| known.label()))
                });
                &LABELS
            }
        }
    };
}

pub(crate) use labelled;

use std::net::{IpAddr, Ipv6Addr};

use crate::ModelError;

/// Verbs of `weir impair`, which can't be interface names.
pub const VERBS: [&str; 17] = [
    "exec",
    "serve",
    "list",
    "end",
    "set",
    "show",
    "start",
    "stop",
    "trigger",
    "log",
    "stats",
    "reset",
    "save",
    "acknowledge",
    "clear",
    "thresholds",
    "help",
];

/// Whether the kernel accepts this as an interface name (`dev_valid_name`): 1 to 15 bytes, no `/`, no `:`, no white space, not
/// `.` nor `..`.
#[must_use]
pub fn is_device(name: &str) -> bool {
    let wrong = |c: char| matches!(c, '/' | ':') || c.is_whitespace() || c.is_control();
    (1..=15).contains(&name.len()) && !matches!(name, "." | "..") && !name.contains(wrong)
}

/// Whether this is an interface name ([`is_device`]) that can't be mistaken for a flag or verb.
#[must_use]
pub fn is_interface(name: &str) -> bool {
    is_device(name) && !name.starts_with('-') && !VERBS.contains(&name)
}

/// Prefix of the name of a TAP device, given instead of an interface as an end of an emulator: the emulator is the wire
/// behind the device.
pub const TAP: &str = "tap:";
/// What is accepted as an end of an emulator.
pub const EMULATOR_END_FORMS: &str = "the name of an interface, or tap:NAME with a name of 1 to 15 bytes without / : % and white space";

/// Whether this can be an end of an emulator: an interface ([`is_interface`]), or `tap:` and the name of a TAP device. The
/// kernel would replace a `%d` in that name.
#[must_use]
pub fn is_emulator_end(name: &str) -> bool {
    match tap(name) {
        Some(device) => is_device(device) && !device.contains('%'),
        None => is_interface(name),
    }
}

/// The TAP device of an emulator's end; `None` for an interface.
#[must_use]
pub fn tap(end: &str) -> Option<&str> {
    end.strip_prefix(TAP)
}

/// Whether [`Host::parse`] accepts this.
#[must_use]
pub(crate) fn is_host(text: &str) -> bool {
    Host::parse(text).is_ok()
}

/// A host: a name or an address, with or without a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// A name, an IPv4 address, or an IPv6 address without brackets, with its zone if it has one.
    pub name: String,
    /// The port, if one was given; never 0.
    pub port: Option<u16>,
}

/// Prefix of the path of a Unix socket, given instead of a host.
pub const UNIX: &str = "unix:";
/// Prefix of the name of an interface, given instead of a host: frames are sent there, to no server.
pub const INTERFACE: &str = "interface:";

/// What a [`Host`] names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostKind {
    /// A host of a network, by its name or address.
    Network,
    /// The path of a Unix socket.
    Path,
    /// An interface of this host.
    Interface,
}

impl HostKind {
    /// The kind of a host's name.
    #[must_use]
    pub fn of(name: &str) -> HostKind {
        match name {
            _ if name.starts_with(UNIX) => HostKind::Path,
            _ if name.starts_with(INTERFACE) => HostKind::Interface,
            _ => HostKind::Network,
        }
    }
}

/// The forms of a [`Host`].
pub const HOST_FORMS: &str = "NAME, ADDRESS, NAME:PORT, [V6ADDRESS]:PORT or V6ADDRESS%INTERFACE, the port 1 to 65535; unix:PATH; or interface:NAME";

impl Host {
    /// Reads `host`, `host:port`, `[v6]`, `[v6]:port` and `v6`, each IPv6 form with or without `%zone`.
    ///
    /// # Errors
    /// [`ModelError::Field`] with the field `host`, the text and its error, and the accepted forms.
    pub fn parse(text: &str) -> Result<Host, ModelError> {
        let refuse = |why: &str| ModelError::Field {
            field: "host".into(),
            given: format!("'{text}' ({why})"),
            accepted: HOST_FORMS.into(),
        };
        let port = |digits: &str| {
            digits
                .parse::<u16>()
                .ok()
                .filter(|p| *p > 0 && digits.bytes().all(|b| b.is_ascii_digit()))
                .ok_or_else(|| refuse("the port is not 1 to 65535"))
        };
        if let Some(path) = text.strip_prefix(UNIX) {
            // The kernel's sun_path holds 107 bytes and a terminating zero.
            if !(1..=107).contains(&path.len()) || path.chars().any(char::is_control) {
                return Err(refuse("the path of a Unix socket has 1 to 107 printable characters"));
            }
            return Ok(Host { name: text.into(), port: None });
        }
        if let Some(name) = text.strip_prefix(INTERFACE) {
            if !is_device(name) {
                return Err(refuse("the name of an interface has 1 to 15 bytes, without / and :"));
            }
            return Ok(Host { name: text.into(), port: None });
        }
        if let Some(rest) = text.strip_prefix('[') {
            let (inner, after) = rest.split_once(']').ok_or_else(|| refuse("missing ']'"))?;
            if !is_ipv6(inner) {
                return Err(refuse("not an IPv6 address between the brackets"));
            }
            let port = match after.strip_prefix(':') {
                Some(digits) => Some(port(digits)?),
                None if after.is_empty() => None,
                None => return Err(refuse("only :PORT may follow ']'")),
            };
            return Ok(Host { name: inner.into(), port });
        }
        if is_ipv6(text) {
            return Ok(Host { name: text.into(), port: None });
        }
        let (name, port) = match text.split_once(':') {
            Some((name, digits)) if !digits.contains(':') => (name, Some(port(digits)?)),
            Some(_) => return Err(refuse("not an IPv6 address")),
            None => (text, None),
        };
        if name.is_empty() || name.len() > 253 {
            return Err(refuse("a name has 1 to 253 characters"));
        }
        if name.starts_with('-')
            || !name.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_'))
        {
            return Err(refuse("not a host name"));
        }
        Ok(Host { name: name.into(), port })
    }

    /// What it names.
    #[must_use]
    pub fn kind(&self) -> HostKind {
        HostKind::of(&self.name)
    }

    /// The address without its zone; `None` if the host is a name.
    #[must_use]
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.name.split('%').next().and_then(|bare| bare.parse().ok())
    }
}

/// Whether this is an IPv6 address, with or without a zone.
fn is_ipv6(text: &str) -> bool {
    let (address, zone) = match text.split_once('%') {
        Some((address, zone)) => (address, Some(zone)),
        None => (text, None),
    };
    address.parse::<Ipv6Addr>().is_ok() && zone.is_none_or(is_device)
}

/// Whether this is a valid variable name: 1 to 64 letters, digits, `-` and `_`.
#[must_use]
pub(crate) fn is_variable(name: &str) -> bool {
    let right = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    (1..=64).contains(&name.len()) && name.chars().all(right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ambiguous_names_are_refused() {
        assert!(["eth0", "to-a", "br.100", "veth@1"].iter().all(|n| is_interface(n)));
        for name in
            ["", "-x", "--force", "exec", ".", "..", "a/b", "a b", "a:1", "sixteen-letters-"]
        {
            assert!(!is_interface(name), "{name:?}");
        }
        assert!(
            ["b", "192.0.2.1:5", "[::1]:7", "fe80::1%eth0", "bücher.example"]
                .iter()
                .all(|n| is_host(n))
        );
        for text in ["", "-V", "--save-plan=/x", "a/b", "a b", "a=b", "a\n"] {
            assert!(!is_host(text), "{text:?}");
        }
        assert!(
            is_variable("a-b_C9") && !is_variable("x ") && !is_variable("") && !is_variable("a.b")
        );
    }

    #[test]
    fn an_end_of_an_emulator_is_an_interface_or_a_tap_device() {
        for name in ["eth0", "tap:vm1", "tap:-x", "tap:exec", "tap:fifteen-letters"] {
            assert!(is_emulator_end(name), "{name:?}");
        }
        for name in [
            "exec",
            "tap:",
            "tap:.",
            "tap:a/b",
            "tap:a b",
            "tap:tap:a",
            "tap:tap%d",
            "tun:a",
            "tap:sixteen-letters-",
        ] {
            assert!(!is_emulator_end(name), "{name:?}");
        }
        assert_eq!((tap("tap:vm1"), tap("tap0")), (Some("vm1"), None));
    }

    #[test]
    fn all_host_forms_parse() {
        for (text, host, port) in [
            ("localhost", "localhost", None),
            ("192.0.2.1", "192.0.2.1", None),
            ("192.0.2.1:5000", "192.0.2.1", Some(5000)),
            ("host.example:1", "host.example", Some(1)),
            ("2001:db8::1", "2001:db8::1", None),
            ("[2001:db8::1]", "2001:db8::1", None),
            ("[2001:db8::1]:9000", "2001:db8::1", Some(9000)),
            ("fe80::1%eth0", "fe80::1%eth0", None),
            ("[fe80::1%eth0]:9000", "fe80::1%eth0", Some(9000)),
            ("::1", "::1", None),
        ] {
            let parsed = Host::parse(text).unwrap();
            assert_eq!((parsed.name.as_str(), parsed.port), (host, port), "{text}");
        }
    }

    #[test]
    fn errors_contain_the_host() {
        for bad in [
            "",
            ":9347",
            "host:0",
            "host:65536",
            "host:",
            "host:+1",
            "[::1",
            "[host]:1",
            "[::1]x",
            "1:2:3",
            "fe80::1%",
            "ho st",
            "a/b",
            "-x",
            "http://host",
        ] {
            let error = Host::parse(bad).unwrap_err();
            let ModelError::Field { field, given, .. } = error else { panic!("{bad}: {error}") };
            assert_eq!(field, "host");
            assert!(given.starts_with(&format!("'{bad}'")), "{bad}: {given}");
        }
    }
}
