//! The flags after `--`, which concern the data connection.

use clap::Args;
use weir_report::{NetperfExchange, NetperfForm};

use super::selected;
use crate::commands::netperf::values::{both, explicit, size};
use crate::commands::values;
use crate::error::CliError;
use crate::random;

/// The flags after `--`.
#[derive(Debug, Default, Args)]
pub(super) struct TestFlags {
    /// Bytes of each send of this end and of the server
    #[arg(short = 'm', value_name = "LOCAL[,REMOTE]")]
    send_size: Option<String>,
    /// Bytes of each receive of the server
    #[arg(short = 'M', value_name = "REMOTE")]
    receive_size: Option<String>,
    /// Socket buffers of this end, for sending and receiving
    #[arg(short = 's', value_name = "SEND[,RECEIVE]")]
    local_buffers: Option<String>,
    /// Socket buffers of the server
    #[arg(short = 'S', value_name = "SEND[,RECEIVE]")]
    remote_buffers: Option<String>,
    /// Bytes of a request and of a response [default: 1,1]
    #[arg(short = 'r', value_name = "REQUEST[,RESPONSE]")]
    sizes: Option<String>,
    /// Do not delay small segments (TCP_NODELAY)
    #[arg(short = 'D')]
    no_delay: bool,
    /// Hold back small segments (TCP_CORK)
    #[arg(short = 'C')]
    cork: bool,
    /// Requests in addition to the one that is always under way
    #[arg(short = 'b', value_name = "NUMBER", default_value_t = 0, value_parser = values::whole(0_u32..=65_535))]
    burst: u32,
    /// Ports of the data at this end and at the server
    #[arg(short = 'P', value_name = "LOCAL[,REMOTE]")]
    ports: Option<String>,
    /// TCP congestion control of this end and of the server
    #[arg(short = 'K', value_name = "LOCAL[,REMOTE]")]
    congestion: Option<String>,
    /// TCP maximum segment size
    #[arg(short = 'G', value_name = "BYTES")]
    mss: Option<u32>,
    /// Host of the data, where it is not that of the control connection
    #[arg(short = 'H', value_name = "HOST[,FAMILY]")]
    remote_address: Option<String>,
    /// Address of this end
    #[arg(short = 'L', value_name = "ADDRESS[,FAMILY]")]
    local_address: Option<String>,
    /// Print results as lines NAME=VALUE: names separated by commas, a file of them, or ? for a list
    #[arg(short = 'k', value_name = "NAMES", num_args = 0..=1, conflicts_with_all = ["csv", "columns"])]
    keyval: Option<Option<String>>,
    /// Print results as CSV
    #[arg(short = 'o', value_name = "NAMES", num_args = 0..=1, conflicts_with = "columns")]
    csv: Option<Option<String>>,
    /// Print results in columns
    #[arg(short = 'O', value_name = "NAMES", num_args = 0..=1)]
    columns: Option<Option<String>>,
    /// OMNI: send (2), receive (4) or rr (6)
    #[arg(short = 'd', value_name = "DIRECTION")]
    direction: Option<String>,
    /// OMNI: a connection for each transaction
    #[arg(short = 'c')]
    connects: bool,
    /// OMNI: tcp or udp
    #[arg(short = 'T', value_name = "PROTOCOL")]
    protocol: Option<String>,
    /// OMNI: stream or dgram
    #[arg(short = 't', value_name = "SOCKET")]
    socket: Option<String>,
    /// Identifier of the test
    #[arg(short = 'u', value_name = "TEXT")]
    uuid: Option<String>,
    /// Without an effect: a response over UDP is awaited as long as Weir awaits it
    #[arg(short = 'e', value_name = "SECONDS")]
    timeout: Option<u32>,
    /// Without an effect: data is always routed
    #[arg(short = 'R', value_name = "0|1")]
    routed: Option<u32>,
    /// Without an effect: sockets of datagrams are always connected
    #[arg(short = 'n')]
    connected: bool,
    /// Without an effect: likewise, at the server
    #[arg(short = 'N')]
    remote_connected: bool,
    /// Without an effect: the family is that of the control connection
    #[arg(short = '4')]
    ipv4: bool,
    /// Without an effect: likewise
    #[arg(short = '6')]
    ipv6: bool,
}

impl TestFlags {
    pub(super) fn no_delay(&self) -> bool {
        self.no_delay
    }

    pub(super) fn cork(&self) -> bool {
        self.cork
    }

    pub(super) fn burst(&self) -> u32 {
        self.burst
    }

    pub(super) fn mss(&self) -> Option<u32> {
        self.mss
    }

    pub(super) fn local_buffers(&self) -> Option<&str> {
        self.local_buffers.as_deref()
    }

    pub(super) fn remote_buffers(&self) -> Option<&str> {
        self.remote_buffers.as_deref()
    }

    pub(super) fn local_address(&self) -> Option<&str> {
        self.local_address.as_deref()
    }

    pub(super) fn remote_address(&self) -> Option<&str> {
        self.remote_address.as_deref()
    }

    /// The form of the results; `None`: a list of names.
    ///
    /// # Errors
    /// A file of names that can't be read.
    pub(super) fn form(&self) -> Result<Option<NetperfForm>, CliError> {
        let given = [
            (&self.keyval, NetperfForm::Keyval as fn(_) -> _),
            (&self.csv, NetperfForm::Csv),
            (&self.columns, NetperfForm::Columns),
        ];
        let form = given.into_iter().find_map(|(given, form)| Some((given.as_ref()?, form)));
        let Some((names, form)) = form else { return Ok(Some(NetperfForm::Classic)) };
        match names.as_deref() {
            Some("?") => Ok(None),
            names => Ok(Some(form(selected(names)?))),
        }
    }

