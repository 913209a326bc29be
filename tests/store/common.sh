# Shared by tests/store/test_*.sh; to be sourced with the build folder as $1 and this folder as $2.
build=$1 STORE_TESTS=$2
ebb=$build/ebb tool=$build/tests/store_tool
source_dir=$(cd "$STORE_TESTS/../.." && pwd)
RUN=$(mktemp -d "${STORE_RUN:-/tmp}/ebb-store-XXXXXX")
chmod 755 "$RUN"
PORT=$((10000 + $$ % 1300 * 16)) # below those that outgoing connections take
NODE=${EBB_STORE_NODE:-$build/store-node} # npm packages of package.json
EBB_STATE=$RUN/state
export EBB_STATE
unset AWS_CA_BUNDLE SSL_CERT_FILE GOOGLE_APPLICATION_CREDENTIALS STORAGE_EMULATOR_HOST GCE_METADATA_HOST
unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN AWS_PROFILE http_proxy https_proxy
cd "$RUN" || exit 1
. "$STORE_TESTS/serve.sh"

clean_up() { :; } # for a test to say
finish() {
    local code=$?
    serve_stop
    clean_up
    if [ $code -eq 0 ] || [ $code -eq 77 ]; then rm -rf "$RUN"; else echo "left in $RUN" >&2; fi
    exit $code
}
trap finish EXIT

fail() { echo "FAILED: $*" >&2; exit 1; }
need() { for p; do command -v "$p" > /dev/null || { echo "skipped: $p is not installed"; exit 77; }; done; }
need_python() { /usr/bin/python3 -c "import $1" 2> /dev/null || { echo "skipped: Python has no $1"; exit 77; }; }
need_node() { # the npm packages, installed once
    [ -d "$NODE/node_modules" ] && return
    mkdir -p "$NODE" && cp "$STORE_TESTS/package.json" "$NODE" && (cd "$NODE" && npm install --no-audit --no-fund > npm.log 2>&1) ||
        { echo "skipped: the npm packages of tests/store cannot be installed"; exit 77; }
}
ok() { echo "  ok: $*"; }
has() { grep -qF -- "$2" "$1" || fail "$1 has no \"$2\": $(cat "$1")"; }
field() { /usr/bin/python3 -c "import json,sys; x = json.load(sys.stdin); print($1)"; } # of JSON on standard input

# What a second client finds in the store of a kind: second.py has the verbs. $CLIENT_IN: words before it (a network namespace).
second() { # KIND VERB [ARGUMENT]
    local at
    case $1 in s3) at=$S3 ;; gcs) at=${DIRECT:-$STORAGE_EMULATOR_HOST} ;; hdfs) at=${HDFS%%;*} ;; esac
    if [ "$1 $2" = "gcs compare" ]; then
        env -u STORAGE_EMULATOR_HOST NODE_PATH="$NODE/node_modules" ${CLIENT_IN-} node "$STORE_TESTS/gcs_client.js" "$at" compare "$3/"
    else
        ${CLIENT_IN-} /usr/bin/python3 "$STORE_TESTS/second.py" "$1" "$at" "${@:2}"
    fi
}
is_empty() { local names; names=$(second "$1" list) && [ -z "$names" ]; } # KIND: neither objects nor unfinished uploads

# A server of a kind with its bucket, at $address; $there: as store_tool takes it; $storage: for experiments, open at its end.
serve_kind() { # KIND
    case $1 in
    s3)
        serve_swift && second s3 make || fail "Swift does not start: $(tail -n 3 "$RUN"/*.log)"
        address=$S3
        ;;
    gcs)
        serve_gcs || fail "the server of gcs does not start: $(cat "$RUN/gcs.log")"
        address=$STORAGE_EMULATOR_HOST DIRECT=$STORAGE_EMULATOR_HOST
        ;;
    hdfs)
        serve_hdfs || fail "the servers of hdfs do not start: $(cat "$RUN"/hdfs?.log)"
        address=$HDFS
        ;;
    esac
    place "$1" "$address"
}
place() { # KIND ADDRESS: of its server, or of a proxy before it
    export ACCESS_KEY=test:ebb SECRET_KEY=secretkey
    case $1 in
    s3)
        there="{\"type\":\"s3\",\"bucket\":\"ckpt\",\"endpoint_url\":\"$2\"}"
        storage="{type: s3, bucket: ckpt, endpoint_url: \"$2\", access_key: \"test:ebb\", secret_key: secretkey"
        ;;
    gcs)
        export STORAGE_EMULATOR_HOST=$2
        there='{"type":"gcs","bucket":"ckpt"}' storage="{type: gcs, bucket: ckpt"
        ;;
    hdfs)
        there="{\"type\":\"hdfs\",\"hdfs_url\":\"$2\",\"hdfs_path\":\"/data\"}"
        storage="{type: hdfs, hdfs_url: \"$2\", hdfs_path: /data"
        ;;
    esac
}

# A proxy that spoils requests before the server at $address; $front: its own address.
control=$RUN/control
start_proxy() {
    local port=$((PORT + 12))
    front=http://$SERVE_HOST:$port
    node "$STORE_TESTS/fault_proxy.js" $port "${address%%;*}" "$control" >> "$RUN/proxy.log" 2>&1 &
    serve_pids+=($!)
    echo $! > "$RUN/proxy.pid"
    serve_wait $port "the proxy" || fail "proxy: $(cat "$RUN/proxy.log")"
}
stop_proxy() { kill "$(cat "$RUN/proxy.pid")"; } 2> /dev/null
set_fault() { echo "$* $RANDOM$RANDOM" > "$control.new" && mv "$control.new" "$control"; } # MODE NUMBER; requests are counted anew

uuid=0f0e0d0c-0b0a-4908-8706-050403020100

# A checkpoint with awkward names in DIR, sealed: what `store_tool put` sends. make_checkpoint DIR LARGE_BYTES
make_checkpoint() {
    local at="$1/.$uuid.tmp"
    mkdir -p "$at/state/empty dir" "$at/ü"
    head -c "$2" /dev/urandom > "$at/state/weights"
    printf abc > "$at/a b+c%d&e=.txt"
    : > "$at/zero"
    printf 'x<y>&"z"' > "$at/ü/ü+ü %41"
    "$tool" - seal "$1" $uuid > /dev/null || fail "sealing"
}

# The same tree, but for the empty folder that only the record names.
same_tree() { diff -r "$1" "$2" | grep -v 'Only in .*: empty dir' | grep -q . && fail "$1 and $2 differ"; true; }

# An experiment whose trials take no time: make_experiment FILE STORAGE [MORE YAML]
make_experiment() {
    [ -d loop ] || { mkdir loop && cp "$source_dir/examples/python-loop/train.py" loop/; }
    cat > "$1" <<END
entrypoint: [/usr/bin/python3, train.py]
batches_per_step: 5
max_restarts: 2
min_checkpoint_period: 1
reproducibility: {experiment_seed: 7}
hyperparameters: {global_batch_size: 4, learning_rate: 0.5}
searcher: {name: single, metric: validation_error, max_steps: 3}
checkpoint_storage: $2
$3
END
}
