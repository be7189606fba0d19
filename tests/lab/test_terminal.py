"""A person at the router's shell: log in, configure with completion, commit, save, look, reboot, and all is back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab import Lab, Router
from lab.scenario import processes
from lab.terminal import Terminal

OP, CONF = "admin@R1:~$", "[edit]\nadmin@R1#"


@pytest.fixture(scope="module")
def router(lab: Lab) -> Router:
    made = lab.add_router("R1")
    made.run(["useradd", "--create-home", "--shell", "/usr/bin/ztsh", "--groups", "vyattacfg", "admin"])
    made.run(["useradd", "--create-home", "--shell", "/usr/bin/ztsh", "guest"])
    return made


@pytest.fixture
def admin(router: Router) -> Iterator[Terminal]:
    with Terminal(router, "admin") as terminal:
        terminal.wait(OP)
        yield terminal


def nodes(router: Router) -> list[str]:
    answer = router.json(["/usr/libexec/vyos/op_mode/zerotier.py", "show_instances", "--bundle", "zt0", "--raw"])
    return [entry["node"] for entry in answer["instances"]]


def test_the_example_from_login_to_reboot(router: Router, admin: Terminal) -> None:
    admin.press("conf", "<TAB>")
    admin.wait(f"{OP} configure")
    admin.press("<CR>")
    admin.wait(CONF)

    # Tab completes what is clear, and lists what is not.
    admin.press("set inter", "<TAB>", "zer", "<TAB>", "zt0 inst", "<TAB>")
    admin.wait("# set interfaces zerotier zt0 instance")
    admin.press("<TAB>")
    admin.wait_for("Possible completions:\n+> instance             Settings of one instance\n   instances ")
    admin.wait("# set interfaces zerotier zt0 instance")
    admin.press("s ?")
    admin.wait_for("   <1-32>               Number of instances\n   auto                 One per performance core")
    admin.wait("# set interfaces zerotier zt0 instances")
    admin.press("4", "<CR>")
    admin.wait(CONF)
    for line in (
        "set interfaces zerotier zt0 network-id 8056c2e21c000001",
        "set interfaces zerotier zt0 transit prefix 10.14.0.0/28",
        "set interfaces zerotier zt0 transit site 1",
        "set interfaces zerotier zt0 address 10.0.55.1/32",
        "set interfaces zerotier zt0 remote R2 prefix 10.0.55.2/32",
        "set interfaces zerotier zt0 controller-free",
    ):
        assert admin.line(line, CONF) == CONF
    assert "+         instances \"4\"" in admin.line("compare", CONF)
    assert "Cannot exit: configuration modified." in admin.line("exit", CONF)
    admin.line("commit", CONF)
    assert admin.line("save", CONF).startswith("Saving configuration to '/config/config.boot'...\nDone")
    admin.press("exit", "<CR>")
    admin.wait(OP)
    before = processes(router)
    assert sorted(before) == [1, 2, 3, 4]
    text = admin.line("show zerotier", OP)
    assert "zt0" in text and "4/4" in text
    assert max(len(line) for line in text.splitlines()) <= 80
    # The words before the question mark stay where they are.
    admin.press("show zer ?")
    admin.wait_for("\n  zt0\n")
    admin.wait(f"{OP} show zer")
    admin.press("<C-C>")
    identities = nodes(router)

    router.reboot()
    router.wait(lambda: sorted(processes(router)) == [1, 2, 3, 4], what="four instances after the reboot")
    assert nodes(router) == identities
    router.wait(lambda: "10.0.55.1/32" in router.run(["ip", "address", "show", "zt0"], check=False).stdout, what="loopback")
    assert "instances '4'" in router.run(["ztsh", "-c", "show configuration commands"]).stdout


def test_another_user_may_look_and_nothing_else(router: Router) -> None:
    with Terminal(router, "guest", width=200) as guest:
        prompt = "guest@R1:~$"
        refusal = "only members of the group vyattacfg may"
        assert "4/4" in guest.line("show zerotier", prompt)
        assert "zt0p1" in guest.line("show zerotier zt0 instances", prompt)
        assert f"user guest may not configure this router: {refusal}" in guest.line("configure", prompt)
        assert f"user guest may not do this: {refusal}" in guest.line("restart zerotier zt0", prompt)
        assert f"user guest may not do this: {refusal}" in guest.line("reset zerotier zt0 identity", prompt)
    for command in (
        ["sudo", "-n", "/usr/libexec/ztsh/authority"],
        ["sudo", "-n", "/usr/libexec/vyos/op_mode/zerotier.py", "reset_identity", "--bundle", "zt0", "--no-prompt"],
        ["sudo", "-n", "/usr/libexec/vyos/op_mode/zerotier.py", "generate_identity"],
        ["ztsh", "cfg", "begin"],
        ["cat", "/run/ztsh/active.boot"],
        ["sh", "-c", "cat /config/config.boot /config/archive/* /config/zerotier-multi/zt0/1/identity.secret"],
    ):
        done = router.run(["setpriv", "--reuid", "guest", "--regid", "guest", "--init-groups", *command], check=False)
        assert done.returncode != 0 and "begin" not in done.stdout, command
        assert "Traceback" not in done.stderr, done.stderr


def test_nothing_that_is_shown_to_everybody_is_secret(router: Router) -> None:
    homes = "/config/zerotier-multi/zt0/*"
    secrets = router.run(
        ["sh", "-c", f"sed 's/.*://; a\\' {homes}/identity.secret; for f in {homes}/authtoken.secret; do cat $f; echo; done"]
    ).stdout.split()
    assert len(secrets) == 8
    shown = ""
    views = ["", "instances", "paths", "routes", "balance", "plan", "identity"]
    for command in [
        *(f"show zerotier zt0 {view}" for view in views),
        "show zerotier",
        "show interfaces zerotier detail",
        "show configuration",
    ]:
        done = router.run(["su", "-", "guest", "-c", command], check=False)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        shown += done.stdout
    shown += router.run(["ps", "axww"]).stdout + router.journal()
    assert not [s for s in secrets if s in shown]


def test_commit_confirm_goes_back_by_itself(router: Router) -> None:
    description = "show interfaces zerotier zt0 description"

    def script(*lines: str) -> str:
        done = router.run(["ztsh", "script", "-"], text_input="\n".join(lines), check=False)
        return done.stdout + done.stderr

    assert "Initialized commit-confirm; 1 minutes" in script(
        "set interfaces zerotier zt0 description 'locked out'", "commit-confirm 1"
    )
    assert " description \"locked out\"" in script(description)
    assert "Another confirm is pending" in script("set interfaces zerotier zt0 mtu 1400", "commit-confirm 1")
    # The end of the minute comes early; what it starts is what runs then.
    router.run(["systemctl", "start", "ztsh-commit-confirm.service"])
    router.wait(lambda: "empty" in script(description), what="the configuration from before")
    assert "mtu" not in router.run(["ztsh", "-c", "show configuration"]).stdout
    router.run(["systemctl", "stop", "ztsh-commit-confirm.timer"], check=False)
    script("set interfaces zerotier zt0 description kept", "commit-confirm 1")
    assert script("confirm") == "Reload timer stopped\n"
    assert script("confirm") == "No confirm pending\n"
    assert router.run(["systemctl", "is-active", "ztsh-commit-confirm.timer"], check=False).stdout == "inactive\n"
    assert script("compare 0 1") == '[interfaces zerotier zt0]\n+ description "kept"\n'


def test_the_power_goes_while_commits_are_made(router: Router) -> None:
    """Whatever was saved last is whole; the archive and the configuration can be read after the cut."""
    loop = "for n in $(seq 1280 1400); do printf 'set interfaces zerotier zt0 mtu %s\\ncommit\\nsave\\n' $n | ztsh script -; done"
    writer = router.popen(["bash", "-c", loop])
    router.wait(lambda: "mtu" in router.run(["cat", "/config/config.boot"]).stdout, what="a first saved MTU")
    router.kill()
    writer.kill()
    router.start()
    router.wait_boot()
    assert "mtu '1" in router.run(["ztsh", "-c", "show configuration commands"]).stdout
    assert "by root via" in router.run(["ztsh", "-c", "show system commit"]).stdout
    router.must_configure("delete interfaces zerotier zt0 mtu")
