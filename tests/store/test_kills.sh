# kill -9 of the master at each of $EBB_KILLS (20) instants of an upload of $EBB_KILL_BYTES (1 GiB): the next one goes on where it
# was, and what both have sent is at most 1.05 times the size. $EBB_KILL_AT: only these of the instants, by number.
. "$2/common.sh"
need swift-proxy-server memcached node npm
need_node
need_python boto3
kinds=${EBB_KILL_KINDS:-gcs s3} size=${EBB_KILL_BYTES:-1073741824} kills=${EBB_KILLS:-20}
at=${EBB_KILL_AT:-$(seq "$kills")}
mkdir big && sed 's/^                json.dump.*/&\n            with open(os.path.join(work.directory, "large"), "wb") as f:\n                f.truncate(int(os.environ["SIZE"]))\n                for at in range(0, int(os.environ["SIZE"]), 1 << 20):\n                    f.seek(at)\n                    f.write(os.urandom(1000))/' \
    "$source_dir/examples/python-loop/train.py" > big/train.py
sent() { curl -s -o /dev/null "$front/none"; cut -d' ' -f2 "$control.count"; } # bytes through the proxy
for kind in $kinds; do
    serve_kind "$kind"
    start_proxy
    place "$kind" "$front"
    make_experiment exp.yaml "$storage}" "environment: {environment_variables: [SIZE=$size]}"
    sed -i 's/max_steps: 3/max_steps: 1/' exp.yaml
    EBB_STATE=$RUN/state-$kind worst=0 id=0
    for i in $at; do
        id=$((id + 1))
        set_fault "none 0.$i.$kind"
        rm -f "$control.count"
        "$ebb" run exp.yaml big --no-charts > run.txt 2>&1 & # no timeout before it: that would be killed instead
        pid=$! want=$((size / (kills + 1) * i)) seen=0
        for _ in $(seq 6000); do
            seen=$(cut -d' ' -f2 "$control.count" 2> /dev/null || echo 0)
            [ "${seen:-0}" -ge $want ] && break
            kill -0 $pid 2> /dev/null || break
            sleep 0.05
        done
        kill -9 $pid 2> /dev/null || fail "$kind, kill $i: it has ended before: $(cat run.txt)"
        wait $pid 2> /dev/null
        [ "$("$ebb" experiment list-checkpoints $id --json 2> /dev/null | field "[c['state'] for c in x['checkpoints']]")" = "['ACTIVE']" ] || fail "$kind, kill $i: not in the middle"
        timeout 900 "$ebb" run --resume $id --no-charts > run.txt 2>&1
        "$ebb" experiment list-checkpoints $id --json > list.json 2> /dev/null
        [ "$(field "[c['state'] for c in x['checkpoints']]" < list.json)" = "['COMPLETED']" ] || fail "$kind, kill $i: $(cat list.json run.txt)"
        [ "$("$ebb" experiment list-trials $id --json | field "sum(t['restarts'] for t in x['trials'])")" = 0 ] || fail "$kind, kill $i: a restart"
        all=$(sent)
        [ "$all" -gt $worst ] && worst=$all
        [ $((all / 21)) -le $((size / 20)) ] || fail "$kind, kill $i at $seen: sent $all bytes of $size"
        one=$(field "x['checkpoints'][0]['uuid']" < list.json)
        [ $((i % 5)) != 0 ] || second "$kind" compare "$one" || fail "$kind: not whole after kill $i"
        echo "  $kind: kill $i at $seen bytes: $all bytes sent in all"
        timeout 300 "$ebb" experiment delete $id --yes > out.txt 2>&1 || fail "$kind, delete: $(cat out.txt)"
    done
    ok "$kind: killed at $id of $kills instants of an upload of $size bytes: at most $worst bytes sent ($((worst * 1000 / size)) thousandths)"
    serve_stop
    rm -rf "$RUN"/{srv,gcs}
    PORT=$((PORT + 16))
done
exit 0
