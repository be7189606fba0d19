"""The lab itself: routers boot and meet, impairments act, and nothing is left behind."""

from __future__ import annotations

import ctypes
import fcntl
import ipaddress
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import Lab, LabError, Router, rootfs, run
from lab.dhcp import leased
from lab.lab import FILES, RECORDS, labs, sweep
from lab.lan import Lan
from lab.nat import Nat
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


def test_what_a_killed_lab_ran_on_the_underlay_is_swept_too(tmp_path: Path) -> None:
    program = f"""
import sys
from pathlib import Path
from lab import Lab
from lab.impair import Impairment, Relay
with Lab(name="underlay") as lab:
    lab.add_router("R1")
    relay = Relay(lab.underlay.namespace, lab.underlay.port("R1"), "ztl-underlay-1", Impairment(loss_pct=1))
    with lab.underlay.capture("R1", Path("{tmp_path}/capture")):
        print("up", flush=True)
        sys.stdin.read()
"""
    owner = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert owner.stdout and owner.stdout.readline() == "up\n"
    left = run(["ip", "netns", "pids", "ztl-underlay"]).stdout.split()
    assert len(left) == 2
    owner.kill()
    owner.wait(timeout=10)
    assert all(Path(f"/proc/{pid}").exists() for pid in left)
    assert "underlay" in sweep()
    wait(lambda: not any(Path(f"/proc/{pid}").exists() for pid in left), timeout=10, what="their end")
    assert machine("underlay") == set()


@pytest.mark.parametrize("name", ["..", "../../tmp/x", "", "a b", "a-1", "x" * 33])
def test_a_name_that_would_be_a_path_is_refused(name: str) -> None:
    """At its end a lab removes the folder of its name, as root."""
    with pytest.raises(LabError, match="is no name for a lab; use letters and digits, 32 at most"):
        Lab(name=name)


def test_a_lab_has_a_whole_record_as_soon_as_it_has_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Any other lab that begins takes one without an owner away."""
    monkeypatch.setattr("lab.lab.RECORDS", tmp_path)
    seen = []
    dumps = json.dumps

    def look(value: object) -> str:
        seen.append(labs())
        return dumps(value)

    monkeypatch.setattr("lab.lab.json.dumps", look)
    monkeypatch.setattr("lab.lab.json.dump", lambda value, file: file.write(look(value)))
    with Lab(name="whole"):
        assert labs() == {"whole": True}
    assert seen == [{}]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("shell none R1", "lab: no lab named none is running; see: python3 -m lab list"),
        ("shell told R9", "lab: lab told has no router R9; it has R1"),
        ("up --debs none.deb", "lab: there is no package none.deb; build the packages with: make debs"),
        ("up --name told", "lab: a lab named told is running already; choose another name"),
        ("up --routers 0", "lab up: error: argument --routers: 0 is no number of routers; give one from 1 to 50"),
    ],
)
def test_what_is_wrong_is_told_in_a_sentence(told: None, words: str, sentence: str) -> None:
    done = subprocess.run([sys.executable, "-m", "lab", *words.split()], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert done.stderr.splitlines()[-1] == sentence


@pytest.mark.parametrize("program", ["lab.demo", "lab.smoketest", "lab"])
def test_who_interrupts_the_build_of_the_file_system_sees_no_traceback(program: str, tmp_path: Path) -> None:
    """Ctrl-C reaches every process at the terminal; here the build waits for another one's."""
    (tmp_path / "lab").mkdir()
    with (tmp_path / "lab/base.lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        command = [
            "env",
            "--default-signal=INT",
            sys.executable,
            "-m",
            program,
            *(["up"] if program == "lab" else [str(ROOT / "README.md")]),
        ]
        started = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
            env={**os.environ, "ZTM_CACHE": str(tmp_path)},
        )  # fmt: skip
        wait(lambda: (RECORDS / f"p{started.pid}.json").exists(), timeout=60, what="the lab")
        os.killpg(started.pid, signal.SIGINT)
        try:
            output, _ = started.communicate(timeout=60)
        finally:
            started.kill()
    assert started.returncode == 130 and "Traceback" not in output, output
    assert not (RECORDS / f"p{started.pid}.json").exists()


