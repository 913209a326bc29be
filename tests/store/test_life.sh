# The life of checkpoints in every kind of store: a search whose trials crash and are paused, population-based training, warm
# starts from one store into another, retention, event files, deletion; read back by a second client. Kinds: $EBB_LIFE_KINDS.
. "$2/common.sh"
need swift-proxy-server memcached node npm
need_node
need_python boto3
need_python fsspec.implementations.webhdfs
kinds=${EBB_LIFE_KINDS:-s3 gcs hdfs}

# Odd names, an empty file; crashes in the second step unless it has started from a checkpoint.
mkdir def
sed 's/^                json.dump.*/&\n            open(os.path.join(work.directory, "zero"), "w").close()\n            os.makedirs(os.path.join(work.directory, "ü d"))\n            with open(os.path.join(work.directory, "ü d", "a b+c%41"), "w") as f:\n                f.write(str(work.step))/
s/^        if work.is_train:/        if os.environ.get("CRASH") and work.is_train and work.step == 2 and not ebb.checkpoint:\n            os._exit(3)\n&/' \
    "$source_dir/examples/python-loop/train.py" > def/train.py
cp -r def loop

listed() { second "$kind" list; } # objects and unfinished uploads
checkpoints() { "$ebb" experiment list-checkpoints "$1" --json | field "' '.join(c['uuid'] for c in x['checkpoints'] if c['state'] == 'COMPLETED')"; }
newest() { "$ebb" experiment list --all --json | field "max(e['id'] for e in x['experiments'])"; }

