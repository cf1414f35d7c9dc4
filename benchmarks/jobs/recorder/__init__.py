"""Records the host in its own process.

`sitecustomize` starts the recording, since the processes of the stack have its folder on their path.
"""

#: environment variable with the file to write
SETTING = "BENCH_RECORDED"
