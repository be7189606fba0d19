"""The configuration system of the Debian edition: VyOS's syntax over the installed interface definitions.

From the ground up:

- definitions: :mod:`schema` and :mod:`opschema` read them from :mod:`xmlfile`, :mod:`values` and :mod:`check` apply them;
- configurations: :mod:`tree`, their texts in :mod:`text`, both in :mod:`configuration`; :mod:`differences`, :mod:`changes`;
- editing: :mod:`session` has the candidate, :mod:`editor` the edit level, :mod:`verbs` the commands, :mod:`confmode` lines;
- committing, as root: :mod:`access` to :mod:`server` to :mod:`authority`; :mod:`lock`, :mod:`activate`, :mod:`scripts`,
  :mod:`confirm`, :mod:`boot`, :mod:`archive`;
- at the prompt: :mod:`shell`, :mod:`opmode`, :mod:`complete`, :mod:`showconfig`; for scripts :mod:`wrapper`.
"""
