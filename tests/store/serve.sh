# Real servers for tests of stores; to be sourced. Everything lives below $RUN (a new directory) and listens on
# $SERVE_HOST (127.0.0.1), from port $PORT on; `serve_stop` ends what was started, by process id. $SERVE_IN: words before
# the command of every server (a network namespace, tests/net/net.sh).
#
#   serve_swift     OpenStack Swift with its s3api: checks signatures. Endpoint $S3, keys test:ebb and secretkey
#   serve_s3rver    s3rver: another server's idea of S3; checks no signatures. Endpoint $S3RVER
#   serve_hdfs      webhdfs-proxy twice over one directory. Name nodes $HDFS
#   serve_gcs       a small Google Cloud Storage (gcs_server.js). $STORAGE_EMULATOR_HOST
#   serve_tls       stunnel before the Swift server, certificate by a test authority. $S3TLS, $CA
#   serve_expired   the same with a certificate that has expired
#
# Debian packages: swift-proxy swift-account swift-container swift-object memcached stunnel4 openssl python3-boto3
# python3-fsspec python3-requests; npm packages: package.json beside this file, installed into $NODE.

serve_pids=()
export SERVE_HOST=${SERVE_HOST:-127.0.0.1}

serve_wait() { # PORT NAME
    for _ in $(seq 200); do
        ${SERVE_IN-} bash -c "exec 3<>/dev/tcp/$SERVE_HOST/$1" 2>/dev/null && return 0
        sleep 0.1
    done
    echo "serve: $2 does not listen on port $1" >&2
    return 1
}

