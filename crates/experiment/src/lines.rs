//! Command lines by which this program starts itself: each flag with its value in one word, then `--`, then the names that
//! others gave. So no name can be read as a flag, and none as a verb.

use std::ffi::OsString;
use std::path::Path;

use weir_model::names::{is_host, is_interface};
use weir_model::threads::Threads;

/// Longest value behind a flag.
const MOST_VALUE_BYTES: usize = 10_000;

/// What `weir test` is told.
#[derive(Debug, Clone, Copy, Default)]
pub struct TestLine<'a> {
    /// Who answers.
    pub host: &'a str,
    /// Its port, where it is not with the host.
    pub port: Option<u16>,
    /// The plan's file.
    pub plan: Option<&'a Path>,
    /// The key's file.
    pub key_file: Option<&'a Path>,
    /// Labels of the record.
    pub labels: &'a [(String, String)],
    /// The record is not kept.
    pub no_store: bool,
    /// Where it takes orders.
    pub control_socket: Option<&'a Path>,
    /// The control socket of an emulator on its path, and the client's side of it where that is known.
    pub emulator: Option<(&'a Path, Option<&'a str>)>,
    /// CLOCK_MONOTONIC, ns, at which sending starts.
    pub start_at_ns: Option<u64>,
    /// Its threads.
    pub threads: Option<&'a Threads>,
}

impl TestLine<'_> {
    /// The words of the command line, `test` the first of them; it tells its way by `--json-stream`.
    ///
    /// # Errors
    /// A host that is none, a label that is too long or holds a NUL.
    pub fn words(&self) -> Result<Vec<OsString>, String> {
        let mut words: Vec<OsString> = vec!["test".into(), "--json-stream".into()];
        let paths = [
            ("--plan", self.plan),
            ("--key-file", self.key_file),
            ("--control-socket", self.control_socket),
        ];
        words.extend(paths.iter().filter_map(|(flag, path)| Some(with_path(flag, (*path)?))));
        if let Some((socket, side)) = self.emulator {
            words.push(with_path("--emulator", socket));
            words.extend(side.map(|side| format!("--emulator-side={side}").into()));
        }
        words.extend(self.port.map(|port| format!("--port={port}").into()));
        for (key, value) in self.labels {
            words.push(with_value("--label", &format!("{key}={value}"))?.into());
        }
        words.extend(self.no_store.then(|| "--no-store".into()));
        words.extend(self.start_at_ns.map(|at| format!("--start-at=monotonic:{at}").into()));
        if let Some(threads) = self.threads {
            let spin = threads.spin.map(|spin| spin.to_string());
            let flags = [
                ("--affinity", &threads.affinity),
                ("--scheduling", &threads.scheduling),
                ("--spin", &spin),
            ];
            for (flag, value) in flags {
                if let Some(value) = value {
                    words.push(with_value(flag, value)?.into());
                }
            }
        }
        if !is_host(self.host) {
            return Err(format!("{:?} is no name or address", self.host));
        }
        words.extend(["--".into(), self.host.into()]);
        Ok(words)
    }
}

/// What `weir impair` is told of an emulator of an experiment's own, its laws coming by standard input.
pub(crate) fn impair_words(
    interfaces: &[String; 2],
    control_socket: &Path,
    is_disposable: bool,
) -> Result<Vec<OsString>, String> {
    let mut words: Vec<OsString> = vec!["impair".into(), "--config=-".into(), "--json".into()];
    words.push(with_path("--control-socket", control_socket));
    words.extend(is_disposable.then(|| "--disposable".into()));
    words.push("--".into());
    for name in interfaces {
        if !is_interface(name) {
            return Err(format!("{name:?} is no name of an interface"));
        }
        words.push(name.into());
    }
    Ok(words)
}

/// A flag with its value, which can't be taken for a flag of its own.
///
/// # Errors
/// A NUL, or more than 10 000 bytes.
pub fn with_value(flag: &str, text: &str) -> Result<String, String> {
    if text.contains('\0') || text.len() > MOST_VALUE_BYTES {
        return Err(format!("{flag}: NUL, or longer than {MOST_VALUE_BYTES} bytes"));
    }
    Ok(format!("{flag}={text}"))
}

fn with_path(flag: &str, path: &Path) -> OsString {
    let mut word = OsString::from(format!("{flag}="));
    word.push(path);
    word
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::units::Span;

    #[test]
    fn names_come_last_and_behind_the_dashes() {
        let labels = [("-k".to_owned(), "--json".to_owned())];
        let threads = Threads {
            affinity: Some("0,1".into()),
            scheduling: Some("normal".into()),
            spin: Some(Span(60_000)),
        };
        let line = TestLine {
            host: "host",
            port: Some(7),
            plan: Some(Path::new("/p")),
            labels: &labels,
            emulator: Some((Path::new("/e"), Some("b"))),
            start_at_ns: Some(9),
            threads: Some(&threads),
            ..TestLine::default()
        };
        let words: Vec<String> =
            line.words().unwrap().into_iter().map(|w| w.into_string().unwrap()).collect();
        assert_eq!(
            words,
            [
                "test",
                "--json-stream",
                "--plan=/p",
                "--emulator=/e",
                "--emulator-side=b",
                "--port=7",
                "--label=-k=--json",
                "--start-at=monotonic:9",
                "--affinity=0,1",
                "--scheduling=normal",
                "--spin=60us",
                "--",
                "host"
            ]
        );
        for host in ["--save-plan=/x", "", "a b"] {
            assert!(TestLine { host, ..line }.words().is_err(), "{host}");
        }
        let of = |a: &str| impair_words(&[a.into(), "b".into()], Path::new("/s"), true);
        let words = of("a").unwrap();
        assert_eq!(words[words.len() - 4..], ["--disposable", "--", "a", "b"]);
        assert!(of("exec").is_err() && of("--force").is_err());
    }
}
