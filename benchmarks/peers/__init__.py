"""Runs the same 3-step job on LUCIUS and on its peers, in one run."""
