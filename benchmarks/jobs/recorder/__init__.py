"""Records the host from within; `sitecustomize` starts it, since its folder is on the path of the stack's processes."""

#: environment variable with the file to write
SETTING = "BENCH_RECORDED"
