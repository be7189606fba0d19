"""Random command sequences: the tree always prints and reads back, and a refused line never changes it."""

from __future__ import annotations

import os
import shlex
from copy import deepcopy
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.configuration import SCHEMA
from ztsh.changes import changed, changes_between, changes_from
from ztsh.complete import help_text
from ztsh.configuration import Config, read_config
from ztsh.confmode import ConfMode
from ztsh.errors import Leave, SessionError
from ztsh.session import Session
from ztsh.text import render, set_commands
from ztsh.words import LineError

SEQUENCES = 50_000 if os.environ.get("ATTACK") == "long" else 3_000  # the long run is a part of make test-attack

names = st.sampled_from(["zt0", "zt1", "zt10", "zt300", "eth0"])
text = st.text(st.characters(min_codepoint=32, max_codepoint=382), min_size=1, max_size=12).map(shlex.quote)
leaves = st.one_of(
    st.builds("instances {}".format, st.sampled_from(["1", "4", "32", "auto", "0", "x"])),
    st.builds("address {}".format, st.sampled_from(["10.0.0.1/32", "10.0.0.2/32", "2001:db8::1/128", "10.0.0.1"])),
    st.builds("description {}".format, text),
    st.builds("transit prefix {}".format, st.sampled_from(["10.14.0.0/28", "2001:db8:14::/120", "10.14.0.1/28"])),
    st.builds("remote {} prefix {}".format, st.sampled_from(["R1", "R2", "prefix", "-"]), st.sampled_from(["192.0.2.0/24", "203.0.113.0/24"])),
    st.builds("instance {} port {}".format, st.sampled_from(["1", "2", "33"]), st.sampled_from(["1", "65536"])),
    st.sampled_from(["disable", "controller-free", "nonsense", "transit", "remote", "", "inst 1", "desc"]),
)  # fmt: skip
places_ = st.one_of(st.builds("interfaces zerotier {} {}".format, names, leaves), leaves, st.sampled_from(["interfaces", ""]))
command = st.one_of(
    st.builds("set {}".format, places_),
    st.builds("set interfaces zerotier {} {}".format, names, leaves),
    st.builds("delete {}".format, places_),
    st.builds("edit {}".format, st.sampled_from(["interfaces", "interfaces zerotier zt0", "remote R1", "transit"])),
    st.builds("comment interfaces zerotier {} {}".format, names, text),
    st.builds("{} {} {} to {} {}".format, st.sampled_from(["copy", "rename"]), st.sampled_from(["zerotier", "remote"]), names,
              st.sampled_from(["zerotier", "remote"]), names),
    st.sampled_from(["up", "top", "show", "compare", "compare commands", "exit", "discard", "show -all"]),
    st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=15),
)  # fmt: skip
sequences = st.lists(command, max_size=20)


@pytest.fixture(scope="module")
def schema_only(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("router")


def play(conf: ConfMode, lines: list[str]) -> None:
    """Type lines; those that are refused must not change anything."""
    for line in lines:
        before, level = deepcopy(conf.session.wanted), conf.level
        try:
            conf.line(line)
        except (SessionError, LineError):
            assert conf.session.wanted == before and conf.level == level
        except Leave:
            continue


def holds(config: Config) -> None:
    """What must be true of every configuration."""
    text = render(config.tree, SCHEMA, config.comments)
    assert read_config(text, SCHEMA) == config
    typed = ConfMode(Session(SCHEMA), lambda _words: "")
    for line in set_commands(config.tree, SCHEMA, config.comments).splitlines():
        typed.line(line)
    assert typed.session.wanted == config


@settings(max_examples=SEQUENCES, deadline=None, suppress_health_check=list(HealthCheck))
@given(sequences, sequences)
def test_random_commands(schema_only: Path, first: list[str], second: list[str]) -> None:
    """Prints and reads back; its set commands make it again; compare then apply gives the target."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZTSH_RUN", str(schema_only))
        patch.setenv("ZTSH_CONFIG", str(schema_only))
        conf = ConfMode(Session(SCHEMA), lambda _words: "")
        play(conf, first)
        old = deepcopy(conf.session.wanted)
        holds(old)
        play(conf, second)
        new = conf.session.wanted
        assert changed(old, changes_between(old, new, SCHEMA), SCHEMA) == new
        assert bool(conf.session.compare(old, new)) == bool(changes_between(old, new, SCHEMA))


@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
@given(sequences, st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30))
def test_any_line_can_be_completed(schema_only: Path, lines: list[str], typed: str) -> None:
    from ztsh.opmode import OpMode
    from ztsh.opschema import OpNode
    from ztsh.words import split_open

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZTSH_RUN", str(schema_only))
        patch.setenv("ZTSH_CONFIG", str(schema_only))
        patch.setenv("ZTSH_COMPLETION", str(schema_only))
        conf = ConfMode(Session(SCHEMA), lambda _words: "")
        play(conf, lines)
        op = OpMode(OpNode())
        for line in (*lines[:3], typed):
            words, prefix = split_open(line)
            assert help_text(conf.choices(words, lambda rest: op.choices(rest, {})).starting(prefix), 80)


@settings(max_examples=2000, deadline=None)
@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(content: str) -> None:
    try:
        config = read_config(content, SCHEMA)
    except SessionError:
        return
    assert read_config(render(config.tree, SCHEMA, config.comments), SCHEMA) == config


@pytest.mark.parametrize("bad", [
    {"gone": [["a", 1]], "added": [], "comments": []},
    {"gone": [], "added": ["interfaces"], "comments": []},
    {"gone": [], "added": [[["a"]]], "comments": []},
    {"gone": [], "added": [], "comments": [["a", "text"]]},
    {"gone": [], "added": []},
])  # fmt: skip
def test_what_is_no_change_is_not_taken_from_a_member(bad: dict) -> None:
    """It comes through sudo, to root."""
    with pytest.raises((ValueError, KeyError, TypeError)):
        changes_from(bad)
