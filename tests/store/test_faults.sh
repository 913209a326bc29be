# A proxy before the real servers spoils one request of a small checkpoint, each in turn, in each way, both directions: the
# result is right, or an error names store, file and cause; never is something wrong taken for whole.
# Kinds: $EBB_FAULT_KINDS; ways: $EBB_FAULT_MODES.
. "$2/common.sh"
need node npm swift-proxy-server memcached
need_node
need_python boto3
kinds=${EBB_FAULT_KINDS:-s3 gcs hdfs}
modes=${EBB_FAULT_MODES:-cut-request cut-body cut-response flip-request flip-response page redirect stall stall-body 500 503 429 403 400}
export PATIENCE_S=2 # instead of 60

make_checkpoint here 9000000 # two parts in s3, a session in gcs
rm -rf here/$uuid/state/empty* # one request less in each round

requests() { cut -d' ' -f1 "$control.count"; }
by_proxy() { (place "$kind" "$front" && exec timeout 100 "$tool" "$there" "$@"); }
by_hand() { (unset PATIENCE_S && place "$kind" "$address" && exec timeout 100 "$tool" "$there" "$@"); }

rounds=0 right=0 told=0
judge() { # CODE WHAT
    rounds=$((rounds + 1))
    if [ "$1" -eq 0 ]; then right=$((right + 1)); return 0; fi
    [ "$1" -lt 124 ] || fail "$2: ends by $1"
    grep -qE "(s3|gcs|gs|hdfs):.*$uuid.*: ." err.txt || fail "$2: the error does not name store, file and cause: $(cat err.txt)"
    told=$((told + 1))
    return 1
}

is_well() { # the server has outlived what was done to it
    set_fault none 0
    rm -rf j && PATIENCE_S=60 by_proxy put $uuid here j > /dev/null 2> err.txt || fail "$kind, no fault: $(cat err.txt)"
}
spoil_puts() {
    local mode i n
    is_well
    n=$(requests)
    for mode in $modes; do
        is_well
        for i in $(seq "$n"); do
            by_hand remove $uuid here j > /dev/null 2>&1
            set_fault "$mode" "$i"
            rm -rf j back
            by_proxy put $uuid here j > /dev/null 2> err.txt
            judge $? "put, $kind, $mode at $i" || continue
            by_hand get $uuid back > /dev/null 2> err.txt || fail "put, $kind, $mode at $i: COMPLETED and not readable: $(cat err.txt)"
            same_tree here/$uuid back/$uuid
        done
    done
    set_fault none 0
    by_hand remove $uuid here j > /dev/null 2>&1
    rm -rf j
}
spoil_gets() {
    local mode i n
    set_fault none 0
    by_hand put $uuid here j > /dev/null || fail "put"
    rm -rf back && PATIENCE_S=60 by_proxy get $uuid back > /dev/null || fail "get"
    n=$(requests)
    for mode in $modes; do
        for i in $(seq "$n"); do
            set_fault "$mode" "$i"
            rm -rf back
            by_proxy get $uuid back > /dev/null 2> err.txt
            judge $? "get, $kind, $mode at $i" && same_tree here/$uuid back/$uuid
        done
    done
}
stand_before() { # a portal that answers everything: the store says nothing of the checkpoint, so it is not damaged
    set_fault page all
    rm -rf back
    PATIENCE_S=60 by_proxy get $uuid back > /dev/null 2> err.txt && fail "$kind: a portal's page is a checkpoint"
    has err.txt "no answer of a store"
    grep -q damaged err.txt && fail "$kind: a good checkpoint is called damaged: $(cat err.txt)"
    set_fault none 0
    PATIENCE_S=60 by_proxy get $uuid back > /dev/null 2> err.txt && same_tree here/$uuid back/$uuid || fail "$kind, after a portal: $(cat err.txt)"
    ok "$kind: a portal before the store is no damage"
}
lies_there() { # of a session whose first answer was cut only the server of gcs knows
    local all
    all=$(second "$kind" list) || fail "$kind: the second client cannot list"
    echo "$all" | grep -v '^upload$'
    return 0
}
spoil_removals() {
    local mode i n left
    set_fault none 0
    PATIENCE_S=60 by_proxy remove $uuid here > /dev/null && n=$(requests) || fail "remove"
    for mode in $modes; do
        for i in $(seq "$n"); do
            set_fault none 0
            rm -rf j && by_hand put $uuid here j > /dev/null || fail "put"
            set_fault "$mode" "$i"
            by_proxy remove $uuid here > /dev/null 2> err.txt
            judge $? "remove, $kind, $mode at $i" && { left=$(lies_there) && [ -z "$left" ] || fail "removed, $kind, $mode at $i, and there: $left"; }
            by_hand remove $uuid here > /dev/null || fail "remove again" # gone already is success
        done
    done
}

for kind in $kinds; do
    serve_kind "$kind"
    start_proxy
    spoil_puts
    spoil_gets
    stand_before
    spoil_removals
    left=$(lies_there) && [ -z "$left" ] || fail "$kind: left: $left"
    ok "$kind: $rounds spoiled requests: $right times right, $told times told, never wrong, nothing left"
    serve_stop
    rounds=0 right=0 told=0 PORT=$((PORT + 16))
done
exit 0
