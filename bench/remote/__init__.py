"""The benchmark between two real boxes with a bundle between them: ``python3 -m bench.remote``."""
