"""Compiled models as files and in the cache."""
