//! This user's stored data: runs, the calibration that is added to them, and traffic profiles.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use weir_model::plan::{TrafficProfile, UserProfiles};
use weir_model::record::{CalibrationRef, Record};
use weir_net::file::open_regular;
use weir_runs::retention::{Retention, tidy};
use weir_runs::{DataDirectory, Store, StoreError};

use crate::commands::calibrate;

/// Stores a record among this user's runs.
pub(crate) fn keep(record: &Record) -> Result<(), StoreError> {
    Store::open_at(&DataDirectory::of_this_user()?)?.insert(record)
}

/// The same, unless another process of this user has stored it already.
pub(crate) fn keep_record(record: &Record) -> Result<(), StoreError> {
    match keep(record) {
        Err(StoreError::Exists { .. }) => Ok(()),
        other => other,
    }
}

/// The same for a result that others create; `retention`: removes old ones.
pub(crate) fn keep_and_tidy(
    record: &Record,
    retention: Option<&Retention<'_>>,
    now_unix_ms: i64,
) -> Result<(), StoreError> {
    let mut store = Store::open_at(&DataDirectory::of_this_user()?)?;
    store.insert(record)?;
    if let Some(retention) = retention {
        tidy(&mut store, retention, now_unix_ms)?;
    }
    Ok(())
}

/// Adds this host's newest calibration to a record. Without one, or without a store, the record is unchanged: a noise floor
/// that was not measured is absent.
pub(crate) fn add_calibration(record: &mut Record) {
    let Some(host) = record.local.as_ref().map(|h| h.host.clone()) else { return };
    record.calibration = calibration(&host);
}

/// The newest calibration of a host; `None` without one, or without a store.
fn calibration(host: &str) -> Option<CalibrationRef> {
    let store = Store::open_existing(&DataDirectory::of_this_user().ok()?).ok()??;
    calibrate::reference(&store.latest_calibration(host).ok()??.calibration)
}

/// Lateness in ns from which an emulator on this host counts a packet as late in a verdict: by the host's newest calibration.
#[cfg(target_os = "linux")]
pub(crate) fn late_limit_ns() -> u64 {
    let host = weir_net::host::host().ok();
    let found = host.and_then(|host| calibration(&host.hostname));
    let figure =
        |found: CalibrationRef| found.noise_floor.get("emulator_wakeup_late_p99_seconds").copied();
    weir_emulator::late_limit_ns(found.and_then(figure))
}

/// 99th percentile of the lateness of wake-ups on a host, ns, by its newest calibration; `None` without one.
pub(crate) fn wake_up_p99_ns(host: &str) -> Option<u64> {
    let floor = calibration(host)?.noise_floor;
    floor.get("emulator_wakeup_late_p99_seconds").map(|seconds| (seconds * 1e9) as u64)
}

/// Where scenarios are found by their names: the user's own, then those installed with the program.
pub(crate) fn scenario_directories(data: &DataDirectory) -> Vec<PathBuf> {
    let program = std::env::current_exe().ok();
    let shared = program.and_then(|p| Some(p.parent()?.parent()?.join("share/weir/scenarios")));
    std::iter::once(config_directory(data).join("scenarios"))
        .chain(shared.filter(|directory| directory.is_dir()))
        .collect()
}

/// The directory of plans, profiles, scenarios and keys: `WEIR_CONFIG_DIR`, else under sudo `~/.config/weir` of the user whose runs
/// are stored, else `$XDG_CONFIG_HOME/weir`, else `~/.config/weir`.
pub(crate) fn config_directory(data: &DataDirectory) -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    if let Some(own) = variable("WEIR_CONFIG_DIR").filter(|p| !p.as_os_str().is_empty()) {
        return own;
    }
    let home_of_runs = data.directory().ancestors().nth(3).filter(|_| {
        std::env::var_os("SUDO_UID").is_some() && data.directory().ends_with(".local/share/weir")
    });
    if let Some(home) = home_of_runs {
        return home.join(".config/weir");
    }
    let absolute = |p: &PathBuf| p.is_absolute();
    variable("XDG_CONFIG_HOME")
        .filter(absolute)
        .or_else(|| variable("HOME").map(|home| home.join(".config")))
        .unwrap_or_else(|| data.directory().to_owned())
        .join("weir")
}

/// Maximum length of a profile, bytes.
const MAX_PROFILE: u64 = 1 << 20;

/// The directory of this user's traffic profiles.
pub(crate) fn profile_directory() -> Option<PathBuf> {
    Some(config_directory(&DataDirectory::of_this_user().ok()?).join("profiles"))
}

/// Lets plans name this user's traffic profiles.
pub(crate) fn find_profiles() {
    TrafficProfile::find_users(UserProfiles { text: profile, names: profiles });
}

/// The text of a profile's file; an error names the file.
fn profile(name: &str) -> Option<Result<String, String>> {
    let path = profile_directory()?.join(format!("{name}.toml"));
    let is_unknown = |error: &io::Error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => true,
        // A directory that this user can't search, such as another user's home, has no profiles of theirs.
        io::ErrorKind::PermissionDenied => path.symlink_metadata().is_err(),
        _ => false,
    };
    match read(&path) {
        Err(error) if is_unknown(&error) => None,
        result => Some(result.map_err(|error| format!("{}: {error}", path.display()))),
    }
}

/// The text of a regular file of up to [`MAX_PROFILE`] bytes.
fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open_regular(path)?.take(MAX_PROFILE + 1).read_to_string(&mut text)?;
    match text.len() as u64 > MAX_PROFILE {
        true => Err(io::Error::new(io::ErrorKind::FileTooLarge, "longer than 1 MiB")),
        false => Ok(text),
    }
}

/// The names of all files of profiles.
fn profiles() -> Vec<String> {
    let entries = profile_directory().and_then(|directory| std::fs::read_dir(directory).ok());
    let files = entries.into_iter().flatten().flatten();
    let names = files
        .filter_map(|file| file.file_name().to_str()?.strip_suffix(".toml").map(ToOwned::to_owned));
    names.collect()
}