serve_stop() {
    [ ${#serve_pids[@]} -gt 0 ] && kill "${serve_pids[@]}" 2>/dev/null
    [ ${#serve_pids[@]} -gt 0 ] && wait "${serve_pids[@]}" 2>/dev/null
    serve_pids=()
}

swift_part() { # NAME PORT
    cat > "$RUN/etc/$1.conf" <<END
[DEFAULT]
bind_ip = $SERVE_HOST
bind_port = $2
workers = 0
user = swift
swift_dir = $RUN/etc
devices = $RUN/srv
mount_check = false
network_chunk_size = 1048576
disk_chunk_size = 1048576
log_facility =
[pipeline:main]
pipeline = $1-server
[app:$1-server]
use = egg:swift#$1
END
    (cd "$RUN/etc" && swift-ring-builder "$1.builder" create 4 1 1 &&
        swift-ring-builder "$1.builder" add "r1z1-$SERVE_HOST:$2/d1" 1 &&
        swift-ring-builder "$1.builder" rebalance) > /dev/null 2>&1
}

serve_swift() {
    local proxy=$((PORT + 3)) cache=$((PORT + 4)) n
    mkdir -p "$RUN/etc" "$RUN/srv/d1"
    cat > "$RUN/etc/swift.conf" <<END
[swift-hash]
swift_hash_path_prefix = ebb
swift_hash_path_suffix = ebb
[storage-policy:0]
name = gold
policy_type = replication
default = yes
END
    swift_part account $((PORT + 2))
    swift_part container $((PORT + 1))
    swift_part object "$PORT"
    cat > "$RUN/etc/proxy.conf" <<END
[DEFAULT]
bind_ip = $SERVE_HOST
bind_port = $proxy
workers = 0
user = swift
swift_dir = $RUN/etc
[pipeline:main]
pipeline = catch_errors cache s3api tempauth bulk slo dlo proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
client_chunk_size = 1048576
object_chunk_size = 1048576
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:cache]
use = egg:swift#memcache
memcache_servers = $SERVE_HOST:$cache
[filter:s3api]
use = egg:swift#s3api
s3_acl = no
location = us-east-1
max_upload_part_num = 10000
[filter:tempauth]
use = egg:swift#tempauth
user_test_ebb = secretkey .admin
user_test_reader = readerkey
[filter:bulk]
use = egg:swift#bulk
[filter:slo]
use = egg:swift#slo
[filter:dlo]
use = egg:swift#dlo
END
    chown -R swift:swift "$RUN/etc" "$RUN/srv"
    ${SERVE_IN-} memcached -u nobody -l $SERVE_HOST -p "$cache" -m 16 > "$RUN/memcached.log" 2>&1 &
    serve_pids+=($!)
    for n in account container object proxy; do
        ${SERVE_IN-} env -i PATH="$PATH" "swift-$n-server" "$RUN/etc/$n.conf" > "$RUN/$n.log" 2>&1 &
        serve_pids+=($!)
    done
    serve_wait "$proxy" "Swift's proxy" && serve_wait "$PORT" "Swift's object server" || return 1
    S3=http://$SERVE_HOST:$proxy
}

serve_s3rver() {
    local port=$((PORT + 5))
    mkdir -p "$RUN/s3rver"
    NODE_PATH=$NODE/node_modules ${SERVE_IN-} node "$STORE_TESTS/s3rver_server.js" "$port" "$RUN/s3rver" > "$RUN/s3rver.log" 2>&1 &
    serve_pids+=($!)
    serve_wait "$port" s3rver || return 1
    S3RVER=http://$SERVE_HOST:$port
}

serve_hdfs() {
    local port=$((PORT + 6))
    mkdir -p "$RUN/hdfs"
    for n in 0 1; do
        NODE_PATH=$NODE/node_modules ${SERVE_IN-} node "$STORE_TESTS/hdfs_server.js" $((port + n)) "$RUN/hdfs" > "$RUN/hdfs$n.log" 2>&1 &
        serve_pids+=($!)
        serve_wait $((port + n)) webhdfs-proxy || return 1
    done
    HDFS="http://$SERVE_HOST:$port;http://$SERVE_HOST:$((port + 1))"
}

serve_gcs() {
    local port=$((PORT + 8))
    mkdir -p "$RUN/gcs"
    ${SERVE_IN-} node "$STORE_TESTS/gcs_server.js" "$port" "$RUN/gcs" > "$RUN/gcs.log" 2>&1 &
    serve_pids+=($!)
    serve_wait "$port" "the GCS server" || return 1
    export STORAGE_EMULATOR_HOST=http://$SERVE_HOST:$port
}

serve_tls_at() { # PORT DIRECTORY [OPTIONS OF openssl ca]
    local port=$1 at=$2
    shift 2
    mkdir -p "$at"
    (cd "$at" &&
        openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj "/CN=test authority" &&
        openssl req -newkey rsa:2048 -nodes -keyout key.pem -out request.pem -subj "/CN=localhost" &&
        printf 'subjectAltName=DNS:localhost,IP:127.0.0.1\n' > names && : > index && echo 01 > serial &&
        printf '[ca]\ndefault_ca=one\n[one]\ndatabase=index\nnew_certs_dir=.\nserial=serial\ndefault_md=sha256\npolicy=any\n[any]\ncommonName=supplied\n' > ca.conf &&
        openssl ca -batch -config ca.conf -in request.pem -cert ca.pem -keyfile ca.key -days 2 -extfile names -out cert.pem "$@" &&
        cat key.pem cert.pem > both.pem) > "$at/log" 2>&1 || return 1
    printf 'foreground=yes\npid=\n[s3]\naccept=%s:%s\nconnect=%s\ncert=%s\n' "$SERVE_HOST" "$port" "${S3#http://}" "$at/both.pem" > "$at/conf"
    ${SERVE_IN-} stunnel4 "$at/conf" > "$at/stunnel.log" 2>&1 &
    serve_pids+=($!)
    serve_wait "$port" stunnel || return 1
    S3TLS=https://localhost:$port
    CA=$at/ca.pem
}
serve_tls() { serve_tls_at $((PORT + 9)) "$RUN/tls"; }
serve_expired() { serve_tls_at $((PORT + 10)) "$RUN/tls2" -startdate 20200101000000Z -enddate 20200201000000Z; }
