//! A test as netperf prints it: the heading, interim results, the classic tables, and the names that `-k`, `-o` and `-O` select.
//!
//! The formats are those of netperf 2.7.1. Integers and rates that were not measured are -1, as netperf's are.

mod figures;
mod selectors;
mod tables;
mod values;

use std::str::FromStr;

use weir_model::ModelError;

pub use figures::{NetperfConfidence, NetperfEnd, NetperfFigures, NetperfHostCpu, NetperfSummary};
pub use selectors::{NetperfSelection, netperf_names};

/// What a test exchanges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NetperfExchange {
    /// This end sends.
    #[default]
    Send,
    /// This end receives.
    Receive,
    /// Requests and responses.
    Transactions,
    /// The same with a connection for each.
    Connections,
}

/// The table of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NetperfKind {
    /// `TCP_STREAM`.
    #[default]
    TcpStream,
    /// `TCP_MAERTS`.
    TcpMaerts,
    /// `TCP_RR`.
    TcpRr,
    /// `TCP_CRR`.
    TcpCrr,
    /// `UDP_STREAM`.
    UdpStream,
    /// `UDP_RR`.
    UdpRr,
    /// `OMNI`, which has no table.
    Omni(NetperfExchange),
}

impl NetperfKind {
    /// What it exchanges.
    #[must_use]
    pub fn exchange(self) -> NetperfExchange {
        match self {
            NetperfKind::TcpStream | NetperfKind::UdpStream => NetperfExchange::Send,
            NetperfKind::TcpMaerts => NetperfExchange::Receive,
            NetperfKind::TcpRr | NetperfKind::UdpRr => NetperfExchange::Transactions,
            NetperfKind::TcpCrr => NetperfExchange::Connections,
            NetperfKind::Omni(exchange) => exchange,
        }
    }

    fn has_transactions(self) -> bool {
        matches!(self.exchange(), NetperfExchange::Transactions | NetperfExchange::Connections)
    }

    fn title(self) -> String {
        match self {
            NetperfKind::TcpStream => "MIGRATED TCP STREAM TEST".into(),
            NetperfKind::TcpMaerts => "MIGRATED TCP MAERTS TEST".into(),
            NetperfKind::TcpRr => "MIGRATED TCP REQUEST/RESPONSE TEST".into(),
            NetperfKind::TcpCrr => "MIGRATED TCP Connect/Request/Response TEST".into(),
            NetperfKind::UdpStream => "MIGRATED UDP STREAM TEST".into(),
            NetperfKind::UdpRr => "MIGRATED UDP REQUEST/RESPONSE TEST".into(),
            NetperfKind::Omni(exchange) => format!("OMNI {} TEST", exchange.direction()),
        }
    }
}

impl NetperfExchange {
    /// As `DIRECTION` states it.
    fn direction(self) -> &'static str {
        match self {
            NetperfExchange::Send => "Send",
            NetperfExchange::Receive => "Receive",
            NetperfExchange::Transactions => "Send|Recv",
            NetperfExchange::Connections => "Connect|Send|Recv",
        }
    }
}

/// The unit of rates, `-f` of netperf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetperfUnit(char);

impl FromStr for NetperfUnit {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<Self, ModelError> {
        let mut letters = text.chars();
        match (letters.next(), letters.next()) {
            (Some(letter), None) if "bkmgBKMGxu".contains(letter) => Ok(NetperfUnit(letter)),
            _ => Err(ModelError::Value {
                what: "format",
                given: text.into(),
                accepted: "b, k, m, g (bits, powers of ten), B, K, M, G (bytes, powers of 1024), x (transactions) or u (microseconds)",
            }),
        }
    }
}

impl NetperfUnit {
    /// The unit of a test that states none, or one that it can't have.
    #[must_use]
    pub fn of(given: Option<Self>, kind: NetperfKind) -> Self {
        let is_of_transactions = matches!(given, Some(NetperfUnit('x' | 'u')));
        match (given, kind.has_transactions()) {
            (Some(given), true) => given,
            (Some(given), false) if !is_of_transactions => given,
            (None, true) => NetperfUnit('x'),
            (_, false) => NetperfUnit('m'),
        }
    }

    fn counts_transactions(self) -> bool {
        matches!(self.0, 'x' | 'u')
    }

    fn name(self) -> &'static str {
        match self.0 {
            'B' => "Bytes",
            'K' => "KBytes",
            'M' => "MBytes",
            'G' => "GBytes",
            'b' => "10^0bits",
            'k' => "10^3bits",
            'g' => "10^9bits",
            'x' => "Trans",
            'u' => "Usec",
            _ => "10^6bits",
        }
    }

    /// Bytes or transactions over seconds.
    fn rate(self, units: f64, seconds: f64) -> f64 {
        if seconds <= 0.0 {
            return 0.0;
        }
        let kilo = 1024.0_f64;
        match self.0 {
            'K' => units / kilo / seconds,
            'M' => units / kilo.powi(2) / seconds,
            'G' => units / kilo.powi(3) / seconds,
            'b' => 8.0 * units / seconds,
            'k' => 8.0 * units / 1e3 / seconds,
            'm' => 8.0 * units / 1e6 / seconds,
            'g' => 8.0 * units / 1e9 / seconds,
            'u' if units > 0.0 => 1e6 * seconds / units,
            _ => units / seconds,
        }
    }
}

