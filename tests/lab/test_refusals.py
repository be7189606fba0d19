"""Commits that must be refused on a real router: one sentence, and nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab import Lab, Router
from lab.scenario import example, processes

P = "interfaces zerotier zt0"


@pytest.fixture(scope="module")
def router(lab: Lab) -> Router:
    return lab.add_router("R1")


class Other:
    """Stands for the remote router in the example; none is needed to be refused."""

    name, number = "R2", 2


def good(router: Router) -> str:
    return example(router, [Other()], 2)  # type: ignore[list-item]


@pytest.fixture
def clean(router: Router) -> Iterator[Router]:
    yield router
    router.configure("delete interfaces zerotier")


def refused(router: Router, lines: str) -> str:
    """Commit, expect a refusal, and check that it left nothing; returns the sentence."""
    before = state(router)
    result = router.configure(lines)
    assert not result.ok, result.output
    assert state(router) == before
    assert "Traceback" not in result.output
    text = result.output.splitlines()
    assert text[-1] == "Commit failed" and text[1] == f"[ {P} ]"
    return "\n".join(text[2:-3])


def state(router: Router) -> tuple[str, ...]:
    return (
        router.run(["sh", "-c", "find /config /run/zerotier-multi /run/ztsh /run/systemd/system -type f 2>/dev/null | grep -vE 'lock|peers.d|metrics|zerotier-one' | xargs -r sha256sum"]).stdout,
        router.run(["ip", "-br", "link"]).stdout,
        router.run(["sh", "-c", "ip route; ip nexthop | grep -v zebra || true"]).stdout,
        str(processes(router)),
    )  # fmt: skip


def test_a_port_that_another_program_has(clean: Router) -> None:
    holder = clean.popen(
        [
            "/usr/bin/python3",
            "-c",
            "import socket,time; s=socket.socket(2,2); s.bind(('', 9994)); print('held', flush=True); time.sleep(60)",
        ]
    )
    assert holder.stdout and holder.stdout.readline() == "held\n"
    sentence = refused(clean, good(clean))
    holder.kill()
    holder.wait()
    assert sentence == (
        f"{P} primary port 9993: instance zt0/2 cannot use port 9994, because another program uses UDP port 9994; "
        "choose another port or stop the program"
    )
    clean.must_configure(good(clean))


def test_a_foreign_next_hop_in_our_range(clean: Router) -> None:
    clean.run(["ip", "nexthop", "add", "id", "2046820481", "blackhole"])
    sentence = refused(clean, good(clean))
    assert "another program created next hop 2046820481 in the ID range" in sentence and "ip nexthop del id 2046820481" in sentence
    clean.run(["ip", "nexthop", "del", "id", "2046820481"])
    clean.must_configure(good(clean))


@pytest.mark.parametrize(
    ("make", "path", "device", "what"),
    [
        ("ip link add zt0 type bridge", P, "zt0", "a bridge"),
        ("ip tuntap add zt0 mode tap", P, "zt0", "a TUN or TAP device"),
        ("ip tuntap add zt0p2 mode tap", f"{P} instance 2", "zt0p2", "a TUN or TAP device"),
    ],
    ids=["bridge", "tap", "member"],
)
def test_a_device_of_another_program(clean: Router, make: str, path: str, device: str, what: str) -> None:
    look = ["sh", "-c", f"ip -d -o link show {device}; ip -o address show {device}"]
    clean.run(["sh", "-ec", f"{make}; ip address add 198.51.100.9/32 dev {device}; ip link set {device} mtu 1400 alias theirs"])
    before = clean.run(look).stdout
    sentence = refused(clean, good(clean))
    assert sentence.startswith(f"{path}: device {device} exists already and is {what} of another program; stop that program")
    assert clean.run(look).stdout == before and "198.51.100.9" in before
    # A disabled bundle may stand beside it, and does not touch it either.
    clean.must_configure(good(clean) + f"\nset {P} disable")
    assert clean.run(look).stdout == before
    clean.must_configure("delete interfaces zerotier")
    assert clean.run(look).stdout == before
    clean.run(["ip", "link", "del", device])
    clean.must_configure(good(clean))


def test_a_corrupt_identity_is_kept_and_named(clean: Router) -> None:
    clean.run(["mkdir", "-p", "/config/zerotier-multi/zt0/2"])
    secret = "89e92ceee5:0:" + "ab" * 64 + ":" + "cd" * 60  # cut short
    clean.write("/config/zerotier-multi/zt0/2/identity.secret", secret, 0o600)
    sentence = refused(clean, good(clean))
    path = "/config/zerotier-multi/zt0/2/identity.secret"
    assert sentence == (
        f"{P} instance 2: identity {path} is corrupt and was not changed; restore it from a backup, "
        f"or move it aside to get a new identity: mv {path} {path}.bad"
    )
    assert clean.read(path) == secret and "cdcd" not in sentence
    clean.run(["mv", path, path + ".bad"])
    clean.must_configure(good(clean))


def test_a_home_that_cannot_be_written(clean: Router) -> None:
    clean.run(
        [
            "sh",
            "-c",
            "rm -rf /config/zerotier-multi && mkdir /config/zerotier-multi && mount -t tmpfs -o ro none /config/zerotier-multi",
        ]
    )
    try:
        sentence = refused(clean, good(clean))
        assert "is not writable (Read-only file system)" in sentence
    finally:
        clean.run(["umount", "/config/zerotier-multi"])
    clean.must_configure(good(clean))


def test_a_full_disk_is_named_and_the_next_commit_mends_it(clean: Router) -> None:
    clean.run(
        [
            "sh",
            "-c",
            "rm -rf /config/zerotier-multi && mkdir /config/zerotier-multi && mount -t tmpfs -o size=16k none /config/zerotier-multi && head -c 16k /dev/zero >/config/zerotier-multi/full || true",
        ]
    )
    try:
        result = clean.configure(good(clean))
        assert not result.ok and "Traceback" not in result.output
        assert "No space left on device" in result.output
        assert processes(clean) == {}
    finally:
        clean.run(["umount", "/config/zerotier-multi"])
    clean.must_configure(good(clean))
    assert sorted(processes(clean)) == [1, 2]


def test_no_tun_device(clean: Router) -> None:
    clean.run(["sh", "-c", "mkdir -p /tmp/none && mount --bind /tmp/none /dev/net"])
    try:
        assert (
            refused(clean, good(clean))
            == f"{P}: /dev/net/tun is missing, so no TAP device can be created; load the kernel module tun"
        )
    finally:
        clean.run(["umount", "/dev/net"])


def test_no_engine(clean: Router) -> None:
    clean.run(["sh", "-c", "for f in /usr/sbin/ztnode /usr/sbin/zerotier-one; do [ ! -e $f ] || chmod -x $f; done"])
    try:
        assert "no engine is installed; install ztnode or zerotier-one 1.14 or later" in refused(clean, good(clean))
    finally:
        clean.run(["sh", "-c", "for f in /usr/sbin/ztnode /usr/sbin/zerotier-one; do [ ! -e $f ] || chmod +x $f; done"])


def test_two_commits_at_once(clean: Router) -> None:
    lock = clean.popen(["sh", "-c", "mkdir -p /run/ztsh; exec flock /run/ztsh/commit.lock sh -c 'echo held; sleep 60'"])
    assert lock.stdout and lock.stdout.readline() == "held\n"
    result = clean.configure(good(clean))
    lock.kill()
    lock.wait()
    clean.run(["pkill", "-f", "sleep 60"], check=False)
    assert not result.ok and "temporarily locked due to another commit in progress" in result.output


def test_a_refused_change_keeps_the_running_bundle(clean: Router) -> None:
    clean.must_configure(good(clean))
    for device, address in (("zt0p1", "10.14.0.1/30"), ("zt0p2", "10.14.0.5/30")):
        look = ["sh", "-c", f"ip -br addr show {device} | grep -F {address} && ip link show {device} | grep -F ',UP'"]
        clean.wait(lambda c=look: clean.run(c, check=False).returncode == 0, what=f"{device} up and addressed")
    before, pids = state(clean), processes(clean)
    result = clean.configure(f"set {P} instances 8\nset {P} transit prefix 10.14.0.0/29")
    assert not result.ok
    assert (state(clean), processes(clean)) == (before, pids)
