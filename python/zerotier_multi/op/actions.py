"""What op mode changes: instances are restarted one after the other, identities are made and deleted."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from zerotier_multi import box, names, systemd, turn
from zerotier_multi.commit import CommitError, NotNow, between, renew
from zerotier_multi.engine import IdentityError, generate_identity
from zerotier_multi.engine_choice import RECENT, ZTNODE
from zerotier_multi.files import is_running, sync
from zerotier_multi.homes import keep_secrets, own_identity
from zerotier_multi.importing.home import controlled
from zerotier_multi.op.data import SCHEMA
from zerotier_multi.op.errors import Unavailable
from zerotier_multi.op.gather import ask_instance, enabled_plan_of, instance_of, require_root, silence_of_pathd
from zerotier_multi.op.peer import SILENCE, SILENCE_ROOTS, live_address
from zerotier_multi.pathd.control import PathdError
from zerotier_multi.plan import InstancePlan, Plan
from zerotier_multi.restarts import IsBack, drain, one_by_one, paths_up, wait
from zerotier_multi.netlink.rtnl import Rtnl

_HOME = ".zerotier-identity."  # of an identity that belongs to no instance; the number of the process follows
PATIENCE = 40.0  # seconds until an instance that was restarted must carry traffic again

Say = Callable[[str], None]


def _tell(sentence: str) -> None:
    print(sentence, flush=True)


def _chosen(plan: Plan, number: str | None) -> Sequence[InstancePlan]:
    return plan.instances if number is None else [instance_of(plan, number)]


# -- restart


def restart(bundle: str, number: str | None, say: Say = _tell) -> None:
    """Restart all instances of a bundle, or one; each is back before the next one goes.

    A commit goes between two of them, never while one is away: it could take down the others at that moment. Raises
    :class:`Unavailable` when one does not come back or its program is gone, or a commit has changed the bundle; those after it are
    left as they are.
    """
    require_root()
    plan = enabled_plan_of(bundle)

    def restart_one(instance: InstancePlan) -> None:
        name = f"{bundle}/{instance.number}"
        if not os.access(instance.engine, os.X_OK):
            raise Unavailable(
                f"{name} was not restarted, because it could not start again: {instance.engine} is not installed; "
                f"install the package {Path(instance.engine).name}"
            )
        try:
            say(restart_notice(name, instance.number, paths_up(bundle)))
            drain([instance])
            for sentence in keep_secrets(Path(instance.home), running=False):
                say(sentence)
            systemd.start_again([instance.unit], wait=True)
        except PathdError as error:
            raise Unavailable(f"{name} was not restarted: {silence_of_pathd(error)}") from None
        except (systemd.SystemdError, OSError) as error:
            raise Unavailable(f"{name} was not restarted: {error}") from None

    for place, instance in enumerate(_chosen(plan, number)):
        name = f"{bundle}/{instance.number}"
        if place:
            time.sleep(turn.GAP)
        with ExitStack() as held:
            try:
                waits = partial(say, f"{name} restarts when a commit or another command is done.")
                held.enter_context(between({bundle: plan}, waits))
            except (NotNow, OSError) as reason:
                raise Unavailable(f"{name} was not restarted: {reason}") from None
            ((_, seconds),) = one_by_one([instance], lambda i: _watch(plan, i), restart_one, PATIENCE)
        if seconds is None:
            raise Unavailable(
                f"{name} carried no traffic within {PATIENCE:.0f} s after its restart, so no other instance was restarted; "
                f"see: journalctl -u {instance.unit}"
            )
        say(f"{name} is back after {seconds:.1f} s.")


def restart_notice(name: str, number: int, up: Mapping[int, Set[tuple[str, int]]]) -> str:
    """What the restart of an instance means for traffic; ``up`` is what :func:`paths_up` gives."""
    own = up.get(number, set())
    alone = own - {path for k, paths in up.items() if k != number for path in paths}
    if not own:
        return f"{name} restarts."
    if not alone:
        return f"{name} restarts; its flows move to the other paths."
    left = {remote for remote, _family in own - alone}
    lost = sorted({f"{remote} (IPv{family})" if remote in left else remote for remote, family in alone})
    moves = "its flows move to the other paths, but " if alone != own else ""
    return f"{name} restarts; {moves}traffic to {', '.join(lost)} stops until it is back, because no other path there is up."


def _wait(look: Callable[[], bool]) -> bool:
    return wait(look, PATIENCE)


def _device_index(instance: InstancePlan) -> int | None:
    with Rtnl() as rtnl:
        link = rtnl.links().get(instance.device)
    return link.index if link else None


def _paths_up(plan: Plan, instance: InstancePlan) -> set[tuple[str, int]]:
    """Paths of an instance that carry traffic. Raises :class:`Unavailable` when the daemon does not answer."""
    try:
        return paths_up(plan.bundle).get(instance.number, set())
    except PathdError as error:
        raise Unavailable(f"no instance can be restarted without interruption: {silence_of_pathd(error)}") from None


def _live_peers(plan: Plan, instance: InstancePlan) -> set[str]:
    """Nodes that an instance has heard of lately."""
    limit = SILENCE_ROOTS if plan.controller_free else SILENCE
    peers = ask_instance(instance).peers or ()
    return {str(peer.get("address")) for peer in peers if live_address(peer, limit, time.time())}


def _watch(plan: Plan, instance: InstancePlan) -> IsBack:
    """What tells that an instance is back: its device is a new one, and its paths and the configured peers work again."""
    known = {p.identity.partition(":")[0] for p in plan.peers if p.instance == instance.number}
    index, paths, peers = _device_index(instance), _paths_up(plan, instance), _live_peers(plan, instance) & known

    def is_back() -> bool:
        now = _device_index(instance)
        return now not in (None, index) and paths <= _paths_up(plan, instance) and peers <= _live_peers(plan, instance)

    return is_back


# -- identities


def reset_identity(bundle: str, number: str | None, no_prompt: bool, say: Say = _tell) -> None:
    """Delete identities and start the instances with new ones, after a yes.

    Raises :class:`Unavailable`, with nothing changed where nobody answers, or another command or a commit was faster than the yes.
    """
    require_root()
    plan = enabled_plan_of(bundle)
    having = [(i, node) for i in _chosen(plan, number) if (node := _node(i))]
    if not having:
        raise Unavailable(f"{bundle} has no identity to delete")
    if fixed := [i for i, _node in having if i.identity]:
        raise Unavailable(
            f"{bundle}/{fixed[0].number} has its identity from the configuration; "
            f"delete interfaces zerotier {bundle} instance {fixed[0].number} identity first"
        )
    for instance, node in having:
        say(f"{bundle}/{instance.number} loses its identity, node {node}, for good.")
        if networks := controlled(Path(instance.home), node):
            say(
                f"It is the controller of {', '.join(networks)}, and such a network ends with its node: "
                "all its members need another network."
            )
    say(
        f"The other routers need the new lines of: show zerotier {bundle} identity\n"
        f"Until they have these lines, these instances carry no traffic."
        if plan.controller_free
        else "Authorize the new nodes on the controller of the network.\nUntil then these instances carry no traffic."
    )
    if not no_prompt and not _yes("Delete the identities? [y/N] ", say):
        say("Nothing was changed.")
        return
    _replace_identities(plan, having)
    for instance, node in having:
        if not _wait(lambda i=instance, old=node: _node(i) not in (None, old)):
            raise Unavailable(f"{bundle}/{instance.number} has no new identity yet; see: journalctl -u {instance.unit}")
        say(f"{bundle}/{instance.number} is node {_node(instance)} now.")


def _node(instance: InstancePlan) -> str | None:
    try:
        identity = own_identity(Path(instance.home))
    except (OSError, ValueError):
        return "unreadable"
    return identity.address if identity else None


def _yes(question: str, say: Say) -> bool:
    """Whether somebody says so. Raises :class:`Unavailable` where nobody answers, KeyboardInterrupt for Ctrl-C."""
    try:
        return input(question).strip().lower() in ("y", "yes")
    except EOFError:
        print()
        raise Unavailable("nobody answered, so nothing was changed; type y, or pass it on the standard input") from None
    except KeyboardInterrupt:
        print()
        say("Nothing was changed.")
        raise


def _replace_identities(plan: Plan, having: Sequence[tuple[InstancePlan, str]]) -> None:
    """Stop, delete, and let the commit's own steps make and start everything anew; each instance with the node it had."""

    def delete() -> None:
        if changed := [i for i, node in having if _node(i) != node]:
            raise NotNow.overtaken(f"{plan.bundle}/{changed[0].number}")
        instances = [instance for instance, _ in having]
        try:
            drain(instances)
        except PathdError:
            pass  # the instances stop all the same; the commit's steps start the daemon
        systemd.stop(*(i.unit for i in instances))
        for instance in instances:
            home = Path(instance.home)
            for name in ("identity.secret", "identity.public"):
                (home / name).unlink(missing_ok=True)
            sync(home)

    try:
        renew({plan.bundle: plan}, delete)
    except NotNow as reason:
        raise Unavailable(str(reason)) from None
    except (systemd.SystemdError, CommitError, OSError) as error:
        raise Unavailable(f"the identities of {plan.bundle} could not all be replaced: {error}") from None


