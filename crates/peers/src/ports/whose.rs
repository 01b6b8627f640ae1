//! Which server receives the data that arrives at a port of several.

/// Whether data that begins with these bytes is a server's own; `None`: more bytes are needed to decide.
pub(crate) type Claim = fn(&[u8]) -> Option<bool>;

/// To which server data belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// The flows that a session of its host has announced.
    Announced,
    /// The server at this position.
    Server(usize),
    /// Unknown until more bytes have arrived.
    Undecided,
    /// None: no server receives unannounced data here.
    Nobody,
}

/// To which of the servers of a port belongs data that begins with `data`. `is_announced`: a session of its host awaits data
/// here. `servers`: what each server recognizes; absent: it has data without a header, which may begin with any bytes.
/// `is_whole`: no more bytes will arrive, or there was no time for them.
pub(super) fn whose(
    is_announced: bool,
    servers: &[Option<Claim>],
    data: &[u8],
    is_whole: bool,
) -> Whose {
    match servers {
        _ if is_announced => return Whose::Announced,
        [] => return Whose::Nobody,
        [_] => return Whose::Server(0),
        _ => {}
    }
    for (index, claim) in servers.iter().enumerate() {
        match claim.map(|claim| claim(data)) {
            Some(Some(true)) => return Whose::Server(index),
            Some(None) if !is_whole => return Whose::Undecided,
            _ => {}
        }
    }
    Whose::Server(servers.iter().position(Option::is_none).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: Option<Claim> = Some(|data| data.first().map(|first| *first == b'T'));
    const ANY: Option<Claim> = None;

    #[test]
    fn announced_data_comes_first_and_data_without_a_header_last() {
        for servers in [&[ANY, TEXT][..], &[TEXT, ANY]] {
            let at = |claim: Option<Claim>| {
                let index = servers.iter().position(|own| own.is_none() == claim.is_none());
                Whose::Server(index.unwrap())
            };
            assert_eq!(whose(true, servers, b"T", false), Whose::Announced);
            assert_eq!(whose(false, servers, b"T", false), at(TEXT));
            assert_eq!(whose(false, servers, b"x", false), at(ANY));
            assert_eq!(whose(false, servers, b"", false), Whose::Undecided);
            assert_eq!(whose(false, servers, b"", true), at(ANY));
        }
    }

    #[test]
    fn a_server_alone_has_all_data() {
        for server in [ANY, TEXT] {
            assert_eq!(whose(false, &[server], b"", false), Whose::Server(0));
            assert_eq!(whose(true, &[server], b"x", false), Whose::Announced);
        }
        assert_eq!(whose(false, &[], b"T", true), Whose::Nobody);
        assert_eq!(whose(true, &[], b"", true), Whose::Announced);
        // Without a server of data without a header, the first has the rest.
        assert_eq!(whose(false, &[TEXT, TEXT], b"x", false), Whose::Server(0));
    }
}
