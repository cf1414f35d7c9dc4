#!/bin/sh
# For the hooks that source it: `eventually COMMAND...` repeats a command of Graph that fails, for a minute at most.
# What was made just now is not known everywhere at once: `created` is not empty where the command names such a thing. The
# last error is shown; `error` is a file for it.
set -eu
eventually() {
  tries=1
  until "$@" 2>"$error"; do
    # nor does waiting give a right
    [ -n "$created" ] && [ "$tries" -lt 12 ] && ! grep -q "Insufficient privileges" "$error" || { cat "$error" >&2; return 1; }
    tries=$((tries + 1))
    sleep 5
  done
}
