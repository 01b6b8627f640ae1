//! Values of the names, and the three forms in which selected names are printed.

use super::figures::{NetperfEnd, NetperfHostCpu, NetperfSummary};
use super::selectors::{NAMES, NetperfSelection};
use super::{NetperfOptions, NetperfUnit};

/// netperf's text of what it no longer finds out.
const DEPRECATED: &str = "Deprecated";

fn int(value: Option<impl Into<u64>>) -> String {
    value.map_or_else(|| "-1".into(), |value| value.into().to_string())
}

fn decimal(value: Option<f64>, digits: usize) -> String {
    format!("{:.digits$}", value.unwrap_or(-1.0))
}

fn per_call(bytes: Option<u64>, calls: Option<u64>) -> String {
    let mean = match (bytes, calls) {
        (Some(_), Some(0)) => Some(0.0),
        (Some(bytes), Some(calls)) => Some(bytes as f64 / calls as f64),
        _ => None,
    };
    decimal(mean, 2)
}

/// Sending and receiving, in the pairs of an end.
const SEND: usize = 0;
const RECV: usize = 1;

/// A value whose name concerns one end; `name` is without that end.
fn of_end(name: &str, end: &NetperfEnd, cpu: Option<&NetperfHostCpu>) -> Option<String> {
    let part = |part: fn(&NetperfHostCpu) -> f64| decimal(cpu.map(part), 2);
    Some(match name {
        "SEND_SIZE" => int(end.sizes[SEND]),
        "RECV_SIZE" => int(end.sizes[RECV]),
        "SEND_CALLS" => int(end.calls[SEND]),
        "RECV_CALLS" => int(end.calls[RECV]),
        "BYTES_PER_SEND" => per_call(end.bytes[SEND], end.calls[SEND]),
        "BYTES_PER_RECV" => per_call(end.bytes[RECV], end.calls[RECV]),
        "BYTES_SENT" => int(end.bytes[SEND]),
        "BYTES_RECVD" => int(end.bytes[RECV]),
        "BYTES_XFERD" => int(end.total_bytes()),
        "CPU_PERCENT_USER" => part(|cpu| cpu.user),
        "CPU_PERCENT_SYSTEM" => part(|cpu| cpu.system),
        "CPU_PERCENT_IOWAIT" => part(|cpu| cpu.iowait),
        "CPU_PERCENT_IRQ" => part(|cpu| cpu.irq),
        "CPU_PERCENT_SWINTR" => part(|cpu| cpu.softirq),
        "CPU_PEAK_UTIL" => part(|cpu| cpu.peak),
        "CPU_PEAK_ID" => int(cpu.map(|cpu| cpu.peak_id)),
        "CPU_COUNT" => int(cpu.map(|cpu| cpu.processors)),
        "CPU_METHOD" => if cpu.is_some() { "S" } else { "U" }.into(),
        "NODELAY" => i32::from(end.no_delay).to_string(),
        "CORK" => i32::from(end.cork).to_string(),
        "TRANSPORT_RETRANS" => int(end.retransmits),
        "SOCKET_PRIO" => int(end.priority),
        "SOCKET_TOS" => end.tos.map_or_else(|| "0xffffffff".into(), |tos| format!("0x{tos:02x}")),
        "CONG_CONTROL" => end.congestion.clone().unwrap_or_default(),
        "FILL_FILE" => String::new(),
        "INTERVAL_USECS" | "INTERVAL_BURST" => "0".into(),
        "INTERFACE_VENDOR" | "INTERFACE_DEVICE" | "INTERFACE_SUBVENDOR" | "INTERFACE_SUBDEVICE" => {
            "0xffffffff".into()
        }
        "SYSNAME" | "SYSTEM_MODEL" | "RELEASE" | "VERSION" | "MACHINE" | "CPU_MODEL"
        | "INTERFACE_NAME" | "INTERFACE_SLOT" | "DRIVER_NAME" | "DRIVER_VERSION"
        | "DRIVER_FIRMWARE" | "DRIVER_BUS" | "SECURITY_TYPE" | "SECURITY_ENABLED"
        | "SECURITY_SPECIFIC" => DEPRECATED.into(),
        _ => return None,
    })
}

