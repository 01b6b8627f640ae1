//! The kernel's information about a TCP connection.

/// The kernel's information about a TCP connection (`TCP_INFO`). Fields that an older kernel does not report are
/// `None`. Times are in the kernel's microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// State by the kernel's number; 1 is ESTABLISHED.
    pub state: u8,
    /// Congestion state: 0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss.
    pub congestion_state: u8,
    /// Timestamps (RFC 7323) in use.
    pub timestamps: bool,
    /// Selective acknowledgement (RFC 2018) in use.
    pub sack: bool,
    /// Window scaling (RFC 7323) in use.
    pub window_scaling: bool,
    /// ECN (RFC 3168) negotiated.
    pub ecn: bool,
    /// Window scale that the peer requested: shift of the windows it sends us.
    pub send_window_scale: u8,
    /// Window scale that we requested.
    pub receive_window_scale: u8,
    /// Retransmission timeout, µs.
    pub rto_us: u32,
    /// Sender's maximum segment size, bytes of payload.
    pub send_mss_bytes: u32,
    /// Largest segment received of late, bytes.
    pub receive_mss_bytes: u32,
    /// Segments sent and not yet acknowledged.
    pub unacked_segments: u32,
    /// Segments selectively acknowledged, now.
    pub sacked_segments: u32,
    /// Segments thought lost, now.
    pub lost_segments: u32,
    /// Segments retransmitted and not yet acknowledged, now.
    pub retransmitting_segments: u32,
    /// Path MTU, bytes.
    pub path_mtu_bytes: u32,
    /// Smoothed round-trip time (RFC 6298), µs.
    pub rtt_us: u32,
    /// Round-trip time variation (mean deviation), µs.
    pub rttvar_us: u32,
    /// Slow-start threshold, segments; 2^31−1 and more mean "none yet".
    pub ssthresh_segments: u32,
    /// Congestion window, segments.
    pub cwnd_segments: u32,
    /// MSS we announced, bytes.
    pub advertised_mss_bytes: u32,
    /// Degree of reordering the sender tolerates, segments.
    pub reordering_segments: u32,
    /// Receiver's estimate of the round trip, µs.
    pub receive_rtt_us: u32,
    /// Receiver's estimate of the space its reader needs per round trip, bytes.
    pub receive_space_bytes: u32,
    /// Segments retransmitted so far.
    pub total_retransmits: u32,
    /// Pacing rate, bytes per second; `u64::MAX` means unlimited.
    pub pacing_rate_bytes_per_second: Option<u64>,
    /// Bytes acknowledged by the peer so far (RFC 4898).
    pub bytes_acked: Option<u64>,
    /// Bytes received in order so far.
    pub bytes_received: Option<u64>,
    /// Segments sent so far, with and without data.
    pub segments_out: Option<u32>,
    /// Segments received so far.
    pub segments_in: Option<u32>,
    /// Bytes written and not yet sent.
    pub not_sent_bytes: Option<u32>,
    /// Minimum round-trip time seen of late, µs.
    pub min_rtt_us: Option<u32>,
    /// Most recent rate of delivery, bytes per second.
    pub delivery_rate_bytes_per_second: Option<u64>,
    /// The delivery rate was limited by the application.
    pub delivery_rate_app_limited: bool,
    /// Time with data in flight or waiting, µs; counted in the kernel's ticks (1–10 ms).
    pub busy_us: Option<u64>,
    /// Part of it limited by the receive window, µs.
    pub receive_window_limited_us: Option<u64>,
    /// Part of it limited by the send buffer, µs.
    pub send_buffer_limited_us: Option<u64>,
    /// Segments delivered, with those delivered again.
    pub delivered_segments: Option<u32>,
    /// Of these, acknowledged with an ECN mark.
    pub delivered_ce_segments: Option<u32>,
    /// Bytes sent so far, with retransmissions.
    pub bytes_sent: Option<u64>,
    /// Bytes retransmitted so far.
    pub bytes_retransmitted: Option<u64>,
    /// Duplicate acknowledgements by DSACK (RFC 2883).
    pub dsack_duplicates: Option<u32>,
    /// Reordering events seen.
    pub reordering_seen: Option<u32>,
    /// Segments received out of order.
    pub out_of_order_segments: Option<u32>,
    /// Window announced by the peer, scaled, bytes.
    pub send_window_bytes: Option<u32>,
    /// Window we announce, scaled, bytes.
    pub receive_window_bytes: Option<u32>,
}
