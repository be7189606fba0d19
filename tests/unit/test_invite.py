"""Invites: what one router prints, pasted on another, is the same as the long form."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import random
import re
import struct
from pathlib import Path

import pytest
from tests.configuration import EXAMPLE, bundle, configured
from tests.unit.test_configured_identity import homes
from zerotier_multi import commit, systemd
from zerotier_multi.checks import check_bundle
from zerotier_multi.cpu import Cpu
from zerotier_multi.errors import ConfigProblems
from zerotier_multi.identity import PublicIdentity
from zerotier_multi.invite import Invite, InvitedInstance, decode, encode
from zerotier_multi.op.errors import Unavailable
from zerotier_multi.op.invite import invite_data, left_out, qr_code
from zerotier_multi.op.remotes import remotes_data, remotes_text
from zerotier_multi.planner import make_plan
from zerotier_multi.values import Endpoint, endpoint

__all__ = ["homes"]
CPUS = tuple(Cpu(n, n) for n in range(4))
BASE = EXAMPLE.replace("remote R2 prefix 10.0.55.2/32\n", "") + "controller-free\n"
P = "interfaces zerotier zt0"


def identity(number: int) -> PublicIdentity:
    return PublicIdentity(f"{0x1234567800 + number:010x}", bytes(range(number, number + 64)))


def invite(**changes: object) -> Invite:
    instances = {
        k: InvitedInstance(identity(k), (endpoint(f"192.0.2.2:{9992 + k}"), endpoint(f"[2001:db8::2]:{9992 + k}")))
        for k in range(1, 5)
    }
    return Invite(
        **{
            "site": 2,
            "network": "8056c2e21c000001",
            "prefixes": (ipaddress.ip_network("10.0.55.2/32"),),
            "instances": instances,
            **changes,
        }
    )


LONG = "remote R2 site 2\nremote R2 prefix 10.0.55.2/32\n" + "".join(
    f"remote R2 instance {k} identity {identity(k)}\nremote R2 instance {k} endpoint 192.0.2.2:{9992 + k}\nremote R2 instance {k} endpoint [2001:db8::2]:{9992 + k}\n"
    for k in range(1, 5)
)


def test_an_invite_is_the_same_as_the_long_form() -> None:
    short, long = (
        make_plan(
            bundle(BASE.replace("10.14.0.0/28", "10.14.0.0/24") + "transit subnet-length 29\n" + lines), CPUS, "/usr/sbin/ztnode"
        )
        for lines in (f"remote R2 invite {encode(invite())}", LONG)
    )
    assert short == long and len(short.peers) == 4


def test_what_is_set_beside_it_goes_before() -> None:
    lines = f"remote R2 invite {encode(invite())}\nremote R2 instance 2 endpoint r2.example.org:1\nremote R2 prefix 192.0.2.0/24\nremote R2 instance 3 identity {identity(9)}"
    parsed = bundle(BASE.replace("10.14.0.0/28", "10.14.0.0/24") + "transit subnet-length 29\n" + lines).remotes[0]
    assert [str(prefix) for prefix in parsed.prefixes] == ["192.0.2.0/24", "10.0.55.2/32"]
    assert not parsed.instances[2].endpoints and str(parsed.instances[2].named[0]) == "r2.example.org:1"
    assert parsed.instances[2].identity == identity(2) and parsed.instances[3].identity == identity(9)
    assert len(parsed.instances[3].endpoints) == 2


@pytest.mark.parametrize(
    "given",
    [
        invite(),
        invite(network=None),
        invite(prefixes=()),
        invite(instances={}),
        invite(prefixes=(ipaddress.ip_network("2001:db8::2/128"), ipaddress.ip_network("10.0.55.2/32"))),
        invite(
            site=1, instances={32: InvitedInstance(identity(1), (endpoint("[::ffff:192.0.2.1]:1"), endpoint("192.0.2.1:65535")))}
        ),
        invite(site=510),
    ],
)
def test_an_invite_is_read_as_it_was_written(given: Invite) -> None:
    assert decode(encode(given)) == given


def test_four_instances_fit_the_longest_line_that_a_terminal_takes() -> None:
    """A terminal in line mode takes 4095 characters (termios(3))."""
    endpoints = tuple(endpoint(f"[2001:db8::{n}]:9993") for n in range(1, 9))
    most = invite(instances={k: InvitedInstance(identity(k), endpoints) for k in range(1, 5)})
    assert len(encode(most)) < 1300
    assert len(encode(invite())) < 600


def test_what_is_cut_or_changed_is_refused() -> None:
    word, chance = encode(invite()), random.Random(7)
    for text in [word[:-1], word[:40], word + "A", word.swapcase(), *(_changed(word, chance) for _ in range(300))]:
        with pytest.raises(ValueError, match="is not a whole invite"):
            decode(text)


def _changed(word: str, chance: random.Random) -> str:
    at = chance.randrange(len(word) - 1)  # the last digit has bits that mean nothing
    return word[:at] + chance.choice([c for c in "ABCDefgh0189-_" if c != word[at]]) + word[at + 1 :]


def test_noise_is_refused_and_nothing_else_happens() -> None:
    chance = random.Random(11)
    for _ in range(2000):
        data = bytes([1]) + chance.randbytes(chance.randrange(120))
        data += struct.pack("!I", binascii.crc32(data))  # the checksum is no secret
        try:
            decode(base64.urlsafe_b64encode(data).rstrip(b"=").decode())
        except ValueError:
            pass


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        (
            encode(invite())[:-5],
            f"{P} remote R2 invite {encode(invite())[:12]}... is not a whole invite; paste the line of 'show zerotier ztN invite' again",
        ),
        ("A" * 20, f"{P} remote R2 invite {'A' * 20} is not a whole invite; paste the line of 'show zerotier ztN invite' again"),
    ],
)
def test_a_commit_is_refused_in_one_sentence(word: str, sentence: str) -> None:
    with pytest.raises(ConfigProblems) as refused:
        bundle(BASE + f"remote R2 invite {word}")
    assert str(refused.value) == sentence


AGAIN = "paste the line of 'show zerotier ztN invite' again"


def reached(text: str, port: int = 9993, number: int = 1) -> Invite:
    """An invite with that endpoint, as it would not be written."""
    return invite(instances={number: InvitedInstance(identity(1), (Endpoint(ipaddress.ip_address(text), port),))})


@pytest.mark.parametrize("prefix", ["0.0.0.0/0", "8.8.8.0/31", "192.0.2.0/24", "::/0", "2001:db8::/127"])
def test_what_draws_the_traffic_of_others_is_set_by_hand(prefix: str) -> None:
    """Who pastes a line sees nothing of what is in it."""
    word = encode(invite(prefixes=(ipaddress.ip_network("10.0.55.2/32"), ipaddress.ip_network(prefix))))
    with pytest.raises(ConfigProblems) as refused:
        bundle(BASE + f"remote R2 invite {word}")
    assert str(refused.value) == (
        f"{P} remote R2 invite {word[:12]}... has prefix {prefix}, and an invite brings single addresses alone; {AGAIN}, and set a "
        "prefix that you know to be behind that router with remote NAME prefix"
    )


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (invite(site=0), "has site 0, but site must be 1 to 510"),
        (invite(site=511), "has site 511, but site must be 1 to 510"),
        (invite(site=65535), "has site 65535, but site must be 1 to 510"),
        (reached("192.0.2.2", number=0), "has instance 0, but instance must be 1 to 32"),
        (reached("192.0.2.2", number=33), "has instance 33, but instance must be 1 to 32"),
        (reached("192.0.2.2", 0), "has endpoint 192.0.2.2:0 of instance 1, where no router can be"),
        (reached("224.0.0.1", 9), "has endpoint 224.0.0.1:9 of instance 1, where no router can be"),
        (reached("127.0.0.1", 22), "has endpoint 127.0.0.1:22 of instance 1, where no router can be"),
        (reached("0.0.0.0"), "has endpoint 0.0.0.0:9993 of instance 1, where no router can be"),
        (reached("ff02::1"), "has endpoint [ff02::1]:9993 of instance 1, where no router can be"),
        (reached("::1"), "has endpoint [::1]:9993 of instance 1, where no router can be"),
        (reached("::ffff:127.0.0.1"), "has endpoint [::ffff:7f00:1]:9993 of instance 1, where no router can be"),
        (
            invite(instances={1: InvitedInstance(PublicIdentity("ff00000001", bytes(64)))}),
            "cannot be used, because ff00000001 is a reserved node address",
        ),
    ],
)
def test_what_the_long_form_refuses_is_refused(given: Invite, sentence: str) -> None:
    word = encode(given)
    with pytest.raises(ConfigProblems) as refused:
        bundle(BASE + f"remote R2 invite {word}")
    assert str(refused.value) == f"{P} remote R2 invite {word[:12]}... {sentence}; {AGAIN}"


def test_a_commit_tells_what_an_invite_brings_that_was_not_there(homes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systemd, "is_booting", lambda: False)

    def told(lines: str) -> list[str]:
        change = commit.check(
            "zt0", configured(BASE.replace("10.14.0.0/28", "10.14.0.0/24") + "transit subnet-length 29\n" + lines)
        )
        commit._publish(change)
        return [text for text in change.warnings if " invite: " in text]

    first = f"remote R2 invite {encode(invite())}\n"
    brings = f"{P} remote R2 invite: it brings site 2 and prefix 10.0.55.2/32; what is sent there goes to R2"
    assert told(first) == [brings]
    assert told(first) == told(first + "remote R2 prefix 192.0.2.0/24\nmtu 1300\n") == [], "another change"
    more = invite(prefixes=tuple(map(ipaddress.ip_network, ("10.0.55.2/32", "8.8.8.8/32"))))
    assert told(f"remote R2 invite {encode(more)}\n") == [
        f"{P} remote R2 invite: it brings site 2 and prefixes 10.0.55.2/32, 8.8.8.8/32; what is sent there goes to R2"
    ]
    assert told(first) == [], "less"
    none = encode(invite(site=3, prefixes=(), instances={1: InvitedInstance(identity(7))}))
    assert told(f"{first}remote R3 invite {none}\n") == [f"{P} remote R3 invite: it brings site 3 and no prefix"]
    assert told(f"remote R2 invite {encode(invite(site=3))}\n") == [brings.replace("site 2", "site 3")]
    assert told(first) == [brings]
    other = invite(instances={k: InvitedInstance(identity(k + 8)) for k in range(1, 5)})
    assert told(f"remote R2 invite {encode(other)}\n") == [brings], "who has it now is another router"
    assert told(f"remote R2 disable\n{first}") == []


def test_a_boot_takes_invites_without_a_word(homes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No plan is published yet, and nobody has pasted anything."""
    monkeypatch.setattr(systemd, "is_booting", lambda: True)
    change = commit.check("zt0", configured(BASE + f"instances 2\nremote R2 invite {encode(invite())}"))
    assert change.plan and len(change.plan.routes) == 1 and change.warnings == ()


