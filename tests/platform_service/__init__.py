"""Tests of the reference platform services and of their skeleton."""
