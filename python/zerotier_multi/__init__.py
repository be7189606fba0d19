"""ZeroTier over many cores: what a bundle of ``zerotier-one`` processes is and how it gets onto a router.

Nouns are pure (:mod:`bundle`, :mod:`plan`, :mod:`cpu`, :mod:`transit`, :mod:`identity`, :mod:`planet`,
:mod:`homefiles`); verbs touch the box through one door each (:mod:`box`, :mod:`systemd`, :mod:`engine`,
:mod:`ztapi`, :mod:`pathd`). Nothing here imports VyOS code.
"""