/// A socket buffer: `LSS` is the local end's for sending, `RSR` the remote end's for receiving.
fn buffer(name: &str, summary: &NetperfSummary) -> Option<String> {
    let (prefix, rest) = name.split_at_checked(3)?;
    let last = &summary.last;
    let (end, which) = match prefix {
        "LSS" => (&last.local, SEND),
        "LSR" => (&last.local, RECV),
        "RSS" => (&last.remote, SEND),
        "RSR" => (&last.remote, RECV),
        _ => return None,
    };
    Some(match rest {
        "_SIZE_REQ" => int(end.requested_buffers[which]),
        "_SIZE" => int(end.buffers[which]),
        "_SIZE_END" => int(end.final_buffers[which]),
        _ => return None,
    })
}

impl NetperfOptions {
    /// The value of a name.
    fn value(&self, name: &str, summary: &NetperfSummary) -> String {
        let last = &summary.last;
        let unit = self.unit();
        // A rate of bytes also where the result is one of transactions.
        let bytes_unit = if unit.counts_transactions() { NetperfUnit('m') } else { unit };
        let rate = |bytes: Option<u64>| {
            decimal(bytes.map(|bytes| bytes_unit.rate(bytes as f64, last.seconds)), 2)
        };
        let per_second = last.transactions.map(|n| NetperfUnit('x').rate(n as f64, last.seconds));
        let under_way = match self.kind.exchange() {
            super::NetperfExchange::Connections => 1.0,
            _ => f64::from(1 + self.burst),
        };
        let latency = |of: fn(&super::figures::Latency) -> Option<f64>, digits| {
            decimal(last.latency.as_ref().and_then(of), digits)
        };
        let address = |which: usize| last.addresses[which];
        let family = |which: usize| {
            address(which).map_or("-1", |at| if at.is_ipv4() { "2" } else { "10" }).to_owned()
        };
        let host = |which: usize| {
            address(which).map_or_else(String::new, |at| at.ip().to_canonical().to_string())
        };
        let port = |which: usize| int(address(which).map(|at| at.port()));
        let confidence = self.confidence.as_ref();
        match name {
            "OUTPUT_NONE" => " ".into(),
            "SOCKET_TYPE" => if last.is_datagrams { "Datagram" } else { "Stream" }.into(),
            "PROTOCOL" => if last.is_datagrams { "UDP" } else { "TCP" }.into(),
            "DIRECTION" => self.kind.exchange().direction().into(),
            "ELAPSED_TIME" => decimal(Some(summary.seconds), 2),
            "THROUGHPUT" => decimal(Some(summary.throughput), 2),
            "THROUGHPUT_UNITS" => format!("{}/s", unit.name()),
            "REQUEST_SIZE" => int(last.exchanged[0]),
            "RESPONSE_SIZE" => int(last.exchanged[1]),
            "LOCAL_CPU_UTIL" => decimal(summary.cpu[0], 2),
            "REMOTE_CPU_UTIL" => decimal(summary.cpu[1], 2),
            "LOCAL_SD" => decimal(summary.service_demand[0], 3),
            "REMOTE_SD" => decimal(summary.service_demand[1], 3),
            "SD_UNITS" => if unit.counts_transactions() { "usec/Tran" } else { "usec/KB" }.into(),
            "CONFIDENCE_LEVEL" => confidence.map_or(0, |c| c.level_percent).to_string(),
            "CONFIDENCE_INTERVAL" => format!("{:.6}", confidence.map_or(-1.0, |c| c.width_percent)),
            "CONFIDENCE_ITERATION" => summary.runs.to_string(),
            "THROUGHPUT_CONFID" => decimal(summary.widths_percent[0], 3),
            "LOCAL_CPU_CONFID" => decimal(summary.widths_percent[1], 3),
            "REMOTE_CPU_CONFID" => decimal(summary.widths_percent[2], 3),
            "TRANSACTION_RATE" => decimal(per_second, 3),
            "RT_LATENCY" => {
                let per_second = per_second.filter(|rate| *rate > 0.0);
                decimal(per_second.map(|rate| 1e6 * under_way / rate), 3)
            }
            "BURST_SIZE" => self.burst.to_string(),
            "TRANSPORT_MSS" => int(last.mss),
            "LOCAL_SEND_THROUGHPUT" => rate(last.local.bytes[SEND]),
            "LOCAL_RECV_THROUGHPUT" => rate(last.local.bytes[RECV]),
            "REMOTE_SEND_THROUGHPUT" => rate(last.remote.bytes[SEND]),
            "REMOTE_RECV_THROUGHPUT" => rate(last.remote.bytes[RECV]),
            "SOURCE_PORT" => port(0),
            "SOURCE_ADDR" => host(0),
            "SOURCE_FAMILY" => family(0),
            "DEST_PORT" => port(1),
            "DEST_ADDR" => host(1),
            "DEST_FAMILY" => family(1),
            "RESULT_BRAND" => {
                format!("\"{}\"", crate::clean(self.brand.as_deref().unwrap_or_default()))
            }
            "UUID" => crate::clean(&self.uuid).to_string(),
            "COMMAND_LINE" => format!("\"{}\"", crate::clean(&self.command_line)),
            "MIN_LATENCY" => latency(|l| Some(l.min), 0),
            "MAX_LATENCY" => latency(|l| Some(l.max), 0),
            "P50_LATENCY" => latency(|l| l.p50, 0),
            "P90_LATENCY" => latency(|l| l.p90, 0),
            "P99_LATENCY" => latency(|l| l.p99, 0),
            "MEAN_LATENCY" => latency(|l| Some(l.mean), 2),
            "STDDEV_LATENCY" => latency(|l| l.deviation, 2),
            _ => {
                let of = |prefix: &str, end: &NetperfEnd| {
                    of_end(name.strip_prefix(prefix)?, end, end.cpu.as_ref())
                };
                of("LOCAL_", &last.local)
                    .or_else(|| of("REMOTE_", &last.remote))
                    .or_else(|| buffer(name, summary))
                    // Alignments, widths of rings and the like, which Weir has none of.
                    .unwrap_or_else(|| "-1".into())
            }
        }
    }

