# exp_common.sh - what the tests of experiments share: a state directory of their own, checks that count. Sourced.
# $1 = the ebb program, $2 = source folder
set -u
ebb=$(realpath "$1")
source_dir=$2
failed=0
checks=0

if ! "$ebb" run --help >/dev/null 2>&1; then
    echo "skipped: this build has no 'ebb run'"
    exit 0
fi
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 0; }

work=$(mktemp -d) || exit 1
export EBB_STATE=$work/state PYTHONDONTWRITEBYTECODE=1
unset EBB_MASTER DET_MASTER
clean_up() {
    local pid
    for pid in $(jobs -p); do kill -KILL "$pid" 2>/dev/null; done
    rm -rf "$work"
}
trap clean_up EXIT
cd "$work" || exit 1

fail() {
    echo "FAILED: $*"
    failed=1
}

# expect CODE COMMAND...: runs it, output in out.txt and err.txt
expect() {
    local want=$1 got
    shift
    checks=$((checks + 1))
    timeout 240 "$@" >out.txt 2>err.txt </dev/null
    got=$?
    [ "$got" -eq "$want" ] || { fail "exit $got instead of $want: $*"; tail -n 5 out.txt err.txt; }
}

# has FILE TEXT
has() {
    checks=$((checks + 1))
    grep -qF -- "$2" "$1" || { fail "'$2' is not in $1"; tail -n 8 "$1"; }
}

# field EXPRESSION: of the JSON in out.txt, in Python with the value as x
field() { python3 -c "import json; x = json.load(open('out.txt')); print($1)"; }

# same WHAT GOT WANTED
same() {
    checks=$((checks + 1))
    [ "$2" = "$3" ] || fail "$1: $2 instead of $3"
}

# wait_for COMMAND...: until it succeeds. Four minutes, since machines differ: only what never happens is to fail here.
wait_for() {
    local n=2400
    until "$@" >/dev/null 2>&1; do
        n=$((n - 1))
        [ $n -gt 0 ] || { fail "never came true: $*"; return 1; }
        sleep 0.1
    done
}

finish() {
    [ "$failed" -eq 0 ] && echo "$checks checks passed"
    exit "$failed"
}
