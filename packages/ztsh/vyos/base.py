"""Messages of conf scripts."""

import textwrap


def Warning(message, **kwargs):  # noqa: N802 - VyOS's name
    """Print a warning as VyOS does; ``kwargs`` are textwrap's."""
    layout = {'width': 72, 'break_long_words': False, 'break_on_hyphens': False, **kwargs}
    print('\n' + textwrap.fill(f'WARNING: {message}', **layout))
