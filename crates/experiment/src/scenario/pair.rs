//! What a comparison compares: a client and a server, each of which is Weir or another tool.

use super::tools::{TOOLS, Tool};

/// Weir's name among the tools.
pub const WEIR: &str = "weir";

/// A client and its server.
#[derive(Debug, Clone, Copy)]
pub enum Pair {
    /// Weir at both ends, with its own protocol.
    Weir,
    /// A tool at both ends.
    Tool(&'static Tool),
    /// Weir as the client of a tool's server, with the tool's protocol: `weir-to-iperf3`.
    WeirTo(&'static Tool),
    /// A tool's client with Weir as its server: `iperf3-to-weir`.
    ToWeir(&'static Tool),
}

impl Pair {
    /// All pairs: first those that a comparison takes unless told otherwise.
    pub fn all() -> impl Iterator<Item = Pair> {
        let spoken = || TOOLS.iter().filter(|tool| tool.peer.is_some());
        [Pair::Weir]
            .into_iter()
            .chain(TOOLS.iter().map(Pair::Tool))
            .chain(spoken().map(Pair::WeirTo))
            .chain(spoken().filter(|tool| tool.decode.is_none()).map(Pair::ToWeir))
    }

    /// The pairs that a comparison takes unless told otherwise.
    pub fn usual() -> impl Iterator<Item = Pair> {
        Pair::all().filter(|pair| matches!(pair, Pair::Weir | Pair::Tool(_)))
    }

    /// The pair with this name.
    #[must_use]
    pub fn find(name: &str) -> Option<Pair> {
        Pair::all().find(|pair| pair.name() == name)
    }

    /// Its name in scenarios and tables.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Pair::Weir => WEIR.into(),
            Pair::Tool(tool) => tool.name.into(),
            Pair::WeirTo(tool) => format!("{WEIR}-to-{}", tool.name),
            Pair::ToWeir(tool) => format!("{}-to-{WEIR}", tool.name),
        }
    }

    /// The other tool, at either end or both.
    #[must_use]
    pub fn tool(self) -> Option<&'static Tool> {
        match self {
            Pair::Weir => None,
            Pair::Tool(tool) | Pair::WeirTo(tool) | Pair::ToWeir(tool) => Some(tool),
        }
    }

    /// Whether the client is Weir, so that a run has a record.
    #[must_use]
    pub fn is_from_weir(self) -> bool {
        matches!(self, Pair::Weir | Pair::WeirTo(_))
    }

    /// The other tool's programs that this program starts, in a lab or with a server that runs already.
    pub fn programs(self, is_lab: bool) -> impl Iterator<Item = &'static str> {
        let (first, rest) = match self {
            Pair::Weir => (None, &[][..]),
            Pair::Tool(tool) if is_lab => (None, tool.programs),
            Pair::Tool(tool) | Pair::ToWeir(tool) => (tool.programs.first(), &[][..]),
            // Where there is no program of its own for the server, the client's is both.
            Pair::WeirTo(tool) if is_lab => {
                (tool.programs.get(1).or(tool.programs.first()), &[][..])
            }
            Pair::WeirTo(_) => (None, &[][..]),
        };
        first.into_iter().chain(rest).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_found_by_its_name() {
        for pair in Pair::all() {
            assert_eq!(Pair::find(&pair.name()).map(Pair::name), Some(pair.name()));
        }
        let of = |name: &str| Pair::find(name);
        assert!(matches!(of("weir"), Some(Pair::Weir)));
        assert!(matches!(of("iperf3"), Some(Pair::Tool(tool)) if tool.name == "iperf3"));
        assert!(matches!(of("weir-to-iperf3"), Some(Pair::WeirTo(tool)) if tool.name == "iperf3"));
        assert!(
            matches!(of("netperf-to-weir"), Some(Pair::ToWeir(tool)) if tool.name == "netperf")
        );
        assert!(of("weir-to-weir").is_none());
        // Its figures are in the log of its own receiver.
        assert!(of("d-itg-to-weir").is_none());
        assert!(Pair::usual().all(|pair| !pair.name().contains("-to-")));
    }

    #[test]
    fn only_what_this_program_starts_must_be_installed() {
        let of = |name: &str, is_lab| -> Vec<&str> {
            Pair::find(name).unwrap().programs(is_lab).collect()
        };
        assert_eq!(of("netperf", true), ["netperf", "netserver"]);
        assert_eq!(of("netperf", false), ["netperf"]);
        assert_eq!(of("weir-to-netperf", true), ["netserver"]);
        assert_eq!(of("weir-to-iperf3", true), ["iperf3"]);
        assert!(of("weir-to-netperf", false).is_empty());
        assert_eq!(of("netperf-to-weir", true), ["netperf"]);
        assert!(of("weir", true).is_empty());
    }
}
