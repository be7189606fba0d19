"""Which programs of others a run builds before it measures."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from bench import needed
from bench.peers import PEERS, PROGRAMS
from bench.plan import load, only

BUILD = Path(__file__).parents[2] / "bench/peers/build"


def test_a_whole_run_needs_all_that_can_be_built_and_nothing_else():
    buildable = re.findall(r"^\t?\w+_peer (\S+)", BUILD.read_text(), re.MULTILINE)
    assert needed.programs(load()) == sorted(buildable)
    assert set(PROGRAMS) <= set(PEERS)


def test_a_part_needs_only_what_its_subjects_and_their_traffic_run():
    assert needed.programs(load(["evenness"])) == []
    assert needed.programs(only(load(["throughput"]), ["wireguard-go", "ours"])) == ["iperf2", "wg", "wireguard-go"]
    assert "headscale" not in needed.programs(load(quick=True))  # takes minutes to build


def test_it_prints_them(capsys):
    assert needed.main(["--scenarios", "forwarded", "--subjects", "OpenVPN"]) == 0
    assert capsys.readouterr().out == "openvpn\n"
    assert needed.main(["--scenarios", "evennes"]) == 1
    assert "there is no scenario evennes" in capsys.readouterr().err
    assert needed.main(["--scenarios", "evenness", "--subjects", "ztnod"]) == 1
    expected = "bench: subject ztnod is in none of the chosen scenarios; they have ztnode x 4\n"
    assert capsys.readouterr() == ("", expected)


def test_nothing_is_built_that_is_not_named(tmp_path):
    done = subprocess.run([BUILD, tmp_path], capture_output=True, text=True, check=True)
    assert done.stdout == done.stderr == ""
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]