def test_an_invite_to_another_network_is_refused() -> None:
    parsed = bundle(BASE + f"remote R2 invite {encode(invite(network='8056c2e21c000009'))}")
    assert [str(p) for p in check_bundle(parsed, CPUS)] == [
        f"{P} remote R2 invite is for network 8056c2e21c000009, but zt0 is on 8056c2e21c000001; set the same network-id on both routers"
    ]


def test_the_command_that_is_printed_makes_this_router_known_to_the_other() -> None:
    plan = make_plan(bundle(BASE), CPUS, "/usr/sbin/ztnode")
    entries = [
        {"instance": k, "identity": str(identity(k)), "endpoints": [f"192.0.2.1:{9992 + k}"], "answers": True, "left_out": []}
        for k in (1, 2, 3, 4)
    ]
    data = invite_data(plan, {"instances": entries}, "R1")
    assert data["site"] == 1 and data["prefixes"] == ["10.0.55.1/32"]
    line = str(data["command"]).removeprefix("set interfaces zerotier zt0 ")
    other = make_plan(bundle(BASE.replace("site 1", "site 2").replace("10.0.55.1", "10.0.55.2") + line), CPUS, "/usr/sbin/ztnode")
    assert [peer.endpoints for peer in other.peers] == [(f"192.0.2.1:{9992 + k}",) for k in (1, 2, 3, 4)]
    assert [path.via for path in other.paths] == ["10.14.0.1", "10.14.0.5", "10.14.0.9", "10.14.0.13"]
    assert remotes_text(remotes_data(other)).splitlines()[:4] == [
        "Remote R1: 10.0.55.1/32",
        "Nr  Node        Next hop    Endpoints",
        "--  ----------  ----------  --------------",
        " 1  1234567801  10.14.0.1   192.0.2.1:9993",
    ]


