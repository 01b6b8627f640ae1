//! The names that select results, with their headings, and selections of them.

use super::NetperfKind;

/// Most lines of a selection.
const MAX_BLOCKS: usize = 4;

/// Names in netperf's order, each with the lines of its heading.
#[rustfmt::skip]
pub(super) const NAMES: &[(&str, &[&str])] = &[
    ("OUTPUT_NONE", &[" "]),
    ("SOCKET_TYPE", &["Socket", "Type"]),
    ("PROTOCOL", &["Protocol"]),
    ("DIRECTION", &["Direction"]),
    ("ELAPSED_TIME", &["Elapsed", "Time", "(sec)"]),
    ("THROUGHPUT", &["Throughput"]),
    ("THROUGHPUT_UNITS", &["Throughput", "Units"]),
    ("LSS_SIZE_REQ", &["Local", "Send Socket", "Size", "Requested"]),
    ("LSS_SIZE", &["Local", "Send Socket", "Size", "Initial"]),
    ("LSS_SIZE_END", &["Local", "Send Socket", "Size", "Final"]),
    ("LSR_SIZE_REQ", &["Local", "Recv Socket", "Size", "Requested"]),
    ("LSR_SIZE", &["Local", "Recv Socket", "Size", "Initial"]),
    ("LSR_SIZE_END", &["Local", "Recv Socket", "Size", "Final"]),
    ("RSS_SIZE_REQ", &["Remote", "Send Socket", "Size", "Requested"]),
    ("RSS_SIZE", &["Remote", "Send Socket", "Size", "Initial"]),
    ("RSS_SIZE_END", &["Remote", "Send Socket", "Size", "Final"]),
    ("RSR_SIZE_REQ", &["Remote", "Recv Socket", "Size", "Requested"]),
    ("RSR_SIZE", &["Remote", "Recv Socket", "Size", "Initial"]),
    ("RSR_SIZE_END", &["Remote", "Recv Socket", "Size", "Final"]),
    ("LOCAL_SEND_SIZE", &["Local", "Send", "Size"]),
    ("LOCAL_RECV_SIZE", &["Local", "Recv", "Size"]),
    ("REMOTE_SEND_SIZE", &["Remote", "Send", "Size"]),
    ("REMOTE_RECV_SIZE", &["Remote", "Recv", "Size"]),
    ("REQUEST_SIZE", &["Request", "Size", "Bytes"]),
    ("RESPONSE_SIZE", &["Response", "Size", "Bytes"]),
    ("LOCAL_CPU_UTIL", &["Local", "CPU", "Util", "%"]),
    ("LOCAL_CPU_PERCENT_USER", &["Local", "CPU", "User", "%"]),
    ("LOCAL_CPU_PERCENT_SYSTEM", &["Local", "CPU", "System", "%"]),
    ("LOCAL_CPU_PERCENT_IOWAIT", &["Local", "CPU", "I/O", "%"]),
    ("LOCAL_CPU_PERCENT_IRQ", &["Local", "CPU", "IRQ", "%"]),
    ("LOCAL_CPU_PERCENT_SWINTR", &["Local", "CPU", "swintr", "%"]),
    ("LOCAL_CPU_METHOD", &["Local", "CPU", "Util", "Method"]),
    ("LOCAL_SD", &["Local", "Service", "Demand"]),
    ("REMOTE_CPU_UTIL", &["Remote", "CPU", "Util", "%"]),
    ("REMOTE_CPU_PERCENT_USER", &["Remote", "CPU", "User", "%"]),
    ("REMOTE_CPU_PERCENT_SYSTEM", &["Remote", "CPU", "System", "%"]),
    ("REMOTE_CPU_PERCENT_IOWAIT", &["Remote", "CPU", "I/O", "%"]),
    ("REMOTE_CPU_PERCENT_IRQ", &["Remote", "CPU", "IRQ", "%"]),
    ("REMOTE_CPU_PERCENT_SWINTR", &["Remote", "CPU", "swintr", "%"]),
    ("REMOTE_CPU_METHOD", &["Remote", "CPU", "Util", "Method"]),
    ("REMOTE_SD", &["Remote", "Service", "Demand"]),
    ("SD_UNITS", &["Service", "Demand", "Units"]),
    ("CONFIDENCE_LEVEL", &["Confidence", "Level", "Percent"]),
    ("CONFIDENCE_INTERVAL", &["Confidence", "Width", "Target"]),
    ("CONFIDENCE_ITERATION", &["Confidence", "Iterations", "Run"]),
    ("THROUGHPUT_CONFID", &["Throughput", "Confidence", "Width (%)"]),
    ("LOCAL_CPU_CONFID", &["Local", "CPU", "Confidence", "Width (%)"]),
    ("REMOTE_CPU_CONFID", &["Remote", "CPU", "Confidence", "Width (%)"]),
    ("TRANSACTION_RATE", &["Transaction", "Rate", "Tran/s"]),
    ("RT_LATENCY", &["Round", "Trip", "Latency", "usec/tran"]),
    ("BURST_SIZE", &["Initial", "Burst", "Requests"]),
    ("LOCAL_TRANSPORT_RETRANS", &["Local", "Transport", "Retransmissions"]),
    ("REMOTE_TRANSPORT_RETRANS", &["Remote", "Transport", "Retransmissions"]),
    ("TRANSPORT_MSS", &["Transport", "MSS", "bytes"]),
    ("LOCAL_SEND_THROUGHPUT", &["Local", "Send", "Throughput"]),
    ("LOCAL_RECV_THROUGHPUT", &["Local", "Recv", "Throughput"]),
    ("REMOTE_SEND_THROUGHPUT", &["Remote", "Send", "Throughput"]),
    ("REMOTE_RECV_THROUGHPUT", &["Remote", "Recv", "Throughput"]),
    ("LOCAL_CPU_BIND", &["Local", "CPU", "Bind"]),
    ("LOCAL_CPU_COUNT", &["Local", "CPU", "Count"]),
    ("LOCAL_CPU_PEAK_UTIL", &["Local", "Peak", "Per CPU", "Util %"]),
    ("LOCAL_CPU_PEAK_ID", &["Local", "Peak", "Per CPU", "ID"]),
    ("LOCAL_CPU_MODEL", &["Local", "CPU", "Model"]),
    ("LOCAL_CPU_FREQUENCY", &["Local", "CPU", "Frequency", "MHz"]),
    ("REMOTE_CPU_BIND", &["Remote", "CPU", "Bind"]),
    ("REMOTE_CPU_COUNT", &["Remote", "CPU", "Count"]),
    ("REMOTE_CPU_PEAK_UTIL", &["Remote", "Peak", "Per CPU", "Util %"]),
    ("REMOTE_CPU_PEAK_ID", &["Remote", "Peak", "Per CPU", "ID"]),
    ("REMOTE_CPU_MODEL", &["Remote", "CPU", "Model"]),
    ("REMOTE_CPU_FREQUENCY", &["Remote", "CPU", "Frequency", "MHz"]),
    ("SOURCE_PORT", &["Source", "Port"]),
    ("SOURCE_ADDR", &["Source", "Address"]),
    ("SOURCE_FAMILY", &["Source", "Family"]),
    ("DEST_PORT", &["Destination", "Port"]),
    ("DEST_ADDR", &["Destination", "Address"]),
    ("DEST_FAMILY", &["Destination", "Family"]),
    ("LOCAL_SEND_CALLS", &["Local", "Send", "Calls"]),
    ("LOCAL_RECV_CALLS", &["Local", "Recv", "Calls"]),
    ("LOCAL_BYTES_PER_RECV", &["Local", "Bytes", "Per", "Recv"]),
    ("LOCAL_BYTES_PER_SEND", &["Local", "Bytes", "Per", "Send"]),
    ("LOCAL_BYTES_SENT", &["Local", "Bytes", "Sent"]),
    ("LOCAL_BYTES_RECVD", &["Local", "Bytes", "Received"]),
    ("LOCAL_BYTES_XFERD", &["Local", "Bytes", "Xferred"]),
    ("LOCAL_SEND_OFFSET", &["Local", "Send", "Offset"]),
    ("LOCAL_RECV_OFFSET", &["Local", "Recv", "Offset"]),
    ("LOCAL_SEND_ALIGN", &["Local", "Send", "Alignment"]),
    ("LOCAL_RECV_ALIGN", &["Local", "Recv", "Alignment"]),
    ("LOCAL_SEND_WIDTH", &["Local", "Send", "Width"]),
    ("LOCAL_RECV_WIDTH", &["Local", "Recv", "Width"]),
    ("LOCAL_SEND_DIRTY_COUNT", &["Local", "Send", "Dirty", "Count"]),
    ("LOCAL_RECV_DIRTY_COUNT", &["Local", "Recv", "Dirty", "Count"]),
    ("LOCAL_RECV_CLEAN_COUNT", &["Local", "Recv", "Clean", "Count"]),
    ("LOCAL_NODELAY", &["Local", "NODELAY"]),
    ("LOCAL_CORK", &["Local", "Cork"]),
    ("REMOTE_SEND_CALLS", &["Remote", "Send", "Calls"]),
    ("REMOTE_RECV_CALLS", &["Remote", "Recv", "Calls"]),
    ("REMOTE_BYTES_PER_RECV", &["Remote", "Bytes", "Per", "Recv"]),
    ("REMOTE_BYTES_PER_SEND", &["Remote", "Bytes", "Per", "Send"]),
    ("REMOTE_BYTES_SENT", &["Remote", "Bytes", "Sent"]),
    ("REMOTE_BYTES_RECVD", &["Remote", "Bytes", "Received"]),
    ("REMOTE_BYTES_XFERD", &["Remote", "Bytes", "Xferred"]),
    ("REMOTE_SEND_OFFSET", &["Remote", "Send", "Offset"]),
    ("REMOTE_RECV_OFFSET", &["Remote", "Recv", "Offset"]),
    ("REMOTE_SEND_ALIGN", &["Remote", "Send", "Alignment"]),
    ("REMOTE_RECV_ALIGN", &["Remote", "Recv", "Alignment"]),
    ("REMOTE_SEND_WIDTH", &["Remote", "Send", "Width"]),
    ("REMOTE_RECV_WIDTH", &["Remote", "Recv", "Width"]),
    ("REMOTE_SEND_DIRTY_COUNT", &["Remote", "Send", "Dirty", "Count"]),
    ("REMOTE_RECV_DIRTY_COUNT", &["Remote", "Recv", "Dirty", "Count"]),
    ("REMOTE_RECV_CLEAN_COUNT", &["Remote", "Recv", "Clean", "Count"]),
    ("REMOTE_NODELAY", &["Remote", "NODELAY"]),
    ("REMOTE_CORK", &["Remote", "Cork"]),
    ("LOCAL_SYSNAME", &["Local", "Sysname"]),
    ("LOCAL_SYSTEM_MODEL", &["Local", "System", "Model"]),
    ("LOCAL_RELEASE", &["Local", "Release"]),
    ("LOCAL_VERSION", &["Local", "Version"]),
    ("LOCAL_MACHINE", &["Local", "Machine"]),
    ("REMOTE_SYSNAME", &["Remote", "Sysname"]),
    ("REMOTE_SYSTEM_MODEL", &["Remote", "System", "Model"]),
    ("REMOTE_RELEASE", &["Remote", "Release"]),
    ("REMOTE_VERSION", &["Remote", "Version"]),
    ("REMOTE_MACHINE", &["Remote", "Machine"]),
    ("LOCAL_INTERFACE_NAME", &["Local", "Interface", "Name"]),
    ("LOCAL_INTERFACE_VENDOR", &["Local", "Interface", "Vendor"]),
    ("LOCAL_INTERFACE_DEVICE", &["Local", "Interface", "Device"]),
    ("LOCAL_INTERFACE_SUBVENDOR", &["Local", "Interface", "Subvendor"]),
    ("LOCAL_INTERFACE_SUBDEVICE", &["Local", "Interface", "Subdevice"]),
    ("LOCAL_DRIVER_NAME", &["Local", "Driver", "Name"]),
    ("LOCAL_DRIVER_VERSION", &["Local", "Driver", "Version"]),
    ("LOCAL_DRIVER_FIRMWARE", &["Local", "Driver", "Firmware"]),
    ("LOCAL_DRIVER_BUS", &["Local", "Driver", "Bus"]),
    ("LOCAL_INTERFACE_SLOT", &["Local", "Interface", "Slot"]),
    ("REMOTE_INTERFACE_NAME", &["Remote", "Interface", "Name"]),
    ("REMOTE_INTERFACE_VENDOR", &["Remote", "Interface", "Vendor"]),
    ("REMOTE_INTERFACE_DEVICE", &["Remote", "Interface", "Device"]),
    ("REMOTE_INTERFACE_SUBVENDOR", &["Remote", "Interface", "Subvendor"]),
    ("REMOTE_INTERFACE_SUBDEVICE", &["Remote", "Interface", "Subdevice"]),
    ("REMOTE_DRIVER_NAME", &["Remote", "Driver", "Name"]),
    ("REMOTE_DRIVER_VERSION", &["Remote", "Driver", "Version"]),
    ("REMOTE_DRIVER_FIRMWARE", &["Remote", "Driver", "Firmware"]),
    ("REMOTE_DRIVER_BUS", &["Remote", "Driver", "Bus"]),
    ("REMOTE_INTERFACE_SLOT", &["Remote", "Interface", "Slot"]),
    ("LOCAL_INTERVAL_USECS", &["Local", "Interval", "Usecs"]),
    ("LOCAL_INTERVAL_BURST", &["Local", "Interval", "Burst"]),
    ("REMOTE_INTERVAL_USECS", &["Remote", "Interval", "Usecs"]),
    ("REMOTE_INTERVAL_BURST", &["Remote", "Interval", "Burst"]),
    ("LOCAL_SECURITY_TYPE_ID", &["Local", "OS", "Security", "Type ID"]),
    ("LOCAL_SECURITY_TYPE", &["Local", "OS", "Security", "Type"]),
    ("LOCAL_SECURITY_ENABLED_NUM", &["Local", "OS", "Security", "Enabled Num"]),
    ("LOCAL_SECURITY_ENABLED", &["Local", "OS", "Security", "Enabled"]),
    ("LOCAL_SECURITY_SPECIFIC", &["Local", "OS", "Security", "Specific"]),
    ("REMOTE_SECURITY_TYPE_ID", &["Remote", "OS", "Security", "Type"]),
    ("REMOTE_SECURITY_TYPE", &["Remote", "OS", "Security", "Type"]),
    ("REMOTE_SECURITY_ENABLED_NUM", &["Remote", "OS", "Security", "Enabled"]),
    ("REMOTE_SECURITY_ENABLED", &["Remote", "OS", "Security", "Enabled"]),
    ("REMOTE_SECURITY_SPECIFIC", &["Remote", "OS", "Security", "Specific"]),
    ("RESULT_BRAND", &["Result", "Tag"]),
    ("UUID", &["Test", "UUID"]),
    ("MIN_LATENCY", &["Minimum", "Latency", "Microseconds"]),
    ("MAX_LATENCY", &["Maximum", "Latency", "Microseconds"]),
    ("P50_LATENCY", &["50th", "Percentile", "Latency", "Microseconds"]),
    ("P90_LATENCY", &["90th", "Percentile", "Latency", "Microseconds"]),
    ("P99_LATENCY", &["99th", "Percentile", "Latency", "Microseconds"]),
    ("MEAN_LATENCY", &["Mean", "Latency", "Microseconds"]),
    ("STDDEV_LATENCY", &["Stddev", "Latency", "Microseconds"]),
    ("LOCAL_SOCKET_PRIO", &["Local", "Socket", "Priority"]),
    ("REMOTE_SOCKET_PRIO", &["Remote", "Socket", "Priority"]),
    ("LOCAL_SOCKET_TOS", &["Local", "Socket", "TOS"]),
    ("REMOTE_SOCKET_TOS", &["Remote", "Socket", "TOS"]),
    ("LOCAL_CONG_CONTROL", &["Local", "Congestion", "Control", "Algorithm"]),
    ("REMOTE_CONG_CONTROL", &["Remote", "Congestion", "Control", "Algorithm"]),
    ("LOCAL_FILL_FILE", &["Local", "Fill", "File"]),
    ("REMOTE_FILL_FILE", &["Remote", "Fill", "File"]),
    ("COMMAND_LINE", &["Command", "Line"]),
];

