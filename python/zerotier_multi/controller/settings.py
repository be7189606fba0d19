"""What is configured of a controller, and what it cannot be; pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from zerotier_multi.errors import Problem

CENTRAL, CENTRAL_LEGACY, ZEROTIER_ONE, ZTNET = "central", "central-legacy", "zerotier-one", "ztnet"
KINDS = (CENTRAL, CENTRAL_LEGACY, ZEROTIER_ONE, ZTNET)

# Where the hosted ones are: https://docs.zerotier.com/openapi/central/v2.yaml and v1.json.
HOSTED = {CENTRAL: "https://central.zerotier.com", CENTRAL_LEGACY: "https://api.zerotier.com"}
# What comes before "/network" where the URL has no path of its own.
BASE_PATH = {CENTRAL: "/api/v2", CENTRAL_LEGACY: "/api/v1", ZEROTIER_ONE: "/controller", ZTNET: "/api/v1"}

_KEY = re.compile(r"[!-~]{1,1024}")  # it becomes a header of HTTP


@dataclass(frozen=True)
class Settings:
    """The node ``controller``. ``kind`` None: no type is set."""

    kind: str | None = None
    url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    authorize: bool = False
    assign_addresses: bool = False
    ca_certificate: str | None = None
    insecure: bool = False


@dataclass(frozen=True)
class Place:
    """A URL in parts."""

    secure: bool
    host: str
    port: int
    path: str  # what comes before "/network"

    @property
    def is_local(self) -> bool:
        """Whether it is this router itself; IPv4 alone, where the kernel can be asked whose port it is."""
        if self.host == "localhost":
            return True
        try:
            address = ipaddress.ip_address(self.host)
        except ValueError:
            return False
        return address.version == 4 and address.is_loopback


def place(kind: str, url: str | None) -> Place:
    """Where the API of a controller is. Raises ValueError for a URL that is no good."""
    parts = urlsplit(url or HOSTED.get(kind, ""))
    secure = parts.scheme == "https"
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError(url)
    if not re.fullmatch(r"[a-zA-Z0-9._:-]+", parts.hostname) or not re.fullmatch(r"[-a-zA-Z0-9._~/]*", parts.path):
        raise ValueError(url)
    path = parts.path.rstrip("/") or BASE_PATH[kind]
    return Place(secure, parts.hostname, parts.port or (443 if secure else 80), path)


def is_key(text: str) -> bool:
    """Whether a text can be an API key."""
    return bool(_KEY.fullmatch(text))


def problems(path: str, settings: Settings | None, controller_free: bool) -> Iterable[Problem]:
    """What a configuration of a controller cannot be; ``path`` is that of its bundle."""
    if settings is None:
        return
    base = f"{path} controller"
    if controller_free:
        yield Problem(base, "has no use in controller-free mode; delete controller or controller-free")
        return
    if settings.kind is None:
        yield Problem(f"{base} type", f"is missing; set {', '.join(KINDS[:-1])} or {KINDS[-1]}")
        return
    if settings.api_key is None:
        yield Problem(f"{base} api-key", "is missing; set a key of the controller's API")
    if settings.url is None and settings.kind not in HOSTED:
        yield Problem(f"{base} url", "is missing; set the address of the controller's API, such as https://controller.example.org")
        return
    if settings.assign_addresses and settings.kind == ZTNET:
        yield Problem(f"{base} assign-addresses", "cannot be done, because the API of ZTNET sets no addresses; set them there")
    at = place(settings.kind, settings.url)
    if not at.secure and not at.is_local and not settings.insecure:
        yield Problem(
            f"{base} url {settings.url}",
            "would send the API key readable over the network; use https, http to 127.0.0.1 or localhost, or set controller insecure",
        )
    if settings.ca_certificate and settings.insecure:
        yield Problem(f"{base} insecure", "conflicts with ca-certificate; delete one of them")


def warnings(settings: Settings | None) -> Iterable[str]:
    """What a user should know, below the path of the bundle."""
    if settings and settings.insecure:
        yield "controller insecure: whoever is on the way to the controller can read the API key and change its answers"
    if settings and not settings.authorize:
        yield "controller: its members are named but not authorized; set controller authorize"
