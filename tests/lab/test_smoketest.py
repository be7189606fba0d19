"""The smoketests as the packages install them, each on a router that has a bundle of its own; they mostly wait, so side by side."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lab import Lab, Router
from lab.scenario import example, processes
from lab.smoketest import PROGRAMS, as_user
from tests.lab.conftest import ENGINE


def test_the_installed_smoketests_pass_and_leave_the_router_as_it_was(lab: Lab) -> None:
    routers = lab.add_routers([f"R{number}" for number, _ in enumerate(PROGRAMS, start=1)])
    with ThreadPoolExecutor(len(PROGRAMS)) as side_by_side:
        list(side_by_side.map(passes, routers, PROGRAMS))  # a failure of any is raised here


def passes(router: Router, program: str) -> None:
    router.must_configure(example(router, [], 1, bundle=5, engine=Path(ENGINE).name))
    before = router.run(["ztsh", "show", "configuration"]).stdout
    done = router.run([*as_user(router), program], check=False, timeout=600)
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    ran = re.search(r"^Ran (\d+) tests? in ", output, re.MULTILINE)
    assert ran and int(ran[1]) > 0, output
    assert not re.search(r"\bskipped\b", output), output
    assert router.run(["ztsh", "show", "configuration"]).stdout == before
    router.wait(lambda: list(processes(router, 5)) == [1], what="its own bundle again")
