"""The lock file of fuzz/ is that of today's manifests: cargo would change it without a message, and its builds could not be repeated."""

import pathlib
import tomllib
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent


def read(path):
    return tomllib.loads((ROOT / path).read_text())


def needed(manifest):
    """Names of the packages that a crate needs when it is a dependency itself."""
    tables = [manifest, *manifest.get("target", {}).values()]
    found = set()
    for table in tables:
        for kind in ("dependencies", "build-dependencies"):
            for name, value in table.get(kind, {}).items():
                details = value if isinstance(value, dict) else {}
                # A feature of the workspace, which fuzzing does not enable.
                if not details.get("optional", False):
                    found.add(details.get("package", name))
    return found


class FuzzLock(unittest.TestCase):
    def test_it_has_the_dependencies_of_the_manifests(self):
        locked = {p["name"]: p for p in read("fuzz/Cargo.lock")["package"] if "source" not in p}
        crates = {}
        for path in ROOT.glob("crates/*/Cargo.toml"):
            manifest = tomllib.loads(path.read_text())
            crates[manifest["package"]["name"]] = manifest
        self.assertIn("weir-flow", locked)
        for name, package in locked.items():
            if name in crates:
                # With several versions of a package its version stands behind its name.
                has = {entry.split()[0] for entry in package.get("dependencies", [])}
                self.assertEqual(has, needed(crates[name]), f"{name}: run cargo update --workspace --manifest-path fuzz/Cargo.toml")


if __name__ == "__main__":
    unittest.main()