    /// Whether a list of names has one on each line.
    pub(super) fn lists_in_lines(&self) -> bool {
        self.columns.is_some()
    }

    /// Whether an OMNI test is one of UDP.
    ///
    /// # Errors
    /// Another protocol.
    pub(super) fn is_udp(&self) -> Result<Option<bool>, CliError> {
        let protocol = self.protocol.as_deref().map(str::to_ascii_lowercase);
        let socket = self.socket.as_deref().map(str::to_ascii_lowercase);
        let refused = |flag, given: &str| CliError::flag(flag, given, "tcp or udp");
        let by_protocol = match protocol.as_deref() {
            None => None,
            Some("tcp") => Some(false),
            Some("udp") => Some(true),
            Some(other) => return Err(refused("-T", other)),
        };
        match socket.as_deref() {
            None => Ok(by_protocol),
            Some("stream") => Ok(by_protocol.or(Some(false))),
            Some("dgram") => Ok(by_protocol.or(Some(true))),
            Some(other) => Err(CliError::flag("-t", other, "stream or dgram")),
        }
    }

    /// What an OMNI test exchanges.
    ///
    /// # Errors
    /// Another direction.
    pub(super) fn exchange(&self) -> Result<NetperfExchange, CliError> {
        let bits = |text: &str| match text.trim().to_ascii_lowercase().as_str() {
            "send" | "xmit" | "stream" | "transmit" | "2" | "0x2" => Some(2),
            "recv" | "receive" | "maerts" | "4" | "0x4" => Some(4),
            "rr" | "6" | "0x6" => Some(6),
            _ => None,
        };
        let stated = match self.direction.as_deref() {
            None => None,
            Some(text) => {
                let all = text.split('|').map(bits).try_fold(0, |all, part| Some(all | part?));
                let accepted = "send, recv or rr";
                Some(all.ok_or_else(|| CliError::flag("-d", text, accepted))?)
            }
        };
        let implied =
            |text: &Option<String>, which: usize| explicit(text.as_deref())[which].is_some();
        let receives = implied(&self.send_size, 1) || implied(&self.receive_size, 1);
        Ok(match stated {
            _ if self.connects => NetperfExchange::Connections,
            Some(6) => NetperfExchange::Transactions,
            Some(4) => NetperfExchange::Receive,
            Some(_) => NetperfExchange::Send,
            None if self.sizes.is_some() => NetperfExchange::Transactions,
            None if receives => NetperfExchange::Receive,
            None => NetperfExchange::Send,
        })
    }

    /// Socket buffers for sending and receiving.
    ///
    /// # Errors
    /// An invalid size, by the flag.
    pub(super) fn buffers(
        &self,
        flag: &str,
        text: Option<&str>,
    ) -> Result<[Option<u32>; 2], CliError> {
        let [send, receive] = both(text);
        let read = |text: Option<&str>| {
            Ok::<_, CliError>(text.map(|t| size(flag, t)).transpose()?.flatten())
        };
        Ok([read(send)?, read(receive)?])
    }

    /// Bytes of each send of this end and of the server.
    ///
    /// # Errors
    /// An invalid size.
    pub(super) fn send_sizes(&self) -> Result<(Option<u32>, Option<u32>), CliError> {
        let [local, remote] = explicit(self.send_size.as_deref());
        let read = |text: Option<&str>| {
            Ok::<_, CliError>(text.map(|t| size("-m", t)).transpose()?.flatten())
        };
        Ok((read(local)?, read(remote)?))
    }

    /// Bytes of each receive of the server.
    ///
    /// # Errors
    /// An invalid size, or one of this end, whose reads Weir chooses.
    pub(super) fn remote_receive_size(&self) -> Result<Option<u32>, CliError> {
        match explicit(self.receive_size.as_deref()) {
            [_, Some(own)] => {
                Err(CliError::flag("-M", own, "a size of the server's receives alone"))
            }
            [remote, None] => Ok(remote.map(|text| size("-M", text)).transpose()?.flatten()),
        }
    }

    /// Bytes of a request and of a response.
    ///
    /// # Errors
    /// An invalid size.
    pub(super) fn sizes(&self) -> Result<[Option<u32>; 2], CliError> {
        let [request, response] = both(self.sizes.as_deref());
        let read = |text: Option<&str>| {
            Ok::<_, CliError>(text.map(|t| size("-r", t)).transpose()?.flatten())
        };
        Ok([read(request)?, read(response)?])
    }

    /// Ports of the data at this end and at the server.
    ///
    /// # Errors
    /// An invalid port.
    pub(super) fn ports(&self) -> Result<[Option<u16>; 2], CliError> {
        let read = |text: Option<&str>| {
            let Some(text) = text else { return Ok(None) };
            let port = text.parse::<u16>();
            port.map(|port| Some(port).filter(|port| *port > 0))
                .map_err(|_| CliError::flag("-P", text, "0 to 65535"))
        };
        let [local, remote] = both(self.ports.as_deref());
        Ok([read(local)?, read(remote)?])
    }

    /// Congestion control of this end and of the server.
    pub(super) fn congestion(&self) -> [Option<&str>; 2] {
        both(self.congestion.as_deref())
    }

    /// Identifier of the test: as stated, or a new one.
    pub(super) fn uuid(&self) -> String {
        self.uuid.clone().unwrap_or_else(|| {
            let [high, low] = [random::u64(), random::u64()];
            format!(
                "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
                high >> 32,
                high >> 16 & 0xffff,
                high & 0xfff,
                0x8000 | low >> 48 & 0x3fff,
                low & 0xffff_ffff_ffff
            )
        })
    }
}
