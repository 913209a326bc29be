# Submissions that a master refuses because the store does not do (within 10 s, and the master answers others meanwhile), and what
# becomes of keys: they stand in the database and in master.yaml, and nowhere else.
. "$2/common.sh"
need swift-proxy-server memcached node npm curl
need_node
need_python boto3
for kind in s3 gcs hdfs; do serve_kind $kind; done
unset ACCESS_KEY SECRET_KEY # a master has them from files only
/usr/bin/python3 -c "import socket, time; s = socket.create_server(('127.0.0.1', $((PORT + 13)))); time.sleep(900)" &
serve_pids+=($!)
silent=http://127.0.0.1:$((PORT + 13)) # takes connections and says nothing
answer() { curl -s -f --max-time 5 --unix-socket "$EBB_STATE/master.sock" "http://x/api/v1$1"; }
start_master() {
    "$ebb" serve --listen 127.0.0.1:$((PORT + 14)) --slots 2 > serve.txt 2>&1 &
    master=$!
    serve_pids+=($master)
    for _ in $(seq 100); do answer /master > /dev/null && return; sleep 0.1; done
    fail "no master: $(cat serve.txt)"
}
start_master

# refused WHAT STORAGE WORDS...: 10 s for the store, and the rest for a machine with other work
refused() {
    local what=$1 begin=$SECONDS pid n=0
    make_experiment exp.yaml "$2"
    timeout 60 "$ebb" experiment create exp.yaml loop > out.txt 2>&1 &
    pid=$!
    while kill -0 $pid 2> /dev/null; do
        answer /master > /dev/null || fail "$what: the master answers nobody else"
        n=$((n + 1))
        sleep 0.2
    done
    wait $pid && fail "accepted: $what"
    took=$((SECONDS - begin))
    [ $took -le 14 ] || fail "$what: refused after $took s"
    shift 2
    for words; do has out.txt "$words"; done
    grep -qE 'secretkey|hidden' out.txt && fail "$what: a secret is shown: $(cat out.txt)"
    ok "refused: $what ($took s, $n answers to others meanwhile): $(tail -n 1 out.txt | cut -c 1-180)"
}
s3="type: s3, access_key: \"test:ebb\", secret_key"
refused "an unknown type" '{type: azure, container: c}' 'checkpoint_storage.type: found "azure", allowed: shared_fs, s3, gcs, hdfs'
refused "s3: no bucket" "{$s3: secretkey, endpoint_url: \"$S3\", bucket: none}" "checkpoint_storage: s3: PUT none/" "404 NoSuchBucket"
refused "s3: a wrong key" "{$s3: hidden, endpoint_url: \"$S3\", bucket: ckpt}" "checkpoint_storage: s3: PUT ckpt/" "403 SignatureDoesNotMatch"
refused "s3: no right to write" "{type: s3, access_key: \"test:reader\", secret_key: readerkey, endpoint_url: \"$S3\", bucket: ckpt}" \
    "checkpoint_storage: s3: PUT ckpt/" "403 AccessDenied"
refused "s3: nobody there" "{$s3: secretkey, endpoint_url: \"http://127.0.0.1:9\", bucket: ckpt}" "checkpoint_storage: s3: PUT ckpt/" connect
refused "s3: no such host" "{$s3: secretkey, endpoint_url: \"http://store.invalid\", bucket: ckpt}" "checkpoint_storage: " "store.invalid"
refused "s3: no answer" "{$s3: secretkey, endpoint_url: \"$silent\", bucket: ckpt}" "checkpoint_storage: no answer within 10 s: $silent"
refused "gcs: no bucket" '{type: gcs, bucket: none}' "checkpoint_storage: gcs: POST none/" "404 notFound: The specified bucket does not exist."
refused "hdfs: nobody there" '{type: hdfs, hdfs_url: "http://127.0.0.1:9", hdfs_path: /data}' "checkpoint_storage: hdfs: op=MKDIRS /data/" connect
refused "hdfs: no answer" "{type: hdfs, hdfs_url: \"$silent\", hdfs_path: /data}" "checkpoint_storage: no answer within 10 s: $silent"
touch "$RUN/hdfs/file"
refused "hdfs: no folder can be there" "{type: hdfs, hdfs_url: \"$HDFS\", hdfs_path: /file/data}" "checkpoint_storage: hdfs: op=MKDIRS /file/data"
[ "$(answer "/experiments?archived=all" | field "x['total']")" = 0 ] || fail "an experiment was made"

