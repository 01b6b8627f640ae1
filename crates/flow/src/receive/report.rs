//! What a receiver reports of a flow: totals, intervals, losses, histograms.

use super::*;

impl Receiving {
    /// Lost packets of each closed interval, as now known.
    fn interval_lost(&self) -> Vec<u64> {
        if self.is_by_count() || self.is_membership_unknown() {
            return vec![];
        }
        match (&self.finished, &self.tracking) {
            (Some(summary), _) => summary.interval_lost.clone(),
            (None, Tracking::Full(t) | Tracking::Narrow(t, _)) => t.interval_lost(),
            (None, Tracking::Counted | Tracking::Elsewhere(_)) => vec![],
        }
    }

    /// The figures of one closed interval, for a live line.
    pub fn interval_count(&self, index: usize) -> Option<IntervalCount> {
        let mut count = self.interval_without_loss(index)?;
        if self.is_by_count() {
            return Some(count);
        }
        count.lost_packets = match (&self.finished, &self.tracking) {
            (Some(summary), _) => summary.interval_lost.get(index).copied(),
            (None, Tracking::Full(t) | Tracking::Narrow(t, _)) => t.interval_lost_in(index),
            (None, Tracking::Counted | Tracking::Elsewhere(_)) => None,
        };
        let from = self.log.omitted();
        let from = if index < from { 0 } else { from };
        count.lost_before_packets = match (&self.finished, &self.tracking) {
            (Some(summary), _) => {
                summary.interval_lost.get(from..index).map(|lost| lost.iter().sum())
            }
            (None, Tracking::Full(t) | Tracking::Narrow(t, _)) => Some(t.lost_between(from, index)),
            (None, Tracking::Counted | Tracking::Elsewhere(_)) => None,
        };
        Some(count)
    }

    /// This end's intervals in the form of the record.
    pub fn interval_counts(&self) -> Vec<IntervalCount> {
        let lost = self.interval_lost();
        (0..self.log.closed().len())
            .filter_map(|i| {
                let mut c = self.interval_without_loss(i)?;
                c.lost_packets = lost.get(i).copied();
                Some(c)
            })
            .collect()
    }

    fn interval_without_loss(&self, index: usize) -> Option<IntervalCount> {
        let clock = self.log.clock()?;
        let count = self.log.closed().get(index)?;
        let mut out = self.accounted(*count).count(clock.seconds(index), None);
        if self.is_by_count() {
            (out.duplicate_packets, out.reordered_packets) = (None, None);
        }
        Some(out)
    }

    /// Counts in the form of the record. Without sequence numbers a copy is a datagram like any other.
    fn accounted(&self, count: ReceiveCount) -> ReceiveCount {
        if !self.is_by_count() {
            return count;
        }
        ReceiveCount {
            packets: count.arrivals(),
            bytes: count.bytes + count.repeated_bytes,
            ..count
        }
    }

