//! Passes the commit and target of the build to the program, and makes the linker merge functions with identical code.

use std::process::Command;

/// The output of `git`, trimmed; `None` without git or outside a checkout.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_string();
    (output.status.success() && !text.is_empty()).then_some(text)
}

/// Whether the linker of this build supports an option; tries it by linking a program.
fn linker_knows(option: &str) -> Option<bool> {
    let out = std::path::PathBuf::from(std::env::var_os("OUT_DIR")?);
    let source = out.join("probe.rs");
    std::fs::write(&source, "fn main() {}").ok()?;
    let linker = std::env::var("RUSTC_LINKER").map(|l| format!("-Clinker={l}"));
    let output = Command::new(std::env::var_os("RUSTC")?)
        .args(["--target", &std::env::var("TARGET").ok()?, &format!("-Clink-arg={option}")])
        .args(linker)
        .args(std::env::var("CARGO_ENCODED_RUSTFLAGS").ok()?.split_terminator('\u{1f}'))
        .arg("-o")
        .args([out.join("probe"), source])
        .output()
        .ok()?;
    Some(output.status.success())
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Instances of generic functions often have identical code: a seventh of the program. GNU's linker can't merge them.
    let merge = "-Wl,--icf=all";
    if std::env::var("PROFILE").is_ok_and(|p| p == "release") && linker_knows(merge) == Some(true) {
        println!("cargo::rustc-link-arg-bins={merge}");
    }
    println!("cargo::rerun-if-env-changed=WEIR_COMMIT");
    for file in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--path-format=absolute", "--git-path", file])
            && std::path::Path::new(&path).exists()
        {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    // A packager without the repository sets the commit in the environment.
    let commit = std::env::var("WEIR_COMMIT")
        .ok()
        .filter(|c| !c.is_empty())
        .or_else(|| git(&["rev-parse", "--short=12", "HEAD"]));
    println!("cargo::rustc-env=WEIR_COMMIT_OR_UNKNOWN={}", commit.as_deref().unwrap_or("unknown"));
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let short = commit.as_ref().map_or_else(|| version.clone(), |c| format!("{version} ({c})"));
    println!("cargo::rustc-env=WEIR_SHORT_VERSION={short}");
    if let Some(commit) = commit {
        println!("cargo::rustc-env=WEIR_COMMIT={commit}");
    }
    println!("cargo::rustc-env=WEIR_TARGET={}", std::env::var("TARGET").unwrap_or_default());
}
