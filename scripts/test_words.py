"""The wording check must find each phrase wherever people read it, and only there."""

import pathlib
import tempfile
import unittest
import subprocess

import words

PHRASES, ALLOWED, _ = words.rules("told apart -> distinguished\nloss runs? -> loss period\nallow docs/a.md: told apart\n")


class Words(unittest.TestCase):
    def found(self, name, text):
        return [(line, phrase) for line, phrase, _ in words.found(name, text, PHRASES, ALLOWED)]

    def test_comments_and_strings_are_read(self):
        self.assertEqual(self.found("a.rs", "// told apart\n"), [(1, "told apart")])
        self.assertEqual(self.found("a.rs", 'let x = 1;\nlet s = "a loss run";'), [(2, "loss run")])
        self.assertEqual(self.found("a.rs", 'let s = r#"told "apart", told apart"#;'), [(1, "told apart")])
        self.assertEqual(self.found("a.ts", "const s = `told apart`;"), [(1, "told apart")])
        self.assertEqual(self.found("a.sh", "# told apart"), [(1, "told apart")])

    def test_code_is_not_read(self):
        self.assertEqual(self.found("a.rs", "fn loss_run(told: Apart) { loss_runs }"), [])
        self.assertEqual(self.found("a.md", "`told apart`\n```\nloss run\n```\n"), [])

    def test_a_phrase_is_found_across_lines_of_a_comment(self):
        self.assertEqual(self.found("a.rs", "x();\n/// both are told\n    /// apart by\n"), [(2, "told apart")])
        self.assertEqual(self.found("a.py", "# told\n# Apart"), [(1, "told Apart")])

    def test_two_comments_are_not_one(self):
        self.assertEqual(self.found("a.rs", "f(); // told\ng();\n// apart"), [])

    def test_an_allowed_place_is_that_place_only(self):
        self.assertEqual(self.found("docs/a.md", "told apart"), [])
        self.assertEqual(self.found("docs/b.md", "told apart"), [(1, "told apart")])

    def test_paths_to_do_are_left_out_unless_everything_is_asked_for(self):
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            (root / "scripts").mkdir()
            (root / "old").mkdir()
            (root / "scripts/words.txt").write_text("told apart -> distinguished\ntodo old/\n")
            (root / "old/a.md").write_text("told apart")
            subprocess.run(["git", "init", "-q", root], check=True)
            subprocess.run(["git", "-C", root, "add", "."], check=True)
            self.assertEqual(words.main([directory]), 0)
            self.assertEqual(words.main([directory, "--all"]), 1)
            (root / "new.md").write_text("loss, told\napart")
            subprocess.run(["git", "-C", root, "add", "."], check=True)
            self.assertEqual(words.main([directory]), 1)


if __name__ == "__main__":
    unittest.main()
