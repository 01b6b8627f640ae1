//! The classic table of each test.

use super::figures::{NetperfEnd, NetperfSummary};
use super::{NetperfKind, NetperfOptions, NetperfUnit};

/// A count, or -1.
fn known(value: Option<u64>) -> i64 {
    value.map_or(-1, |value| i64::try_from(value).unwrap_or(i64::MAX))
}

/// How an end's processor time was measured: from `/proc/stat`, or not.
fn method(end: &NetperfEnd) -> char {
    if end.cpu.is_some() { 'S' } else { 'U' }
}

impl NetperfOptions {
    /// What names the result at the end of its line.
    fn brand_at_end(&self) -> String {
        let brand = self.brand.as_deref().filter(|_| !self.headings);
        crate::clean(brand.unwrap_or_default()).to_string()
    }

    /// The classic table.
    pub(super) fn table(&self, summary: &NetperfSummary) -> String {
        let mut out = String::new();
        if !summary.is_confident(self) {
            out += &not_confident(summary);
        }
        let with_cpu = self.cpu;
        out += &match (self.kind, self.verbosity, with_cpu) {
            (_, 0, true) => self.service_demand(summary),
            (NetperfKind::UdpStream, 0, false) => {
                let own = summary.last.local.bytes[0].unwrap_or(0) as f64;
                format!("{:7.2}\n", self.unit().rate(own, summary.last.seconds))
            }
            (NetperfKind::TcpCrr, 0, false) => format!("{:7.2}\n", summary.throughput),
            (_, 0, false) => format!("{:7.2} {}\n", summary.throughput, self.brand_at_end()),
            (NetperfKind::UdpStream, ..) => self.datagrams(summary, with_cpu),
            (kind, ..) if kind.has_transactions() => self.transactions(summary, with_cpu),
            _ => self.stream(summary, with_cpu),
        };
        if self.verbosity > 1 {
            out += &self.details(summary);
        }
        out
    }

    fn service_demand(&self, summary: &NetperfSummary) -> String {
        let last = &summary.last;
        let (end, demand) = match summary.service_demand {
            [Some(local), _] => (&last.local, local),
            [None, remote] => (&last.remote, remote.unwrap_or(-1.0)),
        };
        let brand = self.brand_at_end();
        match self.kind {
            NetperfKind::TcpCrr => format!("{demand:6.3}\n"),
            NetperfKind::UdpStream => format!("{demand:6.2} {}\n", method(end)),
            _ => format!("{demand:6.3} {} {brand}\n", method(end)),
        }
    }

    fn stream(&self, summary: &NetperfSummary, with_cpu: bool) -> String {
        let last = &summary.last;
        let sends = self.kind == NetperfKind::TcpStream;
        let (receiving, sending) =
            if sends { (&last.remote, &last.local) } else { (&last.local, &last.remote) };
        let (receive_buffer, send_buffer) = (receiving.buffers[1], sending.buffers[0]);
        let [receive_buffer, send_buffer, size] =
            [receive_buffer, send_buffer, sending.sizes[0]].map(known);
        let (seconds, rate, unit) = (summary.seconds, summary.throughput, self.unit().name());
        let brand = self.brand_at_end();
        let mut out = String::new();
        if !with_cpu {
            if self.headings {
                out += "Recv   Send    Send                          \n\
                        Socket Socket  Message  Elapsed              \n\
                        Size   Size    Size     Time     Throughput  \n";
                out += &format!("bytes  bytes   bytes    secs.    {unit}/sec  \n\n");
            }
            return out
                + &format!(
                    "{receive_buffer:6} {send_buffer:6} {size:6}    {seconds:<6.2}   {rate:7.2}   {brand}\n"
                );
        }
        if self.headings {
            let [first, second] = if sends { ["Send", "Recv"] } else { ["Recv", "Send"] };
            out +=
                "Recv   Send    Send                          Utilization       Service Demand\n";
            out += &format!(
                "Socket Socket  Message  Elapsed              {first}     {second}     {first}    {second}\n"
            );
            out +=
                "Size   Size    Size     Time     Throughput  local    remote   local   remote\n";
            out += &format!(
                "bytes  bytes   bytes    secs.    {unit:<8.8}/s  % {}      % {}      us/KB   us/KB\n\n",
                method(&last.local),
                method(&last.remote)
            );
        }
        let [local, remote] = summary.cpu.map(|cpu| cpu.unwrap_or(-1.0));
        let [local_demand, remote_demand] = summary.service_demand.map(|d| d.unwrap_or(-1.0));
        out + &format!(
            "{receive_buffer:6} {send_buffer:6} {size:6}    {seconds:<6.2}     {rate:7.2}   {local:<6.2}   {remote:<6.2}   {local_demand:<6.3}  {remote_demand:<6.3} {brand}\n"
        )
    }

