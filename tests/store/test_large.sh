# Large and many: 10,000 files, and one file of 6 GiB ($EBB_LARGE_BYTES; more than one PUT may have), in every store
# ($EBB_LARGE_KINDS) and back, and read by the second client; memory grows by at most 16 MiB.
. "$2/common.sh"
need swift-proxy-server memcached node npm
need_node
need_python boto3
need_python fsspec.implementations.webhdfs
kinds=${EBB_LARGE_KINDS:-s3 gcs hdfs} what=${EBB_LARGE_WHAT:-many one} size=${EBB_LARGE_BYTES:-6442450944}
mkdir -p "one/.$uuid.tmp" "many/.$uuid.tmp/d"
(cd "many/.$uuid.tmp/d" && for i in $(seq 10000); do echo $i > "f $i"; done)
/usr/bin/python3 - "one/.$uuid.tmp/weights" "$size" <<'PY'
import os, sys
with open(sys.argv[1], 'wb') as f: # no two parts alike
    f.truncate(int(sys.argv[2]))
    for at in range(0, int(sys.argv[2]), 1 << 20):
        f.seek(at)
        f.write(os.urandom(4096))
PY
"$tool" - seal many $uuid > /dev/null && "$tool" - seal one $uuid > /dev/null || fail "sealing"
memory() { sed 's/.* s \([0-9]*\) KiB.*/\1/'; }
there_and_back() { # WHAT
    local idle peak back
    idle=$("$tool" "$there" check scratch | memory) || fail "$kind: check"
    rm -rf j back
    "$tool" "$there" put $uuid "$1" j > put.txt || fail "$kind: put $1"
    second "$kind" compare $uuid || fail "$kind: the second client reads something else"
    "$tool" "$there" get $uuid back > get.txt || fail "$kind: get $1"
    same_tree "$1/$uuid" back/$uuid # every file was proved by its SHA-256 as well
    rm -rf back
    "$tool" "$there" remove $uuid "$1" j > /dev/null || fail "$kind: remove $1"
    peak=$(memory < put.txt) back=$(memory < get.txt)
    ok "$kind, $1: $(cat put.txt), $(cat get.txt): $((peak - idle)) and $((back - idle)) KiB above idle; the second client agrees"
    [ $((peak - idle)) -le 16384 ] && [ $((back - idle)) -le 16384 ] || fail "$kind: memory"
}
for kind in $kinds; do
    serve_kind "$kind"
    for w in $what; do there_and_back "$w"; done
    is_empty "$kind" || fail "$kind: left: $(second "$kind" list)"
    serve_stop
    rm -rf "$RUN"/{srv,gcs,hdfs}
    PORT=$((PORT + 16))
done
exit 0
