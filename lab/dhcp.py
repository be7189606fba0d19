"""DHCP on the networks of a lab: dnsmasq serves, dhclient in a router asks."""

from __future__ import annotations

import ipaddress
import subprocess

from lab.machine import Machine
from lab.process import LabError, run, wait

LEASE = 120  # seconds, the shortest that dnsmasq gives; clients renew after half of it
FIRST, LAST = 100, 199  # hosts of the prefix that leases come from

# As VyOS's own unit of this name: one client per interface, kept by systemd, also after a reboot.
_UNIT = """[Unit]
Description=DHCP client on %i

[Service]
ExecStart=/sbin/dhclient -4 -d -pf /run/dhclient.%i.pid -lf /var/lib/dhcp/dhclient.%i.leases %i
Restart=always
RestartSec=1

[Install]
WantedBy=multi-user.target
"""


class DhcpServer:
    """dnsmasq on one device of a network namespace, until :meth:`close`; it tells ``gateway`` as the default router.

    Clients renew after ``renew`` seconds, half of the lease unless given; leases are of ``hosts``.
    """

    def __init__(
        self, namespace: str, device: str, prefix: str, gateway: str | None, *, renew: int | None = None,
        hosts: tuple[int, int] = (FIRST, LAST),
    ) -> None:  # fmt: skip
        network = ipaddress.ip_network(prefix)
        self._process = subprocess.Popen(
            [
                "setpriv", "--pdeathsig", "KILL", "ip", "netns", "exec", namespace, "dnsmasq", "--keep-in-foreground",
                "--conf-file=/dev/null", "--user=root", "--port=0", f"--interface={device}", "--bind-interfaces",
                "--except-interface=lo", "--pid-file=", "--leasefile-ro", "--no-ping", "--dhcp-authoritative",
                f"--dhcp-range={network[hosts[0]]},{network[hosts[1]]},{network.netmask},{LEASE}",
                f"--dhcp-option=option:router{f',{gateway}' if gateway else ''}", "--log-facility=/dev/null",
                *([f"--dhcp-option=option:T1,{renew}"] if renew else []),
            ],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._namespace = namespace
        wait(self._serves, timeout=10, what=f"DHCP server on {device} of {namespace}")

    def _serves(self) -> bool:
        if self._process.poll() is not None:
            assert self._process.stderr
            raise LabError(f"dnsmasq has ended: {self._process.stderr.read().strip()}")
        return ":67 " in run(["ip", "netns", "exec", self._namespace, "ss", "-Hlun"]).stdout

    def close(self) -> None:
        """Serve no longer; leases stay with those who have them."""
        if self._process.returncode is None:
            self._process.kill()
            self._process.communicate()


def start_client(router: Machine, device: str = "eth0") -> None:
    """Let a router ask for its address itself, now and after each boot; static addresses have to go before."""
    router.write("/etc/systemd/system/dhclient@.service", _UNIT)
    router.run(["systemctl", "daemon-reload"])
    router.run(["systemctl", "enable", "--quiet", f"dhclient@{device}"])
    router.run(["systemctl", "restart", f"dhclient@{device}"])


def leased(router: Machine, prefix: str, device: str = "eth0") -> str:
    """The address that a router has out of ``prefix``; empty while there is none."""
    network = ipaddress.ip_network(prefix)
    links = router.json(["ip", "-4", "-j", "address", "show", "dev", device]) or []
    found = [info["local"] for link in links for info in link.get("addr_info", [])]
    return next((address for address in found if ipaddress.ip_address(address) in network), "")


def leases(router: Machine, device: str = "eth0") -> int:
    """How many leases a router's client has had, renewed ones too."""
    return router.read(f"/var/lib/dhcp/dhclient.{device}.leases").count("lease {")