    /// The receiver's part of the record. Call [`Receiving::finish`] first.
    pub fn report(
        &self,
        method: &str,
        buffer_bytes: Option<u64>,
        socket_dropped: Option<u64>,
    ) -> Receiver {
        let seconds = self.first_ns.map_or(0.0, |f| self.last_ns.saturating_sub(f) as f64 / 1e9);
        let (sum, base) = (self.accounted(self.sum), self.accounted(self.base));
        let (bytes, packets) = (sum.bytes - base.bytes, sum.packets - base.packets);
        // n packets span n − 1 gaps; for a long run the difference vanishes, for a short one it would not.
        let span =
            if packets > 1 { seconds * packets as f64 / (packets - 1) as f64 } else { seconds };
        let per_second = |n: u64| (span > 0.0).then(|| n as f64 / span);
        let is_elsewhere = matches!(self.tracking, Tracking::Elsewhere(_));
        let zero = self.log.start_ns();
        let since_zero = |at: u64| Some(at.saturating_sub(zero?) as f64 / 1e9);
        let mut out = Receiver {
            bytes,
            packets,
            seconds,
            start_seconds: self.first_ns.and_then(since_zero),
            end_seconds: self.first_ns.and_then(|f| since_zero(self.last_ns.max(f))),
            bits_per_second: per_second(8 * bytes),
            packets_per_second: per_second(packets),
            user_timed_messages: (self.messages > 0 && !is_elsewhere)
                .then_some(self.user_timed_messages),
            io_calls: (!is_elsewhere).then_some(self.calls),
            method: method.into(),
            crossing: (self.messages > 0).then_some(if self.coalesced_messages > 0 {
                Crossing::Coalesced
            } else {
                Crossing::PerPacket
            }),
            segments_per_message: (self.messages > 0).then(|| {
                let all = self.sum.arrivals() + self.sum.unreadable + self.sum.implausible;
                all as f64 / self.messages as f64
            }),
            corrupted_packets: (self.carries.tag || self.verify.is_some())
                .then(|| sum.corrupted - base.corrupted),
            unreadable_packets: Some(sum.unreadable - base.unreadable),
            ecn: self.ecn.map(|[not_ect, ect1, ect0, ce]| EcnCounts {
                not_ect_packets: not_ect,
                ect0_packets: ect0,
                ect1_packets: ect1,
                ce_packets: ce,
            }),
            bit_errors: self.verify.is_some().then_some(self.bit_errors),
            verified_bytes: self.verify.is_some().then_some(self.verified_bytes),
            truncated_packets: Some(self.truncated),
            buffer_bytes,
            socket_dropped_packets: socket_dropped,
            ..Receiver::default()
        };
        self.report_loss(&mut out);
        out.jitter_seconds = self.jitter_ns().map(|j| j / 1e9);
        if out.jitter_seconds.is_some() || self.delay.count() > 0 {
            out.time_unit =
                Some(if self.coalesced_messages > 0 { "batch" } else { "packet" }.into());
        }
        if self.delay.count() > 0 {
            out.one_way_delay = delay_record(&self.delay, Some(self.worst_error_ns));
            out.one_way_delay_from_intended = self
                .delay_intended
                .as_ref()
                .and_then(|d| delay_record(d, Some(self.worst_error_ns)));
            out.discarded_packets = self.jitter_buffer_ns.map(|depth| self.delay.later_than(depth));
            out.delay_variation = Some(DelayVariation {
                pdv_mean_seconds: self.delay.pdv_mean_ns().map(|v| v / 1e9),
                pdv_p99_seconds: self.delay.pdv_quantile_ns(0.99).map(|v| v as f64 / 1e9),
                ..DelayVariation::default()
            });
            if let Some(variation) =
                out.delay_variation.as_mut().filter(|_| !self.is_by_count() && !is_elsewhere)
            {
                variation.ipdv_mean_seconds = self.ipdv.mean_ns().map(|v| v / 1e9);
                variation.ipdv_p99_seconds = self.ipdv.quantile_ns(0.99).map(|v| v as f64 / 1e9);
                variation.ipdv_pairs = Some(self.ipdv.count());
                variation.ipdv_omitted_pairs = Some(self.ipdv.omitted());
            }
        }
        out
    }

    fn report_loss(&self, out: &mut Receiver) {
        let ratio = |lost: u64| {
            let sent = lost + out.packets;
            (sent > 0).then(|| lost as f64 / sent as f64)
        };
        if self.is_by_count() {
            out.ambiguous = Some(true);
            if let Some(sent) = self.sent_total {
                let lost = (sent - self.sent_omitted.min(sent)).saturating_sub(out.packets);
                out.lost_packets = Some(lost);
                out.loss_ratio = ratio(lost);
            }
            if !matches!(self.tracking, Tracking::Counted) {
                out.implausible_packets = Some(self.sum.implausible - self.base.implausible);
            }
            return;
        }
        if let Tracking::Elsewhere(_) = &self.tracking {
            let lost = self.sent_total.map(|sent| sent.saturating_sub(out.packets));
            out.lost_packets = lost;
            out.loss_ratio = lost.and_then(ratio);
            out.duplicate_packets = Some(self.sum.duplicates);
            out.reordered_packets = Some(self.sum.reordered);
            out.late_packets = Some(self.sum.late);
            out.ambiguous = Some(false);
            return;
        }
        let Some(s) = &self.finished else { return };
        let omitted = self.log.omitted();
        let lost: u64 =
            if omitted == 0 { s.counts.lost } else { s.interval_lost.iter().skip(omitted).sum() };
        let is_unknown = self.is_membership_unknown();
        out.lost_packets = Some(lost).filter(|_| !is_unknown);
        out.loss_ratio = ratio(lost).filter(|_| !is_unknown);
        out.duplicate_packets = Some(self.sum.duplicates - self.base.duplicates);
        out.reordered_packets = Some(self.sum.reordered - self.base.reordered);
        out.late_packets = Some(self.sum.late - self.base.late);
        out.implausible_packets = Some(self.sum.implausible - self.base.implausible);
        set_reordering(out, s);
        if is_unknown {
            return;
        }
        set_loss_periods(out, s);
        self.report_bursts(out, s);
    }

