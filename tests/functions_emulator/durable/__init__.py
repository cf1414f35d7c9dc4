"""Tests of the durable engine; most drive it without sockets and with a clock of their own."""
