"""The tests wait for their answering side, however long it takes, and not for one that is gone."""

import os
import subprocess
import sys
import tempfile
import unittest

import storing


class Listening(unittest.TestCase):
    def server(self, program, patience_seconds=30):
        """Waits for a server that is this program; whether its second file was there by then."""
        with tempfile.TemporaryDirectory() as place:
            said, begun = os.path.join(place, "log"), os.path.join(place, "begun")
            with open(said, "wb") as log:
                server = subprocess.Popen([sys.executable, "-uc", program, begun], stdout=log, stderr=log)
            try:
                storing.listens(server, said, patience_seconds)
                return os.path.exists(begun)
            finally:
                server.kill()
                server.wait()

    def test_a_slow_server_is_waited_for(self):
        slow = ("import sys, time; print('weir: a remark'); time.sleep(1.5); open(sys.argv[1], 'w').close(); "
                "print('weir 0: listening on 127.0.0.1:1 (TCP and UDP)'); time.sleep(60)")
        self.assertTrue(self.server(slow))

    def test_a_server_that_ended_or_says_nothing_is_given_up(self):
        with self.assertRaises(SystemExit):
            self.server("raise SystemExit('port 1 is taken')")
        with self.assertRaises(SystemExit):
            self.server("import time; time.sleep(60)", 0.2)


if __name__ == "__main__":
    unittest.main()