    /// Durations of bursts and gaps: packets × the mean time between packets of the sender, where packets were lost.
    fn report_bursts(&self, out: &mut Receiver, s: &SequenceSummary) {
        let bursts = &s.loss_periods.bursts;
        let begin = self.log.start_ns().map(|zero| zero.saturating_add(self.start_after_ns));
        // A member for a part of the flow: the time in which it received.
        let (begin, end) = self.time_in_group(begin).unwrap_or((begin, self.sender_end_ns));
        if let (Some(begin), Some(end)) = (begin, end)
            && end > begin
            && s.counts.lost > 0
        {
            let interval = (end - begin) as f64 / 1e9 / s.sent as f64;
            out.burst_seconds = bursts.mean_burst_packets().map(|packets| packets * interval);
            out.gap_seconds = bursts.mean_gap_packets().map(|packets| packets * interval);
        }
    }

    /// Distributions for the record.
    pub fn histograms(&self, flow: u32) -> Vec<Histogram> {
        let named = |metric: &str, data: Option<String>| {
            data.map(|data| Histogram {
                flow: Some(flow),
                metric: metric.into(),
                encoding: "hdr-v2".into(),
                data,
            })
        };
        let mut out = vec![];
        if self.delay.count() > 0 {
            out.extend(named("one_way_delay", self.delay.to_hdr_v2()));
            out.extend(
                self.delay_intended
                    .as_ref()
                    .and_then(|d| named("one_way_delay_from_intended", d.to_hdr_v2())),
            );
        }
        out
    }
}

impl ReceiveCount {
    /// The counts in the form of the record, with rates over `seconds` if these are known.
    pub(crate) fn count(&self, seconds: Option<f64>, lost: Option<u64>) -> IntervalCount {
        let per_second = |n: u64| seconds.filter(|s| *s > 0.0).map(|s| n as f64 / s);
        IntervalCount {
            bytes: self.bytes,
            packets: self.packets,
            bits_per_second: per_second(8 * self.bytes),
            packets_per_second: per_second(self.packets),
            lost_packets: lost,
            duplicate_packets: Some(self.duplicates),
            reordered_packets: Some(self.reordered),
            jitter_seconds: self.jitter_ns.map(|j| j / 1e9),
            mean_delay_seconds: (self.delays > 0)
                .then(|| self.delay_sum_ns as f64 / self.delays as f64 / 1e9),
            ..IntervalCount::default()
        }
    }
}

/// Sets the extent of reordering.
pub(crate) fn set_reordering(out: &mut Receiver, s: &SequenceSummary) {
    out.forced_packets = Some(s.counts.forced);
    if s.counts.reordered > 0 {
        let extent = &s.reorder_extent;
        out.reordering_extent_mean = extent.mean();
        out.reordering_extent_max = Some(extent.max);
        let cells = (0u32..).zip(&extent.buckets).filter(|(_, count)| **count > 0);
        let histogram = cells.map(|(power, count)| ((1u64 << power).to_string(), *count));
        out.reordering_extents = Some(histogram.collect());
        out.reordering_extent_bounds = (extent.bounds > 0).then_some(extent.bounds);
    }
    out.ambiguous = Some(s.counts.ambiguous);
}

/// Sets loss periods, and the packets of bursts and gaps.
pub(crate) fn set_loss_periods(out: &mut Receiver, s: &SequenceSummary) {
    let periods = s.loss_periods.lengths.iter();
    let mut periods: BTreeMap<String, u64> =
        periods.map(|(length, count)| (length.to_string(), *count)).collect();
    if s.loss_periods.overflow_periods > 0 {
        periods.insert("more".into(), s.loss_periods.overflow_periods);
    }
    out.loss_periods = (!periods.is_empty()).then_some(periods);
    let bursts = &s.loss_periods.bursts;
    out.bursts = Some(bursts.bursts);
    out.burst_packets = Some(bursts.burst_packets);
    out.burst_lost_packets = Some(bursts.burst_lost);
    out.burst_density_ratio = bursts.burst_density();
    out.gaps = Some(bursts.gaps);
    out.gap_packets = Some(bursts.gap_packets);
    out.gap_lost_packets = Some(bursts.gap_lost);
    out.gap_density_ratio = bursts.gap_density();
}

/// A delay distribution in the form of the record.
pub fn delay_record(d: &DelaySummary, error_ns: Option<u64>) -> Option<Delay> {
    let seconds = |ns: i64| ns as f64 / 1e9;
    let q = |q: f64| d.quantile_ns(q).map(seconds);
    Some(Delay {
        count: d.count(),
        min_seconds: seconds(d.min_ns()?),
        mean_seconds: d.mean_ns()? / 1e9,
        standard_deviation_seconds: None,
        p50_seconds: q(0.5),
        p90_seconds: q(0.9),
        p99_seconds: q(0.99),
        p99_9_seconds: q(0.999),
        p99_99_seconds: q(0.9999),
        p99_999_seconds: q(0.99999),
        max_seconds: seconds(d.max_ns()?),
        error_seconds: error_ns.map(|e| e as f64 / 1e9),
        negative_samples: (d.negative() > 0).then_some(d.negative()),
    })
}
