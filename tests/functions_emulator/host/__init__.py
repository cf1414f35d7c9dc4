"""Tests of the Functions host: its parts, and the whole as a program over real HTTP."""
