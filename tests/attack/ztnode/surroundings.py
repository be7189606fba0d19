"""What changes around a node: its files under it, and the machine's addresses and devices."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

from tests.engine.test_contract import NETWORK

from lab.process import run


class Files:
    """Somebody edits the home while the node runs, not always to the end."""

    def __init__(self, dice: random.Random, home: Path, good: Path) -> None:
        self._dice, self._home, self._good = dice, home, good
        self._spoiled: list[Path] = []
        self._names = [path.relative_to(good) for path in sorted(good.rglob("*")) if path.is_file() and "identity" not in path.name]

    def _settings(self) -> bytes:
        dice = self._dice
        physical = {
            f"{dice.randrange(256)}.0.0.0/{dice.randrange(40)}": dice.choice(
                [{"blacklist": True}, {"mtu": dice.randrange(20000), "trustedPathId": dice.randrange(-2, 9)}, 7]
            )
            for _ in range(dice.randrange(6))
        }
        physical["2001:db8::/32"] = {"blacklist": dice.random() < 0.5}
        virtual = {
            f"{dice.getrandbits(40):010x}": {"try": [f"198.51.100.{dice.randrange(256)}/{dice.randrange(70000)}", "x", 1]}
            for _ in range(dice.randrange(300))
        }
        names = ["eth", "lo", "", "z" * 40, "wg"]
        settings = {"primaryPort": dice.choice([9993, -1, "x"]), "bind": dice.choice([[], ["198.51.100.1"], ["203.0.113.9"], 5]),
                    "interfacePrefixBlacklist": dice.choice([["zt"], names, names * 200]), "interfaces": dice.choice([[], ["eth0"], ["eth1"]])}  # fmt: skip
        return json.dumps({"settings": settings, "physical": physical, "virtual": virtual}).encode()

    def step(self) -> int:
        """Change one file; more often than not the next turn puts it right, so that the link carries most of the time."""
        dice = self._dice
        if self._spoiled and dice.random() < 0.6:
            return self._repair(self._spoiled.pop())
        name = dice.choice([*self._names, Path("local.conf"), Path("local.conf"), Path(f"networks.d/{NETWORK}.conf")])
        path, content = self._home / name, (self._good / name).read_bytes()
        self._spoiled.append(name)
        match dice.randrange(9):
            case 0:
                content = content[: dice.randrange(len(content) + 1)]
            case 1:
                content = dice.randbytes(dice.randrange(5000))
            case 2:
                changed = bytearray(content)
                for _ in range(dice.randrange(1, 20)):
                    changed[dice.randrange(len(changed))] = dice.randrange(256)
                content = bytes(changed)
            case 3 if path.name == "local.conf":
                content = self._settings()
            case 4:
                content = content * dice.randrange(1, 2000)
            case 5:
                path.unlink(missing_ok=True)
                return 1
            case 6:
                path = self._home / "peers.d" / f"{dice.getrandbits(40):010x}.peer"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        return 1

    def _repair(self, name: Path) -> int:
        (self._home / name).write_bytes((self._good / name).read_bytes())
        return 1


class Devices:
    """Addresses come and go, and so do devices."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice

    def step(self) -> int:
        """Change one thing in the namespace that this runs in."""
        dice = self._dice
        chance, number = dice.random(), dice.randrange(10, 40)
        if chance < 0.3:
            self._ip("addr", dice.choice(["replace", "del"]), f"198.51.100.{number}/24", "dev", "eth0")
        elif chance < 0.5:
            self._ip("addr", dice.choice(["replace", "del"]), f"2001:db8::{number}/64", "dev", "eth0")
        elif chance < 0.6:
            more = ["type", "veth", "peer", "name", f"e{number}"] if chance < 0.55 else []
            self._ip("link", "add" if more else "del", f"d{number}", *more)
            if more:
                self._ip("link", "set", f"d{number}", "up")
                self._ip("addr", "add", f"203.0.113.{number}/24", "dev", f"d{number}")
        elif chance < 0.63:
            self._ip("link", "set", "eth0", "down")
            self._ip("link", "set", "eth0", "up")
        elif chance < 0.66:
            self._ip("addr", "del", "198.51.100.1/24", "dev", "eth0")
            self._ip("addr", "replace", "198.51.100.1/24", "dev", "eth0")
        elif taps := [
            line.split(":")[0].strip()
            for line in Path("/proc/thread-self/net/dev").read_text().splitlines()
            if line.strip().startswith("zt")
        ]:
            tap = dice.choice(taps)
            match dice.randrange(6):
                case 0:
                    self._ip("link", "del", tap)
                case 1:
                    self._ip("link", "set", tap, "down")
                case 2:
                    self._ip("link", "set", tap, "mtu", str(dice.choice([68, 1280, 1394, 9000])))
                case 3:
                    self._ip("addr", "replace", f"10.15.{number}.1/24", "dev", tap)
                case 4:
                    self._ip("maddr", "add", f"33:33:00:00:00:{number:02x}", "dev", tap)
                case _:
                    self._ip("link", "set", tap, "up")
        return 1

    @staticmethod
    def _ip(*arguments: str) -> None:
        run(["ip", *arguments], check=False)


class Traffic:
    """Frames through both TAPs all the time; addresses are set again where a TAP is new."""

    def __init__(self, dice: random.Random, number: int, lladdr: str) -> None:
        self._dice, self._own, self._other, self._lladdr = dice, f"10.14.0.{number}/30", f"10.14.0.{3 - number}", lladdr

    def step(self) -> int:
        """Set the address, then echo requests of any size for a moment."""
        run(["ip", "addr", "replace", self._own, "dev", "zt0p1"], check=False)
        run(["ip", "neigh", "replace", self._other, "lladdr", self._lladdr, "dev", "zt0p1"], check=False)
        size = str(self._dice.choice([0, 56, 1200, 1366, 4000, 20_000]))
        done = subprocess.run(
            ["ping", "-q", "-f", "-c", "400", "-w", "1", "-s", size, self._other], capture_output=True, text=True, check=False
        )
        return int(done.stdout.split(" received")[0].split()[-1]) if " received" in done.stdout else 0
