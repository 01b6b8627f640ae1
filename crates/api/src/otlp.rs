//! Figures of a running test, server or emulator for an OpenTelemetry collector: OTLP/HTTP with JSON, `--otlp`.
//!
//! A thread posts the latest figures after each interval, so that a slow collector delays nothing. Sums are cumulative:
//! an export that is skipped or fails loses time resolution only.

use std::io::{BufReader, Error, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use weir_model::plan::FlowSpec;
use weir_model::record::Interval;

use crate::app::lock;
use crate::exporter::{Figures, Labels, Number, Series};
use crate::mesh::{NativeHistogram, SCHEMA};

/// Port of OTLP/HTTP.
const PORT: u16 = 4318;
/// Path of metrics if the URL has none.
const PATH: &str = "/v1/metrics";
/// Limit of one export: to connect, to send, and to receive the answer.
const LIMIT: Duration = Duration::from_secs(3);
/// Maximum number of bytes read of an answer.
const MAX_ANSWER: u64 = 4096;
/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: u8 = 2;

/// The URL of a collector's metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtlpUrl {
    host: String,
    port: u16,
    path: String,
}

impl std::fmt::Display for OtlpUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "http://{}{}", self.authority(), self.path)
    }
}

impl OtlpUrl {
    fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

impl FromStr for OtlpUrl {
    type Err = String;
    fn from_str(text: &str) -> Result<OtlpUrl, String> {
        let form = || {
            format!(
                "expected http://HOST[:PORT][/PATH]; without PORT: {PORT}, without PATH: {PATH}"
            )
        };
        if text.starts_with("https://") {
            return Err("https is not supported: use http:// to a collector on this host".into());
        }
        let rest = text.strip_prefix("http://").ok_or_else(form)?;
        // The text becomes part of a request's head.
        if !rest.bytes().all(|byte| byte.is_ascii_graphic()) || rest.contains(['@', '#', '?']) {
            return Err(form());
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = match authority.strip_prefix('[').map(|rest| rest.split_once(']')) {
            Some(Some((host, rest))) => (host, rest),
            Some(None) => return Err(form()),
            None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
        };
        let port = match port.strip_prefix(':') {
            Some(port) => port.parse().ok().filter(|port| *port > 0).ok_or_else(form)?,
            None if port.is_empty() => PORT,
            None => return Err(form()),
        };
        if host.is_empty() {
            return Err(form());
        }
        let path = if path.len() > 1 { path } else { PATH };
        Ok(OtlpUrl { host: host.into(), port, path: path.into() })
    }
}

/// Result of the exports of a test.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OtlpReport {
    /// Exports that the collector accepted.
    pub accepted: u64,
    /// Exports that failed.
    pub failed: u64,
    /// Intervals without an export of their own, because the previous export was still running.
    pub skipped: u64,
    /// Reason of the last failure.
    pub reason: Option<String>,
}

/// A series of sums or of latest values, with its values by labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtlpSeries {
    /// Its name, which ends in its unit.
    pub name: String,
    /// What it is.
    pub help: String,
    /// A sum since the start; otherwise the latest value.
    pub is_sum: bool,
    /// Labels and values.
    pub values: Vec<(Vec<(String, String)>, u64)>,
}

/// Sends the figures of a test to a collector.
#[derive(Debug)]
pub struct OtlpExporter {
    figures: Arc<Mutex<Figures>>,
    exports: Exports,
}

impl OtlpExporter {
    /// Starts the thread. `attributes` describe the resource, in addition to the service's name.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn start(url: OtlpUrl, attributes: Vec<(String, String)>) -> std::io::Result<OtlpExporter> {
        let figures = Arc::new(Mutex::new(Figures::new()));
        let own = figures.clone();
        let body = move |times| request(&lock(&own).series(), &attributes, times);
        Ok(OtlpExporter { figures, exports: Exports::start(url, body)? })
    }

    /// The flows of the test, whose figures follow.
    pub fn flows(&self, specs: &[FlowSpec]) {
        lock(&self.figures).set_flows(specs);
    }

    /// Adds an interval.
    pub fn interval(&self, interval: &Interval) {
        lock(&self.figures).add(interval, false);
        self.exports.wake();
    }

    /// Adds the parts of an interval that arrived after it was reported.
    pub fn late(&self, interval: &Interval) {
        lock(&self.figures).add(interval, true);
    }

    /// Exports the last figures and waits for that, at most for two exports, since one may be running, and until
    /// `gives_up`.
    #[must_use]
    pub fn finish(self, gives_up: &dyn Fn() -> bool) -> OtlpReport {
        self.exports.finish(gives_up)
    }
}

