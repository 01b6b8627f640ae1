//! Common set-ups that must work: umask 002 with a group-writable home, sudo, and a job whose starter is killed.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::{WEIR, skip, until};
use crate::impair_path;

/// The user id of an ordinary user.
const USER: u32 = 65_534;

/// Runs a shell command in a home with umask 002; `$1` is the program `weir`.
fn in_home(home: &Path, line: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("umask 002; weir() {{ \"$0\" \"$@\"; }}; {line}")]).arg(WEIR);
    command.current_dir(home).env("HOME", home).env("XDG_DATA_HOME", home.join(".data"));
    command.env("WEIR_RUNTIME_DIR", home.join(".runtime")).env_remove("WEIR_KEY");
    command.env_remove("SUDO_UID").env_remove("WEIR_DATA_DIR").stdin(Stdio::null());
    command.envs(variables.iter().copied()).output().unwrap()
}

#[track_caller]
fn good(output: Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn a_home_that_the_group_can_write_is_used() {
    let home = tempfile::tempdir().unwrap();
    std::fs::set_permissions(home.path(), PermissionsExt::from_mode(0o775)).unwrap();
    let run = |line: &str| good(in_home(home.path(), line, &[]));
    run("weir keygen --output key && weir test -u --key-file key --save-plan p.toml");
    run("weir test --plan p.toml --save-plan again.toml && cmp p.toml again.toml");
    let record = Path::new(env!("CARGO_MANIFEST_DIR")).join("../report/tests/golden/udp_loss.json");
    run(&format!("weir runs import '{}' && weir runs tag last site=home", record.display()));
    assert_eq!(run("weir runs list").lines().count(), 2);
    run("weir report last -o page.html && weir report last --format md -o - >page.md");
    assert!(home.path().join("page.html").metadata().unwrap().len() > 1000);
    // The directory of the results exists already, created by the user's shell.
    let other = home.path().join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::set_permissions(&other, PermissionsExt::from_mode(0o775)).unwrap();
    let data = [("WEIR_DATA_DIR", other.to_str().unwrap())];
    let line = format!("weir runs import '{}'", record.display());
    good(in_home(home.path(), &line, &data));
}

#[test]
fn under_sudo_files_of_the_caller_are_read_and_results_are_the_callers() {
    let test = "under_sudo_files_of_the_caller_are_read_and_results_are_the_callers";
    if weir_net::namespace::effective_user_id() != 0 {
        return skip(test, "needs root");
    }
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    let user = USER.to_string();
    let sudo = [
        ("SUDO_UID", user.as_str()),
        ("SUDO_GID", user.as_str()),
        ("WEIR_DATA_DIR", data.to_str().unwrap()),
    ];
    good(in_home(home.path(), "weir keygen --output key", &[]));
    for path in [home.path(), &home.path().join("key")] {
        chown(path, Some(USER), Some(USER)).unwrap();
    }
    let run = |line: &str| good(in_home(home.path(), line, &sudo));
    run("weir test -u --key-file key --save-plan p.toml");
    let record = Path::new(env!("CARGO_MANIFEST_DIR")).join("../report/tests/golden/udp_loss.json");
    run(&format!("weir runs import '{}'", record.display()));
    let owner = |path: &Path| path.metadata().unwrap().uid();
    assert_eq!([owner(&data), owner(&data.join("runs.db"))], [USER; 2]);
    // Then as the ordinary user again.
    let mut listed = Command::new("sh");
    listed.args(["-c", "exec \"$0\" runs list"]).arg(WEIR).env("WEIR_DATA_DIR", &data);
    assert_eq!(good(listed.output().unwrap()).lines().count(), 2);
}

/// The starter is killed, so that only the end of the pipe tells the emulator to end.
#[test]
fn an_emulator_whose_starter_is_killed_restores_the_interfaces() {
    let test = "an_emulator_whose_starter_is_killed_restores_the_interfaces";
    let Some(path) = impair_path::Path::up(test, &["ip", "mkfifo"]) else { return };
    let before = ["to-a", "to-b"].map(|i| path.offloads(i));
    let job = serde_json::json!({ "job": "emulator", "interfaces": ["to-a", "to-b"] });
    // Only the shell holds the other end of the job's standard input.
    let pipe = path.file("pipe");
    path.tool("m", &["mkfifo", pipe.to_str().unwrap()]).good();
    let mut starter = path.lab.command("m", "sh").unwrap();
    let line = "\"$0\" job <\"$2\" & exec 3>\"$2\"; echo \"$1\" >&3; wait";
    starter.args(["-c", line, WEIR, &job.to_string()]).arg(&pipe).stdin(Stdio::null());
    starter.env("WEIR_RUNTIME_DIR", path.file("runtime")).stdout(Stdio::piped());
    let mut starter = starter.spawn().unwrap();
    let mut out = BufReader::new(starter.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert!(line.contains("\"ready\""), "{line}");
    assert_ne!(["to-a", "to-b"].map(|i| path.offloads(i)), before);
    let _ = starter.kill();
    let _ = starter.wait();
    until("the settings are restored", || ["to-a", "to-b"].map(|i| path.offloads(i)) == before);
    until("nothing is left", || std::fs::read_dir(path.file("runtime")).unwrap().next().is_none());
}
