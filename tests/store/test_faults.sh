# A proxy before the real servers spoils one request of a small checkpoint, each in turn, in each way, both directions: the
# result is right, or an error names store, file and cause; never is something wrong taken for whole.
. "$2/common.sh"
need node npm swift-proxy-server memcached
need_node
need_python boto3
kinds=${EBB_FAULT_KINDS:-s3 gcs hdfs}
modes=${EBB_FAULT_MODES:-cut-request cut-response flip-request flip-response redirect stall 500 503 429 403 400}
export PATIENCE_S=2 # instead of 60
proxy=$((PORT + 12)) control=$RUN/control
export ACCESS_KEY=test:ebb SECRET_KEY=secretkey

make_checkpoint here 9000000 # two parts in s3, a session in gcs
rm -rf here/$uuid/state/empty* # one request less in each round

start_proxy() { # UPSTREAM
    node "$STORE_TESTS/fault_proxy.js" $proxy "$1" "$control" > "$RUN/proxy.log" 2>&1 &
    serve_pids+=($!)
    serve_wait $proxy "the proxy" || fail "proxy"
}
requests() { cut -d' ' -f1 "$control.count"; }
set_fault() { echo "$1 $2" > "$control"; }

rounds=0 right=0 told=0
judge() { # CODE WHAT
    rounds=$((rounds + 1))
    if [ "$1" -eq 0 ]; then right=$((right + 1)); return 0; fi
    [ "$1" -lt 124 ] || fail "$2: ends by $1"
    grep -qE "$kind: .*($uuid|[0-9]{3})|manifest.json|SHA-256|read back" err.txt || fail "$2: the error names nothing: $(cat err.txt)"
    told=$((told + 1))
    return 1
}

faults() { # LOCATION by way of the proxy, LOCATION without
    local there=$1 direct=$2 mode i n
    set_fault none 0.$RANDOM
    rm -rf j && timeout 60 "$tool" "$there" put $uuid here j > /dev/null 2> err.txt || fail "$kind, no fault: $(cat err.txt)"
    n=$(requests)
    for mode in $modes; do
        for i in $(seq "$n"); do
            "$tool" "$direct" remove $uuid here j > /dev/null 2>&1
            set_fault "$mode" "$i"
            rm -rf j back
            timeout 100 "$tool" "$there" put $uuid here j > /dev/null 2> err.txt
            judge $? "put, $kind, $mode at $i" || continue
            "$tool" "$direct" get $uuid back > /dev/null 2> err.txt || fail "put, $kind, $mode at $i: COMPLETED and not readable: $(cat err.txt)"
            same_tree here/$uuid back/$uuid
        done
    done
    set_fault none 0.$RANDOM
    rm -rf j && "$tool" "$direct" remove $uuid here > /dev/null 2>&1
    "$tool" "$direct" put $uuid here j > /dev/null || fail "put"
    rm -rf back && "$tool" "$there" get $uuid back > /dev/null || fail "get"
    n=$(requests)
    for mode in $modes; do
        for i in $(seq "$n"); do
            set_fault "$mode" "$i"
            rm -rf back
            timeout 100 "$tool" "$there" get $uuid back > /dev/null 2> err.txt
            judge $? "get, $kind, $mode at $i" && same_tree here/$uuid back/$uuid
        done
    done
    set_fault none 0.$RANDOM
    "$tool" "$there" remove $uuid here > /dev/null && n=$(requests)
    for mode in $modes; do
        for i in $(seq "$n"); do
            set_fault none 0.$RANDOM
            rm -rf j && "$tool" "$direct" put $uuid here j > /dev/null || fail "put"
            set_fault "$mode" "$i"
            timeout 100 "$tool" "$there" remove $uuid here > /dev/null 2> err.txt
            judge $? "remove, $kind, $mode at $i"
            "$tool" "$direct" remove $uuid here > /dev/null || fail "remove again" # gone already is success
        done
    done
}

for kind in $kinds; do
    case $kind in
    s3)
        serve_swift || fail "Swift"
        /usr/bin/python3 -c "
import boto3
from botocore.config import Config
boto3.client('s3', endpoint_url='$S3', aws_access_key_id='test:ebb', aws_secret_access_key='secretkey', region_name='us-east-1',
             config=Config(s3={'addressing_style': 'path'})).create_bucket(Bucket='ckpt')" || fail "no bucket"
        start_proxy "$S3"
        faults "{\"type\":\"s3\",\"bucket\":\"ckpt\",\"endpoint_url\":\"http://127.0.0.1:$proxy\"}" \
            "{\"type\":\"s3\",\"bucket\":\"ckpt\",\"endpoint_url\":\"$S3\"}"
        ;;
    gcs)
        serve_gcs || fail "gcs"
        start_proxy "$STORAGE_EMULATOR_HOST"
        cat > gcs_tool <<END
#!/bin/bash
# the location says by which way
case \$1 in *proxied*) export STORAGE_EMULATOR_HOST=http://127.0.0.1:$proxy ;; esac
exec "$tool" "\$@"
END
        chmod +x gcs_tool
        before=$tool tool=$RUN/gcs_tool
        faults '{"type":"gcs","bucket":"ckpt","note":"proxied"}' '{"type":"gcs","bucket":"ckpt"}'
        tool=$before
        ;;
    hdfs)
        serve_hdfs || fail "hdfs"
        start_proxy "${HDFS%%;*}"
        faults "{\"type\":\"hdfs\",\"hdfs_url\":\"http://127.0.0.1:$proxy\",\"hdfs_path\":\"/data\"}" \
            "{\"type\":\"hdfs\",\"hdfs_url\":\"$HDFS\",\"hdfs_path\":\"/data\"}"
        ;;
    esac
    ok "$kind: $rounds spoiled requests: $right times right, $told times told, never wrong"
    serve_stop
    rounds=0 right=0 told=0 PORT=$((PORT + 16)) proxy=$((proxy + 16))
done
exit 0
