"""Messages of conf scripts."""

import textwrap


def Warning(message):  # noqa: A001, N802 - VyOS's name
    """Print a warning as VyOS does."""
    print('\n' + textwrap.fill(f'WARNING: {message}', width=72, break_long_words=False, break_on_hyphens=False))
