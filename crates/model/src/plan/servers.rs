//! The servers of a plan: a connection may name its own host and port, else it goes to the test's.

use std::collections::{BTreeMap, HashMap};

use super::{Connection, DEFAULT_PORT, Plan};
use crate::ModelError;
use crate::names::{HOST_FORMS, Host, HostKind};

/// A stream: the index of its connection among the distinct ones, and how many like it its server has before.
type StreamIndex = (usize, u32);

/// One server of a plan, with the connections that go there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Its name or address without a port, or `unix:PATH`.
    pub host: String,
    /// Its port; of no meaning for a Unix socket.
    pub port: u16,
    /// Indices of its connections in the plan, ascending.
    pub connections: Vec<usize>,
}

/// A stream to a group, which is sent once however many servers receive it.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupStream {
    /// One connection of the plan, without its name and its server.
    connection: Connection,
    /// Which of one server's flows with this connection it is, from 0.
    nth: u32,
}

impl Server {
    /// The name in results: the host, with its port unless that is Weir's.
    #[must_use]
    pub fn label(&self) -> String {
        match self.port {
            DEFAULT_PORT => self.host.clone(),
            _ if HostKind::of(&self.host) != HostKind::Network => self.host.clone(),
            port if self.host.contains(':') => format!("[{}]:{port}", self.host),
            port => format!("{}:{port}", self.host),
        }
    }
}

impl Plan {
    /// The server's port.
    #[must_use]
    pub fn server_port(&self) -> u16 {
        self.port.unwrap_or(self.peer.default_port())
    }

    /// Whether any connection names a host or a port of its own.
    #[must_use]
    pub fn names_servers(&self) -> bool {
        self.connections.iter().any(|c| c.host.is_some() || self.own_port(c).is_some())
    }

    /// The port of a connection's server, if it names one.
    fn own_port(&self, connection: &Connection) -> Option<u16> {
        connection.port.filter(|_| !self.peer.has_data_ports())
    }

    /// The servers in the order of their first connections.
    ///
    /// # Errors
    /// [`ModelError::Field`] for an invalid host, for a port that contradicts it, and for a connection without a host.
    pub fn servers(&self) -> Result<Vec<Server>, ModelError> {
        let mut out: Vec<Server> = vec![];
        for index in 0..self.connections.len() {
            let Some((host, port)) = self.server_of(index)? else {
                return Err(ModelError::Field {
                    field: format!("connection[{index}].host"),
                    given: "missing, and the test has no host".into(),
                    accepted: HOST_FORMS.into(),
                });
            };
            match out.iter_mut().find(|s| s.host == host.name && s.port == port) {
                Some(server) => server.connections.push(index),
                None => out.push(Server { host: host.name, port, connections: vec![index] }),
            }
        }
        Ok(out)
    }

    /// Names of the servers, for headings; empty if one is missing.
    #[must_use]
    pub fn server_labels(&self) -> Vec<String> {
        self.servers().unwrap_or_default().iter().map(Server::label).collect()
    }

    /// The host and the port to which a connection goes; `None` if neither it nor the plan names a host.
    pub(super) fn server_of(&self, index: usize) -> Result<Option<(Host, u16)>, ModelError> {
        let connection = &self.connections[index];
        let at = |field: &str| format!("connection[{index}].{field}");
        if connection.port == Some(0) {
            return Err(ModelError::Field {
                field: at("port"),
                given: "0".into(),
                accepted: "1 to 65535".into(),
            });
        }
        let of_plan = self.host.as_deref().map(Host::parse).transpose()?;
        let own = connection.host.as_deref().map(Host::parse).transpose();
        let own = own.map_err(|error| match error {
            ModelError::Field { given, accepted, .. } => {
                ModelError::Field { field: at("host"), given, accepted }
            }
            other => other,
        })?;
        if let (Some(own), Some(port)) = (own.as_ref().and_then(|own| own.port), connection.port)
            && own != port
        {
            return Err(ModelError::Field {
                field: at("port"),
                given: format!("{port}, while the host says {own}"),
                accepted: "one of them".into(),
            });
        }
        let default = of_plan.as_ref().and_then(|host| host.port).unwrap_or(self.server_port());
        let port = self.own_port(connection).or(own.as_ref().and_then(|own| own.port));
        let port = port.unwrap_or(default);
        let Some(host) = own.or(of_plan) else { return Ok(None) };
        if let (true, Some(port)) = (host.kind() != HostKind::Network, connection.port) {
            return Err(ModelError::Field {
                field: at("port"),
                given: format!("{port} with the host {}", host.name),
                accepted: "a host with an IP address".into(),
            });
        }
        Ok(Some((host, port)))
    }

