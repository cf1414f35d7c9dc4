"""Tests of the reference platform services."""
