# S3: Swift with its s3api (checks signatures), read back by boto3; stunnel with a test authority before it.
. "$2/common.sh"
need swift-proxy-server swift-ring-builder memcached stunnel4 openssl
need_python boto3
serve_kind s3
there="{\"type\":\"s3\",\"bucket\":\"ckpt\",\"endpoint_url\":\"$S3\",\"prefix\":\"a b/ü\"}"
make_checkpoint here 20000000
"$tool" "$there" put $uuid here here/journal || fail "put"
second s3 compare "a b/ü/$uuid" || fail "boto3 reads something else"
"$tool" "$there" get $uuid back || fail "get"
same_tree here/$uuid back/$uuid
"$tool" "$there" remove $uuid here || fail "remove"
is_empty s3 || fail "left: $(second s3 list)"
ok "a checkpoint there and back, names with blanks, +, %, ü, <; 0 bytes; 20 MB in parts"

# ---- 1,010 files: deleted in two calls
mkdir -p "many/.$uuid.tmp/d" && (cd "many/.$uuid.tmp/d" && for i in $(seq 1010); do echo $i > f$i; done)
"$tool" - seal many $uuid > /dev/null && "$tool" "$there" put $uuid many many/journal || fail "many files"
"$tool" "$there" get $uuid back2 && same_tree many/$uuid back2/$uuid
"$tool" "$there" remove $uuid many && is_empty s3 || fail "left: $(second s3 list)"
ok "1,010 files"

# ---- manifest.json, then metadata.json go last, whatever their sizes
mkdir -p "last/.$uuid.tmp" && head -c 9000000 /dev/urandom > "last/.$uuid.tmp/weights"
/usr/bin/python3 -c "import json; json.dump({'x': 'a' * 9000000}, open('last/.$uuid.tmp/metadata.json', 'w'))"
"$tool" - seal last $uuid > /dev/null && "$tool" "$there" put $uuid last last/journal || fail "large metadata"
[ "$(grep '"done"' last/journal | tail -n 2 | grep -o '[a-z]*\.json' | xargs)" = "manifest.json metadata.json" ] || fail "last: $(grep '"done"' last/journal)"
"$tool" "$there" remove $uuid last && is_empty s3 || fail "left: $(second s3 list)"
ok "manifest.json, then metadata.json go last, also a large one"

# ---- over TLS
serve_tls || fail "no TLS: $(cat "$RUN"/tls/log)"
secure="{\"type\":\"s3\",\"bucket\":\"ckpt\",\"endpoint_url\":\"$S3TLS\"}"
"$tool" "$secure" check scratch 2> err.txt && fail "an unknown authority is trusted"
has err.txt certificate
AWS_CA_BUNDLE=$CA "$tool" "$secure" check scratch || fail "TLS"
SSL_CERT_FILE=$CA "$tool" "$secure" check scratch || fail "TLS, by SSL_CERT_FILE"
ok "https with a test authority"
serve_expired || fail "no TLS: $(cat "$RUN"/tls2/log)"
late="{\"type\":\"s3\",\"bucket\":\"ckpt\",\"endpoint_url\":\"$S3TLS\"}"
AWS_CA_BUNDLE=$CA "$tool" "$late" check scratch 2> err.txt && fail "an expired certificate is trusted"
has err.txt "s3: PUT ckpt/"
has err.txt "certificate has expired"
make_experiment exp.yaml "{type: s3, bucket: ckpt, endpoint_url: \"$S3TLS\", access_key: \"test:ebb\", secret_key: secretkey}"
AWS_CA_BUNDLE=$CA timeout 60 "$ebb" run exp.yaml loop --no-charts > out.txt 2>&1 && fail "accepted: an expired certificate"
has out.txt "checkpoint_storage: s3: PUT"
has out.txt "certificate has expired"
ok "an expired certificate is refused, also at submission"

# ---- keys from elsewhere
unset ACCESS_KEY SECRET_KEY
AWS_EC2_METADATA_DISABLED=true HOME=$RUN "$tool" "$there" check scratch 2> err.txt && fail "no keys"
has err.txt "no keys"
AWS_ACCESS_KEY_ID=test:ebb AWS_SECRET_ACCESS_KEY=secretkey "$tool" "$there" check scratch || fail "keys of the environment"
mkdir -p .aws && printf '[p]\naws_access_key_id = test:ebb\naws_secret_access_key = secretkey\n' > .aws/credentials
HOME=$RUN AWS_PROFILE=p "$tool" "$there" check scratch || fail "keys of a profile"
ok "keys of the environment, of a profile"