    /// The plan of one server's connections alone. They keep the names, and therefore the draws, of their flows.
    #[must_use]
    pub fn of_server(&self, server: &Server) -> Plan {
        let mut first = 1;
        let mut connections = vec![];
        for (index, connection) in self.connections.iter().enumerate() {
            if server.connections.contains(&index) {
                let mut own = connection.clone();
                (own.host, own.port) = (None, None);
                if own.name.is_empty() && own.count == 1 {
                    own.name = self.unnamed(connection, first);
                }
                connections.push(own);
            }
            first += connection.count;
        }
        Plan {
            host: Some(server.host.clone()),
            port: Some(server.port),
            connections,
            ..self.clone()
        }
    }

    /// The stream of each flow that is sent to a group, with the number of the flow.
    ///
    /// Flows with equal streams are one stream that several servers receive. The flows of one server differ: each receiver
    /// counts a stream once.
    #[must_use]
    pub fn group_streams(&self) -> Vec<(u32, GroupStream)> {
        let (distinct, flows) = self.streams();
        let stream =
            |(kind, nth): StreamIndex| GroupStream { connection: distinct[kind].clone(), nth };
        flows.into_iter().map(|(id, of)| (id, stream(of))).collect()
    }

    /// The distinct connections to groups, and for each flow to a group the index of its connection there and how many like it
    /// its server has before.
    fn streams(&self) -> (Vec<Connection>, Vec<(u32, StreamIndex)>) {
        let mut distinct: Vec<Connection> = vec![];
        let mut before: HashMap<(Option<(String, u16)>, usize), u32> = HashMap::new();
        let (mut first, mut flows) = (1, vec![]);
        for (index, connection) in self.connections.iter().enumerate() {
            let ids = first..first + connection.count;
            first = ids.end;
            if !connection.transport.multicast() {
                continue;
            }
            let server = self.server_of(index).ok().flatten().map(|(host, port)| (host.name, port));
            let like = Connection { count: 1, ..connection.without_server() };
            let kind = distinct.iter().position(|known| *known == like).unwrap_or_else(|| {
                distinct.push(like);
                distinct.len() - 1
            });
            let nth = before.entry((server, kind)).or_default();
            flows.extend(ids.map(|id| (id, (kind, std::mem::replace(nth, *nth + 1)))));
        }
        (distinct, flows)
    }

    /// Numbers of the flows that share a sender: streams to a group that several servers receive.
    #[must_use]
    pub fn shared_streams(&self) -> Vec<Vec<u32>> {
        let mut streams: BTreeMap<StreamIndex, Vec<u32>> = BTreeMap::new();
        for (id, stream) in self.streams().1 {
            streams.entry(stream).or_default().push(id);
        }
        let mut shared: Vec<Vec<u32>> = streams.into_values().filter(|ids| ids.len() > 1).collect();
        shared.sort_unstable();
        shared
    }

