# common.sh - what tests of commands share: a folder of their own, where they stand, and checks that count. Sourced.
# $1 = the ebb program, $2 = source folder
set -u
ebb=$(realpath "$1")
source_dir=${2:+$(realpath "$2")}
failed=0
checks=0

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/.cache # no profile of this machine decides
cd "$work" || exit 1

fail() {
    echo "FAILED: $*"
    failed=$((failed + 1))
}

# memory that the process takes is the sanitizer's, too
is_sanitized() { grep -qaE '__(asan|tsan)_init' "$ebb"; }
patience=300 # seconds of a command
! is_sanitized || patience=1200

# expect CODE COMMAND...: run, keep stdout in out and stderr in err: files, and variables
expect() {
    local code=$1 got
    shift
    checks=$((checks + 1))
    timeout $patience "$@" >out 2>err </dev/null
    got=$?
    out=$(tr -d '\0' <out) err=$(tr -d '\0' <err)
    [ "$got" = "$code" ] || fail "exit $got instead of $code: ${*:2} ($(tail -1 out) $(head -1 err))"
}

# value KEY: in the last line of out
value() { tail -n 1 out | sed -E "s/.*\"$1\": (\"([^\"]*)\"|([^,}]*)).*/\2\3/"; }

# contains FILE TEXT
contains() {
    checks=$((checks + 1))
    grep -qF -- "$2" "$1" || fail "no \"$2\" in $1: $(head -3 "$1")"
}

# finish: the last line of a test
finish() {
    echo "$(basename "$0"): $checks checks, $failed failed"
    exit $((failed > 0))
}
