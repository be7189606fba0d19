"""Probes over every path, and what follows from their answers."""