/// How the results are printed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum NetperfForm {
    /// The table of the test.
    #[default]
    Classic,
    /// `-k`: a name and its value on each line.
    Keyval(NetperfSelection),
    /// `-o`: a line of headings and one of values.
    Csv(NetperfSelection),
    /// `-O`: columns under their headings.
    Columns(NetperfSelection),
}

/// Options of the text.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NetperfOptions {
    /// The test.
    pub kind: NetperfKind,
    /// How results are printed.
    pub form: NetperfForm,
    /// The unit of rates; absent: that of the test.
    pub unit: Option<NetperfUnit>,
    /// 0: only the result; 2 and above: details.
    pub verbosity: u32,
    /// Headings are printed.
    pub headings: bool,
    /// At the end of a result without headings.
    pub brand: Option<String>,
    /// Requests in addition to the one that is always under way.
    pub burst: u32,
    /// Whether small segments are not delayed.
    pub no_delay: bool,
    /// Whether processor time was asked for. Where it could not be measured, it is -1.
    pub cpu: bool,
    /// Confidence that repeated tests are to reach.
    pub confidence: Option<NetperfConfidence>,
    /// `UUID`.
    pub uuid: String,
    /// `COMMAND_LINE`.
    pub command_line: String,
}

impl NetperfOptions {
    fn unit(&self) -> NetperfUnit {
        NetperfUnit::of(self.unit, self.kind)
    }

    /// The line before the test. `host` and its address, of IPv6 or IPv4; `local`: the address of this end, if the user stated one.
    #[must_use]
    pub fn banner(&self, host: &str, address: std::net::IpAddr, local: Option<&str>) -> String {
        if !self.headings {
            return String::new();
        }
        let (family, any) = match address {
            std::net::IpAddr::V4(_) => ("AF_INET", "0.0.0.0"),
            std::net::IpAddr::V6(_) => ("AF_INET6", "::0"),
        };
        let local = crate::clean(local.unwrap_or(any)).to_string();
        let title = self.kind.title();
        let host = crate::clean(host);
        let mut line = format!(
            "{title} from {local} ({local}) port 0 {family} to {host} ({address}) port 0 {family}"
        );
        if let Some(confidence) = &self.confidence {
            let only = if confidence.result_only { " on result only" } else { "" };
            line += &format!(
                " : +/-{:.3}% @ {:2}% conf. {only}",
                confidence.width_percent / 2.0,
                confidence.level_percent
            );
        }
        if self.no_delay {
            line += " : nodelay";
        }
        line += " : demo";
        if title.contains("REQUEST/RESPONSE") {
            line += &format!(" : first burst {}", self.burst);
        }
        line + "\n"
    }

    /// The text after the last test.
    #[must_use]
    pub fn results(&self, summary: &NetperfSummary) -> String {
        match &self.form {
            NetperfForm::Classic if !matches!(self.kind, NetperfKind::Omni(_)) => {
                self.table(summary)
            }
            // An OMNI test without a selection prints columns.
            NetperfForm::Classic => self.columns(summary, &NetperfSelection::default()),
            NetperfForm::Keyval(selection) => self.keyval(summary, selection),
            NetperfForm::Csv(selection) => self.csv(summary, selection),
            NetperfForm::Columns(selection) => self.columns(summary, selection),
        }
    }
}

/// Interim results, `-D`. An interval without data is a part of the next one.
#[derive(Debug)]
pub struct NetperfInterim {
    form: NetperfForm,
    unit: NetperfUnit,
    /// End of the last interval that was printed, s.
    since_seconds: f64,
    count: u32,
}

impl NetperfInterim {
    /// Those of a test.
    #[must_use]
    pub fn new(options: &NetperfOptions) -> Self {
        let (form, unit) = (options.form.clone(), options.unit());
        NetperfInterim { form, unit, since_seconds: 0.0, count: 0 }
    }

    /// Whether transactions count, and not bytes.
    #[must_use]
    pub fn counts_transactions(&self) -> bool {
        self.unit.counts_transactions()
    }

    /// The text of an interval that has ended `end_seconds` after the start, at `end_ms` since 1970. `units`: bytes or
    /// transactions in it.
    #[must_use]
    pub fn interval(&mut self, units: u64, end_seconds: f64, end_ms: u64) -> String {
        let seconds = end_seconds - self.since_seconds;
        if units == 0 || seconds <= 0.0 {
            return String::new();
        }
        self.since_seconds = end_seconds;
        let (result, unit) = (self.unit.rate(units as f64, seconds), self.unit.name());
        let at = format!("{}.{:03}", end_ms / 1000, end_ms % 1000);
        match self.form {
            NetperfForm::Classic | NetperfForm::Columns(_) => format!(
                "Interim result: {result:7.2} {unit}/s over {seconds:.3} seconds ending at {at}\n"
            ),
            NetperfForm::Csv(_) => format!("{result:7.2},{unit}/s,{seconds:.3},{at}\n"),
            NetperfForm::Keyval(_) => {
                let i = self.count;
                self.count += 1;
                format!(
                    "NETPERF_INTERIM_RESULT[{i}]={result:.2}\nNETPERF_UNITS[{i}]={unit}/s\n\
                     NETPERF_INTERVAL[{i}]={seconds:.3}\nNETPERF_ENDING[{i}]={at}\n"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests;
