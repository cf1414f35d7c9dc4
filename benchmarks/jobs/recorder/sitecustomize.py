"""Starts the recording in the host. Python imports this module at the start of each process of a recorded stack."""

import sys

if sys.orig_argv[1:4] == ["-m", "emulator", "host"]:
    from benchmarks.jobs.recorder.recording import begin

    begin()