# ---- while an experiment with keys runs
make_experiment exp.yaml "{$s3: secretkey, endpoint_url: \"$S3\", bucket: ckpt}" 'batches_per_step: 20000'
sed -i '/^batches_per_step: 5$/d; s/max_steps: 3/max_steps: 40/' exp.yaml
"$ebb" experiment create exp.yaml loop > create.txt 2>&1 || fail "create: $(cat create.txt)"
for _ in $(seq 300); do [ "$(answer /experiments/1/checkpoints | field "len(x['checkpoints'])")" -ge 2 ] && break; sleep 0.1; done
one=$(answer /experiments/1/checkpoints | field "x['checkpoints'][0]['uuid']") || fail "no checkpoint: $("$ebb" trial logs 1)"
trial=$(answer /trials/1 | field "x['trial']['pid'] if 'trial' in x else x['pid']" 2> /dev/null)
told() { # WHAT FILE...: nothing with the key in it
    local what=$1
    shift
    local found
    found=$(grep -lsE 'secretke[y]' "$@")
    [ -z "$found" ] || fail "the key is in $what: $found"
}
for inode in $(readlink /proc/$trial/fd/* | sed -n 's/^socket:\[\(.*\)\]$/\1/p'); do
    awk -v i="$inode" '$10 == i { found = 1 } END { exit !found }' /proc/net/tcp && fail "the trial has a connection of the master's"
done
told "process lists" /proc/[0-9]*/cmdline
told "environments" /proc/$master/environ ${trial:+/proc/$trial/environ}
mkdir answers
for path in /master /master/config /master/logs /experiments /experiments/1 /experiments/1/trials /experiments/1/checkpoints /trials/1 \
    /trials/1/workloads /trials/1/logs "/checkpoints/$one" "/compare?ids=1,1" "/events?after=0" /tasks /agents; do
    answer "$path" > "answers/$(echo "$path" | tr '/?' '__')" || fail "no answer: $path"
done
answer /experiments/1/model_def > answers/model_def.tar.gz && tar -xzf answers/model_def.tar.gz -C answers || fail "model_def"
"$ebb" experiment describe 1 > answers/describe 2>&1
"$ebb" master info > answers/info 2>&1
told answers answers/* create.txt serve.txt
"$ebb" experiment kill 1 > /dev/null 2>&1 || fail "kill"
for _ in $(seq 300); do answer /experiments/1 | grep -q '"CANCELED"' && break; sleep 0.1; done
found=$(grep -rl secretkey "$EBB_STATE" | grep -v '/ebb\.db')
[ -z "$found" ] || fail "the key is in the state directory: $found"
[ "$(stat -c %a "$EBB_STATE")" = 700 ] || fail "others can read the state directory"
ok "keys: not in process lists, environments, answers, logs, the state directory; only in the database, which others cannot read"

# ---- keys that were changed: those of master.yaml win for the same place
timeout 100 "$ebb" experiment delete 1 --yes > out.txt 2>&1 || fail "delete: $(cat out.txt)"
kill $master && wait $master 2> /dev/null
cat > "$EBB_STATE/master.yaml" <<YAML
checkpoint_storage: {$s3: secretkey, endpoint_url: "$S3", bucket: ckpt}
YAML
start_master
make_experiment exp.yaml "{$s3: outdated, endpoint_url: \"$S3\", bucket: ckpt}"
"$ebb" experiment create exp.yaml loop > out.txt 2>&1 || fail "keys of master.yaml do not win: $(cat out.txt)"
for _ in $(seq 300); do answer /experiments/2 | grep -q '"COMPLETED"' && break; sleep 0.1; done
answer /experiments/2 | grep -q '"COMPLETED"' || fail "not COMPLETED: $(answer /experiments/2)"
grep -v '^checkpoint_storage' exp.yaml > bare.yaml
timeout 60 "$ebb" checkpoint validate-storage bare.yaml > out.txt 2>&1 || fail "a file without a store: $(cat out.txt)"
answer /master/config > config.json && "$ebb" master config > config.yaml 2>&1 || fail "config"
told "the master's configuration" config.json config.yaml
timeout 100 "$ebb" experiment delete 2 --yes > out.txt 2>&1 || fail "delete: $(cat out.txt)"
is_empty s3 || fail "left: $(second s3 list)"
ok "keys of master.yaml win for the same place, and are not shown"

# ---- the same place in master.yaml without keys: the experiment's own are taken
kill $master && wait $master 2> /dev/null
echo "checkpoint_storage: {type: s3, endpoint_url: \"$S3\", bucket: ckpt}" > "$EBB_STATE/master.yaml"
export HOME=$RUN AWS_EC2_METADATA_DISABLED=true # no keys from elsewhere
start_master
make_experiment exp.yaml "{$s3: secretkey, endpoint_url: \"$S3\", bucket: ckpt}"
"$ebb" experiment create exp.yaml loop > out.txt 2>&1 || fail "create: $(cat out.txt)"
for _ in $(seq 300); do answer /experiments/3 | grep -q '"COMPLETED"' && break; sleep 0.1; done
answer /experiments/3 | grep -q '"COMPLETED"' || fail "not COMPLETED: $(answer /experiments/3)"
timeout 100 "$ebb" experiment delete 3 --yes > out.txt 2>&1 || fail "delete: $(cat out.txt)"
is_empty s3 || fail "left: $(second s3 list)"
ok "a place in master.yaml without keys takes none away"
exit 0
