"""What the commands of conf mode work on: a session, and the edit level in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ztsh.check import failed
from ztsh.complete import Choices, help_text
from ztsh.errors import SessionError
from ztsh.schema import Node, find, steps
from ztsh.session import Session
from ztsh.tree import get
from ztsh.words import fitting


class Editor:
    """A session with an edit level.

    ``run_op`` runs a line of op mode and returns what is left to print. ``run_filters`` does so with a text and what follows
    a pipe; without it pipes are refused. ``via`` is what the archive says of the
    way a commit came, and ``isolated`` as in :func:`ztsh.access.ask`.
    """

    def __init__(
        self,
        session: Session,
        run_op: Callable[[str], str],
        run_filters: Callable[[str, str], str] | None = None,
        *,
        via: str = "cli",
        isolated: bool = False,
    ):
        self.session, self.run_op, self.run_filters, self.via, self.isolated = session, run_op, run_filters, via, isolated
        self.level: tuple[str, ...] = ()
        self.unsaved = False

    def below(self, verb: str, words: Sequence[str]) -> list[str]:
        """Words of a path below the edit level in full. Raises :class:`SessionError` for those that lead nowhere."""
        whole = [*self.level, *words]
        walked = list(steps(self.session.schema, whole, _choose))
        full = [step.word for step in walked][len(self.level) :]
        if len(walked) == len(whole):
            return full
        wrong = f"Configuration path: {''.join(f'{word} ' for word in full)}[{whole[len(walked)]}]"
        node = walked[-1].node if walked else self.session.schema
        names = fitting(node.children, whole[len(walked)])
        if not names:
            raise SessionError(f"{wrong} is not valid", failed(verb))
        choices = Choices(names, [("  ", name, node.children[name].help) for name in names])
        raise SessionError(
            f"{wrong} is ambiguous", "", help_text(choices, title="  Possible completions:").rstrip("\n"), failed(verb)
        )

    def path(self, verb: str, words: Sequence[str]) -> list[str]:
        """As :meth:`below`, with the edit level before it."""
        return [*self.level, *self.below(verb, words)]

    def up(self) -> None:
        """Go one level up."""
        step = find(self.session.schema, self.level)
        self.level = self.level[: -2 if step and step.is_value else -1]

    def stay(self) -> None:
        """Leave levels that no longer exist."""
        while self.level and get(self.session.candidate, self.level) is None:
            self.up()


def _choose(node: Node, word: str) -> Node | None:
    names = fitting(node.children, word)
    return node.children[names[0]] if len(names) == 1 else None