# ---- experiments
storage="{type: s3, bucket: ckpt, endpoint_url: \"$S3\", access_key: \"test:ebb\", secret_key: secretkey, save_trial_latest: 3}"
make_experiment exp.yaml "$storage"
timeout 120 "$ebb" run exp.yaml loop --no-charts > out.txt 2>&1 || fail "ebb run: $(cat out.txt)"
has out.txt "Its checkpoint: s3://ckpt/"
[ -z "$(ls state/staging)" ] || fail "staging: $(ls state/staging)"
"$ebb" experiment list-checkpoints 1 --json > list.json
[ "$(field "[c['state'] for c in x['checkpoints']]" < list.json)" = "['COMPLETED', 'COMPLETED', 'COMPLETED']" ] || fail "$(cat list.json)"
one=$(field "x['checkpoints'][0]['uuid']" < list.json)
second s3 compare "$one" || fail "boto3 reads something else"
rm -rf state/cache/* && timeout 60 "$ebb" checkpoint download "$one" copy > /dev/null || fail "download"
same_tree "copy" "state/cache/$one"
timeout 60 "$ebb" checkpoint validate-storage --experiment 1 > /dev/null || fail "validate-storage"
timeout 120 "$ebb" run exp.yaml loop --no-charts --config "searcher.source_checkpoint_uuid=$one" \
    --config "checkpoint_storage={type: shared_fs, host_path: $RUN/fs}" > out.txt 2>&1 || fail "warm start: $(cat out.txt)"
grep -rl secretkey state | grep -v ebb.db && fail "secrets outside the database"
"$ebb" experiment describe 1 --json | grep -q secretkey && fail "secrets in answers"
ok "a search, downloads, a warm start from another store, no secrets"
for n in 2 1; do "$ebb" experiment delete $n --yes > out.txt 2>&1 || fail "delete: $(cat out.txt)"; done
is_empty s3 && [ -z "$(ls state/staging state/cache | grep -v :)" ] || fail "left: $(second s3 list)"
ok "deleted: bucket, uploads, staging, cache are empty"

# ---- refused at submission

# ---- a key has at most 1024 bytes, with the prefix and the UUID: what would be longer is refused when it is written
mkdir long && sed 's/^                json.dump.*/&\n            d = os.path.join(work.directory, "d" * 250, "d" * 250, "d" * 250)\n            os.makedirs(d)\n            open(os.path.join(d, "f" * int(os.environ["NAME"])), "w").close()/' \
    "$source_dir/examples/python-loop/train.py" > long/train.py
make_experiment long.yaml "$storage" 'environment: {environment_variables: [NAME=234]}'
timeout 120 "$ebb" run long.yaml long --no-charts > out.txt 2>&1 || fail "names of 987 bytes: $(cat out.txt)"
id=$("$ebb" experiment list --all --json | field "max(e['id'] for e in x['experiments'])")
one=$("$ebb" experiment list-checkpoints "$id" --json | field "x['checkpoints'][0]['uuid']")
second s3 compare "$one" || fail "boto3 reads something else"
sed -i 's/NAME=234/NAME=235/' long.yaml
timeout 120 "$ebb" run long.yaml long --no-charts > out.txt 2>&1 && fail "accepted: names of 988 bytes"
"$ebb" trial logs "$("$ebb" experiment list-trials "$((id + 1))" --json | field "x['trials'][0]['id']")" > logs.txt 2>&1
has logs.txt "at most 987 bytes"
for n in $((id + 1)) "$id"; do "$ebb" experiment delete "$n" --yes > out.txt 2>&1 || fail "delete: $(cat out.txt)"; done
is_empty s3 && [ -z "$(ls state/staging)" ] || fail "left: $(second s3 list) $(ls state/staging)"
ok "names of 987 bytes arrive, longer ones are refused"

refused() { # CHANGE WORDS
    sed "$1" exp.yaml > bad.yaml
    timeout 60 "$ebb" run bad.yaml loop --no-charts > out.txt 2>&1 && fail "accepted: $1"
    has out.txt "checkpoint_storage: s3: PUT"
    has out.txt "$2"
    grep -q secretkey out.txt && fail "secret shown"
}
refused 's/: secretkey/: wrong/' "403 SignatureDoesNotMatch"
refused 's/bucket: ckpt/bucket: none/' "404 NoSuchBucket"
refused "s#$S3#http://127.0.0.1:9#" "connect"
refused 's/"test:ebb"/"test:reader"/; s/: secretkey/: readerkey/' "403"
ok "refused at submission: wrong key, no bucket, no server, no right to write"
exit 0