    fn transactions(&self, summary: &NetperfSummary, with_cpu: bool) -> String {
        let last = &summary.last;
        let (local, remote) = (&last.local, &last.remote);
        let [send, receive] = local.buffers.map(known);
        let [far_send, far_receive] = remote.buffers.map(known);
        let [request, response] = last.exchanged.map(known);
        let (seconds, rate) = (summary.seconds, summary.throughput);
        let (unit, is_rate) = (self.unit().name(), self.unit().counts_transactions());
        let brand = match self.kind {
            NetperfKind::TcpCrr => String::new(),
            _ => self.brand_at_end(),
        };
        let mut out = String::new();
        if !with_cpu {
            if self.headings && is_rate {
                out += "Local /Remote\n\
                        Socket Size   Request  Resp.   Elapsed  Trans.\n\
                        Send   Recv   Size     Size    Time     Rate         \n\
                        bytes  Bytes  bytes    bytes   secs.    per sec   \n\n";
            } else if self.headings {
                out += "Local /Remote\n\
                        Socket Size   Request  Resp.   Elapsed  \n\
                        Send   Recv   Size     Size    Time     Throughput \n";
                out += &format!("bytes  Bytes  bytes    bytes   secs.    {unit}/sec   \n\n");
            }
            out += &format!(
                "{send:<6} {receive:<6} {request:<6}   {response:<6}  {seconds:<6.2}   {rate:7.2}   {brand}\n"
            );
        } else {
            if self.headings {
                let (near, far) = (method(local), method(remote));
                let (result, of, per) = match is_rate {
                    true => ("Trans. ", "Rate    ", "us/Tr"),
                    false => ("Tput   ", unit, "us/KB"),
                };
                out += &format!(
                    "Local /Remote\n\
                     Socket Size   Request Resp.  Elapsed {result}  CPU    CPU    S.dem   S.dem\n\
                     Send   Recv   Size    Size   Time    {of:<8.8} local  remote local   remote\n\
                     bytes  bytes  bytes   bytes  secs.   per sec  % {near}    % {far}    {per}   {per}\n\n"
                );
            }
            let [cpu, far_cpu] = summary.cpu.map(|cpu| cpu.unwrap_or(-1.0));
            let [demand, far_demand] = summary.service_demand.map(|d| d.unwrap_or(-1.0));
            out += &format!(
                "{send:<6} {receive:<6} {request:<6}  {response:<6} {seconds:<6.2}  {rate:<6.2}  {cpu:<6.2} {far_cpu:<6.2} {demand:<6.3}  {far_demand:<6.3} {brand}\n"
            );
        }
        out + &format!("{far_send:<6} {far_receive:<6}\n")
    }

    fn datagrams(&self, summary: &NetperfSummary, with_cpu: bool) -> String {
        let last = &summary.last;
        let (local, remote) = (&last.local, &last.remote);
        let [own_buffer, size, sent] =
            [local.buffers[0], local.sizes[0], local.calls[0]].map(known);
        let [far_buffer, arrived] = [remote.buffers[1], remote.calls[1]].map(known);
        let (seconds, unit) = (summary.seconds, self.unit());
        let [rate, far_rate] = [local.bytes[0], remote.bytes[1]]
            .map(|bytes| unit.rate(bytes.unwrap_or(0) as f64, last.seconds));
        // Weir repeats a send that the system refuses.
        let errors = 0;
        let name = unit.name();
        let mut out = String::new();
        if !with_cpu {
            if self.headings {
                out += "Socket  Message  Elapsed      Messages                \n\
                        Size    Size     Time         Okay Errors   Throughput\n";
                out += &format!("bytes   bytes    secs            #      #   {name}/sec\n\n");
            }
            return out
                + &format!(
                    "{own_buffer:6}  {size:6}   {seconds:<7.2}   {sent:7} {errors:6}    {rate:7.2}\n\
                     {far_buffer:6}           {seconds:<7.2}   {arrived:7}           {far_rate:7.2}\n\n"
                );
        }
        if self.headings {
            out += "Socket  Message  Elapsed      Messages                   CPU      Service\n\
                    Size    Size     Time         Okay Errors   Throughput   Util     Demand\n";
            out += &format!(
                "bytes   bytes    secs            #      #   {name}/sec % {}{}     us/KB\n\n",
                method(local),
                method(remote)
            );
        }
        let [cpu, far_cpu] = summary.cpu.map(|cpu| cpu.unwrap_or(-1.0));
        let [demand, far_demand] = summary.service_demand.map(|d| d.unwrap_or(-1.0));
        out + &format!(
            "{own_buffer:6}  {size:6}   {seconds:<7.2}   {sent:7} {errors:6}    {rate:7.1}     {cpu:<6.2}   {demand:<6.3}\n\
             {far_buffer:6}           {seconds:<7.2}   {arrived:7}           {far_rate:7.1}     {far_cpu:<6.2}   {far_demand:<6.3}\n\n"
        )
    }

