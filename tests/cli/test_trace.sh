#!/bin/bash
# ebb trace make|show|stat|convert, as a user types them. $1: the program, $2: the source folder.
. "$(dirname "$0")/common.sh"

# help: every verb teaches, names its options, and the manual page repeats it
for verb in make show stat convert; do
    expect 0 "$ebb" trace $verb --help
    contains out "Usage: ebb trace $verb"
    contains out "Examples:"
    contains out "--json"
    page=$(<"$source_dir/docs/cli/trace.md")
    help=$(<out)
    [[ $page == *"$help"* ]] || fail "docs/cli/trace.md does not repeat 'ebb trace $verb --help'"
done
expect 2 "$ebb" trace
expect 2 "$ebb" trace mkae
contains err "did you mean 'make'"

# make: every shape, both formats, the same file for the same seed
for shape in chain linear tree lstm resnet unet transformer random; do
    expect 0 "$ebb" trace make $shape -o $shape.trace
    contains out "$shape.trace: $shape"
    expect 0 "$ebb" trace stat $shape.trace
    contains out "without a limit"
    expect 0 "$ebb" trace show $shape.trace --first 5
done
expect 0 "$ebb" trace make random --ops 500 --seed 3 --views --mutation --multi-output --workspace --once --spread 1 -o a.trace
expect 0 "$ebb" trace make random --ops 500 --seed 3 --views --mutation --multi-output --workspace --once --spread 1 -o b.trace
cmp -s a.trace b.trace || fail "the same seed gives two files"
expect 0 "$ebb" trace make random --ops 500 --seed 4 -o b.trace
cmp -s a.trace b.trace && fail "two seeds give one file"
expect 0 "$ebb" trace make chain --layers 5 --bytes 1MiB --weight-bytes 64KiB --cost 1000 -o chain.log
head -1 chain.log | grep -q START || fail "chain.log is no DTR log"
contains err "labels"
expect 0 "$ebb" trace make linear --layers 7 --to dtr -o linear --json
contains out '"lost": ["The log keeps'

# make: what is refused, and how
expect 2 "$ebb" trace make chain
contains err "-o FILE"
expect 2 "$ebb" trace make chian -o x
contains err "did you mean 'chain'"
expect 2 "$ebb" trace make linear --bytes 1MiB -o x
contains err "shape 'linear' has no use for --bytes"
expect 2 "$ebb" trace make chain --views -o x
contains err "no use for --views"
expect 2 "$ebb" trace make chain --layers 0 -o x
contains err "--layers"
expect 2 "$ebb" trace make tree --layers 90 -o x
contains err "at most"
expect 2 "$ebb" trace make chain --to dtrr -o x
contains err "did you mean dtr"
expect 1 "$ebb" trace make chain -o /nonexistent/x

# convert: native -> text -> native keeps every byte, and other programs write text
expect 0 "$ebb" trace convert a.trace -o a.jsonl
python3 -c 'import json; rows = [json.loads(line) for line in open("a.jsonl")]; assert rows[0]["ebb_trace"] == 1 and sum("op" in r for r in rows) > 400' || fail "text is not a line of JSON for each op"
expect 0 "$ebb" trace convert a.jsonl -o a2.trace
cmp -s a.trace a2.trace || fail "text does not keep everything"
expect 0 "$ebb" trace make resnet --layers 2 --to text -o net.txt
expect 0 "$ebb" sim net.txt --policy lru --ratio 0.9 --json
expect 0 "$ebb" plan net.txt --ratio 0.9 --effort 0 --json
expect 0 "$ebb" explain net.txt --no-chart
sed -n '/^{"ebb_trace"/,/^```/p' "$source_dir/docs/formats/trace.md" | grep -v '^```' >page.jsonl
expect 0 "$ebb" trace stat page.jsonl
sed -i '4s/"in": \[1, 0\]/"in": [1, 9]/' page.jsonl
expect 2 "$ebb" trace stat page.jsonl
contains err 'page.jsonl:4:28: "in": allowed: a whole number from 0 to 1'

# convert: log -> native -> log keeps the program
expect 0 "$ebb" trace convert chain.log -o chain2.trace
expect 0 "$ebb" trace convert chain2.trace -o chain2.log
[ -s err ] && fail "converting a log lost something: $(cat err)"
expect 0 "$ebb" trace stat chain.log --json
sed 's/"file": "[^"]*", "name": "[^"]*"//' out >one
expect 0 "$ebb" trace stat chain2.log --json
sed 's/"file": "[^"]*", "name": "[^"]*"//' out >two
cmp -s one two || fail "a log read back has other figures"
graph=$source_dir/tests/golden/checkmate/graphs/vgg16_b256_flops.json
if [ -r "$graph" ]; then
    expect 0 "$ebb" trace stat "$graph" --json
    contains out '"is_graph": true'
    contains out '"graph_fixed_bytes": 1106860352'
    expect 0 "$ebb" trace convert "$graph" -o vgg.log
    contains err "1106860352 bytes outside the budget"
else
    echo "SKIPPED: $graph is absent"
fi

# show and stat
expect 0 "$ebb" trace show a.trace --first 0 --json
[ "$(wc -l <out)" -gt 400 ] || fail "--first 0 does not show all ops"
grep -qv '^{"op": .*}$' out && fail "show --json is not one object per line"
expect 0 "$ebb" trace show a.trace --storages --from 3 --first 2 --json
contains out '"storage": 3'
[ "$(wc -l <out)" = 2 ] || fail "--first 2 shows $(wc -l <out) rows"
expect 0 "$ebb" trace show a.trace
contains out "more; --first N"
expect 0 "$ebb" trace stat a.trace chain.log --top 3
contains out "Where the time goes"
contains out "Largest storages"
expect 2 "$ebb" trace show a.trace --first -1

# damage has a place: file and byte, or file:line:column
head -c 1000 a.trace >cut.trace
expect 2 "$ebb" trace stat cut.trace
contains err "cut.trace: byte 1000:"
sed '3s/MEMORY/MEMOIR/' chain.log >bad.log
expect 2 "$ebb" trace stat bad.log
contains err "bad.log:3:"
echo hello >hello
expect 2 "$ebb" trace stat hello
contains err "neither a trace of ebb"
expect 1 "$ebb" trace stat missing.trace

finish
