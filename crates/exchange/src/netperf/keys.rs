//! The keywords of omni output that a record has a place for, and their headings in CSV.

/// Keyword and heading.
const KEYS: [(&str, &str); 29] = [
    ("COMMAND_LINE", "Command Line"),
    ("DIRECTION", "Direction"),
    ("PROTOCOL", "Protocol"),
    ("ELAPSED_TIME", "Elapsed Time (sec)"),
    ("SOURCE_ADDR", "Source Address"),
    ("DEST_ADDR", "Destination Address"),
    ("THROUGHPUT", "Throughput"),
    ("THROUGHPUT_UNITS", "Throughput Units"),
    ("TRANSACTION_RATE", "Transaction Rate Tran/s"),
    ("TRANSPORT_MSS", "Transport MSS bytes"),
    ("LOCAL_TRANSPORT_RETRANS", "Local Transport Retransmissions"),
    ("REMOTE_TRANSPORT_RETRANS", "Remote Transport Retransmissions"),
    ("REQUEST_SIZE", "Request Size Bytes"),
    ("RESPONSE_SIZE", "Response Size Bytes"),
    ("BURST_SIZE", "Initial Burst Requests"),
    ("LOCAL_SEND_SIZE", "Local Send Size"),
    ("REMOTE_SEND_SIZE", "Remote Send Size"),
    ("LOCAL_SEND_CALLS", "Local Send Calls"),
    ("REMOTE_RECV_CALLS", "Remote Recv Calls"),
    ("LOCAL_BYTES_SENT", "Local Bytes Sent"),
    ("LOCAL_BYTES_RECVD", "Local Bytes Received"),
    ("REMOTE_BYTES_SENT", "Remote Bytes Sent"),
    ("REMOTE_BYTES_RECVD", "Remote Bytes Received"),
    ("MIN_LATENCY", "Minimum Latency Microseconds"),
    ("MEAN_LATENCY", "Mean Latency Microseconds"),
    ("P50_LATENCY", "50th Percentile Latency Microseconds"),
    ("P90_LATENCY", "90th Percentile Latency Microseconds"),
    ("P99_LATENCY", "99th Percentile Latency Microseconds"),
    ("MAX_LATENCY", "Maximum Latency Microseconds"),
];

/// Further keywords: of lists of fields that a record has no place for, and of interim results.
const OTHERS: [(&str, &str); 10] = [
    ("STDDEV_LATENCY", "Stddev Latency Microseconds"),
    ("LOCAL_CONG_CONTROL", "Local Congestion Control Algorithm"),
    ("REMOTE_CONG_CONTROL", "Remote Congestion Control Algorithm"),
    ("LSS_SIZE_END", "Local Send Socket Size Final"),
    ("LSR_SIZE_END", "Local Recv Socket Size Final"),
    ("RSS_SIZE_END", "Remote Send Socket Size Final"),
    ("RSR_SIZE_END", "Remote Recv Socket Size Final"),
    ("RT_LATENCY", "Round Trip Latency usec/tran"),
    ("RESULT_BRAND", "Result Tag"),
    ("UUID", "Test UUID"),
];

/// Whether a name is a keyword of netperf.
pub(super) fn is_key(name: &str) -> bool {
    let known = KEYS.iter().chain(&OTHERS).any(|(key, _)| *key == name);
    known || name.starts_with("NETPERF_INTERIM_RESULT[")
}

/// The keyword of a heading.
pub(super) fn of_heading(heading: &str) -> Option<&'static str> {
    let words = heading.split_whitespace().collect::<Vec<_>>().join(" ");
    KEYS.iter().chain(&OTHERS).find(|(_, known)| *known == words).map(|(key, _)| *key)
}
