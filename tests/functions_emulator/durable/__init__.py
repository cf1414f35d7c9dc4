"""Tests of the durable engine; most drive it without sockets, on a manual clock."""
