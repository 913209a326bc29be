# Google Cloud Storage: a small server of its JSON API that the official client also passes; credentials of every kind.
. "$2/common.sh"
need node npm openssl
need_node
openssl genrsa -out key.pem 2048 2> /dev/null && openssl rsa -in key.pem -pubout -out public.pem 2> /dev/null || fail "no key"
serve_gcs || fail "the server does not start: $(cat "$RUN/gcs.log")"
client() { env -u STORAGE_EMULATOR_HOST NODE_PATH="$NODE/node_modules" node "$STORE_TESTS/gcs_client.js" "$STORAGE_EMULATOR_HOST" "$@"; }
client try || fail "the official client does not pass against the server"
ok "the server is what the official client expects"

there='{"type":"gcs","bucket":"ckpt","prefix":"a b/ü"}'
make_checkpoint here 30000000
"$tool" "$there" put $uuid here here/journal || fail "put"
second gcs compare "a b/ü/$uuid" || fail "the official client reads something else"
"$tool" "$there" get $uuid back || fail "get"
same_tree here/$uuid back/$uuid
"$tool" "$there" remove $uuid here here/journal || fail "remove"
is_empty gcs || fail "left: $(second gcs list)"
ok "a checkpoint there and back, 30 MB through a session"

# ---- manifests that somebody else wrote
"$tool" "$there" put $uuid here here/journal2 || fail "put"
lie() { # PYTHON that changes m, WORDS
    /usr/bin/python3 - > lie.json <<END
import json
m = json.load(open('here/$uuid/manifest.json'))
$1
print(json.dumps(m))
END
    curl -s -f -o /dev/null -H 'Content-Type: application/json' --data-binary @lie.json \
        "$STORAGE_EMULATOR_HOST/upload/storage/v1/b/ckpt/o?uploadType=media&name=a%20b%2F%C3%BC%2F$uuid%2Fmanifest.json" || fail curl
    rm -rf back outside
    timeout 60 "$tool" "$there" get $uuid back 2> err.txt && fail "taken for whole: $1"
    has err.txt "$2"
    [ ! -e outside ] && [ -z "$(ls -A back 2> /dev/null)" ] || fail "left: $(ls -A back)"
}
older="del m['xxh128']; " # an own sum would tell
lie "${older}m['files'][0]['bytes'] = 1 << 60" "1152921504606846976 bytes"
lie "${older}m['files'][0]['path'] = '../../outside'" "names \"../../outside\""
lie "${older}m['files'][0]['path'] = '/tmp/outside'" "names \"/tmp/outside\""
lie "${older}m['files'][0]['sha256'] = '0' * 64" "SHA-256"
lie "${older}m['files'][0]['sha256'] = '0'" "has no SHA-256"
lie "${older}m['files'].append(dict(m['files'][0], path='none'))" "404"
for change in "f[0]['sha256'] = '0' * 64" "f[0]['xxh128'] = '0' * 32" "f[0]['bytes'] += 1" "f[0]['path'] += '1'" "del f[0]" "f.append(f[0])" "del f[0]['xxh128']"; do
    lie "f = m['files']; $change" "not what it was written with"
done
lie "m = [[[]]]" "damaged"
"$tool" "$there" remove $uuid here here/journal2 && is_empty gcs || fail "left: $(second gcs list)"
ok "manifests that lie are not believed"

