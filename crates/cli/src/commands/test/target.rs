//! HOST as people write it: a name or address, with or without a port.

use std::net::Ipv6Addr;

use crate::commands::values::is_interface;
use crate::error::CliError;

/// Who answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// A name, an IPv4 address, or an IPv6 address without brackets and with its zone.
    pub(crate) host: String,
    /// The port, if it was written with the host.
    pub(crate) port: Option<u16>,
}

/// What is accepted, for every refusal.
const FORMS: &str = "NAME, ADDRESS, NAME:PORT, [V6ADDRESS]:PORT or V6ADDRESS%INTERFACE";

impl Target {
    /// Reads `host`, `host:port`, `[v6]`, `[v6]:port`, `v6`, each IPv6 form with `%zone`.
    pub(crate) fn parse(text: &str) -> Result<Target, CliError> {
        let refuse = |why: &str| CliError::flag("HOST", format!("'{text}' ({why})"), FORMS);
        let port = |digits: &str| {
            digits
                .parse::<u16>()
                .ok()
                .filter(|p| *p > 0 && digits.bytes().all(|b| b.is_ascii_digit()))
                .ok_or_else(|| refuse("the port is not 1 to 65535"))
        };
        if let Some(rest) = text.strip_prefix('[') {
            let (inner, after) = rest.split_once(']').ok_or_else(|| refuse("no ']'"))?;
            if !is_ipv6(inner) {
                return Err(refuse("no IPv6 address between the brackets"));
            }
            let port = match after.strip_prefix(':') {
                Some(digits) => Some(port(digits)?),
                None if after.is_empty() => None,
                None => return Err(refuse("only :PORT may follow ']'")),
            };
            return Ok(Target { host: inner.into(), port });
        }
        if is_ipv6(text) {
            return Ok(Target { host: text.into(), port: None });
        }
        let (host, port) = match text.split_once(':') {
            Some((host, digits)) if !digits.contains(':') => (host, Some(port(digits)?)),
            Some(_) => return Err(refuse("no IPv6 address")),
            None => (text, None),
        };
        if host.is_empty() || host.len() > 253 {
            return Err(refuse("a name has 1 to 253 characters"));
        }
        if host.starts_with('-')
            || !host.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_'))
        {
            return Err(refuse("no character of a name"));
        }
        Ok(Target { host: host.into(), port })
    }
}

/// An IPv6 address, with or without its zone.
fn is_ipv6(text: &str) -> bool {
    let (address, zone) = match text.split_once('%') {
        Some((address, zone)) => (address, Some(zone)),
        None => (text, None),
    };
    address.parse::<Ipv6Addr>().is_ok() && zone.is_none_or(is_interface)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form() {
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
            let target = Target::parse(text).unwrap();
            assert_eq!((target.host.as_str(), target.port), (host, port), "{text}");
        }
    }

    #[test]
    fn refusals_name_what_was_given() {
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
            let error = Target::parse(bad).unwrap_err();
            assert!(error.to_string().contains(&format!("'{bad}'")), "{bad}: {error}");
            assert_eq!(error.exit_code(), 2);
        }
    }
}
