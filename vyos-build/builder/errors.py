"""What the programs of this package end with when they cannot go on."""


class BuildError(Exception):
    """One sentence: what is wrong, and what helps."""
