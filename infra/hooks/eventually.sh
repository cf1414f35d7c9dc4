#!/bin/sh
# Hooks source this file. `eventually COMMAND...` repeats a command that queries Graph, for at most a minute, if `created` is
# not empty, since Graph is eventually consistent. The last error is in the file `error`, and is printed at the end.
set -eu
eventually() {
  tries=1
  until "$@" 2>"$error"; do
    # a missing right is an error immediately
    [ -n "$created" ] && [ "$tries" -lt 12 ] && ! grep -q "Insufficient privileges" "$error" || { cat "$error" >&2; return 1; }
    tries=$((tries + 1))
    sleep 5
  done
}
