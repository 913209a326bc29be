# Speeds, against plain TCP and curl over the same cable in the same run; servers and files on tmpfs. Rows of $EBB_SPEED_ROWS:
#   gigabit   one file of $EBB_SPEED_BYTES (2 GiB) at 1 Gbit/s (tc tbf): 0.9 of the lesser of TCP and curl
#   far       the same at 200 Mbit/s, 50 ms there and back (tests/net/wire): 0.8 of the lesser
#   local     the same without limits: 0.8 of curl
#   small     1,000 files of 4 KiB, 20 ms there and back: 0.8 of curl
# curl moves objects of 8 MiB by as many connections as ebb has; what it fetches is written to files, as ebb's is.
STORE_RUN=/dev/shm
. "$2/common.sh"
need swift-proxy-server memcached node npm curl ip tc
need_node
need_python boto3
WIRE=$build/tests/net_wire
. "$source_dir/tests/net/net.sh"
[ "$(id -u)" = 0 ] || { echo "skipped: needs root"; exit 77; }
rows=${EBB_SPEED_ROWS:-gigabit far local small} kinds=${EBB_SPEED_KINDS:-s3 gcs hdfs}
size=${EBB_SPEED_BYTES:-2147483648} rounds=${EBB_SPEED_ROUNDS:-1}
piece=$((8 << 20)) pieces=$((size / (8 << 20))) bad=0
SERVE_HOST=10.88.0.2
export ACCESS_KEY=test:ebb SECRET_KEY=secretkey
clean_up() { net_close; }
now() { date +%s.%N; }
since() { /usr/bin/python3 -c "print('%.3f' % ($(now) - $1))"; }

# Where kind's checkpoints go, and curl's requests for objects NAME1..NAMEn: requests put|get KIND NAME COUNT FILE
requests() {
    KIND=$2 /usr/bin/python3 - "$1" "$3" "$4" "$5" <<END
import os, sys
verb, name, count, path = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
kind = os.environ['KIND']
if kind == 's3':
    import boto3
    from botocore.config import Config
    s3 = boto3.client('s3', endpoint_url='${S3-}', aws_access_key_id='test:ebb', aws_secret_access_key='secretkey',
                      region_name='us-east-1', config=Config(signature_version='s3v4', s3={'addressing_style': 'path'}))
    url = lambda key: s3.generate_presigned_url(verb + '_object', Params={'Bucket': 'ckpt', 'Key': key}, ExpiresIn=7200)
elif kind == 'gcs':
    base = '${STORAGE_EMULATOR_HOST-}'
    url = lambda key: base + ('/upload/storage/v1/b/ckpt/o?uploadType=media&name=' + key if verb == 'put' else '/storage/v1/b/ckpt/o/' + key + '?alt=media')
else:
    base = '${HDFS-}'.split(';')[0] + '/webhdfs/v1/curl/'
    url = lambda key: base + key + ('?op=CREATE&overwrite=true&user.name=x' if verb == 'put' else '?op=OPEN&user.name=x')
rows = []
for i in range(count):
    row = ['url = "%s"' % url(name + str(i))]
    if verb == 'put':
        row += ['header = "Content-Type: application/octet-stream"', 'output = "/dev/null"']
        if kind == 'gcs':
            row += ['header = "Expect:"', 'request = "POST"', 'data-binary = "@%s"' % path]
        else: # a data node is named before bytes are sent
            row += ['upload-file = "%s"' % path] + (['header = "Expect: 100-continue"', 'location'] if kind == 'hdfs' else ['header = "Expect:"'])
    else:
        row += ['output = "%s/%d"' % (path, i)] + (['location'] if kind == 'hdfs' else [])
    rows.append('\n'.join(row))
print('\nnext\n'.join(rows))
END
}
curl_all() { # CONNECTIONS CONFIG: its seconds
    local begin
    begin=$(now)
    $HERE curl -s -f --no-progress-meter --parallel --parallel-immediate --parallel-max "$1" -K "$2" || fail "curl: $?"
    since "$begin"
}
ours() { # VERB ARGS: ebb's seconds
    local text
    text=$($HERE "$tool" "$there" "$@") || fail "$*"
    echo "$text" | sed 's/.* bytes \([0-9.]*\) s.*/\1/'
}
tcp() { $HERE /usr/bin/python3 "$source_dir/tests/net/tcp.py" "$1" 10.88.0.2 7000 "$size"; } # bytes a second