def test_a_full_disk_is_told_in_a_sentence(tmp_path: Path) -> None:
    run(["mount", "-t", "tmpfs", "-o", "size=64k", "full", str(tmp_path)])
    try:
        (tmp_path / "lab").mkdir()
        with pytest.raises(OSError, match="No space left"):
            (tmp_path / "lab/filler").write_bytes(bytes(1 << 20))
        done = subprocess.run(
            [sys.executable, "-m", "lab", "up"], cwd=ROOT, capture_output=True, text=True, check=False,
            env={**os.environ, "ZTM_CACHE": str(tmp_path)},
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (
            1,
            f"lab: the disk is full; a lab writes to {tmp_path}/lab (ZTM_CACHE) and {FILES}\n",
        )
    finally:
        run(["umount", str(tmp_path)])


@pytest.fixture
def told() -> Iterator[None]:
    """A lab named told."""
    program = hold("told")
    yield
    assert program.stdin
    program.stdin.close()
    program.wait(timeout=30)


def test_a_build_of_a_file_system_that_was_killed_does_not_stop_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its overlay is still mounted. What is mounted is not removed with the folder that it is mounted on."""
    mine, merged = tmp_path / "mine", tmp_path / "cache/merged"
    for path in (mine, merged / "dev"):
        path.mkdir(parents=True)
    (mine / "kept").touch()
    run(["mount", "--bind", str(mine), str(merged)])
    (merged / "dev").mkdir()
    run(["mount", "--bind", str(mine), str(merged / "dev")])
    rootfs._clear(merged)
    assert not merged.exists()
    assert str(tmp_path) not in Path("/proc/mounts").read_text()
    assert (mine / "kept").exists()


def udp(router: Router, port: int) -> socket.socket:
    """A UDP socket of a router: it stays in the network namespace in which it was made."""
    made: list[socket.socket] = []

    def make() -> None:
        with open(f"/run/netns/{router.namespace}") as namespace:
            assert ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), 0) == 0
        made.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))

    thread = threading.Thread(target=make)  # only this thread goes there
    thread.start()
    thread.join()
    made[0].bind(("", port))
    made[0].settimeout(5)
    return made[0]


@pytest.fixture(scope="module")
def two() -> Iterator[tuple[Lab, Router, Router]]:
    with Lab() as lab:
        r1, r2 = lab.add_routers(["R1", "R2"])
        yield lab, r1, r2


def test_a_router_gets_another_address(two: tuple[Lab, Router, Router]) -> None:
    lab, r1, r2 = two
    lab.underlay.renumber(r2, 4, "198.51.100.77")
    lab.underlay.renumber(r2, 6, "2001:db8:0:1::77")
    assert r2.run(["hostname", "-I"]).stdout.split() == ["198.51.100.77", "2001:db8:0:1::77"]
    for target in (r2.underlay4, r2.underlay6):
        assert target.endswith("77")
        r1.run(["ping", "-c1", "-W2", target])


@pytest.mark.parametrize("number, kind", [(61, "restricted"), (62, "symmetric")])
def test_nat(two: tuple[Lab, Router, Router], number: int, kind: str) -> None:
    lab, r1, r2 = two
    nat = Nat(lab.underlay, number, kind)
    inside = nat.attach(r1)
    assert ipaddress.ip_address(inside) in ipaddress.ip_network(nat.prefix)
    near, far, other = udp(r1, 9993), udp(r2, 5000), udp(r2, 5001)
    near.sendto(b"1", (r2.underlay4, 5000))
    near.sendto(b"2", (r2.underlay4, 5001))
    mapped, mapped2 = far.recvfrom(9)[1], other.recvfrom(9)[1]
    assert mapped[0] == mapped2[0] == nat.address
    assert (mapped[1] == mapped2[1] == 9993) == (kind == "restricted"), "restricted keeps the port"
    assert (mapped[1] == mapped2[1]) == (kind == "restricted"), "symmetric has one for each destination"
    with udp(r2, 5002) as stranger:
        stranger.sendto(b"unasked", mapped)
        far.sendto(b"answer", mapped)
        assert near.recvfrom(9)[0] == b"answer"
    nat.forget()
    far.sendto(b"late", mapped)
    near.sendto(b"3", (r2.underlay4, 5000))
    data, mapped = far.recvfrom(9)
    far.sendto(b"answer 3", mapped)
    assert near.recvfrom(9)[0] == b"answer 3"
    for sock in (near, far, other):
        sock.close()
    if kind == "symmetric":
        r1.reboot()
        r1.wait(lambda: leased(r1, nat.prefix), what="a lease after the boot")
        r1.wait(lambda: r1.run(["ping", "-c1", "-W1", r2.underlay4], check=False).returncode == 0, what="echo by NAT")
        nat.close()


def test_dhcp_on_the_underlay(two: tuple[Lab, Router, Router]) -> None:
    lab, _r1, r2 = two
    with lab.underlay.dhcp(r2):
        assert 100 <= int(r2.underlay4.removeprefix("198.51.100.")) < 200
        r2.run(["ping", "-c1", "-W2", "198.51.100.254"])
        assert "default via 198.51.100.254" in r2.run(["ip", "route"]).stdout


def test_packets_of_hosts_have_mtu_size_and_the_router_joins_them_where_it_shall(two: tuple[Lab, Router, Router]) -> None:
    router = two[2]
    lan = Lan(router)
    for on in (True, False):
        lan.set_gro(on)
        watch = router.popen(["tcpdump", "-l", "-n", "-i", lan.device, "-c", "60", f"tcp and src {lan.address}"])
        assert watch.stdout
        next(line for line in watch.stdout if "listening on" in line)
        server = router.popen(["iperf3", "-s", "-1"])
        router.wait(lambda: ":5201" in router.run(["ss", "-Hltn"]).stdout, what="a server")
        lan.run(["iperf3", "-c", lan.gateway, "-n", "20M"])
        text, _ = watch.communicate(timeout=30)
        server.wait(timeout=10)
        biggest = max(int(length) for length in re.findall(r"length (\d+)$", text, re.MULTILINE))
        assert (biggest > 3000) == on and biggest >= 1448
    lan.close()
    assert "lan" not in router.run(["ip", "netns"]).stdout


def test_datagrams_are_joined_before_they_are_forwarded_where_that_is_asked_for(two: tuple[Lab, Router, Router]) -> None:
    _, far, router = two
    lan = Lan(router)
    sends = f"import socket\ns = socket.socket(2, 2)\nfor _ in range(400): s.sendto(bytes(1200), ('{far.underlay4}', 9999))"
    for on in (True, False):
        lan.set_gro(True, udp=on)
        command = ["tcpdump", "-l", "-n", "-i", lan.device, "-c", "5", f"udp port 9999 and src {lan.address}"]
        watch = router.popen(command)
        assert watch.stdout
        next(line for line in watch.stdout if "listening on" in line)
        lan.run(["python3", "-c", sends])
        text, _ = watch.communicate(timeout=30)
        biggest = max(int(length) for length in re.findall(r"length (\d+)$", text, re.MULTILINE))
        assert (biggest > 2400) == on and biggest >= 1200
    lan.close()
