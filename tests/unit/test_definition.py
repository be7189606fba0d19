"""The interface definition is the one place of ranges, choices, defaults and messages, and agrees with itself."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from pathlib import Path

import pytest
from lxml import etree
from tests.configuration import ROOT
from zerotier_multi import names
from zerotier_multi.bundle import Bundle, InstanceOverride
from zerotier_multi.bundle_parser import parse_bundle
from zerotier_multi.definition import Node, definition, parse_definition

XML = ROOT / "interface-definitions/interfaces_zerotier.xml.in"
LIBRARY = sorted((ROOT / "python/zerotier_multi").rglob("*.py"))
RANGES = sorted({pair for node in definition().values() for pair in node.ranges})


@pytest.mark.parametrize(("low", "high"), RANGES)
def test_no_range_is_written_a_second_time(low: int, high: int) -> None:
    twice = re.compile(rf"\b{low}(, ?| to |-|\.\.){high}\b")
    found = [f"{path.name}: {line.strip()}" for path in LIBRARY for line in path.read_text().splitlines() if twice.search(line)]
    assert [line for line in found if not line.startswith("names.py")] == []  # names has the widths of ids, see below


def test_no_default_is_written_a_second_time() -> None:
    for kind in (Bundle, InstanceOverride):
        written = {field.name: field.default for field in fields(kind) if field.default is not MISSING}
        assert not [name for name, value in written.items() if value not in (None, False, "", ())]
    plain = parse_bundle("zt0", {})
    assert (plain.instances, plain.mtu, plain.hash_policy, plain.health_interval, plain.weight(1)) == (1, None, "layer4", 200, 1)


def test_the_widths_of_ids_are_the_ranges() -> None:
    known = definition()
    assert known["instance"].ranges == known["instances"].ranges == known["remote instance"].ranges == ((1, names.MAX_INSTANCES),)
    assert known["transit site"].ranges == known["remote site"].ranges == ((1, names.MAX_SITE),)
    assert f"zt0 to zt{names.MAX_BUNDLE}" in XML.read_text()


def test_help_and_message_of_a_setting_name_its_range() -> None:
    for element in etree.parse(str(XML)).iter("leafNode", "tagNode"):
        texts = element.findall("properties/valueHelp/format")
        ranges = re.findall(r"--range (\d+)-(\d+)", str(etree.tostring(element.find("properties"))))
        assert [text.text for text in texts if text.text.startswith("u32:")] == [f"u32:{low}-{high}" for low, high in ranges]
        message = element.findtext("properties/constraintErrorMessage", "")
        assert all(f"{low} to {high}" in message for low, high in ranges), element.get("name")


@pytest.mark.parametrize(
    ("node", "good", "bad"),
    [
        (Node(ranges=((8, 30), (64, 126))), {"8": 8, "126": 126}, ["7", "31", "x", "", "auto"]),
        (Node(ranges=((1, 32),), words=frozenset({"auto"})), {"auto": "auto", "32": 32}, ["33", "none"]),
        (Node(words=frozenset({"a", "b"})), {"a": "a"}, ["c", "1"]),
        (Node(), {"anything": "anything"}, []),
    ],
)
def test_what_a_setting_takes(node: Node, good: dict, bad: list[str]) -> None:
    assert {text: node.read(text) for text in good} == good
    for text in bad:
        with pytest.raises(ValueError):
            node.read(text)


@pytest.mark.parametrize(
    ("message", "remedy"),
    [("Port must be 1 to 2", "port must be 1 to 2"), ("MTU must be auto", "MTU must be auto"), ("", "")],
)
def test_a_message_goes_on_in_a_sentence(message: str, remedy: str) -> None:
    assert Node(message=message).remedy == remedy


def test_the_definition_of_a_checkout_and_of_a_package_are_one_file(tmp_path: Path) -> None:
    assert parse_definition(XML.read_bytes()) == definition()
    rules = (ROOT / "packages/zerotier-multi/debian/rules").read_text()
    assert (
        "interface-definitions/interfaces_zerotier.xml.in debian/zerotier-multi/usr/lib/python3/dist-packages/zerotier_multi/"
        in rules
    )
