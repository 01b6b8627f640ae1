"""The files of packaging/ must be what systemd, builders of images and Kubernetes read."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGING = ROOT / "packaging"
# Where scripts/ensure.sh installs it.
sys.path.append(str(pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target") / "tools" / "python"))

try:
    import kubernetes_validate
    import yaml
except ImportError:
    yaml = None

KUBERNETES = ["1.30", "1.37"]


def skip(test, why):
    """Skips a test by name, also where unittest is quiet."""
    print(f"SKIPPED {test.id()}: {why}", file=sys.stderr)
    test.skipTest(why)


class Systemd(unittest.TestCase):
    def test_units_are_valid(self):
        if not shutil.which("systemd-analyze"):
            skip(self, "systemd-analyze is missing")
        with tempfile.TemporaryDirectory() as directory:
            # The program is where a unit's PATH has it; here any program does.
            for name, unit in [("weir.service", "weir.service"), ("weir-agent@.service", "weir-agent@paris-1.service")]:
                text = (PACKAGING / name).read_text()
                self.assertIn("ExecStart=weir ", text)
                path = pathlib.Path(directory) / unit
                path.write_text(text.replace("ExecStart=weir ", "ExecStart=/bin/true "))
                checked = subprocess.run(
                    ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(path)], capture_output=True, text=True
                )
                self.assertEqual((checked.returncode, checked.stderr), (0, ""), name)


class Image(unittest.TestCase):
    INSTRUCTIONS = {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "VOLUME", "USER", "EXPOSE", "ENTRYPOINT", "CMD"}

    def test_instructions_are_known_and_name_what_is_there(self):
        text = (PACKAGING / "Containerfile").read_text()
        lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
        stages = set()
        first = None
        for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
            word, _, rest = line.partition(" ")
            self.assertIn(word, self.INSTRUCTIONS, line)
            first = first or word
            if word == "FROM":
                stages |= {name for name in re.findall(r" AS (\S+)$", rest)}
            elif word == "COPY":
                *sources, _ = rest.split()
                if sources[0].startswith("--from="):
                    self.assertIn(sources[0].removeprefix("--from="), stages, line)
                    continue
                for source in sources:
                    self.assertTrue((ROOT / source).exists(), line)
        self.assertEqual(first, "FROM")

    def test_the_compiler_is_new_enough(self):
        least = re.search(r'rust-version = "(.*)"', (ROOT / "Cargo.toml").read_text())[1]
        self.assertIn(f"rust:{least}-", (PACKAGING / "Containerfile").read_text())


class Kubernetes(unittest.TestCase):
    def documents(self, name):
        if yaml is None:
            skip(self, "kubernetes-validate is missing (scripts/ensure.sh test)")
        return list(yaml.safe_load_all((PACKAGING / "kubernetes" / name).read_text()))

    def test_manifests_are_valid(self):
        for name in ["agents.yaml", "keys.yaml"]:
            for document in self.documents(name):
                for version in KUBERNETES:
                    with self.subTest(name=name, kind=document["kind"], version=version):
                        kubernetes_validate.validate(document, version, strict=True)

    def test_what_is_wrong_is_found(self):
        document = next(it for it in self.documents("agents.yaml") if it["kind"] == "DaemonSet")
        document["spec"]["template"]["spec"]["hostNetworks"] = True
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(document, KUBERNETES[-1], strict=True)

    def test_what_is_mounted_is_there(self):
        _, pods = self.documents("agents.yaml")
        keys = {(it["kind"], it["metadata"]["name"]) for it in self.documents("keys.yaml")}
        pod = pods["spec"]["template"]["spec"]
        volumes = {it["name"]: it for it in pod["volumes"]}
        for container in pod["initContainers"] + pod["containers"]:
            for mount in container["volumeMounts"]:
                self.assertIn(mount["name"], volumes)
        self.assertIn(("Secret", volumes["keys"]["secret"]["secretName"]), keys)
        self.assertIn(("ConfigMap", volumes["authority"]["configMap"]["name"]), keys)
        self.assertEqual(pods["spec"]["selector"]["matchLabels"], pods["spec"]["template"]["metadata"]["labels"])

    def test_nats_keeps_what_it_acknowledges(self):
        (values,) = self.documents("nats-values.yaml")
        config = values["config"]
        self.assertEqual(config["jetstream"]["merge"]["sync_interval"], "always")
        self.assertEqual(config["cluster"]["replicas"], 3)
        self.assertTrue(config["nats"]["tls"]["enabled"] and config["cluster"]["tls"]["enabled"])
        self.assertIn(config["merge"]["00$include"], values["configMap"]["merge"]["data"])


if __name__ == "__main__":
    unittest.main()
