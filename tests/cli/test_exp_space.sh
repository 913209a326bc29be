# What experiments leave on the disk: no working directories, and the model definition once for all checkpoints.
# $1 = the ebb program, $2 = source folder
. "$2/tests/cli/exp_common.sh"

mkdir loop && cp "$source_dir/examples/python-loop/train.py" loop/
head -c 4000000 /dev/urandom >loop/big.bin
printf 'print("x")\n' >loop/tool && chmod 755 loop/tool
cat >exp.yaml <<'YAML'
entrypoint: [python3, train.py]
batches_per_step: 2
checkpoint_policy: all
min_validation_period: 1
hyperparameters: {global_batch_size: 4, learning_rate: {type: double, minval: 0.1, maxval: 0.5}}
searcher: {name: random, metric: validation_error, max_steps: 2, max_trials: 5}
checkpoint_storage: {save_trial_latest: 9, save_trial_best: 9}
YAML
sed -i "s#^checkpoint_storage: {#&type: shared_fs, host_path: $work/store, #" exp.yaml
expect 0 "$ebb" run exp.yaml loop --no-charts --slots 2
same "working directories left" "$(find "$EBB_STATE/trials" -name work | wc -l)" 0
same "logs kept" "$(find "$EBB_STATE/trials" -name log | wc -l)" 5
[ "$(find store -name manifest.json | wc -l)" -ge 10 ] || fail "too few checkpoints: $(ls store)"
copies=$(find store -name big.bin -printf '%i\n' | sort -u | wc -l) # two slots may write their first at the same moment
[ "$copies" -le 2 ] || fail "$copies copies of the code"
same "code that can be written" "$(find store -path '*/code/*' -type f -perm /222 | wc -l)" 0
same "code that can be run" "$(find store -path '*/code/tool' -perm -111 | wc -l)" "$(find store -name manifest.json | wc -l)"
kib=$(du -sk store | cut -f1)
[ "$kib" -lt 10000 ] || fail "the store takes $kib KiB"

# A copy that somebody damaged is not linked to: the next checkpoint has the code as it was submitted.
cat >slow.yaml <<YAML
$(grep -v '^searcher\|^hyper' exp.yaml)
hyperparameters: {global_batch_size: 4, learning_rate: 0.5, go: $work/go}
searcher: {name: single, metric: validation_error, max_steps: 4}
YAML
sed 's/^            for batch in .*/            while work.step > 1 and not os.path.exists(ebb.hparam("go")): time.sleep(0.02)\n&/; s/^import .*/&, time/' loop/train.py >slow.py
grep -q 'ebb.hparam("go")' slow.py || fail "the example has another form: $(grep -n 'for batch' loop/train.py)"
cp slow.py loop/train.py
rm -rf store
"$ebb" run slow.yaml loop --no-charts >slow.out 2>&1 &
pid=$!
wait_for eval 'ls store/*/code/big.bin'
first=$(ls -d store/*/code/big.bin | head -1)
chmod u+w "$first" && printf X | dd of="$first" bs=1 seek=7 conv=notrunc status=none
touch go
wait $pid
same "exit code beside a damaged copy" $? 0
same "good copies" "$(for f in store/*/code/big.bin; do cmp -s "$f" loop/big.bin && stat -c %i "$f"; done | sort -u | wc -l)" 1
same "damaged copies" "$(for f in store/*/code/big.bin; do cmp -s "$f" loop/big.bin || echo "$f"; done | wc -l)" 1

# A trial that fails, and one that is canceled, leave nothing either.
echo 'raise SystemExit(3)' >loop/bad.py
expect 1 "$ebb" run exp.yaml loop --no-charts --config 'entrypoint=[python3, bad.py]' --config max_restarts=1
same "working directories after a failure" "$(find "$EBB_STATE/trials" -name work | wc -l)" 0
finish
