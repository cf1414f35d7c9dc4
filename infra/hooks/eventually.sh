#!/bin/sh
# For hooks to source. `eventually COMMAND...` repeats a command that asks Graph, for a minute at most, where `created` is
# not empty: what was made just now is not known everywhere at once. `error` is a file; the last error is shown.
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
