"""The check of tests' assertions must find sentences where a test compares with them, and only there."""

import pathlib
import tempfile
import unittest

import prose


class Prose(unittest.TestCase):
    def strings(self, text):
        return [string for _, string in prose.found(text)]

    def test_sentences_in_assertions_and_searches_are_found(self):
        self.assertEqual(prose.found('a();\nassert!(err.contains("is not there"));'), [(2, "is not there")])
        self.assertEqual(self.strings('assert_eq!(reason, "it was not stored");'), ["it was not stored"])
        self.assertEqual(self.strings('assert!(\n    x.starts_with(&format!("{n} runs were made")),\n);'), ["{n} runs were made"])
        self.assertEqual(self.strings('let id = out.strip_prefix("the result is stored: ");'), ["the result is stored: "])
        self.assertEqual(self.strings('assert_eq!(f(\',\', "x"), "it is not \\\n    there");'), ["it is not there"])

    def test_messages_names_and_commands_are_not(self):
        for text in [
            'assert!(done, "it was not stored");',
            'assert_eq!(a, b, "it was not stored: {err}");',
            'assert_eq!(code, "not-stored");',
            'assert!(err.contains("weir run --resume"));',
            'assert_eq!(fix, "ip link set dev lo up");',
            'let said = "it was not stored";',
        ]:
            self.assertEqual(self.strings(text), [], text)

    def test_a_listed_string_is_right_in_its_file_only(self):
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            (root / "scripts").mkdir()
            (root / "scripts/prose.txt").write_text("# why\ncrates/a/tests/x.rs: it is so\n")
            for crate in "a", "b", "report":
                (root / f"crates/{crate}/tests").mkdir(parents=True)
            line = 'assert!(text.contains("it is so"));\n'
            (root / "crates/a/tests/x.rs").write_text(line)
            (root / "crates/report/tests/x.rs").write_text(line)
            self.assertEqual(prose.main([directory]), 0)
            (root / "crates/b/tests/x.rs").write_text(line)
            self.assertEqual(prose.main([directory]), 1)


if __name__ == "__main__":
    unittest.main()
