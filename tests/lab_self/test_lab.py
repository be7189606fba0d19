"""The lab itself: routers boot and meet, impairments act, and nothing is left behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from lab import Lab, run
from lab.lab import labs, sweep
from lab.process import wait

ROOT = Path(__file__).resolve().parent.parent.parent
HOLD = "import sys; from lab import Lab\nwith Lab(name=sys.argv[1]) as l:\n l.add_router('R1'); print('up', flush=True); sys.stdin.read()"


OURS = f"p{os.getpid()}"  # what a lab without a name is called


def machine(*names: str) -> set[str]:
    """What labs of these names, or of this process, have on the machine; other people's labs do not count."""
    found = [line.split()[0] for line in run(["ip", "netns", "list"]).stdout.splitlines() if line.startswith("ztl-")]
    found += [w for w in Path("/proc/mounts").read_text().split() if w.startswith("/var/tmp/zerotier-multi-lab/")]
    found += run(["pgrep", "-a", "-f", "systemd-nspawn.*zerotier-multi-lab"], check=False).stdout.splitlines()
    found += [str(p) for p in Path("/sys/fs/cgroup").glob("*/ztl-*")]
    found += [str(p) for p in Path("/var/tmp/zerotier-multi-lab").glob("*")]
    return {item for item in found if re.search(rf"(ztl-|zerotier-multi-lab/)({'|'.join([*names, OURS])})\b", item)}


def hold(name: str) -> subprocess.Popen[str]:
    """Another program with a lab that has one router."""
    program = subprocess.Popen(
        [sys.executable, "-c", HOLD, name], cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert program.stdout and program.stdout.readline() == "up\n"
    return program


def test_routers_meet_on_the_underlay_and_impairments_act(tmp_path: Path) -> None:
    with Lab() as lab:
        r1, r2 = lab.add_routers(["R1", "R2"])
        for target in (r2.underlay4, r2.underlay6):
            r1.run(["ping", "-c1", "-W2", target])
        lab.underlay.netem("R2", delay_ms=50)
        answer = r1.run(["ping", "-q", "-c", "5", "-i", "0.2", r2.underlay4]).stdout
        match = re.search(r"= [\d.]+/([\d.]+)/", answer)
        assert match and 50 <= float(match[1]) < 100
        lab.underlay.netem("R2", loss_pct=100)
        assert r1.run(["ping", "-c1", "-W1", r2.underlay4], check=False).returncode == 1
        lab.underlay.clear("R2")
        r1.wait(lambda: r1.run(["ping", "-c1", "-W1", r2.underlay4], check=False).returncode == 0, what="echo again")
        lab.underlay.down("R2")
        assert r1.run(["ping", "-c1", "-W1", r2.underlay4], check=False).returncode == 1
        lab.underlay.up("R2")
        r1.wait(lambda: r1.run(["ping", "-c1", "-W1", r2.underlay4], check=False).returncode == 0, what="echo again")
        capture = tmp_path / "r2.pcap"
        with lab.underlay.capture("R2", capture):
            r1.run(["ping", "-c1", "-p", b"look at me".hex(), "-s", "100", r2.underlay4])
            wait(lambda: b"look at me" in capture.read_bytes(), timeout=10, what="the packet in the capture")


def test_files_outlive_reboot_and_power_cut_and_the_network_does_not() -> None:
    with Lab() as lab:
        router = lab.add_router("R1")
        router.write("/config/kept", "yes\n")
        router.run(["ip", "link", "add", "gone", "type", "bridge"])
        router.reboot()
        assert router.read("/config/kept") == "yes\n"
        assert router.run(["ip", "link", "show", "gone"], check=False).returncode != 0
        router.kill()
        router.start()
        router.wait_boot()
        assert router.read("/config/kept") == "yes\n"


def test_two_labs_side_by_side_and_nothing_left() -> None:
    other = hold("beside")
    with Lab() as lab:
        lab.add_router("R1").run(["true"])
        assert labs()["beside"] is True
    assert machine() == set() and "ztl-beside-1" in machine("beside")
    assert other.stdin
    other.stdin.close()
    assert other.wait(timeout=30) == 0
    assert machine("beside") == set()


def test_an_interrupted_lab_leaves_nothing() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        program = hold("interrupted")
        program.send_signal(number)
        program.wait(timeout=30)
        assert machine("interrupted") == set()


def test_a_killed_lab_is_swept_and_a_living_one_is_not() -> None:
    living, dead = hold("living"), hold("dead")
    os.kill(dead.pid, signal.SIGKILL)
    dead.wait(timeout=10)
    assert machine("dead") != set()
    assert "dead" in sweep()
    assert machine("dead") == set()
    assert "ztl-living-1" in machine("living") and labs()["living"] is True
    assert living.stdin
    living.stdin.close()
    living.wait(timeout=30)
    assert machine("living") == set()
