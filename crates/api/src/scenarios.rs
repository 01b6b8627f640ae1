//! Scenarios that a request may run: those of the server's directories, and documents in requests, which may name no
//! file and run no command except the scripts of `--allow-commands`.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use axum::http::StatusCode;
use serde_json::Value;
use weir_experiment::scenario::estimate::Estimate;
use weir_experiment::scenario::{Files, ScenarioError, check};
use weir_model::ModelError;
use weir_model::document;
use weir_model::experiment::{
    Action, CollectStep, EmulatorSpec, HostSpec, ImpairStep, Impairing, Scenario, Step, TestStep,
    Variables,
};

use crate::config::{Config, ParseTestFlags};
use crate::handlers::file_name;
use crate::problem::{FieldError, Problem, pointer};
use crate::types::ScenarioEntry;

/// Limits: length of a file, and number of files.
const MAX_BYTES: u64 = 4 << 20;
const MAX_FILES: usize = 500;

/// A scenario file.
#[derive(Debug, Clone)]
pub(crate) struct StoredScenario {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

impl StoredScenario {
    /// The parsed scenario.
    fn parse(
        &self,
        quick: bool,
        set: &Variables,
        hosts: &BTreeMap<String, HostSpec>,
    ) -> Result<Scenario, ModelError> {
        Scenario::parse(&self.text, quick, set, hosts)
    }
}

/// An unchecked document.
fn raw(text: &str) -> Result<Value, Problem> {
    document::tree(text).map_err(Problem::internal)
}

/// All scenarios of these directories, by name; the first directory wins.
fn all(directories: &[PathBuf]) -> Vec<StoredScenario> {
    let mut out: BTreeMap<String, StoredScenario> = BTreeMap::new();
    for directory in directories {
        let Ok(entries) = std::fs::read_dir(directory) else { continue };
        for entry in entries.flatten().take(MAX_FILES) {
            let path = entry.path();
            let file = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
            let name = file.strip_suffix(".toml").or_else(|| file.strip_suffix(".json"));
            let Some(name) = name.filter(|n| file_name(n).is_ok()) else { continue };
            if let Some(text) = text_of(&path) {
                let name = name.to_owned();
                out.entry(name.clone()).or_insert(StoredScenario { name, path, text });
            }
        }
    }
    out.into_values().collect()
}

/// The text of a scenario.
fn text_of(path: &Path) -> Option<String> {
    // Opening a pipe would wait for its writer.
    if !path.is_file() {
        return None;
    }
    let mut text = String::new();
    let file = std::fs::File::open(path).ok()?;
    let length = file.take(MAX_BYTES + 1).read_to_string(&mut text).ok()?;
    (length as u64 <= MAX_BYTES).then_some(text)
}

/// All scenarios of this server's directories.
pub(crate) fn of_config(config: &Config) -> Vec<StoredScenario> {
    all(&config.scenarios)
}

/// One of them.
pub(crate) fn named(config: &Config, name: &str) -> Result<StoredScenario, Problem> {
    of_config(config)
        .into_iter()
        .find(|f| f.name == name)
        .ok_or_else(|| Problem::missing("scenario", name))
}

/// Maximum number of names in a refusal.
const MAX_NAMES: usize = 20;

/// Their names as text.
pub(crate) fn names(config: &Config) -> String {
    let all: Vec<String> = of_config(config).into_iter().map(|f| f.name).collect();
    match all.len() {
        0 => "none: the server has no scenarios".into(),
        n if n <= MAX_NAMES => all.join(", "),
        n => format!("{} and {} more", all[..MAX_NAMES].join(", "), n - MAX_NAMES),
    }
}

/// A scenario's entry in the list, and the scenario.
pub(crate) fn described(found: &StoredScenario) -> (ScenarioEntry, Option<Scenario>) {
    let parsed = found.parse(false, &Variables::new(), &BTreeMap::new());
    let mut entry = ScenarioEntry {
        name: found.name.clone(),
        title: None,
        method: None,
        tags: vec![],
        steps: 0,
        needs_lab: false,
        runs_commands: false,
        variables: BTreeMap::new(),
        hosts: vec![],
        error: None,
    };
    match parsed {
        Err(error) => {
            entry.error = Some(error.to_string());
            (entry, None)
        }
        Ok(scenario) => {
            entry.title.clone_from(&scenario.title);
            entry.method.clone_from(&scenario.method);
            entry.tags.clone_from(&scenario.tags);
            entry.steps = scenario.steps.len();
            entry.needs_lab = scenario.lab.is_some();
            entry.runs_commands = !commands(&scenario.steps).is_empty();
            entry.variables = scenario.variables.clone().into_iter().collect();
            entry.hosts = scenario.hosts.keys().cloned().collect();
            (entry, Some(scenario))
        }
    }
}

/// A problem of a server's scenario, attributed to the field of the request that caused it.
fn refused(
    error: &ModelError,
    found: &StoredScenario,
    set: &Variables,
    hosts: &BTreeMap<String, HostSpec>,
    quick: bool,
) -> Problem {
    let named = match error {
        ModelError::Field { field, .. } => field.as_str(),
        _ => "",
    };
    // The file and the request's values together.
    let comes_of =
        |quick, set: &_, hosts: &_| found.parse(quick, set, hosts).err().as_ref() != Some(error);
    let of_request = match named {
        "set" => "/set",
        "hosts" => "/hosts",
        _ if comes_of(quick, &Variables::new(), hosts) => "/set",
        _ if comes_of(quick, set, &BTreeMap::new()) => "/hosts",
        _ if comes_of(false, set, hosts) => "/quick",
        _ => "/scenario",
    };
    // The one value without which the error would not be there.
    let without = |name: &String| match of_request {
        "/set" => {
            let mut others = set.clone();
            others.remove(name);
            comes_of(quick, &others, hosts)
        }
        _ => {
            let mut others = hosts.clone();
            others.remove(name);
            comes_of(quick, set, &others)
        }
    };
    let names: Vec<&String> = match of_request {
        "/set" => set.keys().collect(),
        "/hosts" => hosts.keys().collect(),
        _ => vec![],
    };
    let mut causes = names.into_iter().filter(|name| without(name));
    let by = match (causes.next(), causes.next()) {
        (Some(name), None) => {
            format!("{of_request}/{}", name.replace('~', "~0").replace('/', "~1"))
        }
        _ => of_request.into(),
    };
    let mut problem = Problem::of_model("", error);
    for error in &mut problem.errors {
        error.field.clone_from(&by);
        // The file is invalid, or becomes so by the values set in it.
        let message = error.message.clone();
        error.given.get_or_insert_with(|| "a value that the scenario does not accept".into());
        error.accepted.get_or_insert(message);
    }
    problem
}

/// Steps with their paths, nested ones included.
fn each<'a>(steps: &'a [Step], at: &str, take: &mut impl FnMut(&'a Step, &str)) {
    for (step, i) in steps.iter().zip(0..) {
        let at = format!("{at}/step/{i}");
        take(step, &at);
        match step.action() {
            Some(Action::Parallel(inner)) => each(inner, &format!("{at}/parallel"), take),
            Some(Action::Repeat(repeat)) => each(&repeat.steps, &format!("{at}/repeat"), take),
            _ => {}
        }
    }
}

/// Commands of a scenario, with their paths.
fn commands(steps: &[Step]) -> Vec<(String, String)> {
    let mut out = vec![];
    each(steps, "", &mut |step, at| {
        if let Some(command) = &step.command {
            let program = command.run.first().cloned().unwrap_or_default();
            out.push((format!("{at}/command/run/0"), program));
        }
    });
    out
}

/// Every file, socket and foreign tool that a scenario names, with its path. Fields are destructured by name: a new
/// field does not compile until it is decided here whether it names a file.
fn files(scenario: &Scenario) -> Vec<(String, String)> {
    let mut out = vec![];
    let Scenario {
        schema: _,
        name: _,
        title: _,
        method: _,
        tags: _,
        seed: _,
        timeout: _,
        confidence_percentage: _,
        variables: _,
        quick: _,
        lab: _,
        hosts,
        agents: _,
        emulators,
        tables,
        steps,
    } = scenario;
    for (table, i) in tables.iter().zip(0..) {
        for (one, k) in table.published.iter().zip(0..) {
            add(&mut out, &format!("/table/{i}/published/{k}/file"), Some(&one.file));
        }
    }
    for (name, HostSpec { address: _, port: _, key_file }) in hosts {
        add(&mut out, &format!("/host/{}/key_file", escaped(name)), key_file.as_ref());
    }
    for (name, EmulatorSpec { interfaces: _, control_socket, agent: _, initial }) in emulators {
        let at = format!("/emulator/{}", escaped(name));
        add(&mut out, &format!("{at}/control_socket"), control_socket.as_ref());
        of_laws(&mut out, &at, initial);
    }
    each(steps, "", &mut |step, at| of_step(&mut out, at, step));
    out
}

fn add(out: &mut Vec<(String, String)>, at: &str, file: Option<&String>) {
    out.extend(file.map(|file| (at.to_owned(), file.clone())));
}

fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn of_step(out: &mut Vec<(String, String)>, at: &str, step: &Step) {
    // `each` walks through the steps of these two.
    let Step {
        name: _,
        timeout: _,
        keep_going: _,
        expect: _,
        test,
        sweep,
        search,
        compare,
        wait: _,
        start: _,
        stop: _,
        impair,
        command: _,
        collect,
        parallel: _,
        repeat: _,
    } = step;
    if let Some(test) = test {
        of_test(out, &format!("{at}/test"), test);
    }
    if let Some(sweep) = sweep {
        let at = format!("{at}/sweep");
        of_test(out, &format!("{at}/test"), &sweep.test);
        if let Some(impair) = &sweep.impair {
            of_impair(out, &format!("{at}/impair"), impair);
        }
    }
    if let Some(search) = search {
        let at = format!("{at}/search");
        of_test(out, &format!("{at}/test"), &search.test);
    }
    if compare.is_some() {
        out.push((format!("{at}/compare"), "programs of others".into()));
    }
    if let Some(impair) = impair {
        of_impair(out, &format!("{at}/impair"), impair);
    }
    if let Some(CollectStep { emulator: _, file }) = collect {
        add(out, &format!("{at}/collect/file"), file.as_ref());
    }
}

fn of_test(out: &mut Vec<(String, String)>, at: &str, test: &TestStep) {
    // Flags that name files are refused where `args` are parsed.
    let TestStep {
        from: _,
        to: _,
        topology: _,
        args: _,
        plan: _,
        plan_file,
        runs: _,
        background: _,
        threads: _,
    } = test;
    add(out, &format!("{at}/plan_file"), plan_file.as_ref());
}

fn of_impair(out: &mut Vec<(String, String)>, at: &str, impair: &ImpairStep) {
    let ImpairStep { emulator: _, clear: _, to } = impair;
    of_laws(out, at, to);
}

fn of_laws(out: &mut Vec<(String, String)>, at: &str, laws: &Impairing) {
    let Impairing { both: _, a_to_b: _, b_to_a: _, profile: _, config: _, config_file, seed: _ } =
        laws;
    add(out, &format!("{at}/config_file"), config_file.as_ref());
}

/// Refuses commands that are no scripts of the directory; returns whether there are any.
fn right_commands(
    root: &str,
    scenario: &Scenario,
    scripts: Option<&Path>,
) -> Result<bool, Problem> {
    let all = commands(&scenario.steps);
    for (at, program) in &all {
        let field = format!("{root}{at}");
        let Some(directory) = scripts else {
            return Err(Problem::field(
                field,
                program.as_str(),
                "no commands: this server does not allow them",
            ));
        };
        if !is_plain(program) || !directory.join(program).is_file() {
            let accepted = format!("the name of a script in {}", directory.display());
            return Err(Problem::field(field, program.as_str(), accepted));
        }
    }
    Ok(!all.is_empty())
}

/// Refuses to resume a stored scenario whose commands are not scripts of this server's directory. Commands
/// are stored as paths: an earlier server may have had another directory, and the command line runs any program.
pub(crate) fn right_kept(scenario: &Scenario, scripts: Option<&Path>) -> Result<(), String> {
    for (_, program) in commands(&scenario.steps) {
        let path = Path::new(&program);
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        let is_ours =
            scripts.is_some_and(|d| is_plain(name) && d.join(name) == path && path.is_file());
        if !is_ours {
            return Err(format!(
                "runs {program:?}, which is not in this server's directory of scripts"
            ));
        }
    }
    Ok(())
}

/// An error of the model about a request's document, or about the variables and hosts next to it.
fn of_request_or_its_own(root: &str, text: &str, error: &ModelError) -> Problem {
    let beside = match error {
        ModelError::Field { field, .. } if field == "set" => "/set",
        ModelError::Field { field, .. } if field == "hosts" => "/hosts",
        _ => return Problem::of_model(root, error).with_given_of(root, text),
    };
    let mut problem = Problem::of_model("", error);
    problem.errors.iter_mut().for_each(|e| e.field = beside.into());
    problem
}

/// A document of a request, checked without running it.
pub(crate) fn of_request(
    root: &str,
    text: &str,
    set: &Variables,
    hosts: &BTreeMap<String, HostSpec>,
    quick: bool,
    scripts: Option<&Path>,
) -> Result<Scenario, Problem> {
    let scenario = Scenario::parse(text, quick, set, hosts)
        .map_err(|e| of_request_or_its_own(root, text, &e))?;
    if let Some((at, given)) = files(&scenario).first() {
        return Err(Problem::field(
            format!("{root}{at}"),
            given.as_str(),
            "nothing: a scenario in a request names no files, sockets or tools of this host; one of the server's directories may",
        ));
    }
    right_commands(root, &scenario, scripts)?;
    Ok(scenario)
}

/// A scenario of the server with a request's variables, which may not change the files that it names.
pub(crate) fn of_server(
    found: &StoredScenario,
    set: &Variables,
    hosts: &BTreeMap<String, HostSpec>,
    quick: bool,
    scripts: Option<&Path>,
) -> Result<Scenario, Problem> {
    let parse = |set: &Variables| {
        found.parse(quick, set, hosts).map_err(|e| refused(&e, found, set, hosts, quick))
    };
    let scenario = parse(set)?;
    if !set.is_empty() {
        let before = parse(&Variables::new())?;
        if files(&scenario) != files(&before) {
            return Err(Problem::field("/set", "other files", "variables that name no file"));
        }
    }
    right_commands("/scenario", &scenario, scripts)?;
    Ok(scenario)
}

/// The raw document to run: with a request's values as JSON types, and with paths instead of script names, so that no
/// value is passed on a command line.
pub(crate) fn settled(
    text: &str,
    set: &Variables,
    scripts: Option<&Path>,
) -> Result<String, Problem> {
    fn walk(value: &mut Value, scripts: &Path) {
        match value {
            Value::Object(fields) => {
                if let Some(run) = fields.get_mut("command").and_then(|c| c["run"].as_array_mut())
                    && let Some(program) = run.first_mut()
                    && let Some(name) = program.as_str()
                {
                    *program = scripts.join(name).display().to_string().into();
                }
                fields.values_mut().for_each(|v| walk(v, scripts));
            }
            Value::Array(list) => list.iter_mut().for_each(|v| walk(v, scripts)),
            _ => {}
        }
    }
    let mut raw = raw(text)?;
    for (name, value) in set {
        // They have precedence over those of the quick form.
        if let Some(quick) = raw.get_mut("quick").and_then(Value::as_object_mut) {
            quick.remove(name);
        }
        if let Some(variables) = raw.get_mut("variables").and_then(Value::as_object_mut) {
            variables.insert(name.clone(), value.clone());
        }
    }
    if let Some(scripts) = scripts {
        walk(&mut raw, scripts);
    }
    Ok(raw.to_string())
}

/// Checks the result of [`settled`] again as the job will run it: its commands are paths of scripts, its files those
/// of the checked scenario.
pub(crate) fn as_it_runs(
    root: &str,
    text: &str,
    hosts: &BTreeMap<String, HostSpec>,
    quick: bool,
    scripts: Option<&Path>,
    looked_at: &Scenario,
) -> Result<(), Problem> {
    let scenario = Scenario::parse(text, quick, &Variables::new(), hosts)
        .map_err(|e| Problem::of_model(root, &e))?;
    for (at, program) in commands(&scenario.steps) {
        let name = scripts.and_then(|s| Path::new(&program).strip_prefix(s).ok());
        let is_script =
            name.and_then(Path::to_str).is_some_and(is_plain) && Path::new(&program).is_file();
        if !is_script {
            let accepted = "the name of a script of the server's";
            return Err(Problem::field(format!("{root}{at}"), program, accepted));
        }
    }
    if files(&scenario) != files(looked_at) {
        return Err(Problem::field(root, "other files", "variables that name no file"));
    }
    Ok(())
}

/// A name of a script: no path, no variable.
fn is_plain(name: &str) -> bool {
    file_name(name).is_ok() && !name.contains(' ')
}

/// The pointer of a field that is named by its step's name: `test-1.args` is `/step/0/test/args`.
fn pointed(scenario: &Scenario, field: &str) -> String {
    let mut found = None;
    each(&scenario.steps, "", &mut |step, at| {
        let name = step.name.as_deref().unwrap_or_default();
        let rest = field.strip_prefix(name).filter(|r| r.is_empty() || r.starts_with('.'));
        let Some(rest) = rest.filter(|_| !name.is_empty()) else { return };
        let action = step.action().map_or("", |action| action.name());
        let within = match (action, rest) {
            (_, "" | ".expect") => String::new(),
            ("sweep" | "search", ".args") => format!("/{action}/test"),
            _ => format!("/{action}"),
        };
        found.get_or_insert(format!("{at}{within}{}", pointer(rest)));
    });
    found.unwrap_or_else(|| pointer(field))
}

/// Checks all plans of a scenario; returns its estimate.
pub(crate) fn checked(
    root: &str,
    scenario: &Scenario,
    directory: PathBuf,
    parse_flags: ParseTestFlags,
) -> Result<Estimate, Problem> {
    check(scenario, &Files::new(&directory), &parse_flags).map_err(|e| match &e {
        ScenarioError::Model(e) => Problem::of_model(root, e),
        ScenarioError::Refused { field, given, reason } => {
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, e.to_string()).with(FieldError {
                field: format!("{root}{}", pointed(scenario, field)),
                given: given.clone(),
                accepted: Some(reason.clone()),
                message: reason.clone(),
            })
        }
        ScenarioError::Flags { field, refusal } => {
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, e.to_string()).with(FieldError {
                field: format!("{root}{}", pointed(scenario, field)),
                given: refusal.given.clone(),
                accepted: refusal.accepted.clone(),
                message: refusal.message.clone(),
            })
        }
        // By the name in the scenario: the server's path is private.
        ScenarioError::File { path, source, .. } => {
            let name = path.strip_prefix(&directory).unwrap_or(path).display();
            Problem::field(root, format!("{name}: {source}"), "a scenario whose files are readable")
        }
        other => Problem::new(StatusCode::UNPROCESSABLE_ENTITY, other.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, scripts: Option<&Path>) -> Result<Scenario, Problem> {
        of_request("/document", text, &Variables::new(), &BTreeMap::new(), false, scripts)
    }

    const HEAD: &str =
        "schema = \"weir.scenario/1\"\nname = \"x\"\n[host.b]\naddress = \"127.0.0.1\"\n";

    #[test]
    fn commands_are_refused_unless_they_are_scripts() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("good"), "").unwrap();
        let text = |program: &str| {
            format!("{HEAD}[[step]]\ncommand = {{ run = [\"{program}\", \"-x\"] }}\n")
        };
        let nested = format!(
            "{HEAD}[[step]]\n[[step.repeat.step]]\ncommand = {{ run = [\"sh\"] }}\n[step.repeat]\ntimes = 2\n"
        );
        let error = of(&text("good"), None).unwrap_err();
        assert_eq!(error.errors[0].field, "/document/step/0/command/run/0");
        assert!(of(&text("good"), Some(dir.path())).is_ok());
        for program in ["sh", "/bin/sh", "../good", "./good", "good/../../x", ""] {
            assert!(of(&text(program), Some(dir.path())).is_err(), "{program}");
        }
        let nested = of(&nested, Some(dir.path()));
        assert!(nested.is_err(), "{nested:?}");
        let real = settled(&text("good"), &Variables::new(), Some(dir.path())).unwrap();
        assert!(real.contains(&format!("{}/good", dir.path().display())), "{real}");
    }

    #[test]
    fn documents_of_requests_name_no_files() {
        for step in [
            "collect = { file = \"/etc/shadow\" }",
            "test = { plan_file = \"/etc/passwd\" }",
            "compare = { over = [\"size=100\"] }",
        ] {
            let error = of(&format!("{HEAD}[[step]]\n{step}\n"), None).unwrap_err();
            assert!(error.errors[0].field.starts_with("/document/step/0/"), "{step}: {error:?}");
        }
        let keyed = HEAD.replace("127.0.0.1\"", "127.0.0.1\"\nkey_file = \"/etc/shadow\"");
        let error =
            of(&format!("{keyed}[[step]]\nwait = {{ time = \"1s\" }}\n"), None).unwrap_err();
        assert_eq!(error.errors[0].field, "/document/host/b/key_file");
        assert!(of(&format!("{HEAD}[[step]]\nwait = {{ time = \"1s\" }}\n"), None).is_ok());
    }

    #[test]
    fn a_refusal_stands_at_what_it_comes_of() {
        let text = format!(
            "{}[variables]\nt = \"1s\"\nn = 1\n[quick]\nt = \"2s\"\n[host.b]\naddress = \"127.0.0.1\"\n[[step]]\nwait = {{ time = \"{{t}}\" }}\n",
            HEAD.split_once("[host").unwrap().0
        );
        let by = |text: &str, set: &[(&str, &str)], host: &str, quick| {
            let found =
                StoredScenario { name: "x".into(), path: "x".into(), text: text.to_owned() };
            let set = set.iter().map(|(n, v)| ((*n).to_owned(), Value::from(*v))).collect();
            let spec = HostSpec { address: host.into(), port: None, key_file: None };
            let hosts = [("b".to_owned(), spec)].into();
            let refused = of_server(&found, &set, &hosts, quick, None).err();
            refused.map(|problem| problem.errors[0].field.clone())
        };
        let good = ("n", "2");
        let broken = text.replace("[[step]]", "[[stop]]");
        let quick = text.replace("\"2s\"", "\"soon\"");
        for (text, set, host, is_quick, field) in [
            (&text, &[good][..], "::1", true, None),
            (&text, &[good, ("t", "never")], "::1", false, Some("/set/t")),
            (&text, &[good], "", false, Some("/hosts/b")),
            (&quick, &[good], "::1", true, Some("/quick")),
            (&quick, &[good], "::1", false, None),
            (&broken, &[good], "::1", true, Some("/scenario")),
        ] {
            assert_eq!(
                by(text, set, host, is_quick).as_deref(),
                field,
                "{set:?} {host} {is_quick}"
            );
        }
        // A scenario that is valid only with the values set is invalid by itself.
        let never = text.replace("t = \"1s\"", "t = \"never\"");
        assert_eq!(by(&never, &[("t", "1s")], "::1", false).as_deref(), Some("/scenario"));
    }

    #[test]
    fn variables_of_requests_change_no_files() {
        let text = format!("{HEAD}[variables]\nf = \"a.txt\"\nt = \"1s\"\n[[step]]\ncollect = {{ file = \"{{f}}\" }}\n[[step]]\nwait = {{ time = \"{{t}}\" }}\n")
            .replace("[host.b]\naddress = \"127.0.0.1\"\n", "")
            + "[host.b]\naddress = \"127.0.0.1\"\n";
        let found = StoredScenario { name: "x".into(), path: "x.toml".into(), text };
        // Each refusal names the request's field.
        let by = |set: &[(&str, &str)], host: Option<&str>| {
            let set = set.iter().map(|(n, v)| ((*n).to_owned(), Value::from(*v))).collect();
            let spec = || HostSpec { address: "192.0.2.1".into(), port: None, key_file: None };
            let hosts = host.map(|name| (name.to_owned(), spec())).into_iter().collect();
            let problem = of_server(&found, &set, &hosts, false, None).unwrap_err();
            (problem.errors[0].field.clone(), problem.errors[0].given.clone().unwrap_or_default())
        };
        assert_eq!(by(&[("x", "1")], None), ("/set/x".into(), "'x'".into()));
        assert_eq!(by(&[], Some("c")), ("/hosts/c".into(), "'c'".into()));
        assert_eq!(by(&[("t", "never")], None).0, "/set/t");
        let run = |name: &str, value: &str| {
            let set: Variables = [(name.to_owned(), Value::from(value))].into_iter().collect();
            of_server(&found, &set, &BTreeMap::new(), false, None)
        };
        assert!(run("t", "2s").is_ok());
        assert_eq!(run("f", "/etc/shadow").unwrap_err().errors[0].field, "/set");
    }
}