def test_an_invite_has_endpoints_of_both_families_and_says_which_it_has_not() -> None:
    plan = make_plan(bundle(BASE), CPUS, "/usr/sbin/ztnode")

    def entry(fours: int, sixes: int) -> dict[str, object]:
        endpoints = [*(f"192.0.2.{n}:9993" for n in range(1, fours + 1)), *(f"[2001:db8::{n}]:9993" for n in range(1, sixes + 1))]
        return {"instance": 1, "identity": str(identity(1)), "endpoints": endpoints, "answers": True, "left_out": []}

    def invited(given: dict[str, object]) -> list[str]:
        made = decode(str(invite_data(plan, {"instances": [given]}, "R1")["invite"]))
        return sorted(map(str, made.instances[1].endpoints))

    for fours, sixes, there in ((10, 10, (4, 4)), (14, 1, (7, 1)), (0, 9, (0, 8)), (2, 7, (2, 6)), (4, 4, (4, 4))):
        given = entry(fours, sixes)
        kept = invited(given)
        assert (sum(one[0] != "[" for one in kept), sum(one[0] == "[" for one in kept)) == there
        told = "".join(left_out({"bundle": "zt0", "instances": [given]}, "R1"))
        assert [one for one in given["endpoints"] if one not in kept] == re.findall(r"\S+:9993", told)
    assert told == ""
    assert list(left_out({"bundle": "zt0", "instances": [entry(10, 0)]}, "R1")) == [
        "# Left out of instance 1: 192.0.2.9:9993, 192.0.2.10:9993 (an invite has 8 endpoints of each); for all of them use the lines "
        "of: show zerotier zt0 identity name R1"
    ]


def test_no_invite_where_there_is_nothing_to_say() -> None:
    controlled = make_plan(bundle(EXAMPLE), CPUS, "/usr/sbin/ztnode")
    with pytest.raises(Unavailable, match="zt0 has a controller"):
        invite_data(controlled, {"instances": []}, "R1")
    with pytest.raises(Unavailable, match="no instance of zt0 has an identity yet"):
        invite_data(make_plan(bundle(BASE), CPUS, "/usr/sbin/ztnode"), {"instances": []}, "R1")


def test_without_qrencode_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert qr_code("set") == "# A QR code needs the program qrencode; install it with: apt install qrencode"