    /// What `-v 2` adds. Alignments and offsets of buffers are those of netperf alone.
    fn details(&self, summary: &NetperfSummary) -> String {
        let last = &summary.last;
        let alignment = format!("{:5}   {:5}  {:5}   {:5}", -1, -1, -1, -1);
        let mean = |bytes: Option<u64>, calls: Option<u64>| match (bytes, calls) {
            (Some(bytes), Some(calls)) if calls > 0 => bytes as f64 / calls as f64,
            _ => -1.0,
        };
        match self.kind {
            NetperfKind::TcpStream | NetperfKind::TcpMaerts => {
                let sends = self.kind == NetperfKind::TcpStream;
                let [own, far] = if sends { [0, 1] } else { [1, 0] };
                let [verb, other] = if sends { ["Send", "Recv"] } else { ["Recv", "Send"] };
                let bytes = last.local.bytes[own];
                let (calls, far_calls) = (last.local.calls[own], last.remote.calls[far]);
                format!(
                    "\nAlignment      Offset         {b:<8.8} {b:<8.8}    {verb}s   {b:<8.8} {other}s\n\
                     Local  Remote  Local  Remote  Xfered   Per                 Per\n\
                     {verb}   {other}    {verb}   {other}             {verb} (avg)          {other} (avg)\n\
                     {alignment} {:6}  {:6.2}    {:6}   {:6.2} {:6}\n\
                     \nMaximum\nSegment\nSize (bytes)\n{:6}\n",
                    known(bytes),
                    mean(bytes, calls),
                    known(calls),
                    mean(bytes, far_calls),
                    known(far_calls),
                    known(last.mss.map(Into::into)),
                    b = "Bytes",
                )
            }
            NetperfKind::TcpRr | NetperfKind::UdpRr => {
                let unit = self.unit();
                let unit = if unit.counts_transactions() { NetperfUnit('m') } else { unit };
                let completed = last.transactions.unwrap_or(0) as f64;
                let per_second = NetperfUnit('x').rate(completed, last.seconds);
                let latency = 1e6 * f64::from(1 + self.burst) / per_second;
                let latency = if latency.is_finite() { latency } else { -1.0 };
                let [out, back] = last
                    .exchanged
                    .map(|bytes| unit.rate(per_second * bytes.unwrap_or(0) as f64, 1.0));
                format!(
                    "Alignment      Offset         RoundTrip  Trans    Throughput\n\
                     Local  Remote  Local  Remote  Latency    Rate     {:<8.8}/s\n\
                     Send   Recv    Send   Recv    usec/Tran  per sec  Outbound   Inbound\n\
                     {:5}  {:5}   {:5}  {:5}   {latency:<6.3}   {per_second:<6.3} {out:<6.3}    {back:<6.3}\n",
                    unit.name(),
                    -1,
                    -1,
                    -1,
                    -1,
                )
            }
            _ => String::new(),
        }
    }
}

/// The warning of a result that is less certain than asked for.
fn not_confident(summary: &NetperfSummary) -> String {
    let [result, local, remote] = summary.widths_percent.map(|width| width.unwrap_or(-1.0));
    format!(
        "!!! WARNING\n\
         !!! Desired confidence was not achieved within the specified iterations.\n\
         !!! This implies that there was variability in the test environment that\n\
         !!! must be investigated before going further.\n\
         !!! Confidence intervals: Throughput      : {result:4.3}%\n\
         !!!                       Local CPU util  : {local:4.3}%\n\
         !!!                       Remote CPU util : {remote:4.3}%\n\n"
    )
}
