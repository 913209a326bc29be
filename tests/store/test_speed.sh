# Speeds, against plain TCP and curl over the same cable in the same run; servers and files on tmpfs. Rows of $EBB_SPEED_ROWS:
#   gigabit   one file of $EBB_SPEED_BYTES (2 GiB) at 1 Gbit/s (tc tbf): 0.9 of the lesser of TCP and curl
#   far       the same at 200 Mbit/s, 50 ms there and back (tests/net/wire): 0.8 of the lesser
#   local     the same without limits: 0.8 of curl
#   small     1,000 files of 4 KiB, 20 ms there and back: 0.8 of curl
#   slow      a trial at 1 MB/s stands still per checkpoint for what sealing it takes, and at most 0.2 s
# curl makes the same requests (parts and ranges of 8 MiB, one session; to s3 with Content-MD5 and signed hashes, made before the
# clock starts) by as many connections; what it fetches is written to files, as ebb's is; it hashes nothing. Each row also says how
# long ebb and the servers kept processors busy: where both together come near to what the machine has, that is the limit.
STORE_RUN=/dev/shm
. "$2/common.sh"
need swift-proxy-server memcached node npm curl ip tc
need_node
need_python boto3
WIRE=$build/tests/net_wire
. "$source_dir/tests/net/net.sh"
[ "$(id -u)" = 0 ] || { echo "skipped: needs root"; exit 77; }
rows=${EBB_SPEED_ROWS:-gigabit far local small slow} kinds=${EBB_SPEED_KINDS:-s3 gcs hdfs}
size=${EBB_SPEED_BYTES:-2147483648} rounds=${EBB_SPEED_ROUNDS:-1}
piece=$((8 << 20)) pieces=$((size / (8 << 20))) bad=0
SERVE_HOST=10.88.0.2
clean_up() { net_close; }
now() { date +%s.%N; }
since() { /usr/bin/python3 -c "print('%.3f' % ($(now) - $1))"; }

