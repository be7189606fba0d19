"""The configuration session: what it accepts, what it says, and that it loses nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.configuration import SCHEMA
from ztsh.configuration import read_config
from ztsh.errors import SessionError
from ztsh.session import Session
from ztsh.text import set_commands
from ztsh.tree import apply, commands, difference, with_defaults

ZT = ["interfaces", "zerotier", "zt0"]


def session(*lines: str) -> Session:
    made = Session(SCHEMA)
    made.candidate = {}
    for line in lines:
        made.set(["interfaces", "zerotier", *line.split()])
    return made


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("interfaces foo", "Configuration path: [interfaces foo] is not valid\nSet failed"),
        ("interfaces zerotier zt0 foo 1", "Configuration path: [interfaces zerotier zt0 foo 1] is not valid\nSet failed"),
        ("interfaces zerotier zt0 disable yes", "Configuration path: [interfaces zerotier zt0 disable yes] is not valid\nSet failed"),
        ("interfaces zerotier zt0 instances 33", "Instances must be auto or 1 to 32\nValue validation failed\nSet failed"),
        ("interfaces zerotier zt256", "ZeroTier interface must be named zt0 to zt255\nValue validation failed\nSet failed"),
        ("interfaces zerotier zt01", "ZeroTier interface must be named zt0 to zt255\nValue validation failed\nSet failed"),
        ("interfaces zerotier zt0 network-id 12345", "Network ID must be 16 hexadecimal digits, not all zero\nValue validation failed\nSet failed"),
        ("interfaces zerotier zt0 address 10.0.0.1", "Give an address with its length, such as 10.0.55.1/32\nValue validation failed\nSet failed"),
        ("interfaces zerotier zt0 transit prefix 10.14.0.1/28", "Give a prefix without host bits, such as 10.14.0.0/28\nValue validation failed\nSet failed"),
        ("interfaces zerotier zt0 transit subnet-length 40", "Subnet length must be 8 to 30 (IPv4) or 64 to 126 (IPv6)\nValue validation failed\nSet failed"),
        ("interfaces zerotier zt0 instance 0 port 1", "Instance must be 1 to 32\nValue validation failed\nSet failed"),
        ("interfaces zerotier zt0 mtu 1279", "MTU must be auto or 1280 to 9890 bytes\nValue validation failed\nSet failed"),
        ("interfaces zerotier zt0 instances", "Configuration path: [interfaces zerotier zt0 instances] requires a value\nSet failed"),
        ("interfaces zerotier zt0 description a\tb", "Description must be printable ASCII, at most 255 characters\nValue validation failed\nSet failed"),
        ("interfaces zerotier zt0 description für", "Description must be printable ASCII, at most 255 characters\nValue validation failed\nSet failed"),
    ],
)  # fmt: skip
def test_a_refused_line_says_what_vyos_says_and_changes_nothing(line: str, message: str) -> None:
    made = session()
    with pytest.raises(SessionError) as refused:
        made.set(line.split(" "))
    assert str(refused.value) == message
    assert made.candidate == {}


def test_what_is_set_is_printed_and_read_again() -> None:
    made = session("zt10 instances 2", "zt2 description a", "zt2 disable", "zt2 address 2001:db8::1/128", "zt2 address 10.0.0.1/32")
    made.set([*ZT, "description", 'with "quotes" and \\ and {braces} // no comment'])
    text = made.text()
    assert [line.split()[1] for line in text.splitlines() if line.endswith("{") and "zt" in line] == ["zt0", "zt2", "zt10"]
    assert '            address "2001:db8::1/128"' not in text and '        address "2001:db8::1/128"' in text
    assert made.read(text).tree == made.candidate


def test_set_commands_make_the_same_tree() -> None:
    made = session("zt0 remote R2 prefix 192.0.2.0/24", "zt0 instance 3", "zt0 disable")
    made.set([*ZT, "description", "two words; $(and more)"])
    import shlex

    other = session()
    for line in set_commands(made.candidate, SCHEMA).splitlines():
        other.set(shlex.split(line)[1:])
    assert other.candidate == made.candidate


def test_deleting_takes_empty_parents_but_not_tag_values() -> None:
    made = session("zt0 transit site 1", "zt0 address 10.0.0.1/32", "zt0 address 10.0.0.2/32")
    made.delete([*ZT, "transit", "site"])
    made.delete([*ZT, "address", "10.0.0.1/32"])
    assert made.candidate == {"interfaces": {"zerotier": {"zt0": {"address": ["10.0.0.2/32"]}}}}
    made.delete([*ZT, "address"])
    assert made.candidate == {"interfaces": {"zerotier": {"zt0": {}}}}
    with pytest.raises(SessionError, match="Nothing to delete"):
        made.delete([*ZT, "address"])
    made.delete(ZT)
    assert made.candidate == {}


def test_a_leaf_is_replaced_and_a_second_set_is_told() -> None:
    made = session("zt0 instances 2", "zt0 instances 4")
    with pytest.raises(SessionError, match=r"\[interfaces zerotier zt0 instances 4\] already exists"):
        made.set([*ZT, "instances", "4"])


def test_defaults_go_where_vyos_puts_them() -> None:
    tree = with_defaults(session("zt0 network-id 8056c2e21c000001").candidate, SCHEMA)["interfaces"]["zerotier"]["zt0"]
    assert tree["instances"] == ["1"] and tree["balance"]["resilient"] == {"buckets": ["128"], "idle-timer": ["10"]}
    assert "transit" not in tree and "remote" not in tree


def test_compare_is_the_way_from_one_to_the_other() -> None:
    old = session("zt0 address 10.0.0.1/32", "zt0 address 10.0.0.2/32", "zt0 disable", "zt1 instances 2").candidate
    new = session("zt0 address 10.0.0.2/32", "zt0 address 10.0.0.3/32", "zt0 instances 4").candidate
    gone, added = difference(old, new, SCHEMA)
    assert sorted(" ".join(p[2:]) for p in gone) == ["zt0 address 10.0.0.1/32", "zt0 disable", "zt1"]
    assert [" ".join(p[2:]) for p in added] == ["zt0 address 10.0.0.3/32", "zt0 instances 4"]
    assert apply(old, SCHEMA, gone, added) == new


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("interfaces {\n    zerotier zt0 {\n", "line 2: 2 blocks are not closed; the text is truncated"),
        ("}\n", "line 1: a closing brace without its opening one"),
        ("interfaces {\n    foo 1\n}\n", "line 2: set interfaces foo 1\nConfiguration path: [interfaces foo 1] is not valid"),
        ("a b c d\n", "line 1: more than one value in 'a b c d'; quote it"),
        ('description "open\n', "cannot be read from here on"),
    ],
)
def test_a_broken_text_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(SessionError) as refused:
        session().read(text)
    assert message in str(refused.value)


def test_saving_survives_and_is_read_at_boot(tmp_path: Path) -> None:
    made = session("zt0 instances 4")
    text = made.text() + "\n// vyos-config-version: \"zerotier@1\"\n"
    assert made.read(text).tree == made.candidate
    refused: list[str] = []
    assert read_config(text.replace('instances "4"', 'instances "99"\n        disable'), SCHEMA, refused).tree == {
        "interfaces": {"zerotier": {"zt0": {"disable": []}}}
    }
    assert refused == ["line 3: set interfaces zerotier zt0 instances '99': Instances must be auto or 1 to 32"]


def test_all_paths_of_a_tree_are_listed_once() -> None:
    made = session("zt0 remote R2 instance 1 endpoint 192.0.2.1:9993", "zt0 remote R2 instance 1 endpoint 192.0.2.2:9993")
    assert len(list(commands(made.candidate, SCHEMA))) == 2
