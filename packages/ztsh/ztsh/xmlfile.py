"""The XML of definitions, as elements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lxml.etree import _Element as Element


class SchemaError(ValueError):
    """A definition that cannot be used; the text names the file and the node."""


def elements(directories: Iterable[Path]) -> Iterator[tuple[Path, Element]]:
    """The top elements of each file of each directory, with its file. Raises :class:`SchemaError`."""
    from lxml import etree  # slow to import, and the shell's first prompt needs no definitions

    parser = etree.XMLParser(remove_comments=True, resolve_entities=False)
    for directory in directories:
        for path in sorted([*directory.glob("*.xml"), *directory.glob("*.xml.in")]):
            try:
                root = etree.parse(str(path), parser).getroot()
            except (etree.XMLSyntaxError, OSError) as error:
                raise SchemaError(f"{path}: {error}") from None
            for element in root:
                yield path, element