# curl's requests of the same kind as ebb's: requests VERB KIND COUNT FILE [KEY], one row each
#   puts, gets        COUNT small objects
#   parts, ranges     of one object: what ebb sends (s3: parts; gcs: one session; hdfs: one file), what it fetches (8 MiB each)
requests() {
    $HERE env KIND=$2 /usr/bin/python3 - "$1" "$3" "$4" "${5-}" <<END
import os, sys, urllib.parse, urllib.request as u
verb, count, path, key = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
kind, piece = os.environ['KIND'], $piece
octets = ['header = "Content-Type: application/octet-stream"', 'output = "/dev/null"']
send = octets + ['upload-file = "%s"' % path, 'header = "Expect:"']
rows = []
if kind == 's3':
    import boto3
    from botocore.config import Config
    s3 = boto3.client('s3', endpoint_url='${S3-}', aws_access_key_id='test:ebb', aws_secret_access_key='secretkey',
                      region_name='us-east-1', config=Config(signature_version='s3v4', s3={'addressing_style': 'path'}))
    import base64, hashlib
    from botocore.auth import S3SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials
    class Sign(S3SigV4Auth):
        def payload(self, request):
            return sha256
    sign = Sign(Credentials('test:ebb', 'secretkey'), 's3', 'us-east-1')
    def put(key):
        r = AWSRequest('PUT', '${S3-}/ckpt/' + key, {'Content-MD5': md5, 'Content-Type': 'application/octet-stream'})
        sign.add_auth(r)
        rest = ['output = "/dev/null"', 'upload-file = "%s"' % path, 'header = "Expect:"']
        return ['url = "%s"' % r.url] + ['header = "%s: %s"' % h for h in r.headers.items()] + rest
    if verb in ('parts', 'puts'):
        body = open(path, 'rb').read()
        md5, sha256 = base64.b64encode(hashlib.md5(body).digest()).decode(), hashlib.sha256(body).hexdigest()
    def url(call, **more):
        return 'url = "%s"' % s3.generate_presigned_url(call, Params={'Bucket': 'ckpt', **more}, ExpiresIn=7200)
    if verb == 'parts':
        upload = s3.create_multipart_upload(Bucket='ckpt', Key='curled')['UploadId']
        rows = [put('curled?partNumber=%d&uploadId=%s' % (i + 1, urllib.parse.quote(upload, safe=''))) for i in range(count)]
    elif verb == 'puts':
        rows = [put('s%d' % i) for i in range(count)]
    elif verb == 'gets':
        rows = [[url('get_object', Key='s%d' % i)] for i in range(count)]
    else:
        rows = [[url('get_object', Key=key)] for i in range(count)]
elif kind == 'gcs':
    base = '${STORAGE_EMULATOR_HOST-}'
    media = octets + ['header = "Expect:"', 'request = "POST"', 'data-binary = "@%s"' % path]
    if verb == 'parts':
        session = u.urlopen(u.Request(base + '/upload/storage/v1/b/ckpt/o?uploadType=resumable&name=curled', data=b'{}', method='POST')).headers['location']
        rows = [['url = "%s"' % session, 'request = "PUT"'] + send]
    elif verb == 'puts':
        rows = [['url = "%s/upload/storage/v1/b/ckpt/o?uploadType=media&name=s%d"' % (base, i)] + media for i in range(count)]
    else:
        rows = [['url = "%s/storage/v1/b/ckpt/o/%s?alt=media"' % (base, urllib.parse.quote(key or 's%d' % i, safe=''))] for i in range(count)]
else: # a data node is named before bytes are sent
    base = '${HDFS-}'.split(';')[0] + '/webhdfs/v1/'
    later = octets + ['upload-file = "%s"' % path, 'header = "Expect: 100-continue"', 'location']
    if verb in ('parts', 'puts'):
        rows = [['url = "%scurl/%d?op=CREATE&overwrite=true&user.name=x"' % (base, i)] + later for i in range(1 if verb == 'parts' else count)]
    elif verb == 'gets':
        rows = [['url = "%scurl/%d?op=OPEN&user.name=x"' % (base, i), 'location'] for i in range(count)]
    else:
        rows = [['url = "%sdata/%s?op=OPEN&offset=%d&length=%d&user.name=x"' % (base, key, i * piece, piece), 'location'] for i in range(count)]
if verb in ('gets', 'ranges'):
    for i, row in enumerate(rows):
        row.append('output = "%s/%d"' % (path, i))
        if verb == 'ranges' and kind != 'hdfs':
            row.append('range = "%d-%d"' % (i * piece, (i + 1) * piece - 1))
print('\nnext\n'.join('\n'.join(row) for row in rows))
END
}
curl_all() { # CONNECTIONS CONFIG: its seconds
    local begin
    begin=$(now)
    $HERE curl -s -f --no-progress-meter --parallel --parallel-immediate --parallel-max "$1" -K "$2" || fail "curl: $?"
    since "$begin"
}
servers() { awk '{ s += $14 + $15 } END { print s / 100 }' $(printf '/proc/%s/stat ' "${serve_pids[@]}"); } # seconds of processors
ours() { # VERB ARGS: ebb's seconds; those of processors, ebb's and the servers'
    local text before
    before=$(servers)
    text=$($HERE "$tool" "$there" "$@") || fail "$*"
    echo "$text" | sed "s/.* bytes \\([0-9.]*\\) s.* \\([0-9.]*\\) s of processors/\\1 \\2 $(/usr/bin/python3 -c "print('%.1f' % ($(servers) - $before))")/"
}
tcp() { $HERE /usr/bin/python3 "$source_dir/tests/net/tcp.py" "$1" 10.88.0.2 7000 "$size"; } # bytes a second

judge() { # ROW KIND VERB BAR BYTES "OURS_S BUSY_S SERVERS_S" CURL_S TCP_RATE (0: not compared)
    /usr/bin/python3 - "$@" <<'END' || bad=$((bad + 1))
import sys
row, kind, verb = sys.argv[1:4]
(bar, size), (ours, busy, servers), (curl, tcp) = [map(float, x) for x in (sys.argv[4:6], sys.argv[6].split(), sys.argv[7:])]
mb = lambda rate: '%.1f MB/s' % (rate / 1e6)
lesser = min(x for x in (size / curl if curl > 0 else 0, tcp) if x > 0)
ratio = size / ours / lesser
print('  %s %s %s: ebb %.2f s %s, curl %s, TCP %s: %.2f of %s%s (busy: ebb %.1f s, servers %.1f s)' % (row, kind, verb, ours, mb(size / ours), '%.2f s %s' % (curl, mb(size / curl)) if curl > 0 else '-',
      mb(tcp) if tcp > 0 else '-', ratio, 'the lesser' if tcp > 0 else 'curl', '' if ratio >= bar else ' BELOW %.2f' % bar, busy, servers))
sys.exit(ratio < bar)
END
}

