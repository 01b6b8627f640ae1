"""Tests of names.py: a tree with one file, and what is found in it."""

import pathlib
import tempfile
import unittest

import names

FAMILIES = {family.name: family for family in names.FAMILIES}
REGISTRATIONS = {
    "transport": """
transports! {
    /// One.
    Tcp: tcp(TcpOptions),
    /// Two.
    UnixDatagram: unix_datagram(own::Plain),
}
""",
    "delay law": """
slot_of_laws! {
    Delay("delay"): DelayRule;
    DelayLaw;
    {
        constant: Constant,
        // Not Gone.
        heavy_tail: HeavyTail,
    }
    {
        pub order: OrderPolicy,
    }
}
""",
    "size law": """
choice_of_laws! {
    Size("payload"): SizeRule;
    SizeLaw -> u64;
    {
        constant: Constant,
        uniform: Uniform,
    }
}
""",
    "header format": """
formats! {
    Native: native,
    Stamp: stamp,
}
""",
    "session protocol": """
mod options;
mod ttcp;
pub static PROTOCOLS: &[Protocol] = &[ttcp::PROTOCOL];
""",
}


def found(name, source, where="crates/report/src/page.rs"):
    family = FAMILIES[name]
    with tempfile.TemporaryDirectory() as directory:
        root = pathlib.Path(directory)
        for path, text in ((family.registration, REGISTRATIONS[name]), (where, source)):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        return names.breaches(root)


class Names(unittest.TestCase):
    def test_declared(self):
        of = lambda name: names.declared(FAMILIES[name], REGISTRATIONS[name])
        self.assertEqual(of("transport"), [("Tcp", "tcp"), ("UnixDatagram", "unix_datagram")])
        self.assertEqual(of("delay law"), [("Constant", "constant"), ("HeavyTail", "heavy_tail")])
        self.assertEqual(of("size law"), [("Constant", "constant"), ("Uniform", "uniform")])
        self.assertEqual(of("header format"), [("Native", "native"), ("Stamp", "stamp")])
        self.assertEqual(of("session protocol"), [(None, "ttcp")])

    def test_this_tree(self):
        root = pathlib.Path(__file__).parent.parent
        for name, member in (
            ("transport", ("Udp", "udp")),
            ("loss law", ("GilbertElliott", "gilbert_elliott")),
            ("delay law", ("Pareto", "pareto")),
            ("size law", ("Uniform", "uniform")),
            ("interval law", ("Exponential", "exponential")),
        ):
            self.assertIn(member, names.declared(FAMILIES[name], (root / FAMILIES[name].registration).read_text()))

    def test_named(self):
        for name, source in (
            ("transport", "if t == TransportName::Tcp {}"),
            ("transport", "match t { Transport::UnixDatagram(_) => 1, _ => 2 }"),
            ("transport", "use weir_model::plan::TransportName::*;"),
            ("transport", "if c.transport == Transport::tcp() {}"),
            ("transport", 'if t.label() == "unix-datagram" {}'),
            ("delay law", "if let DelayLaw::HeavyTail(_) = law {}"),
            ("delay law", "use weir_model::impairment::{Delay, HeavyTail};"),
            ("delay law", "let d = Delay { constant: Some(c), ..d };"),
            ("delay law", "if laws.delay.unwrap().heavy_tail.is_some() {}"),
            ("size law", "match size { Size::Constant(c) => c, _ => d }"),
            ("size law", "matches!(law, SizeLaw::Uniform(_))"),
            ("header format", "if c.header == HeaderFormat::Stamp {}"),
            ("header format", "match h { HeaderFormat::Stamp => 1, _ => 2 }"),
            ("header format", "matches!(h, HeaderFormat::Stamp)"),
            ("header format", "use weir_model::plan::HeaderFormat::*;"),
            ("session protocol", 'if record.peer_name == "ttcp" || p.name == "ttcp" {}'),
            ("session protocol", "use weir_peers::ttcp::Client;"),
            ("session protocol", "weir_peers::{Options, ttcp}"),
        ):
            self.assertEqual(len(found(name, f"fn f() {{}}\n{source}\n")), 1, source)
            self.assertIn(":2: ", found(name, f"fn f() {{}}\n{source}\n")[0])

    def test_allowed(self):
        for name, source in (
            ("transport", "// not TransportName::Tcp"),
            ("transport", "let c = Transport::tcp();"),
            ("transport", "TransportName::ALL.iter()"),
            ("transport", "if t.datagrams() {}"),
            ("transport", "#[cfg(test)]\nmod tests {\n    const T: TransportName = TransportName::Tcp;\n}"),
            ("transport", "use weir_wire::packet::{Packet, Transport};\nmatch p { Transport::Tcp(_) => 1 }"),
            ("delay law", "let law: Laws = \"delay constant(4ms)\".parse()?;"),
            ("delay law", "Delay::NAMES; DelayLaw::of(&d); Delay { order, ..law }"),
            ("delay law", "delay.constant()"),
            ("delay law", "Some(Constant)"),
            ("size law", "Size::form(); Size::from(bytes); size.is_constant()"),
            ("header format", "HeaderFormat::ALL"),
            ("header format", "let c = Connection { header: HeaderFormat::Stamp, ..c };"),
            ("session protocol", "use weir_peers::{Given, options};"),
            ("session protocol", "weir_peers::PROTOCOLS.iter()"),
        ):
            self.assertEqual(found(name, source), [], source)

    def test_own_files(self):
        for name, named, own in (
            ("transport", "TransportName::Tcp", "crates/traffic/src/transport/tcp.rs"),
            ("transport", "TransportName::Tcp", "crates/report/src/page/tests.rs"),
            ("delay law", "DelayLaw::HeavyTail", "crates/model/src/impairment/delay/heavy_tail.rs"),
            ("size law", "Size::Uniform", "crates/model/src/plan/size/uniform.rs"),
        ):
            self.assertEqual(found(name, named, own), [])

    def test_a_list_that_is_not_found_is_a_breach(self):
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            path = root / FAMILIES["size law"].registration
            path.parent.mkdir(parents=True)
            path.write_text("laws! {}")
            self.assertEqual(len(names.breaches(root)), 1)


if __name__ == "__main__":
    unittest.main()