/// The names, in netperf's order.
pub fn netperf_names() -> impl Iterator<Item = &'static str> {
    NAMES.iter().map(|(name, _)| *name)
}

/// Names that a user selected, in lines. Empty: those of the test.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NetperfSelection {
    /// Positions of the names in each line; an unknown name has none.
    lines: Vec<Vec<Option<usize>>>,
}

fn position(name: &str) -> Option<usize> {
    NAMES.iter().position(|(known, _)| known.eq_ignore_ascii_case(name))
}

impl NetperfSelection {
    /// Whether a text is a selection itself, and not the name of a file that has one.
    #[must_use]
    pub fn is_direct(text: &str) -> bool {
        text.contains([',', ';']) || text.eq_ignore_ascii_case("all") || position(text).is_some()
    }

    /// Reads a selection: names separated by commas, lines by semicolons or ends of lines. Further lines are ignored, as netperf
    /// does, and unknown names stay without a value.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        if text.eq_ignore_ascii_case("all") {
            return Self::all();
        }
        let names = |line: &str| {
            let names = line.split([',', ' ']).map(str::trim).filter(|name| !name.is_empty());
            names.map(position).collect::<Vec<_>>()
        };
        let lines = text.split([';', '\n']).map(names).filter(|line| !line.is_empty());
        NetperfSelection { lines: lines.take(MAX_BLOCKS).collect() }
    }

    fn all() -> Self {
        let line = |(first, last): (&str, &str)| {
            let range = position(first).unwrap_or(0)..=position(last).unwrap_or(0);
            range.map(Some).collect()
        };
        let lines = [
            ("SOCKET_TYPE", "RESPONSE_SIZE"),
            ("LOCAL_CPU_UTIL", "TRANSPORT_MSS"),
            ("LOCAL_SEND_THROUGHPUT", "REMOTE_CORK"),
            ("LOCAL_SYSNAME", "COMMAND_LINE"),
        ];
        NetperfSelection { lines: lines.map(line).into() }
    }

    /// Its lines; where it is empty, that of a test.
    pub(super) fn lines(&self, kind: NetperfKind, with_cpu: bool) -> Vec<Vec<Option<usize>>> {
        if !self.lines.is_empty() {
            return self.lines.clone();
        }
        let sizes: &[&str] = match kind.exchange() {
            super::NetperfExchange::Send => &["LSS_SIZE_END", "RSR_SIZE_END", "LOCAL_SEND_SIZE"],
            super::NetperfExchange::Receive => {
                &["RSS_SIZE_END", "LSR_SIZE_END", "REMOTE_SEND_SIZE"]
            }
            _ => &[
                "LSS_SIZE_END",
                "LSR_SIZE_END",
                "RSR_SIZE_END",
                "RSS_SIZE_END",
                "REQUEST_SIZE",
                "RESPONSE_SIZE",
            ],
        };
        let result = ["ELAPSED_TIME", "THROUGHPUT", "THROUGHPUT_UNITS"];
        let names = sizes.iter().copied().chain(result);
        let cpu = if with_cpu { &CPU[..] } else { &[] };
        vec![names.chain(cpu.iter().copied()).map(position).collect()]
    }
}

/// What a test with processor time prints in addition.
const CPU: [&str; 17] = [
    "LOCAL_CPU_UTIL",
    "LOCAL_CPU_PERCENT_USER",
    "LOCAL_CPU_PERCENT_SYSTEM",
    "LOCAL_CPU_PERCENT_IOWAIT",
    "LOCAL_CPU_PERCENT_IRQ",
    "LOCAL_CPU_PERCENT_SWINTR",
    "LOCAL_CPU_METHOD",
    "REMOTE_CPU_UTIL",
    "REMOTE_CPU_PERCENT_USER",
    "REMOTE_CPU_PERCENT_SYSTEM",
    "REMOTE_CPU_PERCENT_IOWAIT",
    "REMOTE_CPU_PERCENT_IRQ",
    "REMOTE_CPU_PERCENT_SWINTR",
    "REMOTE_CPU_METHOD",
    "LOCAL_SD",
    "REMOTE_SD",
    "SD_UNITS",
];
