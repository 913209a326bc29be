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

cat > s3.py <<'END'
import boto3, hashlib, json, sys
from botocore.config import Config
s3 = boto3.client('s3', endpoint_url=sys.argv[1], aws_access_key_id='test:ebb', aws_secret_access_key='secretkey',
                  region_name='us-east-1', config=Config(s3={'addressing_style': 'path'}))
get = lambda key: s3.get_object(Bucket='ckpt', Key=key)['Body'].read()
keys = lambda: [o['Key'] for p in s3.get_paginator('list_objects_v2').paginate(Bucket='ckpt') for o in p.get('Contents', [])]
if sys.argv[2] == 'make':
    s3.create_bucket(Bucket='ckpt')
elif sys.argv[2] == 'list':
    print('\n'.join(keys() + ['upload ' + u['Key'] for u in s3.list_multipart_uploads(Bucket='ckpt').get('Uploads', [])]))
elif sys.argv[2] == 'sum':
    print(hashlib.sha256(get(sys.argv[3])).hexdigest())
else:
    for f in json.loads(get(sys.argv[3] + '/manifest.json'))['files']:
        if hashlib.sha256(get(sys.argv[3] + '/' + f['path'])).hexdigest() != f['sha256']:
            sys.exit('differs: ' + f['path'])
END
cat > hdfs.py <<'END'
import fsspec, hashlib, json, sys
fs = fsspec.filesystem('webhdfs', host='127.0.0.1', port=int(sys.argv[1]), user='someone')
get = lambda key: fs.cat('/data/' + key)
def walk(path):
    for e in fs.ls(path, detail=True):
        name = e['name'].split('/webhdfs/v1')[-1]
        yield from walk(name) if e['type'] == 'directory' else [name]
if sys.argv[2] == 'list':
    print('\n'.join(n[len('/data/'):] for n in walk('/data')))
elif sys.argv[2] == 'sum':
    print(hashlib.sha256(get(sys.argv[3])).hexdigest())
else:
    for f in json.loads(get(sys.argv[3] + '/manifest.json'))['files']:
        if hashlib.sha256(get(sys.argv[3] + '/' + f['path'])).hexdigest() != f['sha256']:
            sys.exit('differs: ' + f['path'])
END
cat > gcs.py <<'END'
import hashlib, json, sys, urllib.parse, urllib.request as u
base = sys.argv[1] + '/storage/v1/b/ckpt/o'
x = json.load(u.urlopen(base))
if sys.argv[2] == 'list':
    print('\n'.join([o['name'] for o in x['items']] + ['upload'] * x['sessions']))
else:
    print(hashlib.sha256(u.urlopen(base + '/' + urllib.parse.quote(sys.argv[3], safe='') + '?alt=media').read()).hexdigest())
END
# Names of objects and unfinished uploads; the SHA-256 of one; is a checkpoint what its manifest says?
list() { case $kind in s3) /usr/bin/python3 s3.py "$S3" list ;; gcs) /usr/bin/python3 gcs.py "$STORAGE_EMULATOR_HOST" list ;;
    hdfs) [ ! -d "$RUN/hdfs/data" ] || /usr/bin/python3 hdfs.py "${node##*:}" list ;; esac | grep . ; }
sum() { case $kind in s3) /usr/bin/python3 s3.py "$S3" sum "$1" ;; gcs) /usr/bin/python3 gcs.py "$STORAGE_EMULATOR_HOST" sum "$1" ;;
    hdfs) /usr/bin/python3 hdfs.py "${node##*:}" sum "$1" ;; esac; }
compare() { case $kind in s3) /usr/bin/python3 s3.py "$S3" compare "$1" ;;
    gcs) env -u STORAGE_EMULATOR_HOST NODE_PATH="$NODE/node_modules" node "$STORE_TESTS/gcs_client.js" "$STORAGE_EMULATOR_HOST" compare "$1/" ;;
    hdfs) /usr/bin/python3 hdfs.py "${node##*:}" compare "$1" ;; esac; }
checkpoints() { "$ebb" experiment list-checkpoints "$1" --json | field "' '.join(c['uuid'] for c in x['checkpoints'] if c['state'] == 'COMPLETED')"; }
newest() { "$ebb" experiment list --all --json | field "max(e['id'] for e in x['experiments'])"; }

for kind in $kinds; do
    EBB_STATE=$RUN/state-$kind
    case $kind in
    s3)
        serve_swift && /usr/bin/python3 s3.py "$S3" make || fail "Swift"
        storage="{type: s3, bucket: ckpt, endpoint_url: \"$S3\", access_key: \"test:ebb\", secret_key: secretkey"
        ;;
    gcs)
        serve_gcs || fail gcs
        storage="{type: gcs, bucket: ckpt"
        ;;
    hdfs)
        serve_hdfs || fail hdfs
        node=${HDFS%%;*}
        storage="{type: hdfs, hdfs_url: \"$HDFS\", hdfs_path: /data"
        ;;
    esac
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
    [ "$(list | grep -c '/metadata.json$')" = 6 ] || fail "$kind: there are $(list)"
    for c in $(checkpoints 1); do compare "$c" || fail "$kind: the second client reads something else"; done
    list | grep -q "ü d/a b+c%41$" && list | grep -q "/zero$" || fail "$kind: names: $(list)"
    ok "$kind: retention; every file read back by the second client, names with space, +, %, ü, 0 bytes"

    # ---- event files: what lies here is there
    board=$("$ebb" experiment describe 1 --json | field "x['experiment']['tensorboard_path']")
    n=0
    while read -r f; do
        there=$(sum "${board#"$EBB_STATE"/checkpoints/}/$f") && [ "$there" = "$(sha256sum < "$board/$f" | cut -d' ' -f1)" ] || fail "$kind: event file $f"
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
    list | grep -q "tensorboard/experiment/$id/trial/.*events" || fail "$kind: no event files: $(list)"
    make_experiment exp.yaml "$storage}"
    run exp.yaml loop --config "searcher.source_checkpoint_uuid=$two" || fail "$kind, warm start: $(cat out.txt)"
    "$ebb" trial logs "$("$ebb" experiment list-trials "$(newest)" --json | field "x['trials'][0]['id']")" > logs.txt 2>&1
    has logs.txt "started from"
    ok "$kind: warm starts out of it and into it"

    # ---- all deleted
    for id in $("$ebb" experiment list --all --json | field "' '.join(str(e['id']) for e in sorted(x['experiments'], key=lambda e: -e['id']))"); do
        timeout 100 "$ebb" experiment delete "$id" --yes > out.txt 2>&1 || fail "$kind, delete $id: $(cat out.txt)"
    done
    [ -z "$(list)" ] || fail "$kind: left: $(list)"
    [ "$kind" != hdfs ] || [ -z "$(ls "$RUN/hdfs/data")" ] || fail "left: $(find "$RUN/hdfs")"
    left=$(cd "$EBB_STATE" && find staging cache boards tmp checkpoints -type f)
    [ -z "$left" ] || fail "$kind: left here: $left"
    ok "$kind: deleted: store, uploads, staging, cache are empty"
    grep -rl secretkey "$EBB_STATE" | grep -v ebb.db && fail "secrets outside the database"
    serve_stop
    PORT=$((PORT + 16))
done
exit 0
