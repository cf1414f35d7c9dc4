#!/bin/sh
# Hooks source this file. `eventually COMMAND...` runs a command that calls Graph. If `created` is not empty, it repeats the
# command after an error, at most 12 times in a minute, since Graph is eventually consistent. `error` is the path of a file for
# the last error, which is printed if every try fails.
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
