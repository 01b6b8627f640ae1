"""The layer check must fail on each thing it forbids."""

import pathlib
import tempfile
import unittest

import layers


class Layers(unittest.TestCase):
    def found(self, crates):
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            for name, (dependencies, source) in crates.items():
                (root / "crates" / name / "src").mkdir(parents=True)
                package = "weir" if name == "cli" else f"weir-{name}"
                (root / "crates" / name / "Cargo.toml").write_text(f'[package]\nname = "{package}"\n{dependencies}\n')
                (root / "crates" / name / "src" / "lib.rs").write_text(source)
            return layers.breaches(root)

    def test_downward_is_allowed(self):
        self.assertEqual(self.found({"cli": ("[dependencies]\nweir-model = { workspace = true }", "fn main() {}")}), [])

    def test_upward_is_refused_in_every_table(self):
        for table in ("dependencies", "dev-dependencies", "build-dependencies", 'target."cfg(unix)".dependencies'):
            self.assertEqual(len(self.found({"stats": (f"[{table}]\nweir-net = {{ workspace = true }}", "")})), 1, table)

    def test_renamed_upward_is_refused(self):
        self.assertEqual(len(self.found({"wire": ('[dependencies]\nx = { package = "weir-net", path = "../net" }', "")})), 1)

    def test_unknown_crate_is_refused(self):
        self.assertEqual(len(self.found({"attic": ("", "")})), 1)

    def test_unsafe_is_found_where_it_may_not_be(self):
        for source in ("fn f() { unsafe { g() } }", "unsafe fn f() {}", "#![allow(unsafe_code)]", "unsafe impl Send for X {}"):
            self.assertEqual(len(self.found({"flow": ("", source)})), 1, source)
            self.assertEqual(self.found({"net": ("", source)}), [], source)

    def test_unsafe_of_the_counting_allocator_is_that_file_only(self):
        source = "unsafe impl GlobalAlloc for Counting {}"
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            tests = root / "crates" / "impair" / "tests"
            tests.mkdir(parents=True)
            (root / "crates" / "impair" / "Cargo.toml").write_text('[package]\nname = "weir-impair"\n')
            (tests / "no_allocation.rs").write_text(source)
            self.assertEqual(layers.breaches(root), [])
            (tests / "other.rs").write_text(source)
            self.assertEqual(len(layers.breaches(root)), 1)

    def test_words_about_unsafe_are_not_unsafe(self):
        self.assertEqual(self.found({"flow": ("", '// unsafe { no }\nconst A: &str = "unsafe { no }"; /* unsafe fn */')}), [])

    def test_a_quote_character_hides_nothing(self):
        source = "const Q: char = '\"'; fn f() { unsafe { g() } } const R: char = '\"';"
        self.assertEqual(len(self.found({"flow": ("", source)})), 1)


if __name__ == "__main__":
    unittest.main()