    /// Numbers of one server's flows in the whole plan, in the order of [`Plan::of_server`].
    #[must_use]
    pub fn flows_of_server(&self, server: &Server) -> Vec<u32> {
        let (mut first, mut out) = (1, vec![]);
        for (index, connection) in self.connections.iter().enumerate() {
            if server.connections.contains(&index) {
                out.extend(first..first + connection.count);
            }
            first += connection.count;
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Family;

    fn parsed(text: &str) -> Result<Plan, ModelError> {
        Plan::parse(&format!("schema = \"weir.plan/1\"\nseed = 7\n{text}"))
    }

    fn refused(text: &str) -> String {
        match parsed(text).unwrap_err() {
            ModelError::Document(error) => error.field,
            other => panic!("{text}: {other}"),
        }
    }

    const THREE: &str = "host = \"a:7000\"\n[[connection]]\ncount = 2\n\
         [[connection]]\nhost = \"b\"\ntransport = \"udp\"\n\
         [[connection]]\nport = 7001\n\
         [[connection]]\nname = \"x\"\nhost = \"[2001:db8::1]:8000\"\n\
         [[connection]]\nhost = \"b\"\nport = 7000\n";

    #[test]
    fn connections_without_a_server_use_the_tests() {
        let plan = parsed(THREE).unwrap();
        let servers = plan.servers().unwrap();
        let found: Vec<_> = servers.iter().map(|s| (s.label(), s.connections.clone())).collect();
        let server = |label: &str, of: &[usize]| (label.to_owned(), of.to_vec());
        let expected = [
            server("a:7000", &[0]),
            server("b:7000", &[1, 4]),
            server("a:7001", &[2]),
            server("[2001:db8::1]:8000", &[3]),
        ];
        assert_eq!(found, expected);
        let default = Server { host: "b".into(), port: DEFAULT_PORT, connections: vec![] };
        assert_eq!(default.label(), "b");
    }

    #[test]
    fn flows_keep_their_numbers_and_names() {
        let plan = parsed(THREE).unwrap();
        let whole = plan.flows(Family::Ipv4, 1500);
        let mut seen = vec![];
        for server in plan.servers().unwrap() {
            let own = plan.of_server(&server);
            own.check().unwrap();
            assert!(!own.names_servers());
            assert_eq!(own.server_labels(), [server.label()]);
            let flows = own.flows(Family::Ipv4, 1500);
            let numbers = plan.flows_of_server(&server);
            assert_eq!(flows.len(), numbers.len());
            for (flow, number) in flows.iter().zip(numbers) {
                let same = &whole[number as usize - 1];
                assert_eq!((same.id, &same.name, same.seed), (number, &flow.name, flow.seed));
                assert_eq!(same.size, flow.size);
                seen.push(number);
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn servers_share_the_streams_to_one_group() {
        let to = |host: &str, more: &str| {
            format!(
                "[[connection]]\nhost = \"{host}\"\ntransport = \"multicast\"\ngroup = \"239.1.1.1\"\n{more}\n"
            )
        };
        let two = "count = 2";
        let text = [to("a", two), to("b", two), to("c", "rate = \"2M\""), to("c", two)].concat();
        let plan = parsed(&text).unwrap();
        assert_eq!(plan.shared_streams(), [vec![1, 3, 6], vec![2, 4, 7]]);
        // The flows of equal connections are equal, however the plan counts them.
        let text = [to("a", two), to("b", ""), to("b", "")].concat();
        let plan = parsed(&text).unwrap();
        assert_eq!(plan.shared_streams(), [vec![1, 3], vec![2, 4]]);
        let own = parsed(&[to("a", ""), to("a", "name = \"x\"")].concat()).unwrap();
        assert!(own.shared_streams().is_empty(), "each receiver counts a stream once");
        assert!(parsed(THREE).unwrap().shared_streams().is_empty());
    }

    #[test]
    fn wrong_hosts_and_ports_are_refused_by_field() {
        for (text, field) in [
            ("[[connection]]\nhost = \"a b\"", "connection[0].host"),
            ("[[connection]]\n[[connection]]\nport = 0", "connection[1].port"),
            ("[[connection]]\nhost = \"a:1\"\nport = 2", "connection[0].port"),
            ("family = \"ipv6\"\n[[connection]]\nhost = \"192.0.2.1\"", "family"),
            ("[[connection]]\nhost = \"unix:/s\"", "connection[0].transport"),
            (
                "[[connection]]\nhost = \"unix:/s\"\ntransport = \"unix\"\nport = 7",
                "connection[0].port",
            ),
            (
                "bind = \"192.0.2.1\"\n[[connection]]\nhost = \"unix:/s\"\ntransport = \"unix\"",
                "bind",
            ),
        ] {
            assert_eq!(refused(text), field, "{text}");
        }
        let plan = parsed("[[connection]]\nhost = \"a\"\n[[connection]]").unwrap();
        let ModelError::Field { field, .. } = plan.servers().unwrap_err() else { panic!() };
        assert_eq!(field, "connection[1].host");
        assert!(parsed("host = \"a:1\"\n[[connection]]\nhost = \"a\"\nport = 2").is_ok());
    }
}