/// Sends series that a service sets to a collector.
#[derive(Debug)]
pub struct OtlpService {
    series: Arc<Mutex<Vec<OtlpSeries>>>,
    exports: Exports,
}

impl OtlpService {
    /// Starts the thread. `attributes` describe the resource, in addition to the service's name.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn start(url: OtlpUrl, attributes: Vec<(String, String)>) -> std::io::Result<OtlpService> {
        let series = Arc::new(Mutex::new(vec![]));
        let own = series.clone();
        let body = move |times| {
            let all: Vec<OtlpSeries> = lock(&own).clone();
            let all: Vec<Series<'_>> = all.iter().map(Series::of).collect();
            request(&all, &attributes, times)
        };
        Ok(OtlpService { series, exports: Exports::start(url, body)? })
    }

    /// Sets all series, and exports them.
    pub fn set(&self, series: Vec<OtlpSeries>) {
        *lock(&self.series) = series;
        self.exports.wake();
    }

    /// As [`OtlpExporter::finish`].
    #[must_use]
    pub fn finish(self, gives_up: &dyn Fn() -> bool) -> OtlpReport {
        self.exports.finish(gives_up)
    }
}

impl<'a> Series<'a> {
    fn of(series: &'a OtlpSeries) -> Series<'a> {
        let value = |(labels, value): &'a (Labels, u64)| (labels, Number::Integer((*value).into()));
        Series {
            name: &series.name,
            help: &series.help,
            is_sum: series.is_sum,
            values: series.values.iter().map(value).collect(),
        }
    }
}

/// The thread that exports.
#[derive(Debug)]
pub(crate) struct Exports {
    wake: Option<SyncSender<()>>,
    skipped: AtomicU64,
    thread: Option<JoinHandle<()>>,
    report: Arc<Mutex<OtlpReport>>,
}

impl Exports {
    /// `body` makes the request of the figures so far, by the times of their start and now.
    pub(crate) fn start(
        url: OtlpUrl,
        body: impl Fn([SystemTime; 2]) -> Option<Value> + Send + 'static,
    ) -> std::io::Result<Exports> {
        // One export runs and one waits: the latter includes all later figures.
        let (wake, woken) = sync_channel(1);
        let report = Arc::new(Mutex::new(OtlpReport::default()));
        let own = report.clone();
        let start = SystemTime::now();
        let body = move || body([start, SystemTime::now()]);
        let run = move || export(&url, &body, &woken, &own);
        let thread = std::thread::Builder::new().name("weir-otlp".into()).spawn(run)?;
        Ok(Exports { wake: Some(wake), skipped: AtomicU64::new(0), thread: Some(thread), report })
    }

