"""The capabilities that the runner needs as root.

As root with six capabilities, the runner gives each run its own user. Container runtimes start root with more
capabilities, and Azure Container Apps has no setting for capabilities. The runner drops the other capabilities itself.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

#: numbers of capabilities(7): change the owner of files, read and delete those of another user, end its processes, and
#: become that user
NEEDED = {"CHOWN": 0, "DAC_OVERRIDE": 1, "FOWNER": 3, "KILL": 5, "SETGID": 6, "SETUID": 7}
#: option of prctl(2)
_PR_CAPBSET_READ = 23
_PR_CAPBSET_DROP = 24
#: version of capget(2), with two words for each set
_VERSION_3 = 0x20080522


def missing() -> list[str]:
    """Returns the rights that this process lacks to give each run its own user: `root`, or capabilities."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return ["root"]
    status = Path("/proc/thread-self/status").read_text()
    effective = int(status.partition("CapEff:")[2].split()[0], 16)
    return [name for name, number in NEEDED.items() if not effective >> number & 1]


def give_up_others() -> None:
    """Restarts this program without the capabilities that the program does not need. Returns if the program has no such
    capabilities.

    Must be called before any thread starts. Also returns if the process lacks the right to drop capabilities (SETPCAP).
    """
    if sys.platform != "linux" or os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    held = [number for number in range(64) if libc.prctl(_PR_CAPBSET_READ, number, 0, 0, 0) == 1]
    others = [number for number in held if number not in NEEDED.values()]
    if not others or any(libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0) != 0 for number in others):
        return
    header, sets = (ctypes.c_uint32 * 2)(_VERSION_3, 0), (ctypes.c_uint32 * 6)()
    if libc.capget(header, sets) == 0:
        # effective, permitted, inheritable: root would keep the last one after the restart
        sets[2] = sets[5] = 0
        libc.capset(header, sets)
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
