"""What docs/growing.md prints can be committed on top of what README.md configures."""

from __future__ import annotations

import re

from tests.configuration import ROOT, SCHEMA, given
from zerotier_multi.bundle_parser import parse_bundle
from zerotier_multi.checks import check_bundle
from zerotier_multi.cpu import Cpu
from ztsh.session import Session

CPUS = tuple(Cpu(n, n) for n in range(8))
BLOCKS = re.compile(r"^```\n((?:(?:set|delete) interfaces .*\n)+)```$", re.MULTILINE)
THIRD, R3, MORE, SIX_R1, SIX_R2 = BLOCKS.findall((ROOT / "docs/growing.md").read_text())
R1 = BLOCKS.findall((ROOT / "README.md").read_text())[1] + "set interfaces zerotier zt0 controller-free\n"


def other(lines: str) -> str:
    """Lines of R1 as R2 has them."""
    for here, there in (
        ("transit site 1", "transit site 2"),
        ("address 10.0.55.1", "address 10.0.55.2"),
        ("remote R2 prefix 10.0.55.2", "remote R1 prefix 10.0.55.1"),
        ("remote R2 site 2", "remote R1 site 1"),
    ):
        lines = lines.replace(here, there)
    return lines


def faults(*texts: str) -> list[str]:
    """What a commit of these lines would be refused for."""
    session = Session(SCHEMA)
    session.candidate = {}
    for line in "".join(texts).splitlines():
        verb, *path = line.split()
        (session.set if verb == "set" else session.delete)(path)
    return [str(problem) for problem in check_bundle(parse_bundle("zt0", given(session)["zt0"]), CPUS)]


def test_a_third_router() -> None:
    third = "set interfaces zerotier zt0 remote R3 site 3\n"
    assert faults(R1, THIRD, third) == faults(other(R1), other(THIRD), third) == faults(R3) == []
    assert faults(R1, third) == [
        "interfaces zerotier zt0 remote R3 site 3: a /30 has only hosts 1 to 2; use a shorter subnet-length"
    ]


def test_more_instances() -> None:
    assert faults(R1, MORE) == faults(other(R1), MORE) == []


def test_ipv6_through_the_bundle() -> None:
    assert faults(R1, SIX_R1) == faults(other(R1), SIX_R2) == []
    length = "set interfaces zerotier zt0 transit subnet-length 125\nset interfaces zerotier zt0 remote R3 site 3\n"
    assert faults(R1, THIRD, SIX_R1, length) == []
