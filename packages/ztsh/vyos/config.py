"""``Config``: how a conf script reads the proposed and the running configuration."""

from ztsh import tree as _tree
from ztsh.proposal import current
from ztsh.schema import find


class Config:
    """Reads of the session's configuration; ``path`` is a list, or words separated by spaces."""

    def __init__(self, session_env=None, config_source=None):
        self._proposal = current()
        self._level = []

    def set_level(self, path):
        """Set the path that others are relative to."""
        self._level = self._words(path)

    def get_level(self):
        """The path that others are relative to."""
        return list(self._level)

    @staticmethod
    def _words(path):
        return path.split() if isinstance(path, str) else list(path)

    def _path(self, path):
        return self._level + self._words(path)

    def _definition(self, path):
        """The node that a path without a leaf's value leads to, and whether it ends in a tag value."""
        step = find(self._proposal.schema, path)
        if step is None or (step.is_value and step.node.kind == 'leaf'):
            return None, False
        return step.node, step.is_value

    def _tree(self, effective):
        return self._proposal.running if effective else self._proposal.proposed

    def exists(self, path):
        """Whether a path is in the proposed configuration."""
        return _tree.exists(self._tree(effective=False), self._path(path))

    def exists_effective(self, path):
        """Whether a path is in the running configuration."""
        return _tree.exists(self._tree(effective=True), self._path(path))

    def is_tag(self, path):
        """Whether a path leads to a tag node."""
        node, inside = self._definition(self._path(path))
        return node is not None and node.kind == 'tag' and not inside

    def is_leaf(self, path):
        """Whether a path leads to a leaf."""
        node, _ = self._definition(self._path(path))
        return node is not None and node.kind == 'leaf'

    def is_multi(self, path):
        """Whether a path leads to a leaf with several values."""
        node, _ = self._definition(self._path(path))
        return node is not None and node.kind == 'leaf' and node.multi

    def _values(self, path, default, effective):
        found = _tree.get(self._tree(effective), self._path(path))
        return list(found) if isinstance(found, list) and found else default

    def return_values(self, path, default=()):
        """Values of a leaf, [] or the default where it has none."""
        return self._values(path, list(default), effective=False)

    def return_value(self, path, default=None):
        """Value of a leaf, or the default."""
        return self._values(path, [default], effective=False)[0]

    def return_effective_value(self, path, default=None):
        """Value of a leaf in the running configuration."""
        return self._values(path, [default], effective=True)[0]

    def return_effective_values(self, path, default=()):
        """Values of a leaf in the running configuration."""
        return self._values(path, list(default), effective=True)

    def _nodes(self, path, default, effective):
        found = _tree.get(self._tree(effective), self._path(path))
        return list(found) if isinstance(found, dict) else list(default)

    def list_nodes(self, path, default=()):
        """Names below a node, or the values of a tag node."""
        return self._nodes(path, default, effective=False)

    def list_effective_nodes(self, path, default=()):
        """Names below a node of the running configuration."""
        return self._nodes(path, default, effective=True)

    def get_config_dict(
        self,
        path=(),
        effective=False,
        key_mangling=None,
        get_first_key=False,
        no_multi_convert=False,
        no_tag_node_value_mangle=False,
        with_defaults=False,
        with_recursive_defaults=False,
        with_pki=False,
    ):
        """A part of the configuration as nested dicts.

        Leaves are strings, those with several values lists, those without values {}. ``get_first_key`` leaves
        out the last word of the path as the outermost key.
        """
        words = self._path(path)
        node, inside = self._definition(words)
        found = _tree.get(self._tree(effective), words)
        shape = _Shape(key_mangling, no_tag_node_value_mangle, no_multi_convert)
        if node is None:
            return {}
        if node.kind == 'leaf':
            value = shape.leaf(node, found) if found is not None else {}
            return value if get_first_key else {shape.key(words[-1]): value}
        wants_defaults = (with_defaults or with_recursive_defaults) and (node.kind == 'node' or inside or found)
        if wants_defaults:
            found = _filled(found or {}, node, inside)
        as_tag = node.kind == 'tag' and not inside
        result = shape.tag(node, found or {}) if as_tag else shape.node(node, found or {})
        if get_first_key or not words:
            return result
        return {shape.key(words[-1]): result} if found is not None else {}


def _filled(found, node, inside):
    if node.kind == 'tag' and not inside:
        return {tag: _tree.with_defaults(below, node) for tag, below in found.items()}
    return _tree.with_defaults(found, node)


class _Shape:
    def __init__(self, mangling, keep_tags, keep_multi):
        self._mangling, self._keep_tags, self._keep_multi = mangling, keep_tags, keep_multi

    def key(self, name):
        return name.replace(*self._mangling) if self._mangling else name

    def leaf(self, node, values):
        if node.valueless:
            return {}
        if node.multi:
            return values[0] if self._keep_multi and len(values) == 1 else list(values)
        return values[0] if values else {}

    def tag(self, node, found):
        return {t if self._keep_tags else self.key(t): self.node(node, below) for t, below in found.items()}

    def node(self, node, found):
        result = {}
        for name, below in found.items():
            child = node.children[name]
            convert = {'leaf': self.leaf, 'tag': self.tag, 'node': self.node}[child.kind]
            result[self.key(name)] = convert(child, below)
        return result