large() { # ROW BAR
    local kind u c d t=(0 0)
    if [ "$1" != local ]; then
        $THERE /usr/bin/python3 "$source_dir/tests/net/tcp.py" serve 10.88.0.2 7000 &
        serve_pids+=($!)
        sleep 0.5
        t=("$(tcp put)" "$(tcp get)")
    fi
    for kind in $kinds; do
        serve_kind "$kind"
        requests ranges "$kind" "$pieces" "$RUN/curled" "$uuid/weights" > get.conf
        for _ in $(seq "$rounds"); do
            if [ "$kind" = s3 ]; then
                requests parts s3 "$pieces" "$RUN/piece" > put.conf
            else
                requests parts "$kind" 1 "$RUN/one/$uuid/weights" > put.conf
            fi
            rm -f j
            u=$(ours put $uuid one j)
            c=$(curl_all 4 put.conf)
            mkdir -p curled && d=$(curl_all 4 get.conf) && rm -rf curled
            # what is written to HDFS is read back, too, to be proved: twice the bytes
            [ "$kind" != hdfs ] || c=$(/usr/bin/python3 -c "print($c + $d)")
            judge "$1" "$kind" put "$2" "$size" "$u" "$c" "$([ "$kind" = hdfs ] && echo 0 || echo "${t[0]}")"
            u=$(ours get $uuid back)
            rm -rf back
            judge "$1" "$kind" get "$2" "$size" "$u" "$d" "${t[1]}"
        done
        serve_stop
        rm -rf "$RUN"/{srv,gcs,hdfs}
        PORT=$((PORT + 16))
    done
}

small() { # BAR
    local kind c d u
    for kind in $kinds; do
        serve_kind "$kind"
        requests puts "$kind" 1000 "$RUN/four" > put.conf
        requests gets "$kind" 1000 "$RUN/curled" > get.conf
        for _ in $(seq "$rounds"); do
            c=$(curl_all 8 put.conf)
            mkdir -p curled && d=$(curl_all 8 get.conf) && rm -rf curled j
            [ "$kind" != hdfs ] || c=$(/usr/bin/python3 -c "print($c + $d)")
            u=$(ours put $uuid many j)
            judge small "$kind" put "$1" 4096000 "$u" "$c" 0
            u=$(ours get $uuid back)
            rm -rf back
            judge small "$kind" get "$1" 4096000 "$u" "$d" 0
        done
        serve_stop
        rm -rf "$RUN"/{srv,gcs,hdfs}
        PORT=$((PORT + 16))
    done
}

# How long a trial waits between a checkpoint that it has written and its next workload: seconds of the longest wait
waits() { # STORAGE [WORDS BEFORE THE COMMAND]
    make_experiment slow.yaml "$1" 'environment: {environment_variables: [SIZE=1000000]}'
    sed -i 's/max_steps: 3/max_steps: 6/' slow.yaml
    rm -rf "$EBB_STATE"
    timeout 300 $2 "$ebb" run slow.yaml slow --no-charts > out.txt 2>&1 || fail "slow: $(cat out.txt)"
    "$ebb" trial logs 1 2> /dev/null | sed -n 's/.*waited \([0-9.]*\).*/\1/p' | sort -n | tail -n 1
}
slow() {
    mkdir -p slow
    sed 's/^                json.dump.*/&\n            with open(os.path.join(work.directory, "large"), "wb") as f:\n                f.write(os.urandom(int(os.environ["SIZE"])))\n            wrote = time.monotonic()/
s/^        if work.is_train:/        if wrote:\n            print("waited %.3f" % (time.monotonic() - wrote), flush=True)\n            wrote = 0\n            time.sleep(2)\n&/
s/^    for work in/    wrote = 0\n&/; s/^import os/import os, time/' "$source_dir/examples/python-loop/train.py" > slow/train.py
    serve_kind gcs
    local near far
    near=$(waits "{type: shared_fs, host_path: $RUN/fs}" "") && far=$(waits "{type: gcs, bucket: ckpt}" "$HERE") || fail slow
    echo "  slow: at 1 MB/s a trial waits at most $far s after a checkpoint of 1 MB, on this machine's disk $near s"
    /usr/bin/python3 -c "import sys; sys.exit($far > $near + 0.2)" || bad=$((bad + 1))
}

mkdir -p "one/.$uuid.tmp" "many/.$uuid.tmp"
head -c "$size" /dev/urandom > "one/.$uuid.tmp/weights"
head -c "$piece" /dev/urandom > piece
head -c 4096 /dev/urandom > four
for i in $(seq 1000); do head -c 4096 /dev/urandom > "many/.$uuid.tmp/f$i"; done
"$tool" - seal one $uuid > /dev/null && "$tool" - seal many $uuid > /dev/null || fail "sealing"
for row in $rows; do
    case $row in
    gigabit) net_open && net_limit 1gbit ;;
    far) net_open rate=200M delay=25 ;;
    local) net_open ;;
    small) net_open delay=10 ;;
    slow) net_open rate=8M delay=5 ;;
    *) fail "no row $row" ;;
    esac || fail "no network"
    SERVE_IN=$THERE CLIENT_IN=$HERE
    case $row in
    gigabit) large gigabit 0.9 ;;
    far) large far 0.8 ;;
    local) large local 0.8 ;;
    small) small 0.8 ;;
    slow) slow ;;
    esac
    serve_stop
    net_close
done
[ $bad -eq 0 ] || fail "$bad speeds below their bar"
exit 0
