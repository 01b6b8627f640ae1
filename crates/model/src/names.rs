//! Names that others give and that become a word of a command line: what could be read as anything but a name is refused
//! long before.

/// Words that `weir impair` would take for a verb where it looks for an interface.
const VERBS: [&str; 9] = ["exec", "set", "show", "start", "stop", "log", "stats", "save", "help"];

/// Whether the kernel takes this for an interface's name (`dev_valid_name`: 1 to 15 bytes, no `/`, no `:`, no white space, not
/// `.` nor `..`), and no command line takes it for a flag or a verb.
#[must_use]
pub fn is_interface(name: &str) -> bool {
    let wrong = |c: char| matches!(c, '/' | ':') || c.is_whitespace() || c.is_control();
    (1..=15).contains(&name.len())
        && !name.starts_with('-')
        && !matches!(name, "." | "..")
        && !VERBS.contains(&name)
        && !name.contains(wrong)
}

/// Whether this may be a host: a name or an address, with or without its port and zone. A flag or a path is none.
#[must_use]
pub fn is_host(text: &str) -> bool {
    let right = |c: char| c.is_alphanumeric() || ".:%[]-_".contains(c);
    (1..=300).contains(&text.len()) && !text.starts_with('-') && text.chars().all(right)
}

/// Whether this is a name of a variable: letters, digits, `-` and `_`, at most 64.
#[must_use]
pub fn is_variable(name: &str) -> bool {
    let right = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    (1..=64).contains(&name.len()) && name.chars().all(right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_be_something_else_is_no_name() {
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
}