start_server() { # KIND
    case $1 in
    s3) serve_swift && there="{\"type\":\"s3\",\"bucket\":\"ckpt\",\"endpoint_url\":\"$S3\"}" && $HERE /usr/bin/python3 -c "
import boto3
from botocore.config import Config
boto3.client('s3', endpoint_url='$S3', aws_access_key_id='test:ebb', aws_secret_access_key='secretkey', region_name='us-east-1',
             config=Config(s3={'addressing_style': 'path'})).create_bucket(Bucket='ckpt')" ;;
    gcs) serve_gcs && there='{"type":"gcs","bucket":"ckpt"}' ;;
    hdfs) serve_hdfs && there="{\"type\":\"hdfs\",\"hdfs_url\":\"$HDFS\",\"hdfs_path\":\"/data\"}" ;;
    esac || fail "$1 does not start"
}

judge() { # ROW KIND VERB BAR BYTES OURS_S CURL_S TCP_RATE (0: not compared)
    /usr/bin/python3 - "$@" <<'END' || bad=$((bad + 1))
import sys
row, kind, verb = sys.argv[1:4]
bar, size, ours, curl, tcp = map(float, sys.argv[4:])
mb = lambda rate: '%.1f MB/s' % (rate / 1e6)
lesser = min(x for x in (size / curl if curl > 0 else 0, tcp) if x > 0)
ratio = size / ours / lesser
print('  %s %s %s: ebb %.2f s %s, curl %s, TCP %s: %.2f of %s%s' % (row, kind, verb, ours, mb(size / ours), '%.2f s %s' % (curl, mb(size / curl)) if curl > 0 else '-',
      mb(tcp) if tcp > 0 else '-', ratio, 'the lesser' if tcp > 0 else 'curl', '' if ratio >= bar else ' BELOW %.2f' % bar))
sys.exit(ratio < bar)
END
}

large() { # ROW BAR
    local kind ways u c d t=(0 0)
    if [ "$1" != local ]; then
        $THERE /usr/bin/python3 "$source_dir/tests/net/tcp.py" serve 10.88.0.2 7000 &
        serve_pids+=($!)
        sleep 0.5
        t=("$(tcp put)" "$(tcp get)")
    fi
    for kind in $kinds; do
        start_server "$kind"
        requests put "$kind" c "$pieces" "$RUN/piece" > put.conf
        requests get "$kind" c "$pieces" "$RUN/curled" > get.conf
        ways=4
        [ "$kind" = s3 ] || ways=1 # one session, one stream
        for _ in $(seq "$rounds"); do
            c=$(curl_all "$ways" put.conf)
            mkdir -p curled && d=$(curl_all 4 get.conf) && rm -rf curled j
            # what is written to HDFS is read back, too, to be proved: twice the bytes
            [ "$kind" != hdfs ] || c=$(/usr/bin/python3 -c "print($c + $d)")
            u=$(ours put $uuid one j)
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
        start_server "$kind"
        requests put "$kind" s 1000 "$RUN/four" > put.conf
        requests get "$kind" s 1000 "$RUN/curled" > get.conf
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
    *) fail "no row $row" ;;
    esac || fail "no network"
    SERVE_IN=$THERE
    case $row in
    gigabit) large gigabit 0.9 ;;
    far) large far 0.8 ;;
    local) large local 0.8 ;;
    small) small 0.8 ;;
    esac
    serve_stop
    net_close
done
[ $bad -eq 0 ] || fail "$bad speeds below their bar"
exit 0
