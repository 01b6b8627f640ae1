"""Tests of transports.py: a tree with one file, and what is found in it."""

import pathlib
import tempfile
import unittest

import transports

REGISTRATION = """
transports! {
    /// One.
    Tcp: tcp(TcpOptions),
    /// Two.
    UnixDatagram: unix_datagram(Plain),
}
"""


def found(source, where="crates/report/src/page.rs"):
    with tempfile.TemporaryDirectory() as directory:
        root = pathlib.Path(directory)
        for path, text in ((transports.REGISTRATION, REGISTRATION), (where, source)):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        return transports.breaches(root)


class Transports(unittest.TestCase):
    def test_declared(self):
        self.assertEqual(transports.declared(REGISTRATION), [("Tcp", "tcp"), ("UnixDatagram", "unix_datagram")])

    def test_this_tree(self):
        root = pathlib.Path(__file__).parent.parent
        self.assertIn(("Udp", "udp"), transports.declared((root / transports.REGISTRATION).read_text()))

    def test_named(self):
        for source in (
            "if t == TransportName::Tcp {}",
            "match t { Transport::UnixDatagram(_) => 1, _ => 2 }",
            "use weir_model::plan::TransportName::*;",
            "if c.transport == Transport::tcp() {}",
            'if t.label() == "unix-datagram" {}',
            "if c.header == HeaderFormat::None {}",
        ):
            self.assertEqual(len(found(f"fn f() {{}}\n{source}\n")), 1, source)
            self.assertIn(":2: ", found(f"fn f() {{}}\n{source}\n")[0])

    def test_allowed(self):
        for source in (
            "// not TransportName::Tcp",
            "let c = Transport::tcp();",
            "TransportName::ALL.iter()",
            "HeaderFormat::ALL.iter()",
            "if t.datagrams() {}",
            "#[cfg(test)]\nmod tests {\n    const T: TransportName = TransportName::Tcp;\n}",
            "use weir_wire::packet::{Packet, Transport};\nmatch p { Transport::Tcp(_) => 1 }",
        ):
            self.assertEqual(found(source), [], source)
        named = "TransportName::Tcp"
        self.assertEqual(found(named, "crates/traffic/src/transport/tcp.rs"), [])
        self.assertEqual(found(named, "crates/report/src/page/tests.rs"), [])
        self.assertEqual(found("HeaderFormat::None", "crates/wire/src/header/mod.rs"), [])


if __name__ == "__main__":
    unittest.main()
