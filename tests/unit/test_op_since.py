"""Since when a path is in its state: remembered over a restart of the daemon, written only on a change."""

from __future__ import annotations

from pathlib import Path

from zerotier_multi.pathd.tell.since import Since


def test_a_state_keeps_its_beginning_until_it_changes(tmp_path: Path) -> None:
    now = 100.0
    memory = tmp_path / "since.json"
    since = Since(memory, lambda: now)
    assert since.note({1: "up", 2: "waiting"}) == []
    now = 160.0
    written = memory.stat().st_ino
    assert since.note({1: "up", 2: "waiting"}) == [] and memory.stat().st_ino == written
    assert since.unix(1, 5000.0) == 4940
    since.note({1: "up", 2: "up"})
    now = 170.0
    again = Since(memory, lambda: now)
    again.note({1: "up", 2: "up"})
    assert (again.unix(1, 5000.0), again.unix(2, 5000.0), again.unix(3, 5000.0)) == (4930, 4990, None)
    again.note({2: "up"})
    assert Since(memory, lambda: now).unix(1, 5000.0) is None


def test_a_damaged_memory_is_begun_anew(tmp_path: Path) -> None:
    memory = tmp_path / "since.json"
    elsewhere = '{"1": ["up", 1], "zt0": ["192.0.2.0/24"]}'
    for text in ("", "[]", "{", '{"x": ["up", 1]}', '{"1": "up"}', '{"1": ["up"]}', '{"1": ["up", null]}', elsewhere):
        memory.write_text(text)
        assert Since(memory, lambda: 1.0).unix(1, 1.0) is None
    assert Since(tmp_path / "none" / "since.json", lambda: 1.0).note({1: "up"}) != []


def test_a_memory_that_cannot_be_written_is_told_and_tried_until_it_can(tmp_path: Path) -> None:
    memory = tmp_path / "none" / "since.json"
    since = Since(memory, lambda: 100.0)
    told = [f"{memory} cannot be written (No such file or directory)"]
    assert since.note({1: "up"}) == told and since.note({1: "up"}) == told
    memory.parent.mkdir()
    assert since.note({1: "up"}) == [] and Since(memory, lambda: 100.0).states() == {1: "up"}
    written = memory.stat().st_ino
    assert since.note({1: "up"}) == [] and memory.stat().st_ino == written


def test_prefixes_that_go_elsewhere_are_remembered(tmp_path: Path) -> None:
    memory = tmp_path / "since.json"
    since = Since(memory, lambda: 100.0)
    elsewhere = {"zt0": {"192.0.2.0/24": "the route 192.0.2.0/25 of another program (protocol static) is used instead"}}
    since.note({1: "up"}, {**elsewhere, "zt1": {}})
    again = Since(memory, lambda: 100.0)
    assert (again.states(), again.unrouted()) == ({1: "up"}, elsewhere)
    again.note({1: "up"}, {})
    assert Since(memory, lambda: 100.0).unrouted() == {}