    pub(crate) fn wake(&self) {
        if let Some(Err(TrySendError::Full(()))) = self.wake.as_ref().map(|wake| wake.try_send(()))
        {
            self.skipped.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn finish(mut self, gives_up: &dyn Fn() -> bool) -> OtlpReport {
        // The thread exports once more when the channel closes.
        self.wake = None;
        // A little more, for the resolver.
        let deadline = Instant::now() + 2 * LIMIT + LIMIT / 2;
        let skipped = self.skipped.load(Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return OtlpReport::default() };
        while !thread.is_finished() && Instant::now() < deadline && !gives_up() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let is_finished = thread.is_finished();
        let mut report = lock(&self.report).clone();
        report.skipped += skipped;
        if !is_finished {
            report.failed += 1;
            report.reason = Some("no answer".into());
        }
        report
    }
}

fn export(
    url: &OtlpUrl,
    body: &dyn Fn() -> Option<Value>,
    woken: &Receiver<()>,
    report: &Mutex<OtlpReport>,
) {
    let mut is_last = false;
    while !is_last {
        is_last = woken.recv().is_err();
        // What is waiting already is in this export, too.
        match woken.try_recv() {
            Ok(()) => lock(report).skipped += 1,
            Err(TryRecvError::Disconnected) => is_last = true,
            Err(TryRecvError::Empty) => {}
        }
        // A test that failed before its first interval has no figures.
        let Some(body) = body() else { continue };
        let posted = post(url, &body.to_string());
        let mut report = lock(report);
        match posted {
            Ok(()) => report.accepted += 1,
            Err(e) => {
                report.failed += 1;
                report.reason = Some(e.to_string());
            }
        }
    }
}

fn attributes_of<'a>(labels: impl IntoIterator<Item = &'a (String, String)>) -> Vec<Value> {
    let attribute =
        |(key, value): &(String, String)| json!({ "key": key, "value": { "stringValue": value } });
    labels.into_iter().map(attribute).collect()
}

/// Unit of a series in UCUM, by the end of its name.
fn unit(name: &str) -> &'static str {
    match name.rsplit('_').next() {
        Some("bytes") => "By",
        Some("seconds") => "s",
        Some("packets") => "{packet}",
        _ => "1",
    }
}

/// Adds the fields of an `ExponentialHistogramDataPoint`. Its bucket of index i starts where the bucket of index i of Prometheus ends.
fn add_histogram(point: &mut Value, histogram: &NativeHistogram) {
    point["count"] = histogram.count.to_string().into();
    point["sum"] = histogram.sum.into();
    point["scale"] = SCHEMA.into();
    point["zeroCount"] = "0".into();
    let (first, counts) = histogram.dense();
    let counts: Vec<String> = counts.iter().map(u64::to_string).collect();
    point["positive"] = json!({ "offset": first - 1, "bucketCounts": counts });
}

/// An `ExportMetricsServiceRequest`; `None`: there are no figures. 64-bit integers are strings, as in all JSON of Protocol Buffers.
pub(crate) fn request(
    series: &[Series],
    attributes: &[(String, String)],
    [start, now]: [SystemTime; 2],
) -> Option<Value> {
    let nanoseconds = |time: SystemTime| {
        time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
    };
    let (start, now) = (nanoseconds(start), nanoseconds(now));
    let metric = |series: &Series| {
        let point = |(labels, value): &(&Labels, Number)| {
            let mut point = json!({
                "attributes": attributes_of(*labels),
                "startTimeUnixNano": start,
                "timeUnixNano": now,
            });
            match value {
                Number::Integer(n) => point["asInt"] = n.to_string().into(),
                Number::Real(x) => point["asDouble"] = (*x).into(),
                Number::Histogram(histogram) => add_histogram(&mut point, histogram),
            }
            point
        };
        let points: Vec<Value> = series.values.iter().map(point).collect();
        let mut metric =
            json!({ "name": series.name, "description": series.help, "unit": unit(series.name) });
        let is_histogram =
            series.values.iter().any(|(_, value)| matches!(value, Number::Histogram(_)));
        match series.is_sum {
            _ if is_histogram => {
                metric["exponentialHistogram"] = json!({
                    "aggregationTemporality": CUMULATIVE, "dataPoints": points,
                });
            }
            true => {
                metric["sum"] = json!({
                    "aggregationTemporality": CUMULATIVE, "isMonotonic": true, "dataPoints": points,
                });
            }
            false => metric["gauge"] = json!({ "dataPoints": points }),
        }
        metric
    };
    let metrics: Vec<Value> =
        series.iter().filter(|series| !series.values.is_empty()).map(metric).collect();
    if metrics.is_empty() {
        return None;
    }
    let service = [
        ("service.name".to_owned(), "weir".to_owned()),
        ("service.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
    ];
    Some(json!({ "resourceMetrics": [{
        "resource": { "attributes": attributes_of(service.iter().chain(attributes)) },
        "scopeMetrics": [{
            "scope": { "name": "weir", "version": env!("CARGO_PKG_VERSION") },
            "metrics": metrics,
        }],
    }] }))
}

/// A connection whose reads and writes have one deadline.
struct Timed {
    stream: TcpStream,
    deadline: Instant,
}

/// Time that is left until then.
fn left(deadline: Instant) -> std::io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.stream.set_read_timeout(Some(left(self.deadline)?))?;
        self.stream.read(buffer)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.stream.set_write_timeout(Some(left(self.deadline)?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Posts a body and checks the status.
fn post(url: &OtlpUrl, body: &str) -> std::io::Result<()> {
    let deadline = Instant::now() + LIMIT;
    let mut failure = Error::new(ErrorKind::NotFound, format!("{}: no address found", url.host));
    let mut connected = None;
    for address in (&*url.host, url.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, left(deadline)?) {
            Ok(stream) => {
                connected = Some(stream);
                break;
            }
            Err(e) => failure = e,
        }
    }
    let Some(stream) = connected else { return Err(failure) };
    let mut stream = Timed { stream, deadline };
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        url.path,
        url.authority(),
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    status(&mut stream)
}

/// Reads the status line of an answer.
fn status(answer: impl Read) -> std::io::Result<()> {
    let mut line = vec![];
    for byte in BufReader::new(answer).take(MAX_ANSWER).bytes() {
        match byte? {
            b'\n' => break,
            byte => line.push(byte),
        }
    }
    let line = String::from_utf8_lossy(&line);
    let line = line.trim_end();
    let mut words = line.split(' ');
    let is_http = words.next().is_some_and(|word| word.starts_with("HTTP/1."));
    let code =
        words.next().filter(|code| code.len() == 3 && code.bytes().all(|b| b.is_ascii_digit()));
    match code.filter(|_| is_http) {
        Some(code) if code.starts_with('2') => Ok(()),
        Some(code) => Err(Error::other(format!("the collector answered {code}"))),
        None => Err(Error::new(ErrorKind::InvalidData, "the answer is not HTTP")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufRead;
    use std::net::TcpListener;
    use weir_model::plan::{Connection, Family, Plan};
    use weir_model::record::{IntervalCount, IntervalFlow};

    fn url(text: &str) -> Result<OtlpUrl, String> {
        text.parse()
    }

    #[test]
    fn urls() {
        for (text, whole) in [
            ("http://h", "http://h:4318/v1/metrics"),
            ("http://h:80/", "http://h:80/v1/metrics"),
            ("http://[::1]:9/otlp/v1/metrics", "http://[::1]:9/otlp/v1/metrics"),
            ("http://[::1]", "http://[::1]:4318/v1/metrics"),
        ] {
            assert_eq!(url(text).unwrap().to_string(), whole);
        }
        assert!(url("https://h").unwrap_err().starts_with("https "));
        for text in [
            "",
            "h",
            "http://",
            "http://:80",
            "http://h:0",
            "http://h:x",
            "http://[::1",
            "http://a@h",
            "http://h/\r\nX: y",
            "http://[::1]x",
            "http://h/?a",
        ] {
            assert!(url(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_answer_is_judged_by_its_status() {
        assert!(status(&b"HTTP/1.1 200 OK\r\n\r\n"[..]).is_ok());
        assert!(status(&b"HTTP/1.0 202\r\n"[..]).is_ok());
        for answer in
            ["", "HTTP/1.1 503 no\r\n", "HTTP/1.1 2\r\n", "SSH-2.0 200 x\r\n", "HTTP/1.1 2x0\r\n"]
        {
            assert!(status(answer.as_bytes()).is_err(), "{answer}");
        }
        assert!(status(std::io::repeat(b'x')).is_err(), "an endless line");
    }

    /// Accepts one request, answers with a status, and returns its body.
    fn answer(listener: &TcpListener, code: &str) -> Value {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream);
        let (mut length, mut head) = (0, String::new());
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if line == "\r\n" {
                break;
            }
            if let Some(n) = line.strip_prefix("Content-Length: ") {
                length = n.trim().parse().unwrap();
            }
            head += &line;
        }
        assert!(head.starts_with("POST /v1/metrics HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("Content-Type: application/json\r\n"), "{head}");
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        reader.into_inner().write_all(format!("HTTP/1.1 {code} x\r\n\r\n").as_bytes()).unwrap();
        serde_json::from_slice(&body).unwrap()
    }

    fn interval(end_seconds: f64) -> Interval {
        let count = IntervalCount {
            bytes: 1000,
            packets: 10,
            jitter_seconds: Some(0.25),
            ..IntervalCount::default()
        };
        let flow = IntervalFlow { id: 1, receiver: Some(count), sender: None };
        Interval {
            start_seconds: end_seconds - 1.0,
            end_seconds,
            flows: vec![flow],
            ..Interval::default()
        }
    }

    #[test]
    fn a_collector_that_hangs_is_left_without_losing_the_counts() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = url(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let service = OtlpService::start(url, vec![]).unwrap();
        let value = (vec![("flow".to_owned(), "voice".to_owned())], 7);
        let series = |values| OtlpSeries {
            name: "weir_emulator_lost_packets".into(),
            help: "Lost".into(),
            is_sum: true,
            values,
        };
        service.set(vec![series(vec![value.clone()])]);
        let body = answer(&listener, "200");
        let metric = &body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][0];
        assert_eq!(
            (&metric["name"], &metric["unit"]),
            (&json!("weir_emulator_lost_packets"), &json!("{packet}"))
        );
        assert_eq!(metric["sum"]["dataPoints"][0]["asInt"], "7");
        // The next export is accepted by the kernel alone. The user has no more patience.
        while lock(&service.exports.report).accepted == 0 {
            std::thread::yield_now();
        }
        service.set(vec![series(vec![value])]);
        let report = service.finish(&|| true);
        assert_eq!((report.accepted, report.failed), (1, 1), "{report:?}");
    }

    #[test]
    fn sums_and_gauges_are_posted_after_each_interval_and_at_the_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = url(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let attributes = vec![("host.name".to_owned(), "h".to_owned())];
        let exporter = OtlpExporter::start(url, attributes).unwrap();
        let plan = Plan { connections: vec![Connection::default()], ..Plan::default() };
        exporter.flows(&plan.flows(Family::Ipv4, 1500));
        exporter.interval(&interval(1.0));
        let first = answer(&listener, "200");
        exporter.interval(&interval(2.0));
        let second = answer(&listener, "503");
        let finishing = std::thread::spawn(move || exporter.finish(&|| false));
        let third = answer(&listener, "200");
        let report = finishing.join().unwrap();
        assert_eq!((report.accepted, report.failed, report.skipped), (2, 1, 0));
        assert!(report.reason.unwrap().contains("503"));
        let metric = |body: &Value, name: &str| {
            let metrics = &body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
            let found = metrics.as_array().unwrap().iter().find(|metric| metric["name"] == name);
            found.cloned().unwrap_or_default()
        };
        for (body, bytes) in [(&first, "1000"), (&second, "2000"), (&third, "2000")] {
            let received = metric(body, "weir_received_bytes");
            assert_eq!(
                (&received["unit"], &received["sum"]["isMonotonic"]),
                (&json!("By"), &json!(true))
            );
            assert_eq!(received["sum"]["aggregationTemporality"], 2);
            let point = &received["sum"]["dataPoints"][0];
            assert_eq!(point["asInt"], bytes);
            assert!(
                point["timeUnixNano"].as_str().unwrap()
                    > point["startTimeUnixNano"].as_str().unwrap()
            );
            let flow = json!({ "key": "flow", "value": { "stringValue": "1" } });
            assert!(point["attributes"].as_array().unwrap().contains(&flow), "{point}");
            let jitter = metric(body, "weir_jitter_seconds");
            assert_eq!(jitter["gauge"]["dataPoints"][0]["asDouble"], 0.25);
            assert_eq!(metric(body, "weir_sent_bytes"), Value::Null, "not measured");
            let resource = &body["resourceMetrics"][0]["resource"]["attributes"];
            let host = json!({ "key": "host.name", "value": { "stringValue": "h" } });
            assert!(resource.as_array().unwrap().contains(&host), "{resource}");
        }
    }

    #[test]
    fn a_collector_that_does_not_answer_delays_no_interval() {
        // Never accepts: the export waits for an answer until its limit.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = url(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let exporter = OtlpExporter::start(url, vec![]).unwrap();
        let plan = Plan { connections: vec![Connection::default()], ..Plan::default() };
        exporter.flows(&plan.flows(Family::Ipv4, 1500));
        for end in 1..=20 {
            exporter.interval(&interval(f64::from(end)));
        }
        // One export at most was taken, perhaps with the figures of the next one, and one waits.
        let merged = lock(&exporter.exports.report).skipped;
        assert!(exporter.exports.skipped.load(Ordering::Relaxed) + merged >= 18);
    }
}
