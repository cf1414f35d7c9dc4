"""Tests of the Functions host: its modules, and the whole as a process over real HTTP."""
