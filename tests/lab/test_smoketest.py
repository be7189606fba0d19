"""The smoketests as the packages install them, on a router that has a bundle of its own."""

from __future__ import annotations

import re
from pathlib import Path

from lab import Lab
from lab.scenario import example, processes
from lab.smoketest import PROGRAMS, as_user
from tests.lab.conftest import ENGINE


def test_the_installed_smoketests_pass_and_leave_the_router_as_it_was(lab: Lab) -> None:
    router = lab.add_router("R1")
    router.must_configure(example(router, [], 1, bundle=5, engine=Path(ENGINE).name))
    before = router.run(["ztsh", "show", "configuration"]).stdout
    user = as_user(router)
    for program in PROGRAMS:
        done = router.run([*user, program], check=False, timeout=600)
        output = done.stdout + done.stderr
        assert done.returncode == 0, output
        ran = re.search(r"^Ran (\d+) tests? in ", output, re.MULTILINE)
        assert ran and int(ran[1]) > 0, output
        assert not re.search(r"\bskipped\b", output), output
    assert router.run(["ztsh", "show", "configuration"]).stdout == before
    router.wait(lambda: list(processes(router, 5)) == [1], what="its own bundle again")
