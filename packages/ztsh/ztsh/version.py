"""The version; the build of the package writes its own here."""

VERSION = "of a source tree"
