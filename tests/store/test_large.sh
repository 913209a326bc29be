# Large and many: 10,000 files in every store ($EBB_LARGE_KINDS), one file of 6 GiB, more than one PUT may have
# ($EBB_LARGE_BYTES, kinds $EBB_LARGE_ONE), there and back; memory grows by at most 16 MiB.
. "$2/common.sh"
need swift-proxy-server memcached node npm
need_node
need_python boto3
kinds=${EBB_LARGE_KINDS:-s3 gcs hdfs} one=${EBB_LARGE_ONE:-s3} size=${EBB_LARGE_BYTES:-6442450944}
export ACCESS_KEY=test:ebb SECRET_KEY=secretkey
mkdir -p "one/.$uuid.tmp" "many/.$uuid.tmp/d"
(cd "many/.$uuid.tmp/d" && for i in $(seq 10000); do echo $i > "f $i"; done)
/usr/bin/python3 - "one/.$uuid.tmp/weights" "$size" <<'END'
import os, sys
with open(sys.argv[1], 'wb') as f: # no two parts alike
    f.truncate(int(sys.argv[2]))
    for at in range(0, int(sys.argv[2]), 1 << 20):
        f.seek(at)
        f.write(os.urandom(4096))
END
"$tool" - seal many $uuid > /dev/null && "$tool" - seal one $uuid > /dev/null || fail "sealing"
memory() { sed 's/.* s \([0-9]*\) KiB.*/\1/'; }
there_and_back() { # WHAT
    local idle peak back
    idle=$("$tool" "$there" check scratch | memory) || fail "$kind: check"
    rm -rf j back
    "$tool" "$there" put $uuid "$1" j > put.txt || fail "$kind: put $1"
    "$tool" "$there" get $uuid back > get.txt || fail "$kind: get $1"
    same_tree "$1/$uuid" back/$uuid # every file was proved by its SHA-256 as well
    rm -rf back
    "$tool" "$there" remove $uuid "$1" > /dev/null || fail "$kind: remove $1"
    peak=$(memory < put.txt) back=$(memory < get.txt)
    ok "$kind, $1: $(cat put.txt), $(cat get.txt): $((peak - idle)) and $((back - idle)) KiB above idle"
    [ $((peak - idle)) -le 16384 ] && [ $((back - idle)) -le 16384 ] || fail "$kind: memory"
}
for kind in $kinds; do
    case $kind in
    s3)
        serve_swift || fail "Swift"
        there="{\"type\":\"s3\",\"bucket\":\"ckpt\",\"endpoint_url\":\"$S3\"}"
        cat > list.py <<END
import boto3, sys
from botocore.config import Config
s3 = boto3.client('s3', endpoint_url='$S3', aws_access_key_id='test:ebb', aws_secret_access_key='secretkey', region_name='us-east-1',
                  config=Config(s3={'addressing_style': 'path'}))
if sys.argv[1:]:
    s3.create_bucket(Bucket='ckpt')
print(s3.list_objects_v2(Bucket='ckpt').get('KeyCount', 0), len(s3.list_multipart_uploads(Bucket='ckpt').get('Uploads', [])))
END
        /usr/bin/python3 list.py make > /dev/null || fail "no bucket"
        left() { /usr/bin/python3 list.py; }
        ;;
    gcs)
        serve_gcs || fail gcs
        there='{"type":"gcs","bucket":"ckpt"}'
        left() { /usr/bin/python3 -c "import json, urllib.request as u
x = json.load(u.urlopen('$STORAGE_EMULATOR_HOST/storage/v1/b/ckpt/o')); print(len(x['items']), x['sessions'])"; }
        ;;
    hdfs)
        serve_hdfs || fail hdfs
        there="{\"type\":\"hdfs\",\"hdfs_url\":\"$HDFS\",\"hdfs_path\":\"/data\"}"
        left() { echo "$(ls -A "$RUN/hdfs/data" | wc -l) 0"; }
        ;;
    esac
    there_and_back many
    case " $one " in *" $kind "*) there_and_back one ;; esac
    [ "$(left)" = "0 0" ] || fail "$kind: left: $(left)"
    serve_stop
    rm -rf "$RUN"/{srv,gcs,hdfs}
    PORT=$((PORT + 16))
done
exit 0
