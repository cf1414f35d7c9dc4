#!/bin/sh
# For hooks to source. `eventually COMMAND...` repeats a command that queries Graph, for at most a minute, if `created` is
# not empty, since Graph is eventually consistent. `error` is a file; the last error is shown.
set -eu
eventually() {
  tries=1
  until "$@" 2>"$error"; do
    # a wait does not help if a right is missing
    [ -n "$created" ] && [ "$tries" -lt 12 ] && ! grep -q "Insufficient privileges" "$error" || { cat "$error" >&2; return 1; }
    tries=$((tries + 1))
    sleep 5
  done
}
