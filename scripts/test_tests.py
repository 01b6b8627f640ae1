"""The summary of a test run: exit code, names of the failed tests, nothing else behind them."""

import io
import sys
import unittest

import tests

OUTPUT = """\
     Running unittests src/lib.rs (target/debug/deps/weir_stats-0123)
test one ... ok
test inner::two ... FAILED
failures:
    inner::two
     Running tests/plan.rs (target/debug/deps/plan-0124)
test three ... ok
test four - should panic ... FAILED
     Running tests/lab.rs (target/debug/deps/lab-0125)
error: test failed, to rerun pass `-p weir --test lab`
Caused by:
  process didn't exit successfully: `target/debug/deps/lab-0125` (signal: 6, SIGABRT: process abort signal)
   Doc-tests weir_model
test crates/model/src/lib.rs - json (line 3) ... FAILED
error: 4 targets failed:
    `-p weir-stats --lib`
"""


def ran(output, code):
    """What a command that prints this and exits so leaves."""
    out = io.StringIO()
    program = f"import sys; sys.stdout.write({output!r}); sys.exit({code})"
    return tests.run([sys.executable, "-c", program], out), out.getvalue()


class Ending(unittest.TestCase):
    def test_failures_are_listed_at_the_end(self):
        code, text = ran(OUTPUT, 101)
        self.assertEqual(code, 101)
        self.assertTrue(text.startswith(OUTPUT))
        ending = text[len(OUTPUT):].strip().splitlines()
        self.assertEqual(ending[1:], [
            "  weir_stats (src/lib.rs): inner::two",
            "  plan (tests/plan.rs): four",
            "  lab (tests/lab.rs): `target/debug/deps/lab-0125` (signal: 6, SIGABRT: process abort signal)",
            "  doc-tests weir_model: crates/model/src/lib.rs - json (line 3)",
        ])
        self.assertTrue(ending[0].startswith("4 "))

    def test_a_good_run_adds_nothing(self):
        self.assertEqual(ran("test one ... ok\n", 0), (0, "test one ... ok\n"))

    def test_a_command_that_fails_otherwise_fails(self):
        code, text = ran("error: could not compile\n", 101)
        self.assertEqual((code, len(text.strip().splitlines())), (101, 3))


if __name__ == "__main__":
    unittest.main()
