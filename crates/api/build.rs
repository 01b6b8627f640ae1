//! Puts the OpenAPI documents and the page (`web/dist`, built by `make web`) into the program; without it the API serves alone and says so.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

fn main() {
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    let dist = root.join("../../web/dist");
    // A directory that is not there is looked for again each time, which costs nothing but this script.
    println!("cargo::rerun-if-changed={}", dist.display());
    println!("cargo::rerun-if-changed=build.rs");
    let mut files = vec![];
    collect(&dist, &dist, &mut files);
    files.sort();
    let mut text = String::from("static FILES: &[File] = &[\n");
    for (name, path) in &files {
        text += &format!("{},\n", embedded(name, path, &out));
    }
    text += "];\n";
    for (constant, name) in
        [("OPENAPI", "openapi.json"), ("OPENAPI_THREE_ZERO", "openapi-3.0.json")]
    {
        let path = root.join("../../docs").join(name);
        println!("cargo::rerun-if-changed={}", path.display());
        text += &format!("static {constant}: File = {};\n", embedded(name, &path, &out));
    }
    std::fs::write(out.join("page.rs"), text).expect("write into OUT_DIR");
}

/// A file as the value of `File` in handlers/page.rs: compressed, unless that does not make it smaller.
fn embedded(name: &str, path: &Path, out: &Path) -> String {
    let bytes = std::fs::read(path).expect("a file of the repository or the page");
    let hash = Sha256::digest(&bytes);
    let etag: String = hash.iter().take(8).map(|b| format!("{b:02x}")).collect();
    let mut packed = flate2::write::GzEncoder::new(vec![], flate2::Compression::best());
    packed.write_all(&bytes).expect("into memory");
    let packed = packed.finish().expect("into memory");
    let is_gzip = packed.len() < bytes.len();
    let copy = out.join(format!("page-{etag}"));
    std::fs::write(&copy, if is_gzip { packed } else { bytes }).expect("write into OUT_DIR");
    format!(
        "File {{ path: {name:?}, kind: {:?}, bytes: include_bytes!({:?}), is_gzip: {is_gzip}, etag: \"\\\"{etag}\\\"\" }}",
        kind(name),
        copy.display(),
    )
}

fn collect(root: &Path, directory: &Path, files: &mut Vec<(String, PathBuf)>) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(root, &path, files);
        } else if let Ok(name) = path.strip_prefix(root) {
            files.push((name.to_string_lossy().into_owned(), path.clone()));
        }
    }
}

fn kind(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "json" | "webmanifest" => "application/json",
        "woff2" => "font/woff2",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}
