"""Tests of the kit `lucius-service`."""