def new_identity() -> dict[str, Any]:
    """Make an identity that belongs to no instance yet. The secret is never on a disk, only in memory.

    Raises :class:`NotAllowed` for anybody but root, :class:`Unavailable` without an engine.
    """
    require_root()
    engines = box.find_engines()
    if not engines:
        raise Unavailable(f"no engine is installed to create an identity; install {ZTNODE} or {RECENT}")
    program = next(iter(engines.values()))
    places = names.RUN_DIR.parent
    for left in places.glob(f"{_HOME}*"):  # of one that was killed
        if (pid := left.name.removeprefix(_HOME).partition(".")[0]).isdecimal() and not is_running(int(pid)):
            shutil.rmtree(left, ignore_errors=True)
    with ends_in_order(), tempfile.TemporaryDirectory(prefix=f"{_HOME}{os.getpid()}.", dir=places) as home:
        try:
            public = generate_identity(program, Path(home))
            secret = (Path(home) / "identity.secret").read_text("ascii").strip()
        except (IdentityError, OSError, ValueError) as error:
            raise Unavailable(str(error)) from None
    return {"schema": SCHEMA, "node": public.address, "public": str(public), "secret": secret}


@contextmanager
def ends_in_order() -> Iterator[None]:
    """TERM and HUP end the program by way of its cleaning up."""

    def leave(number: int, _frame: FrameType | None) -> None:
        sys.exit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def identity_text(data: dict[str, Any]) -> str:
    """A new identity for a person to keep."""
    return "\n".join(
        [
            f"Node: {data['node']}",
            f"Public identity, for the other routers:\n{data['public']}",
            f"Secret identity, for interfaces zerotier ztN instance K identity secret alone:\n{data['secret']}",
        ]
    )
