# HDFS: webhdfs-proxy twice over one directory, read back by fsspec; a name node that is gone, one on standby.
. "$2/common.sh"
need node npm
need_node
need_python fsspec.implementations.webhdfs
serve_hdfs || fail "the servers do not start: $(cat "$RUN"/hdfs?.log)"
first=${HDFS%%;*} second=${HDFS##*;}
left() { find "$RUN/hdfs" -mindepth 1 | grep -v '/data$' | wc -l; }
there="{\"type\":\"hdfs\",\"hdfs_url\":\"$HDFS\",\"hdfs_path\":\"/data\",\"user\":\"someone\"}"
make_checkpoint here 30000000
"$tool" "$there" put $uuid here here/journal || fail "put"
[ ! -e "$RUN/hdfs/data/.$uuid.tmp" ] || fail "the temporary folder stays"
diff -r here/$uuid "$RUN/hdfs/data/$uuid" || fail "something else was stored"
second hdfs compare $uuid || fail "fsspec reads something else"
"$tool" "$there" put $uuid here here/journal || fail "put again" # everything is there
diff -r here/$uuid "$RUN/hdfs/data/$uuid" || fail "put again changed it"
"$tool" "$there" get $uuid back || fail "get"
same_tree here/$uuid back/$uuid
"$tool" "$there" remove $uuid here || fail "remove"
[ "$(left)" = 0 ] || fail "left: $(find "$RUN/hdfs")"
ok "a checkpoint there and back, names with blanks, +, %, ü"

gone="{\"type\":\"hdfs\",\"hdfs_url\":\"http://127.0.0.1:9;$second\",\"hdfs_path\":\"/data\"}"
"$tool" "$gone" check scratch || fail "the second name node is not asked"
many="{\"type\":\"hdfs\",\"hdfs_url\":\"$(printf 'http://127.0.0.1:9;%.0s' 1 2 3 4 5 6)$second\",\"hdfs_path\":\"/data\"}"
"$tool" "$many" check scratch || fail "the seventh name node is not asked"
# eight threads find it out at the same time
mkdir -p "many/.$uuid.tmp" && (cd "many/.$uuid.tmp" && for i in $(seq 200); do echo $i > f$i; done)
"$tool" - seal many $uuid > /dev/null || fail "sealing"
begin=$(date +%s%N)
"$tool" "$gone" put $uuid many many/journal || fail "many files"
took=$((($(date +%s%N) - begin) / 1000000))
"$tool" "$gone" remove $uuid many || fail "remove"
touch "$RUN/hdfs.standby.${first##*:}"
"$tool" "$there" check scratch || fail "one is on standby: the other is not asked"
touch "$RUN/hdfs.standby.${second##*:}"
"$tool" "$there" check scratch 2> err.txt && fail "both are on standby"
has err.txt "StandbyException: Operation category READ is not supported in state standby"
rm "$RUN"/hdfs.standby.*
ok "a name node that is gone (200 files past it in $took ms), on standby; both"

make_experiment exp.yaml "{type: hdfs, hdfs_url: \"$HDFS\", hdfs_path: /data}"
timeout 120 "$ebb" run exp.yaml loop --no-charts > out.txt 2>&1 || fail "ebb run: $(cat out.txt)"
has out.txt "Its checkpoint: hdfs://127.0.0.1"
uuid=$(sed -n 's|.*Its checkpoint: hdfs://.*/\([0-9a-f-]*\).*|\1|p' out.txt)
damaged=$(find "$RUN/hdfs/data/$uuid" -maxdepth 1 -type f ! -name manifest.json -size +8c | head -n 1)
printf X | dd of="$damaged" bs=1 seek=7 conv=notrunc status=none
rm -rf "state/cache/$uuid"
timeout 60 "$ebb" checkpoint download "$uuid" copy > out.txt 2>&1
[ $? = 2 ] && grep -q damaged out.txt || fail "a damaged checkpoint is downloaded otherwise than from a folder: $(cat out.txt)"
ok "a damaged checkpoint: the exit code of every store"
"$ebb" experiment delete 1 --yes > out.txt 2>&1 || fail "delete: $(cat out.txt)"
[ "$(left)" = 0 ] && [ -z "$(ls state/staging state/cache | grep -v :)" ] || fail "left: $(find "$RUN/hdfs")"
ok "an experiment, deleted"

# ---- Hadoop has no names with ":": refused when they are written, not tried for ever
mkdir colon && sed 's/^                json.dump.*/&\n            open(os.path.join(work.directory, "a:b"), "w").close()/' "$source_dir/examples/python-loop/train.py" > colon/train.py
sed -i 's/max_restarts: 2/max_restarts: 0/' exp.yaml
timeout 120 "$ebb" run exp.yaml colon --no-charts > out.txt 2>&1 && fail "accepted: a name with :"
"$ebb" trial logs 2 > logs.txt 2>&1
has logs.txt 'names are UTF-8 without control characters and :, at most 1024 bytes with their directories; the checkpoint has a file "a:b"'
"$ebb" experiment delete 2 --yes > out.txt 2>&1 || fail "delete: $(cat out.txt)"
[ "$(left)" = 0 ] && [ -z "$(ls state/staging state/cache | grep -v :)" ] || fail "left: $(find "$RUN/hdfs")"
ok "names with : are refused"
exit 0
