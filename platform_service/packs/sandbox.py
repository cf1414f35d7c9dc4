"""Becomes the program of a pack. Sets the limits and the user, then replaces this process by Python with the program.

The command line is `python sandbox.py SPEC`. SPEC is JSON with `argv`, `folder`, `user` and the limits. If `user` is
null, the program has the runner's user. The module imports only the standard library, since it starts once for each
run.
"""

import contextlib
import ctypes
import json
import os
import resource
import signal
import sys

#: option of prctl(2)
_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
#: version of capset(2)
_CAPABILITY_VERSION = 0x20080522
_MIB = 2**20
_MAX_OPEN_FILES = 256


def main(spec: dict) -> None:  # type: ignore[type-arg]
    os.umask(0o077)
    # if memory runs out, the kernel ends this process first
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    user = spec["user"]
    limits = [
        (resource.RLIMIT_AS, spec["memory_mib"] * _MIB),
        (resource.RLIMIT_FSIZE, spec["disk_mib"] * _MIB),
        (resource.RLIMIT_NOFILE, _MAX_OPEN_FILES),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, spec["cpu_s"]),
    ]
    if user is not None:
        # the limit counts all processes of a user, and only this run has that user
        limits.append((resource.RLIMIT_NPROC, spec["processes"]))
    for which, limit in limits:
        # at the soft limit of CPU the program gets SIGXCPU, at the hard one it is killed
        resource.setrlimit(which, (limit, limit + 1 if which == resource.RLIMIT_CPU else limit))
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    libc = ctypes.CDLL(None, use_errno=True)
    # a runner that is root and lacks the right to change the user keeps no other right for its program
    if libc.capset((ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()) != 0:
        raise OSError(ctypes.get_errno(), "capset")
    for option, value in ((_PR_SET_PDEATHSIG, signal.SIGKILL), (_PR_SET_NO_NEW_PRIVS, 1)):
        if libc.prctl(option, value, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl")
    os.chdir(spec["folder"])
    os.execv(spec["argv"][0], spec["argv"])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
