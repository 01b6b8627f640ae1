"""Two commands at the same time: exit codes, and what happens to the one in the background."""

import io
import sys
import time
import unittest

import together


def python(text):
    return [sys.executable, "-c", text]


class Together(unittest.TestCase):
    def test_the_output_of_the_background_follows_when_both_have_ended(self):
        out = io.StringIO()
        self.assertEqual(together.run(python("print('checked')"), python("pass"), out), 0)
        self.assertEqual(out.getvalue(), "checked\n")

    def test_a_failure_of_either_is_the_exit_code(self):
        for background, command, wanted in ((0, 0, 0), (3, 0, 3), (0, 4, 4), (3, 4, 4)):
            ran = together.run(python(f"exit({background})"), python(f"exit({command})"), io.StringIO())
            self.assertEqual(ran, wanted)

    def test_a_command_that_can_not_start_ends_the_background(self):
        begun = time.monotonic()
        with self.assertRaises(FileNotFoundError):
            together.run(python("import time; time.sleep(60)"), ["/nonexistent"], io.StringIO())
        self.assertLess(time.monotonic() - begun, 30)


if __name__ == "__main__":
    unittest.main()
