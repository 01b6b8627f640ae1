//! Tells the program which commit and target it was built from.

use std::process::Command;

/// What `git` answers, trimmed; absent without git or outside a checkout.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_string();
    (output.status.success() && !text.is_empty()).then_some(text)
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=WEIR_COMMIT");
    for file in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--path-format=absolute", "--git-path", file])
            && std::path::Path::new(&path).exists()
        {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    // A packager without the repository states the commit in the environment.
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
