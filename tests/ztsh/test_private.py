"""``strip-private``: in none of its forms is a configuration's private data left."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator

import pytest
from tests.configuration import SCHEMA
from tests.unit.test_configured_identity import secret
from ztsh import showconfig
from ztsh.private import strip_private
from ztsh.schema import Node
from ztsh.text import parse, render, set_commands
from ztsh.tree import Tree, set_path

NETWORK, KEY, INVITE, WORLD = "8056c2e21c0000ab", "t0psecretApiKey", "aW52aXRlIG9mIHRoZSBvdGhlcg", "d29ybGQgd2l0aCByb290cw=="
NODE, DIGITS = "89e92ceee5", "0123456789"

# What is set below interfaces zerotier zt0, and what of it nobody may read.
SET = [
    (["description", "Bob's \"old\" bakery, door 7"], "Bob bakery"),
    (["network-id", NETWORK], NETWORK),
    (["controller", "api-key", KEY], KEY),
    (["controller", "type", "ztnet"], ""),
    (["instance", "1", "identity", "secret", secret(1)], f"{secret(1)[:10]} {secret(1)[13:141]} {secret(1)[142:]}"),
    (["remote", "bakery-south", "prefix", "198.51.100.0/24"], "bakery-south 198.51"),
    (["remote", "bakery-south", "prefix", "2001:db8:5::/48"], "2001:db8"),
    (["remote", "bakery-south", "invite", INVITE], INVITE),
    (["remote", "Kiosk.2", "instance", "1", "identity", secret(2)[:141]], f"Kiosk {secret(2)[:10]} {secret(2)[13:141]}"),
    (["remote", "Kiosk.2", "instance", "1", "endpoint", "203.0.113.9:9993"], "203.0"),
    (["remote", "Kiosk.2", "instance", "1", "endpoint", "[2001:db8:7::9]:9993"], "2001:db8"),
    (["remote", "Kiosk.2", "instance", "1", "endpoint", "berlin.dyndns.example.org:9993"], "berlin dyndns example"),
    (["remote", "Kiosk.2", "instance", "1", "endpoint", "hamburg-2:9993"], "hamburg"),
    (["controller", "url", "https://bob:pass@ztc.mycompany.example:3443/api/"], "bob pass ztc mycompany 3443"),
    (["peer-config", NODE, "blacklist", "198.51.100.0/24"], NODE),
    (["peer-specific-bonds", DIGITS, "bonding-policy", "none"], DIGITS),
    (["address", "192.0.2.1/32"], "192.0"),
    (["address", "2001:db8::1/128"], "2001:db8"),
    (["address", "fd00::17/128"], "fd00"),
    (["network-config", "198.51.100.0/24", "mtu", "1400"], "198.51"),
    (["network-config", "203.0.100.0/24", "mtu", "1300"], "203.0"),
    (["planet", WORLD], WORLD),
    (["moon", WORLD], WORLD),
]  # fmt: skip
COMMENT = "the bakery's uplink"
PRIVATE = sorted({word for _path, words in SET for word in words.split()} | {"bakery"})


def tree() -> Tree:
    made: Tree = {}
    for path, _words in SET:
        set_path(made, SCHEMA, ("interfaces", "zerotier", "zt0", *path))
    return made


def filtered(form: str, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert showconfig.run_filter([form]) == 0
    return capsys.readouterr().out


def curly(prefix: str = "") -> str:
    comments = {("interfaces", "zerotier", "zt0"): COMMENT}
    return "".join(f"{prefix}{line}\n" for line in render(tree(), SCHEMA, comments).splitlines())


def as_json() -> str:
    return json.dumps(showconfig._plain(tree(), SCHEMA), indent=4) + "\n"


FORMS: dict[str, Callable[[Callable[[str, str], str]], str]] = {
    "show configuration": lambda _run: curly(),
    "show, in conf mode": lambda _run: curly("+ "),
    "show configuration commands": lambda _run: set_commands(tree(), SCHEMA, {("interfaces", "zerotier", "zt0"): COMMENT}),
    "show configuration json": lambda _run: as_json(),
    "… json, on one line": lambda _run: json.dumps(json.loads(as_json())),
    "… | json": lambda run: run("json", curly()),
    "show | json, in conf mode": lambda run: run("json", curly("+ ")),
    "… | commands": lambda run: run("commands", curly()),
}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[str, str], str]:
    return lambda form, text: filtered(form, text, monkeypatch, capsys)


def count(text: str) -> int:
    """Paths of a configuration in any form."""
    try:
        return leaves(json.loads(text))
    except ValueError:
        return len(parse(text).paths) if "{" in text else len(re.findall("(?m)^set ", text))


def leaves(data: object) -> int:
    if isinstance(data, dict):
        return sum(leaves(value) for value in data.values()) or 1
    return sum(map(leaves, data)) if isinstance(data, list) else 1


@pytest.mark.parametrize("form", FORMS)
def test_no_form_of_a_configuration_has_what_is_private(form: str, run: Callable[[str, str], str]) -> None:
    given = FORMS[form](run)
    told = run("strip-private", given)
    assert all(word in given.replace("\\", "").replace("\"'\"", "") for word in PRIVATE), "nothing else is tested"
    assert [word for word in PRIVATE if word in told] == []
    if "json" in form:
        json.loads(told)
    if "conf mode" not in form:
        assert count(told) == count(given), "nothing else is lost"
    for left in ("zt0", "ztnet", "1400", "9993", "xxxxxx", "xxx.xxx.113.9", "xxxx:xxxx::xxxx"):
        assert left in told
    assert strip_private(told) == told


VYOS = """
interfaces {
    wireguard wg0 {
        private-key "yAnz5TF"
    }
    ethernet eth0 {
        hw-id "00:53:00:aa:bb:cc"
    }
}
system {
    login {
        user admin {
            authentication {
                encrypted-password "$6$rounds$Hash/ed."
                plaintext-password "pl4in"
                otp {
                    key "OTPKEY"
                }
                public-keys mark@example {
                    key "AAAAB3Nz"
                    type "ssh-rsa"
                }
            }
        }
    }
}
vpn {
    ipsec {
        authentication {
            pre-shared-secret "psk psk"
        }
    }
}
"""


@pytest.mark.parametrize("form", ["", "json", "commands"])
def test_passwords_and_keys_of_any_node(form: str, run: Callable[[str, str], str]) -> None:
    """Filters know no schema."""
    given = run(form, VYOS) if form else VYOS
    told = run("strip-private", given)
    words = ("yAnz5TF", "00:53:00", "$6$", "Hash/ed.", "pl4in", "OTPKEY", "AAAAB3Nz", "psk")
    assert all(word in given for word in words) and [word for word in words if word in told] == []
    assert "ssh-rsa" in told and count(told) == count(given)


def secrets(node: Node, name: str = "") -> Iterator[str]:
    if node.kind == "leaf" and node.secret:
        yield name
    for child, below in node.children.items():
        yield from secrets(below, child)


def test_every_secret_leaf_of_the_definitions_is_hidden() -> None:
    found = set(secrets(SCHEMA))
    assert found >= {"api-key", "secret"}
    for name in found:
        for text in (f'{name} "T0P"', f"set x {name} 'T0P'", f'{{"{name}": "T0P"}}', f'"{name}": "T0P",'):
            assert "T0P" not in strip_private(text)


@pytest.mark.parametrize(("given", "told"), [
    # What "match" leaves of JSON is JSON no more.
    ('            "api-key": "a \\"key\\", of mine",\n            "type": "ztnet"',
     '            "api-key": "xxxxxx",\n            "type": "ztnet"'),
    ('"description":"x", "remote": "R2", "port": 7', '"description":"xxxxxx", "remote": "xxxxxx", "port": 7'),
    # Names and addresses that look alike are still two.
    ('{"remote": {"a": {}, "b": {"prefix": ["192.0.2.0/24"]}}}', {"remote": {"xxxxxx": {}, "xxxxxx-2": {"prefix": ["xxx.xxx.2.0/24"]}}}),
    ('{"192.0.2.1": 1, "198.51.2.1": 2}', {"xxx.xxx.2.1": 1, "xxx.xxx.2.1-2": 2}),
    ('[{"remote": "R2", "state": "up", "rtt": 1.5, "since": null, "ok": true}]',
     [{"remote": "xxxxxx", "state": "up", "rtt": 1.5, "since": None, "ok": True}]),
    ('{"password": 1234, "key": ["a", "b"], "secret": {"a": {"b": ["c"]}}}',
     {"password": "xxxxxx", "key": ["xxxxxx", "xxxxxx"], "secret": {"xxxxxx": {"xxxxxx": ["xxxxxx"]}}}),
    ('{"fault": "remote R2 at [fe80::1%eth0] is down"}', {"fault": "remote xxxxxx at [xxxx:xxxx::xxxx%eth0] is down"}),
    ("{}\n", {}),
    ("1.10\n", "1.10\n"),
    ("route ::/0 via fd00::1, ::1, fe80:: and ::ffff:192.0.2.1",
     "route ::/0 via xxxx:xxxx::xxxx, xxxx:xxxx::xxxx, xxxx:xxxx::xxxx and xxxx:xxxx::xxxx:xxx.xxx.2.1"),
    ("[" * 100_000, "[" * 100_000),
    # Nodes and hosts wherever they are; numbers and names of files are neither.
    ('["89e92ceee5", "0123456789", 1234567890, "r2:9993", "r2.example.org:9993", "GET http://u:p@r2.example.org:80/x"]',
     ["xxxxxxxxxx", "xxxxxxxxxx", 1234567890, "xxxxxx:9993", "xxxxxx:9993", "GET http://xxxxxx"]),
    ('            "endpoint": [\n                "r2:9993"', '            "endpoint": [\n                "xxxxxx:9993"'),
    ("R1 89e92ceee5 at r2.example.org:9993 1234567890 bytes in local.conf",
     "R1 xxxxxxxxxx at xxxxxx:9993 1234567890 bytes in local.conf"),
    ("a-" * 100_000 + "\n" + "a." * 100_000, "a-" * 100_000 + "\n" + "a." * 100_000),
], ids=range(15))  # fmt: skip
def test_lines_and_json_of_other_kinds(given: str, told: object) -> None:
    found = strip_private(given)
    assert (found if isinstance(told, str) else json.loads(found)) == told


def test_a_comment_of_several_lines_becomes_one() -> None:
    """So that each form shows it on the line that says it is a comment; no command could give another one."""
    text = "interfaces {\n    /* one\n       two */\n    zerotier zt0 {\n        instances 1\n    }\n}\n"
    assert list(parse(text).comments.values()) == ["one two"]
