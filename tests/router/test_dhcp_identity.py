"""What systemd-networkd calls itself to DHCP servers with the image's settings, in a network namespace."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SETTINGS = Path(__file__).resolve().parents[2] / "packages/zerotier-router/etc/systemd/networkd.conf.d/router.conf"
NETWORKD = Path("/lib/systemd/systemd-networkd")
ADDRESS = "02:00:00:00:00:01"
# Only what networkd reads and writes is the test's own; a read-only /sys tells it that there is no udev.
NAMESPACE = """
set -e
mount --make-rprivate /
for place in /run /etc/systemd /var/lib/systemd; do
	mount -t tmpfs none "$place"
done
mkdir /etc/systemd/network /etc/systemd/networkd.conf.d
echo "$1" >/run/machine-id
mount --bind /run/machine-id /etc/machine-id
cp "$2" /etc/systemd/networkd.conf.d/
printf '[Match]\\nName=wan\\n[Network]\\nDHCP=yes\\nIPv6AcceptRA=no\\n[DHCPv6]\\nWithoutRA=solicit\\n' >/etc/systemd/network/wan.network
mount -t sysfs -o ro none /sys
ip link add wan address "$3" type veth peer name isp
ip link set isp up
shift 3
exec "$@"
"""
# Listens at the other end until both clients have asked, and prints option 61 of DHCPv4 and option 1 of DHCPv6.
LISTEN = """
import socket, subprocess

def options(data, size, named):
    found = {}
    while data and not (size == 1 and data[0] == 255):
        if size == 1 and data[0] == 0:
            data = data[1:]
            continue
        number, length = (int.from_bytes(data[n * size:(n + 1) * size], "big") for n in (0, 1))
        found[number] = data[2 * size:2 * size + length].hex()
        data = data[2 * size + length:]
    return found[named]

ear = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
ear.bind(("isp", 0))
ear.settimeout(30)
networkd = subprocess.Popen(["/lib/systemd/systemd-networkd"])
four = six = None
try:
    while not (four and six):
        packet = ear.recv(2048)
        if packet[12:14] == bytes.fromhex("0800") and packet[23] == 17 and packet[36:38] == (67).to_bytes(2, "big"):
            four = options(packet[282:], 1, 61)
        if packet[12:14] == bytes.fromhex("86dd") and packet[20] == 17 and packet[56:58] == (547).to_bytes(2, "big"):
            six = options(packet[66:], 2, 1)
finally:
    networkd.terminate()
    networkd.wait()
print(four, six)
"""


def identity(machine: str) -> list[str]:
    """Client identifiers of DHCPv4 and DHCPv6 (hexadecimal) of a machine with this machine-id."""
    command = [
        "unshare",
        "--net",
        "--mount",
        "sh",
        "-c",
        NAMESPACE,
        "sh",
        machine,
        str(SETTINGS),
        ADDRESS,
        sys.executable,
        "-c",
        LISTEN,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_restart_does_not_change_who_asks() -> None:
    if not NETWORKD.exists():
        pytest.skip("systemd-networkd is missing; install it with: apt install systemd")
    first, second = identity("1" * 32), identity("2" * 32)
    assert first == second
    assert all(found.endswith(ADDRESS.replace(":", "")) for found in first)
