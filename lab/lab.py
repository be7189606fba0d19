"""A lab: its underlay, its routers, its record on disk, and the sweeping of labs whose owner is dead."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType

from lab import cgroups, rootfs
from lab.host import check_host
from lab.process import LabError, children, run
from lab.router import Router
from lab.underlay import Underlay

RECORDS = Path("/run/zerotier-multi-lab")
FILES = Path("/var/tmp/zerotier-multi-lab")


def start_time(pid: int) -> str | None:
    """When a process was started, in the kernel's ticks; None when there is none. With the pid it is unique."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None


def _alive(record: Path) -> bool:
    try:
        owner = json.loads(record.read_text())
        return start_time(owner["pid"]) == owner["start"]
    except (OSError, ValueError, KeyError):
        return False


def labs() -> dict[str, bool]:
    """Names of all labs on this machine, and whether their owners live."""
    return {path.stem: _alive(path) for path in sorted(RECORDS.glob("*.json"))}


def sweep() -> list[str]:
    """Take away what labs of dead owners have left; returns their names. Living labs are not touched."""
    gone = [name for name, alive in labs().items() if not alive]
    for name in gone:
        destroy(name)
    return gone


def reason(error: Exception) -> str:
    """What to tell of an error that ends a program."""
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return f"the disk is full; a lab writes to {rootfs.cache_dir()} (ZTM_CACHE) and {FILES}"
    return str(error)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it has ended


def destroy(name: str) -> None:
    """Take away everything of a lab by its name."""
    directory = FILES / name
    for pidfile in directory.glob("*/pid"):
        pid = int(pidfile.read_text() or 0)
        command = Path(f"/proc/{pid}/cmdline")
        # Only while it still is the systemd-nspawn of this very lab.
        if pid and command.exists() and str(directory).encode() in command.read_bytes():
            for victim in [*children(pid), pid]:
                _kill(victim)
    for mount in directory.glob("*/root"):
        run(["umount", "--lazy", str(mount)], check=False)
    for namespace in run(["ip", "netns", "list"]).stdout.split("\n"):
        word = namespace.split(" ")[0]
        if word == f"ztl-{name}" or word.startswith(f"ztl-{name}-"):
            # Programs on the underlay, such as tcpdump or a relay of frames, outlive an owner that is killed.
            for left in run(["ip", "netns", "pids", word], check=False).stdout.split():
                _kill(int(left))
            run(["ip", "netns", "del", word], check=False)
            cgroups.remove(word)
    shutil.rmtree(directory, ignore_errors=True)
    (RECORDS / f"{name}.json").unlink(missing_ok=True)


class Lab:
    """Routers on an underlay. ``debs`` are our packages; ``name`` is made up unless given.

    ``programs`` are files of this machine that every router gets besides: path inside -> path here.
    """

    def __init__(
        self, debs: Iterable[Path | str] = (), name: str | None = None, programs: Mapping[str, Path] | None = None
    ) -> None:
        check_host()
        self.name = f"p{os.getpid()}" if name is None else name
        # It becomes a part of paths, and what it begins is taken away by it.
        if not re.fullmatch("[A-Za-z0-9]{1,32}", self.name):
            raise LabError(f"{self.name!r} is no name for a lab; use letters and digits, 32 at most")
        self._debs = [Path(deb) for deb in debs]
        for deb in self._debs:
            if not deb.is_file():
                raise LabError(f"there is no package {deb}; build the packages with: make debs")
        sweep()
        self._programs = dict(programs or {})
        self.routers: dict[str, Router] = {}
        self._handlers: dict[int, object] = {}
        self._record = RECORDS / f"{self.name}.json"
        RECORDS.mkdir(parents=True, exist_ok=True)
        try:
            self._register()
        except FileExistsError:
            raise LabError(f"a lab named {self.name} is running already; choose another name") from None
        try:
            self._layers = rootfs.with_packages(self._debs)
            self.underlay = Underlay(f"ztl-{self.name}")
        except BaseException:
            destroy(self.name)
            raise

    def _register(self) -> None:
        """Write the record. It is whole as soon as it is there: a lab without an owner is swept by any other that begins."""
        whole = RECORDS / f".{self.name}.{os.getpid()}"
        whole.write_text(json.dumps({"pid": os.getpid(), "start": start_time(os.getpid())}))
        try:
            os.link(whole, self._record)
        finally:
            whole.unlink()

    def another(self, suffix: str) -> Lab:
        """A second lab beside this one, with the same packages and programs and an underlay of its own."""
        return Lab(self._debs, f"{self.name}{suffix}", self._programs)

    def __enter__(self) -> Lab:
        def leave(number: int, _frame: FrameType | None) -> None:
            raise SystemExit(128 + number)

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            try:
                self._handlers[number] = signal.signal(number, leave)
            except ValueError:  # not the main thread: its owner has to look after signals
                break
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is not None and os.environ.get("ZTM_LAB_LOGS"):
            for router in self.routers.values():
                print(f"--- {router.name}\n{router.console()}", file=sys.stderr)
        self.close()

    def close(self) -> None:
        """Take everything away."""
        for router in self.routers.values():
            try:
                router.close()
            except Exception as error:  # the others have to go all the same
                print(f"lab {self.name}: {error}", file=sys.stderr)
        self.underlay.close()
        destroy(self.name)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def add_routers(self, names: Sequence[str]) -> list[Router]:
        """Start routers side by side and wait until all have booted."""
        made = []
        for name in names:
            number = len(self.routers) + 1
            files = FILES / self.name / name
            for inside, here in self._programs.items():
                target = files / "upper" / inside.lstrip("/")
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(here, target)
            router = Router(name, number, self._layers, files, f"ztl-{self.name}-{number}", self.underlay)
            self.routers[name] = router
            made.append(router)
            router.start()
        for router in made:
            router.wait_boot()
        return made

    def add_router(self, name: str) -> Router:
        """Start one router and wait until it has booted."""
        return self.add_routers([name])[0]