# ---- killed in the middle of a session, four times: the rest is sent, not all of it
received() { /usr/bin/python3 -c "import json, urllib.request as u
print(json.load(u.urlopen('$STORAGE_EMULATOR_HOST/storage/v1/b/ckpt/o'))['received'])"; }
kill_upload() { # JOURNAL: once a session has begun
    "$tool" "$there" put $uuid big "$1" > /dev/null 2>&1 &
    local pid=$!
    for _ in $(seq 100); do grep -qs upload "$1" && break; sleep 0.02; done
    sleep 0.1
    kill -9 $pid 2> /dev/null
    wait $pid 2> /dev/null
}
make_checkpoint big 300000000
before=$(received)
for _ in 1 2 3 4; do kill_upload big/journal; done
"$tool" "$there" put $uuid big big/journal || fail "not resumed"
sent=$(($(received) - before))
[ $sent -lt 315000000 ] || fail "sent $sent bytes of 300000000"
second gcs compare "a b/ü/$uuid" || fail "resumed to something else"
"$tool" "$there" remove $uuid big big/journal && is_empty gcs || fail "left: $(second gcs list)"
ok "killed four times, resumed; $sent bytes sent of 300000671"

# ---- a session that says it has more than there is: another one is begun
kill_upload big/journal3
address=$STORAGE_EMULATOR_HOST
start_proxy
set_fault boast 1
STORAGE_EMULATOR_HOST=$front "$tool" "$there" put $uuid big big/journal3 || fail "a session that boasts"
second gcs compare "a b/ü/$uuid" || fail "resumed to something else"
"$tool" "$there" remove $uuid big big/journal3 || fail "remove"
ok "a session that says it has more than there is"

# ---- an unfinished session is ended by removal
kill_upload big/journal2
"$tool" "$there" remove $uuid big big/journal2 && is_empty gcs || fail "left: $(second gcs list)"
ok "removal ends sessions"

# ---- experiments
make_experiment exp.yaml '{type: gcs, bucket: ckpt, prefix: p}'
timeout 120 "$ebb" run exp.yaml loop --no-charts > out.txt 2>&1 || fail "ebb run: $(cat out.txt)"
has out.txt "Its checkpoint: gs://ckpt/p/"
"$ebb" experiment delete 1 --yes > out.txt 2>&1 || fail "delete: $(cat out.txt)"
is_empty gcs && [ -z "$(ls state/staging state/cache | grep -v :)" ] || fail "left: $(second gcs list)"
ok "an experiment, deleted"
sed 's/bucket: ckpt/bucket: none/' exp.yaml > bad.yaml
timeout 60 "$ebb" run bad.yaml loop --no-charts > out.txt 2>&1 && fail "accepted"
has out.txt "404 notFound: The specified bucket does not exist."
ok "refused: no bucket"

# ---- event files: each whole, once while nothing takes a minute; a new one from 64 MiB on
mkdir wide
sed 's/work.report(validation_error=line.error())/work.report(validation_error=line.error(), **{"m%0200d" % i: float(i) for i in range(4000)})/' \
    "$source_dir/examples/python-loop/train.py" > wide/train.py
make_experiment exp.yaml '{type: gcs, bucket: ckpt}' 'min_validation_period: 1'
sed -i 's/max_steps: 3/max_steps: 80/; /^min_checkpoint_period/d' exp.yaml
before=$(received) begin=$SECONDS
timeout 300 "$ebb" run exp.yaml wide --no-charts > out.txt 2>&1 || fail "ebb run: $(cat out.txt)"
took=$((SECONDS - begin)) sent=$(($(received) - before))
here=$(cd state/checkpoints && find . -name 'events.*' -printf '%s %P\n' | sort)
copies=$(/usr/bin/python3 -c "import json, urllib.request as u
for o in json.load(u.urlopen('$STORAGE_EMULATOR_HOST/storage/v1/b/ckpt/o'))['items']:
    if 'events' in o['name']: print(o['size'], o['name'])" | sort)
[ "$(echo "$here" | wc -l)" = 2 ] && [ "$here" = "$copies" ] || fail "event files: $here; there: $copies"
[ $took -gt 55 ] || [ $sent -lt 83000000 ] || fail "sent $sent bytes in $took s"
"$ebb" experiment delete 2 --yes > out.txt 2>&1 && is_empty gcs || fail "left: $(second gcs list)"
ok "event files: a second one from 64 MiB on, $sent bytes sent in $took s"

# ---- tokens: the server wants them now
PORT=$((PORT + 16))
node "$STORE_TESTS/gcs_server.js" $PORT "$RUN/gcs" public.pem > gcs2.log 2>&1 &
serve_pids+=($!)
serve_wait $PORT "the GCS server" || fail "$(cat gcs2.log)"
export STORAGE_EMULATOR_HOST=http://127.0.0.1:$PORT
"$tool" "$there" check scratch 2> err.txt && fail "no token, and accepted"
has err.txt "401 authError: Invalid Credentials"
/usr/bin/python3 - > account.json <<END
import json
print(json.dumps({'type': 'service_account', 'client_email': 'a@b', 'private_key_id': 'k', 'private_key': open('key.pem').read(),
                  'token_uri': 'http://127.0.0.1:$PORT/token'}))
END
GOOGLE_APPLICATION_CREDENTIALS=account.json "$tool" "$there" check scratch || fail "service account"
address=$STORAGE_EMULATOR_HOST
start_proxy
sed "s#127.0.0.1:$PORT/token#${front#http://}/token#" account.json > far.json
set_fault 503 1
GOOGLE_APPLICATION_CREDENTIALS=far.json "$tool" "$there" check scratch || fail "a token that comes at the second try"
openssl genrsa 2048 2> /dev/null > other.pem
sed "s#.*#x#" account.json > /dev/null
/usr/bin/python3 -c "import json; x = json.load(open('account.json')); x['private_key'] = open('other.pem').read(); json.dump(x, open('wrong.json', 'w'))"
GOOGLE_APPLICATION_CREDENTIALS=wrong.json "$tool" "$there" check scratch 2> err.txt && fail "a wrong key is trusted"
has err.txt "Invalid JWT Signature."
printf '{"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "good-refresh", "token_uri": "http://127.0.0.1:%s/token"}' $PORT > user.json
GOOGLE_APPLICATION_CREDENTIALS=user.json "$tool" "$there" check scratch || fail "authorised user"
mkdir -p home/.config/gcloud && cp user.json home/.config/gcloud/application_default_credentials.json
HOME=$RUN/home "$tool" "$there" check scratch || fail "gcloud's file"
GCE_METADATA_HOST=127.0.0.1:$PORT HOME=$RUN "$tool" "$there" check scratch || fail "metadata server"
ok "tokens: service account, authorised user, gcloud's file, metadata server"
exit 0
