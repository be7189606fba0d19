"""From the lines that a user types to what the library is given, by way of our own definition and shell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vyos.config import Config
from zerotier_multi.bundle import Bundle
from zerotier_multi.bundle_parser import parse_bundle
from ztsh.proposal import Proposal, proposing
from ztsh.schema import load_schema
from ztsh.session import Session

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = load_schema(ROOT / "interface-definitions")

EXAMPLE = """
instances 4
network-id 8056c2e21c000001
transit prefix 10.14.0.0/28
transit site 1
address 10.0.55.1/32
remote R2 prefix 10.0.55.2/32
"""


def configured(text: str) -> dict[str, Any]:
    """What the conf script gets for lines below ``interfaces zerotier``; those without a bundle are zt0's."""
    session = Session(SCHEMA)
    session.candidate = {}
    for line in text.strip().splitlines():
        words = line.split()
        if words:
            session.set(["interfaces", "zerotier", *([] if words[0].startswith("zt") else ["zt0"]), *words])
    return given(session)


def given(session: Session) -> dict[str, Any]:
    """What the conf script gets of a session."""
    with proposing(Proposal(SCHEMA, {}, session.candidate)):
        return Config().get_config_dict(
            ["interfaces", "zerotier"], get_first_key=True, no_tag_node_value_mangle=True, with_recursive_defaults=True
        )


def bundle(text: str) -> Bundle:
    """The bundle zt0 of a configuration."""
    return parse_bundle("zt0", configured(text)["zt0"])