for kind in $kinds; do
    EBB_STATE=$RUN/state-$kind
    serve_kind "$kind"
    run() { timeout 300 "$ebb" run "$@" --no-charts > out.txt 2>&1; }

    # ---- a search with crashes
    make_experiment exp.yaml "$storage, save_trial_latest: 2, save_trial_best: 0, save_experiment_best: 0}" \
        'environment: {environment_variables: [CRASH=1]}'
    sed -i 's/learning_rate: 0.5/learning_rate: {type: double, minval: 0.1, maxval: 0.6}/; s/{name: single,/{name: random, max_trials: 3,/' exp.yaml
    run exp.yaml loop --slots 2 || fail "$kind, search: $(cat out.txt)"
    [ "$("$ebb" experiment list-trials 1 --json | field "[t['restarts'] for t in x['trials']]")" = "[1, 1, 1]" ] || fail "$kind: restarts"
    ok "$kind: a search of three trials that crash and start again"

    # ---- retention: two of each trial are left; a second client reads them, odd names and all
    [ "$(checkpoints 1 | wc -w)" = 6 ] || fail "$kind: kept $(checkpoints 1)"
    [ "$(listed | grep -c '/metadata.json$')" = 6 ] || fail "$kind: there are $(listed)"
    for c in $(checkpoints 1); do second "$kind" compare "$c" || fail "$kind: the second client reads something else"; done
    listed | grep -q "ü d/a b+c%41$" && listed | grep -q "/zero$" || fail "$kind: names: $(listed)"
    ok "$kind: retention; every file read back by the second client, names with space, +, %, ü, 0 bytes"

    # ---- event files: what lies here is there
    board=$("$ebb" experiment describe 1 --json | field "x['experiment']['tensorboard_path']")
    n=0
    while read -r f; do
        there=$(second "$kind" sum "${board#"$EBB_STATE"/checkpoints/}/$f") && [ "$there" = "$(sha256sum < "$board/$f" | cut -d' ' -f1)" ] || fail "$kind: event file $f"
        n=$((n + 1))
    done < <(cd "$board" && find . -name 'events.*' | sed 's,^\./,,')
    [ $n -ge 3 ] && [ -z "$(ls "$EBB_STATE/boards")" ] || fail "$kind: $n event files, $(ls "$EBB_STATE/boards")"
    ok "$kind: $n event files are there"

    # ---- paused in the middle, and on
    make_experiment exp.yaml "$storage}" 'batches_per_step: 30000'
    sed -i '/^batches_per_step: 5$/d; s/max_steps: 3/max_steps: 6/' exp.yaml
    timeout 300 "$ebb" run exp.yaml loop --no-charts > out.txt 2>&1 &
    pid=$!
    for _ in $(seq 300); do [ "$("$ebb" experiment list-trials 2 --json 2> /dev/null | field "x['trials'][0]['steps']" 2> /dev/null || echo 0)" -ge 2 ] && break; sleep 0.1; done
    "$ebb" experiment pause 2 > /dev/null 2>&1 || fail "$kind: pause"
    for _ in $(seq 300); do
        "$ebb" master info --json > info.json 2> /dev/null
        [ "$(field "x['uploads']['checkpoints']" < info.json)" = 0 ] && [ "$("$ebb" task list --json | field "len(x['tasks'])")" = 0 ] && break
        sleep 0.1
    done
    "$ebb" experiment describe 2 --json | grep -q PAUSED || fail "$kind: not paused: $(cat out.txt)"
    rm -rf "$EBB_STATE"/cache/* # the store has it
    "$ebb" experiment activate 2 > /dev/null 2>&1 || fail "$kind: activate"
    wait $pid || fail "$kind: paused, and not ended: $(cat out.txt)"
    "$ebb" trial logs 4 > logs.txt 2>&1
    has logs.txt "started from"
    ok "$kind: paused, started again from the store"

    # ---- population-based training
    cat > pbt.yaml <<END
entrypoint: [/usr/bin/python3, train.py]
batches_per_step: 5
hyperparameters: {global_batch_size: 4, learning_rate: {type: double, minval: 0.1, maxval: 0.5}}
searcher: {name: pbt, metric: validation_error, population_size: 4, steps_per_round: 1, num_rounds: 3,
           replace_function: {truncate_fraction: 0.5}, explore_function: {resample_probability: 0.2, perturb_factor: 0.2}}
checkpoint_storage: $storage}
END
    run pbt.yaml loop --slots 2 || fail "$kind, PBT: $(cat out.txt)"
    has out.txt COMPLETED
    ok "$kind: population-based training"

    # ---- from here into another store, and from there into this one; event files in a store of their own
    one=$(checkpoints 1 | cut -d' ' -f1)
    make_experiment exp.yaml "{type: shared_fs, host_path: $RUN/fs-$kind}"
    rm -rf "$EBB_STATE"/cache/*
    run exp.yaml loop --config "searcher.source_checkpoint_uuid=$one" --config "tensorboard_storage=$storage}" ||
        fail "$kind, warm start: $(cat out.txt)"
    id=$(newest)
    two=$(checkpoints "$id" | cut -d' ' -f1)
    listed | grep -q "tensorboard/experiment/$id/trial/.*events" || fail "$kind: no event files: $(listed)"
    make_experiment exp.yaml "$storage}"
    run exp.yaml loop --config "searcher.source_checkpoint_uuid=$two" || fail "$kind, warm start: $(cat out.txt)"
    "$ebb" trial logs "$("$ebb" experiment list-trials "$(newest)" --json | field "x['trials'][0]['id']")" > logs.txt 2>&1
    has logs.txt "started from"
    ok "$kind: warm starts out of it and into it"

    # ---- all deleted
    for id in $("$ebb" experiment list --all --json | field "' '.join(str(e['id']) for e in sorted(x['experiments'], key=lambda e: -e['id']))"); do
        timeout 100 "$ebb" experiment delete "$id" --yes > out.txt 2>&1 || fail "$kind, delete $id: $(cat out.txt)"
    done
    is_empty "$kind" || fail "$kind: left: $(listed)"
    [ "$kind" != hdfs ] || [ -z "$(ls "$RUN/hdfs/data")" ] || fail "left: $(find "$RUN/hdfs")"
    left=$(cd "$EBB_STATE" && find staging cache boards tmp checkpoints -type f)
    [ -z "$left" ] || fail "$kind: left here: $left"
    ok "$kind: deleted: store, uploads, staging, cache are empty"
    grep -rl secretkey "$EBB_STATE" | grep -v ebb.db && fail "secrets outside the database"
    serve_stop
    PORT=$((PORT + 16))
done
exit 0
