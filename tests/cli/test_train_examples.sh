# The examples: every file is valid, small ones learn within their budgets.
# $1 = ebb, $2 = source folder
. "$(dirname "$0")/common.sh"

for file in "$source_dir"/examples/*.yaml; do
    checks=$((checks + 1))
    "$ebb" experiment validate "$file" >out 2>&1 || fail "$(<out)"
done

# learns EXAMPLE METRIC below|above LIMIT
learns() {
    checks=$((checks + 1))
    if ! "$ebb" train "$source_dir/examples/$1.yaml" --threads 1 --json >out 2>err; then
        fail "$1: $(<err)"
        return
    fi
    awk -v x="$(value "$2")" -v limit="$4" -v how="$3" \
        'BEGIN { exit !(how == "below" ? x < limit : x > limit) }' ||
        fail "$1: $2 is $(value "$2"), not $3 $4"
    [ "$(value peak_bytes)" -le "$(value budget_bytes)" ] || fail "$1: more than its budget"
}

learns lstm validation_loss below 2.6 # ln 40 = 3.69 without learning
learns treelstm validation_loss below 0
learns unet validation_iou above 0.8
learns gan validation_loss below 0.75

finish
