#!/usr/bin/env bash
# ebb doctor: text and JSON agree on what is there; what is missing comes with the command that installs it.
# $1 = ebb, $2 = source folder.
set -u
ebb=$1
failures=0

check() { # check DESCRIPTION TEXT PATTERN
    [[ $2 =~ $3 ]] || {
        echo "FAIL: $1: no match for '$3' in:"
        echo "$2"
        failures=$((failures + 1))
    }
}

text=$("$ebb" doctor) || exit 1
check "cores" "$text" 'cores +[1-9][0-9]* usable of [1-9]'
check "memory" "$text" 'memory +[0-9.]+ [KMGT]iB, [0-9.]+ [KMGT]iB available'
check "not yet runnable" "$text" 'not yet runnable'
json=$("$ebb" doctor --json) || exit 1
check "JSON is one line with the parts" "$json" '^\{"version": "[0-9.]+", "machine": \{.*"tools": \[.*"not_runnable_yet": \[.*\}$'

bare=$(PATH=/nonexistent EBB_STATE=/somewhere/else "$ebb" doctor) || exit 1
check "a missing tool" "$bare" 'rsvg-convert +missing'
check "a library loaded when needed" "$bare" 'libcurl +found'
check "its package" "$bare" 'apt-get install [^#]*librsvg2-bin'
check "the state folder" "$bare" 'state +/somewhere/else'
bare=$(PATH=/nonexistent "$ebb" doctor --json) || exit 1
check "a missing tool in JSON" "$bare" '"rsvg-convert", "kind": "program", "is_found": false, "path": null, "package": "librsvg2-bin"'

full=$("$ebb" doctor >/dev/full 2>&1)
[ $? = 1 ] || {
    echo "FAIL: a full disk looks like success: $full"
    failures=$((failures + 1))
}
[ $failures = 0 ] && echo "ok"
