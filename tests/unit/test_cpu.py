"""Where instances run, on the boxes that people have."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.configuration import EXAMPLE, bundle
from zerotier_multi.box import isolated_cpus, read_topology
from zerotier_multi.box_checks import BoxFacts, check_on_box
from zerotier_multi.cpu import Cpu, format_cpu_list, parse_cpu_list, performance_cores, place, placement_order


def box(tmp_path: Path, online: str, siblings: dict[int, str] | None = None, **leaves: object) -> Path:
    """A /sys with CPUs: ``siblings`` per CPU, ``core``/``atom`` PMU lists, ``capacity``/``frequency`` per CPU."""
    cpus = tmp_path / "devices/system/cpu"
    cpus.mkdir(parents=True)
    (cpus / "online").write_text(online + "\n")
    for number in parse_cpu_list(online):
        topology = cpus / f"cpu{number}/topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text((siblings or {}).get(number, str(number)) + "\n")
        for key, leaf in (("capacity", "cpu_capacity"), ("frequency", "cpufreq/cpuinfo_max_freq")):
            if key in leaves:
                path = cpus / f"cpu{number}/{leaf}"
                path.parent.mkdir(exist_ok=True)
                path.write_text(f"{leaves[key][number]}\n")
    for name in ("core", "atom"):
        if name in leaves:
            pmu = tmp_path / f"devices/cpu_{name}"
            pmu.mkdir(parents=True)
            (pmu / "cpus").write_text(f"{leaves[name]}\n")
    return tmp_path


def pairs(last: int) -> dict[int, str]:
    """SMT siblings 0-1, 2-3, … up to ``last``."""
    return {n: f"{n & ~1}-{n | 1}" for n in range(last + 1)}


def test_gk41_four_equal_cores(tmp_path: Path) -> None:
    topology = read_topology(box(tmp_path, "0-3", frequency={n: 2700000 for n in range(4)}))
    assert performance_cores(topology) == 4
    assert placement_order(topology) == (1, 2, 3, 0)
    assert place(placement_order(topology), 3) == (1, 2, 3)  # CPU 0 is left alone while there are enough


def test_ms01_six_performance_cores_with_smt_and_eight_efficiency_cores(tmp_path: Path) -> None:
    topology = read_topology(box(tmp_path, "0-19", pairs(11), core="0-11", atom="12-19"))
    assert performance_cores(topology) == 6
    order = placement_order(topology)
    assert order[:6] == (2, 4, 6, 8, 10, 0)
    assert order[6:14] == tuple(range(12, 20))
    assert order[14:] == (3, 5, 7, 9, 11, 1)
    assert place(order, 8) == (2, 4, 6, 8, 10, 0, 12, 13)


def test_ms01_known_by_frequency_where_the_pmu_does_not_tell(tmp_path: Path) -> None:
    frequency = {n: 5400000 if n < 2 else 5200000 if n < 12 else 4100000 for n in range(20)}
    topology = read_topology(box(tmp_path, "0-19", pairs(11), frequency=frequency))
    assert [c.number for c in topology if c.efficiency] == list(range(12, 20))


def test_one_pmu_directory_alone_is_no_hybrid(tmp_path: Path) -> None:
    assert performance_cores(read_topology(box(tmp_path, "0-3", core="0-3"))) == 4


def test_two_core_virtual_machine_without_any_information(tmp_path: Path) -> None:
    topology = read_topology(box(tmp_path, "0-1"))
    assert placement_order(topology) == (1, 0)
    assert place(placement_order(topology), 4) == (1, 0, 1, 0)


def test_arm_big_little(tmp_path: Path) -> None:
    capacity = {0: 446, 1: 446, 2: 446, 3: 446, 4: 1024, 5: 1024}
    topology = read_topology(box(tmp_path, "0-5", capacity=capacity))
    assert performance_cores(topology) == 2
    assert placement_order(topology) == (4, 5, 1, 2, 3, 0)


def test_offline_cpus_do_not_count_and_leave_their_sibling_whole(tmp_path: Path) -> None:
    topology = read_topology(box(tmp_path, "0,3-5", {0: "0-1", 3: "2-3", 4: "4-5", 5: "4-5"}))
    assert topology == (Cpu(0, 0), Cpu(3, 3), Cpu(4, 4), Cpu(5, 4))
    assert performance_cores(topology) == 3
    assert placement_order(topology) == (3, 4, 0, 5)


def test_sixty_four_cores_with_smt(tmp_path: Path) -> None:
    siblings = {n: f"{n % 64},{n % 64 + 64}" for n in range(128)}
    topology = read_topology(box(tmp_path, "0-127", siblings))
    assert performance_cores(topology) == 64
    order = placement_order(topology)
    assert order[:64] == (*range(1, 64), 0)
    assert order[64:] == (*range(65, 128), 64)


def test_cpus_that_this_process_may_not_use_do_not_count(tmp_path: Path) -> None:
    assert [c.number for c in read_topology(box(tmp_path, "0-7"), allowed={2, 3, 9})] == [2, 3]


def test_a_second_bundle_goes_on_where_the_first_ended() -> None:
    assert place((1, 2, 3, 0), 2, offset=3) == (0, 1)


@pytest.mark.parametrize("text", ["", "a", "1-", "3-1", "1,,2", "-1", "1 2", "1-2-3"])
def test_what_is_no_cpu_list(text: str) -> None:
    with pytest.raises(ValueError):
        parse_cpu_list(text)


@pytest.mark.parametrize("text", ["0", "0-3", "0,2-3,8", "1-64"])
def test_cpu_lists_are_printed_as_they_are_read(text: str) -> None:
    assert format_cpu_list(parse_cpu_list(text)) == text


def test_isolated_cpus_are_there_for_who_is_pinned_to_them(tmp_path: Path) -> None:
    """init is kept off them, so this process may not run on them until it asks; a container may never."""
    mine = sorted(os.sched_getaffinity(0))
    root = box(tmp_path, f"{format_cpu_list(mine)},4000")
    assert isolated_cpus(root) == ()
    for told, wanted in (("", ()), (f"{mine[-1]}", (mine[-1],)), (f"{mine[-1]},4000,4001", (mine[-1],))):
        (root / "devices/system/cpu/isolated").write_text(f"{told}\n")
        assert isolated_cpus(root) == wanted
    assert sorted(os.sched_getaffinity(0)) == mine


def test_instances_may_be_pinned_to_isolated_cpus() -> None:
    affinity = bundle(f"{EXAMPLE}cpu affinity 4-7\n")
    topology = tuple(Cpu(n, n) for n in range(4))
    engines = {"ztnode": "/usr/sbin/ztnode"}
    (problem,) = check_on_box(affinity, BoxFacts(topology, engines))
    assert str(problem) == "interfaces zerotier zt0 cpu affinity 4-7: this router has no CPU 4-7; its CPUs are 0-3"
    assert check_on_box(affinity, BoxFacts(topology, engines, isolated=(4, 5, 6, 7))) == []
