"""Records the host from within; `sitecustomize` starts it, since its folder is on the path of the stack's processes."""

#: the file that is written to
SETTING = "BENCH_RECORDED"
