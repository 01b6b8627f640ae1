//! Whether a request is meant for this server, by the name in `Host`. Pure.

use std::net::IpAddr;

use axum::http::{HeaderMap, Uri, header};

/// Checks `Host`: a foreign name means that a page of another site made its name resolve to this server (DNS
/// rebinding), and could read the answers. Addresses can't be rebound.
pub(super) fn is_ours(headers: &HeaderMap, uri: &Uri, names: &[String]) -> bool {
    let mut told = headers.get_all(header::HOST).iter();
    let host = match (told.next(), told.next(), uri.authority()) {
        (_, Some(_), _) => return false,
        (_, None, Some(authority)) => authority.as_str(),
        (Some(host), None, None) => host.to_str().unwrap_or_default(),
        (None, None, None) => "",
    };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || names.iter().any(|ours| ours.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn only_addresses_and_own_names_are_ours() {
        let names = ["speed.example".to_owned()];
        let ours = |host: &'static str| {
            let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static(host))]);
            is_ours(&headers, &Uri::from_static("/"), &names)
        };
        for host in ["192.0.2.1", "192.0.2.1:80", "[::1]:9349", "LocalHost:1", "Speed.example:9349"]
        {
            assert!(ours(host), "{host}");
        }
        for host in ["evil.example", "speed.example.evil:80", "", ":80", "[evil]:1", "1.2.3.4.evil"]
        {
            assert!(!ours(host), "{host}");
        }
        assert!(!is_ours(&HeaderMap::new(), &Uri::from_static("/"), &names));
        let mut twice = HeaderMap::new();
        twice.append(header::HOST, HeaderValue::from_static("localhost"));
        twice.append(header::HOST, HeaderValue::from_static("evil.example"));
        assert!(!is_ours(&twice, &Uri::from_static("/"), &names));
        let whole = Uri::from_static("http://evil.example/");
        assert!(!is_ours(&HeaderMap::new(), &whole, &names));
    }
}