    fn selected(&self, selection: &NetperfSelection) -> Vec<Vec<Option<usize>>> {
        selection.lines(self.kind, self.cpu)
    }

    pub(super) fn keyval(&self, summary: &NetperfSummary, selection: &NetperfSelection) -> String {
        let is_known = |at: &usize| NAMES[*at].0 != "RESULT_BRAND" || self.brand.is_some();
        let names = self.selected(selection).into_iter().flatten().flatten();
        let names = names.filter(is_known);
        let line = |at: usize| format!("{}={}\n", NAMES[at].0, self.value(NAMES[at].0, summary));
        names.map(line).collect()
    }

    pub(super) fn csv(&self, summary: &NetperfSummary, selection: &NetperfSelection) -> String {
        let names: Vec<Option<usize>> = self.selected(selection).into_iter().flatten().collect();
        let joined = |cell: &dyn Fn(usize) -> String| {
            let cells = names.iter().map(|at| at.map_or_else(String::new, cell));
            cells.collect::<Vec<_>>().join(",") + "\n"
        };
        let headings = match self.headings {
            true => joined(&|at| NAMES[at].1.join(" ")),
            false => String::new(),
        };
        headings + &joined(&|at| self.value(NAMES[at].0, summary))
    }

    pub(super) fn columns(&self, summary: &NetperfSummary, selection: &NetperfSelection) -> String {
        const HEADING_LINES: usize = 4;
        let block = |names: &Vec<Option<usize>>| {
            let mut lines = vec![String::new(); HEADING_LINES];
            let mut values = String::new();
            for at in names {
                let (heading, value) = match at {
                    Some(at) => (NAMES[*at].1, self.value(NAMES[*at].0, summary)),
                    None => (&[][..], String::new()),
                };
                let widest = heading.iter().map(|line| line.len()).max().unwrap_or(0);
                // A column is a character wider than its longest value.
                let width = widest.max(value.len() + usize::from(at.is_some()));
                for (i, line) in lines.iter_mut().enumerate() {
                    let text = heading.get(i).copied().unwrap_or_default();
                    *line += &format!("{text:width$} ");
                }
                values += &format!("{value:width$} ");
            }
            let headings: String = match self.headings {
                true => lines.iter().map(|line| format!("{line}\n")).collect(),
                false => String::new(),
            };
            format!("{headings}{values}\n")
        };
        let blocks: Vec<String> = self.selected(selection).iter().map(block).collect();
        blocks.join("\n")
    }
}
