# Files of checkpoints over HTTP: whole, in ranges, and `ebb -m URL checkpoint download` from a master that is elsewhere.
# $1 = the ebb program, $2 = source folder
. "$2/tests/cli/exp_common.sh"

mkdir loop && sed 's/^                json.dump.*/&\n            with open(os.path.join(work.directory, "b c\&+%ü"), "wb") as f:\n                f.write(bytes(range(256)) * 80000)/' \
    "$source_dir/examples/python-loop/train.py" >loop/train.py
cat >exp.yaml <<'YAML'
entrypoint: [python3, train.py]
batches_per_step: 5
hyperparameters: {global_batch_size: 4, learning_rate: 0.5}
searcher: {name: single, metric: validation_error, max_steps: 1}
YAML
expect 0 "$ebb" run exp.yaml loop --no-charts
expect 0 "$ebb" experiment list-checkpoints 1 --json
uuid=$(field "x['checkpoints'][0]['uuid']")
path=$(field "x['checkpoints'][0]['path']")

"$ebb" serve --listen 127.0.0.1:0 >serve.txt 2>&1 &
for _ in $(seq 100); do grep -q Listening serve.txt && break; sleep 0.1; done
url=$(sed -n 's/Listening on \([^ ]*\) for.*/\1/p' serve.txt)
expect 0 "$ebb" user token "$(id -un)" --json
token=$(field "x['token']")

# ---- by the command, as from another machine
EBB_TOKEN=$token EBB_STATE=$PWD/none expect 0 "$ebb" -m "$url" checkpoint download "$uuid" copy
diff -r "$path" copy || fail "the download differs"

# ---- what is damaged is not copied without a word
damaged=$(find "$path" -type f -name 'b c*')
cp "$damaged" safe && printf X | dd of="$damaged" bs=1 seek=7 conv=notrunc status=none
EBB_TOKEN=$token EBB_STATE=$PWD/none expect 2 "$ebb" -m "$url" checkpoint download "$uuid" bad
has err.txt "XXH3 of b c"
expect 2 "$ebb" checkpoint download "$uuid" bad2
has err.txt "XXH3 of b c"
cp safe "$damaged"

# ---- ranges
cat >ask.py <<'PY'
import http.client, sys, urllib.parse
url, token, uuid = urllib.parse.urlparse(sys.argv[1]), sys.argv[2], sys.argv[3]
name = "b c&+%ü"
whole = bytes(range(256)) * 80000
def ask(path, fields={}, method="GET"):
    c = http.client.HTTPConnection(url.hostname, url.port)
    c.request(method, "/api/v1/checkpoints/%s/files/%s" % (uuid, path), headers={"Authorization": "Bearer " + token, **fields})
    a = c.getresponse()
    return a.status, a.read(), a.getheader("Content-Range"), a.getheader("Content-Length")
file = urllib.parse.quote(name)
size = len(whole)
assert ask(file)[:2] == (200, whole)
assert ask(file, method="HEAD") == (200, b"", None, str(size))
for text, begin, end in (("bytes=0-0", 0, 1), ("bytes=255-300", 255, 301), ("bytes=%d-" % (size - 3), size - 3, size),
                         ("bytes=-5", size - 5, size), ("bytes=1-%d" % (9 * size), 1, size)):
    assert ask(file, {"Range": text})[:3] == (206, whole[begin:end], "bytes %d-%d/%d" % (begin, end - 1, size)), text
assert ask(file, {"Range": "bytes=1-99999999999999999999"})[:2] == (206, whole[1:])
for text in ("bytes=%d-" % size, "bytes=-0", "bytes=99999999999999999999-"):
    status, _, found, _ = ask(file, {"Range": text})
    assert (status, found) == (416, "bytes */%d" % size), text
for text in ("bytes=5-4", "lines=1-2", "bytes=x", "bytes=0-1,4-5", "bytes="): # what is no range that is understood is not looked at
    assert ask(file, {"Range": text})[:3] == (200, whole, None), text
for path in ("none", "../" + uuid + "/metadata.json", "%2e%2e/ebb.db", "/etc/passwd", "code", ""):
    assert ask(path)[0] == 404, path
print("good")
PY
expect 0 python3 ask.py "$url" "$token" "$uuid"
has out.txt good
ln -s /etc/passwd "$path/link"
EBB_STATE=$EBB_STATE expect 0 python3 -c "
import http.client, urllib.parse
u = urllib.parse.urlparse('$url')
c = http.client.HTTPConnection(u.hostname, u.port)
c.request('GET', '/api/v1/checkpoints/$uuid/files/link', headers={'Authorization': 'Bearer $token'})
print(c.getresponse().status)"
has out.txt 404
finish
