"""Stress tests that are too long for every commit: fuzzing, kills, and hostile clients."""
