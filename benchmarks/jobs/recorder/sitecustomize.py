"""Imported by each process of a recorded stack as it starts: begins the recording in the host, and nowhere else."""

import sys

if sys.orig_argv[1:4] == ["-m", "emulator", "host"]:
    from benchmarks.jobs.recorder.recording import begin

    begin()
