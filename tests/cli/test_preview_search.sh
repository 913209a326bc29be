#!/usr/bin/env bash
# ebb preview-search and ebb dev vectors. $1 = ebb, $2 = source folder.
. "$(dirname "$0")/common.sh"

# ---- preview-search ----
cat >"$work/a.yaml" <<'YAML'
hyperparameters:
  global_batch_size: 32
  learning_rate: {type: log, base: 10, minval: -4, maxval: -1}
searcher: {name: adaptive, metric: validation_loss, target_trial_steps: 16, step_budget: 160, max_rungs: 3}
YAML
out=$("$ebb" preview-search "$work/a.yaml") || fail "preview-search exits $?"
[[ $out == *"      24 |       1 | 1 x step, 1 x validation"* ]] || fail "no row of 24 trials: $out"
[[ $out == *"will create 43 trials and run 148 steps"* ]] || fail "no totals: $out"
[[ $out == *"  target_trial_steps: 16"* ]] || fail "the searcher's settings are not shown"
page=$(<"$source_dir/docs/cli/preview-search.md")
table=$(sed -n '/^  Trials/,$p' <<<"$out")
[[ $page == *"$table"* ]] || fail "docs/cli/preview-search.md shows another table"
[ "$("$ebb" preview-search "$work/a.yaml")" = "$out" ] || fail "two runs differ"
"$ebb" preview-search "$work/a.yaml" --json | grep -q '"trials": 43, "steps": 148' || fail "--json lacks the totals"
"$ebb" preview-search "$work/a.yaml" --chart "$work/a.svg" >/dev/null || fail "--chart exits $?"
grep -q '<svg' "$work/a.svg" || fail "--chart wrote no SVG"
"$ebb" preview-search "$work/a.yaml" --terminal | grep -q 'trials still training' || fail "--terminal draws nothing"

echo 'description: nothing to search' >"$work/b.yaml"
"$ebb" preview-search "$work/b.yaml" >"$work/out" 2>"$work/err"
[ $? = 1 ] || fail "a file without searcher does not exit 1"
grep -q 'b.yaml: there is no searcher section' "$work/err" || fail "$(cat "$work/err")"
echo 'searcher: {name: random, metric: m, max_steps: 0, max_trials: 3}' >"$work/c.yaml"
"$ebb" preview-search "$work/c.yaml" >"$work/out" 2>"$work/err"
[ $? = 2 ] || fail "an invalid searcher does not exit 2"
grep -q 'c.yaml:1:.*searcher.max_steps' "$work/err" || fail "no file, line and key: $(cat "$work/err")"
"$ebb" preview-search "$work/none.yaml" >"$work/out" 2>"$work/err" && fail "a missing file is accepted"

# ---- dev vectors ----
golden=$source_dir/tests/golden/search
out=$("$ebb" dev vectors "$golden" --dump "$work/dump") || fail "dev vectors exits $?"
[ "$(tail -n 1 <<<"$out")" = "233 passed, 0 failed, 0 skipped" ] || fail "$out"
[ "$(wc -l <"$work/dump")" = 233 ] || fail "--dump has $(wc -l <"$work/dump") lines"
mkdir "$work/altered" "$work/empty"
cp "$golden"/*.json "$work/altered"
sed -i '0,/"trial_seed": 626610453/s//"trial_seed": 626610454/' "$work/altered/searcher_random.json"
out=$("$ebb" dev vectors "$work/altered")
[ $? = 1 ] || fail "an altered value does not exit 1"
[ "$(tail -n 1 <<<"$out")" = "232 passed, 1 failed, 0 skipped" ] || fail "$out"
[[ $out == *"searcher_random.json: random_4x3: expected.trials[0].trial_seed"* ]] || fail "$out"
out=$("$ebb" dev vectors "$work/empty")
[ $? = 1 ] || fail "nothing passed, but no exit 1"
[ "$out" = "0 passed, 0 failed, 0 skipped" ] || fail "$out"

finish
