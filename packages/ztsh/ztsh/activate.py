"""Bringing the router from the running configuration to another one, or not at all."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from ztsh import interrupted, places
from ztsh.check import failed
from ztsh.configuration import Config
from ztsh.errors import SessionError
from ztsh.interrupted import uninterrupted
from ztsh.schema import Node
from ztsh.scripts import Runner
from ztsh.store import Replacement, StoreError
from ztsh.tree import masked


def activate(schema: Node, running: Config, wanted: Config) -> None:
    """Run the scripts, then make ``wanted`` the running configuration; only under the lock.

    The new texts are written before the scripts run, so a full disk changes nothing. Raises :class:`SessionError`
    with the router as it was. Behind any other exception the texts stay where :mod:`ztsh.interrupted` finds them.
    """
    texts: list[Replacement] = []
    with uninterrupted():
        try:
            _bring(schema, running, wanted, texts)
        except SessionError:
            for text in texts:
                text.abandon()
            raise


def _bring(schema: Node, running: Config, wanted: Config, texts: list[Replacement]) -> None:
    runner = Runner(schema)
    ran = False
    try:
        texts.append(_public(schema, wanted))
        texts.append(_text(places.active_file(), wanted, schema, 0o640))
        runner.run(running.tree, wanted.tree, [config.tree for config in interrupted.configurations(schema)])
        ran = True
        for text in texts:  # the one that commits go by comes last
            text.finish()
        interrupted.forget()
    except StoreError as error:
        if ran:
            runner.run(wanted.tree, running.tree)
            with suppress(StoreError):  # it may be that of `wanted` already
                _public(schema, running).finish()
        raise SessionError(str(error), failed("commit")) from None


def verify(schema: Node, running: Config, wanted: Config) -> None:
    """Have the scripts verify ``wanted``, and change nothing; only under the lock. Raises :class:`SessionError`."""
    before = [config.tree for config in interrupted.configurations(schema)]
    Runner(schema).verify(running.tree, wanted.tree, before)


def _public(schema: Node, config: Config) -> Replacement:
    return _text(places.public_file(), Config(masked(config.tree, schema), config.comments), schema, 0o644)


def _text(path: Path, config: Config, schema: Node, mode: int) -> Replacement:
    return Replacement(path, config.text(schema).encode(), mode)
