"""Builds the live image of the Debian edition."""
