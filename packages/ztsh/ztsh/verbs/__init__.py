"""The commands of conf mode: :mod:`table` has all of them, the other modules what they do."""
