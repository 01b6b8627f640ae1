//! `struct tcp_info`, read by offset, since kernels differ in how much of it they fill.

use crate::tcp::TcpInfo;

/// Bytes that every kernel since 2.6 fills: up to `tcpi_total_retrans`.
const BASE: usize = 104;

impl TcpInfo {
    /// Reads as much of `struct tcp_info` as `bytes` hold; `None` when shorter than any kernel's.
    pub(crate) fn parse(bytes: &[u8]) -> Option<TcpInfo> {
        if bytes.len() < BASE {
            return None;
        }
        let long = |at: usize| -> Option<u32> {
            Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
        };
        let wide = |at: usize| -> Option<u64> {
            Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
        };
        let options = bytes[5];
        // Two bit-fields of four, in the order the compiler lays them out: low bits first on little-endian machines.
        let (first, second) = (bytes[6] & 0xf, bytes[6] >> 4);
        let (send_scale, receive_scale) =
            if cfg!(target_endian = "little") { (first, second) } else { (second, first) };
        let app_limited = if cfg!(target_endian = "little") { bytes[7] & 1 } else { bytes[7] >> 7 };
        Some(TcpInfo {
            state: bytes[0],
            congestion_state: bytes[1],
            timestamps: options & 1 != 0,
            sack: options & 2 != 0,
            window_scaling: options & 4 != 0,
            ecn: options & 8 != 0,
            send_window_scale: send_scale,
            receive_window_scale: receive_scale,
            rto_us: long(8)?,
            send_mss_bytes: long(16)?,
            receive_mss_bytes: long(20)?,
            unacked_segments: long(24)?,
            sacked_segments: long(28)?,
            lost_segments: long(32)?,
            retransmitting_segments: long(36)?,
            path_mtu_bytes: long(60)?,
            rtt_us: long(68)?,
            rttvar_us: long(72)?,
            ssthresh_segments: long(76)?,
            cwnd_segments: long(80)?,
            advertised_mss_bytes: long(84)?,
            reordering_segments: long(88)?,
            receive_rtt_us: long(92)?,
            receive_space_bytes: long(96)?,
            total_retransmits: long(100)?,
            pacing_rate_bytes_per_second: wide(104),
            bytes_acked: wide(120),
            bytes_received: wide(128),
            segments_out: long(136),
            segments_in: long(140),
            not_sent_bytes: long(144),
            min_rtt_us: long(148),
            delivery_rate_bytes_per_second: wide(160),
            delivery_rate_app_limited: app_limited != 0,
            busy_us: wide(168),
            receive_window_limited_us: wide(176),
            send_buffer_limited_us: wide(184),
            delivered_segments: long(192),
            delivered_ce_segments: long(196),
            bytes_sent: wide(200),
            bytes_retransmitted: wide(208),
            dsack_duplicates: long(216),
            reordering_seen: long(220),
            out_of_order_segments: long(224),
            send_window_bytes: long(228),
            receive_window_bytes: long(232),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shorter_structs_leave_later_fields_unset() {
        let mut bytes = [0_u8; 240];
        bytes[68..72].copy_from_slice(&150_u32.to_ne_bytes());
        bytes[208..216].copy_from_slice(&(1_u64 << 40).to_ne_bytes());
        bytes[5] = 0b0111;
        let full = TcpInfo::parse(&bytes).unwrap();
        assert_eq!((full.rtt_us, full.bytes_retransmitted), (150, Some(1 << 40)));
        assert_eq!(
            (full.timestamps, full.sack, full.window_scaling, full.ecn),
            (true, true, true, false)
        );
        for len in 0..bytes.len() {
            match TcpInfo::parse(&bytes[..len]) {
                None => assert!(len < BASE),
                Some(info) => {
                    assert_eq!(info.rtt_us, 150);
                    assert_eq!(info.bytes_retransmitted.is_some(), len >= 216);
                    assert_eq!(info.pacing_rate_bytes_per_second.is_some(), len >= 112);
                }
            }
        }
    }
}
