"""Random command sequences: the tree always prints and reads back, and a refused line never changes it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.configuration import SCHEMA
from ztsh.session import Session, SessionError
from ztsh.tree import apply, copy_tree, difference

names = st.sampled_from(["zt0", "zt1", "zt10", "zt300", "eth0"])
text = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=12)
leaves = st.one_of(
    st.tuples(st.just("instances"), st.sampled_from(["1", "4", "32", "auto", "0", "x"])),
    st.tuples(st.just("address"), st.sampled_from(["10.0.0.1/32", "10.0.0.2/32", "2001:db8::1/128", "10.0.0.1"])),
    st.tuples(st.just("description"), text),
    st.tuples(st.just("disable")),
    st.tuples(st.just("transit"), st.just("prefix"), st.sampled_from(["10.14.0.0/28", "2001:db8:14::/120", "10.14.0.1/28"])),
    st.tuples(st.just("remote"), st.sampled_from(["R1", "R2", "-"]), st.just("prefix"), st.sampled_from(["192.0.2.0/24", "203.0.113.0/24"])),
    st.tuples(st.just("instance"), st.sampled_from(["1", "2", "33"]), st.just("port"), st.sampled_from(["1", "65536"])),
    st.tuples(st.sampled_from(["nonsense", "transit", "remote"])),
)  # fmt: skip
lines = st.lists(st.tuples(st.sampled_from(["set", "set", "set", "delete"]), names, leaves), max_size=30)


def play(session: Session, commands: list) -> None:
    for verb, name, rest in commands:
        before = copy_tree(session.candidate)
        try:
            getattr(session, verb)(["interfaces", "zerotier", name, *rest])
        except SessionError:
            assert session.candidate == before


def fresh() -> Session:
    session = Session(SCHEMA)
    session.candidate = {}
    return session


@settings(max_examples=250, deadline=None)
@given(lines)
def test_what_is_printed_is_read_again(commands: list) -> None:
    session = fresh()
    play(session, commands)
    assert session.read(session.show() if session.candidate else "") == session.candidate


@settings(max_examples=250, deadline=None)
@given(lines, lines)
def test_compare_then_apply_gives_the_target(first: list, second: list) -> None:
    old, new = fresh(), fresh()
    play(old, first)
    new.candidate = copy_tree(old.candidate)
    play(new, second)
    assert apply(old.candidate, SCHEMA, *difference(old.candidate, new.candidate, SCHEMA)) == new.candidate


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(content: str) -> None:
    session = fresh()
    try:
        session.load(content)
    except SessionError:
        assert session.candidate == {}
