"""A name server in the underlay: dnsmasq, with names that change."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.process import LabError, run, wait
from lab.router import Router
from lab.underlay import PREFIX4, Underlay

NUMBER = 53


class NameServer:
    """198.51.100.53 on the underlay's bridge, until :meth:`close`; it tells names with a time to live of 0."""

    def __init__(self, underlay: Underlay) -> None:
        self.address = f"{PREFIX4}.{NUMBER}"
        self._underlay = underlay
        self._directory = TemporaryDirectory(prefix="lab-dns-")
        self._hosts = Path(self._directory.name) / "hosts"
        self._hosts.touch()
        Path(self._directory.name).chmod(0o755)
        underlay.run(["ip", "address", "add", f"{self.address}/24", "dev", "br0"])
        self._process = subprocess.Popen(
            [
                "setpriv", "--pdeathsig", "KILL", "ip", "netns", "exec", underlay.namespace, "dnsmasq", "--keep-in-foreground",
                "--conf-file=/dev/null", "--user=root", "--no-resolv", "--no-hosts", f"--addn-hosts={self._hosts}",
                f"--listen-address={self.address}", "--bind-interfaces", "--except-interface=lo", "--pid-file=",
                "--log-facility=/dev/null", "--local=/example.org/",
            ],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        wait(self._serves, timeout=10, what="name server")

    def _serves(self) -> bool:
        if self._process.poll() is not None:
            assert self._process.stderr
            raise LabError(f"dnsmasq has ended: {self._process.stderr.read().strip()}")
        return f"{self.address}:53 " in self._underlay.run(["ss", "-Hlun"]).stdout

    def serve(self, router: Router) -> None:
        """Make it the name server of a router."""
        router.write("/etc/resolv.conf", f"nameserver {self.address}\n")

    def tell(self, names: Mapping[str, str]) -> None:
        """These names and no others exist from now on."""
        self._hosts.write_text("".join(f"{address} {name}\n" for name, address in names.items()))
        self._process.send_signal(signal.SIGHUP)

    def close(self) -> None:
        """Serve no longer."""
        self._process.kill()
        self._process.communicate()
        run(["ip", "-n", self._underlay.namespace, "address", "del", f"{self.address}/24", "dev", "br0"], check=False)
        self._directory.cleanup()
