#!/usr/bin/env bash
# Every command and verb explains itself: --help exits 0, names each option of its source file and each option its own
# usage line shows, and stands word for word in docs/cli/<command>.md; a typo exits 2 and names the nearest.
# $1 = ebb, $2 = source folder.
set -u
ebb=$1
source_dir=$2
failures=0
checks=0

fail() {
    echo "FAIL: $*"
    failures=$((failures + 1))
}

# expect CODE COMMAND...: runs it; stdout in $out, stderr in $err
expect() {
    local want=$1
    shift
    out=$("$@" 2>"$errors" </dev/null)
    local got=$?
    err=$(cat "$errors")
    checks=$((checks + 1))
    [ "$got" = "$want" ] || fail "'${*#"$ebb"}' exits $got, not $want: $err"
}

errors=$(mktemp)
trap 'rm -f "$errors"' EXIT

# ---- the program itself ----
expect 0 "$ebb" --version
[[ $out =~ ^ebb\ [0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "--version says '$out'"
expect 0 "$ebb" --help
top=$out
for word in "Usage: ebb" "Commands:" "First steps:" "budget in bytes" "Exit codes"; do
    [[ $top == *"$word"* ]] || fail "ebb --help lacks '$word'"
done
expect 2 "$ebb"
[[ $err == *"Commands:"* && -z $out ]] || fail "ebb without arguments explains nothing"
expect 2 "$ebb" dcotor
[[ $err == *"unknown command 'dcotor'; did you mean 'doctor'?"* ]] || fail "no nearest command: $err"
expect 2 "$ebb" --frobnicate
expect 2 "$ebb" help dcotor

# ---- every row of the tables ----
# Names of the two-space list under a heading of a help page.
list_under() {
    sed -n "/^$1:\$/,/^\$/s/^  \([a-z][a-z0-9-]*\)  .*/\1/p"
}

# Options that the sources of one command declare. A file belongs to a command by its name: cmd_trace_show.c to "trace".
declared_options() {
    local file
    for file in "$source_dir/src/cli/cmd_$1.c" "$source_dir/src/cli/cmd_$1"_*.c; do
        [ -f "$file" ] || continue
        tr '\n' ' ' <"$file" |
            grep -oE '\{ *(\.name = )?"[a-z][a-z0-9-]*", *(\.letter = )?('"'.'"'|0)?,? *(\.kind = )?CLI_[A-Z]+' |
            sed -E 's/^[^"]*"([^"]*)".*/\1/'
    done | sort -u
}

# page_of WORDS...: checks one command's help; leaves it in $out
page_of() {
    expect 0 "$ebb" "$@" --help
    [[ -z $err ]] || fail "'$* --help' writes to stderr: $err"
    [[ $out == "Usage: ebb $*"* ]] || fail "'$* --help' does not begin with its usage"
    local option
    for option in $(grep -oE -- '--[a-z][a-z0-9-]+' <<<"$out" | sort -u); do
        # what the text mentions must be an option of it or of another command it refers to
        grep -qE "^ {2,6}(-., )?$option( |\$)" <<<"$out" || [[ $out == *"ebb "*"$option"* ]] ||
            fail "'$* --help' mentions $option, which is not in its list"
    done
}

# The page repeats the help text. Hidden commands need none.
documented() {
    local doc=$source_dir/docs/cli/$1.md
    checks=$((checks + 1))
    if [ ! -f "$doc" ]; then
        fail "docs/cli/$1.md is missing"
    elif [[ $(<"$doc") != *"$2"* ]]; then
        fail "docs/cli/$1.md does not repeat the text that begins '${2%%$'\n'*}'"
    fi
}

shown=$(list_under Commands <<<"$top")
all=$("$ebb" help --all | list_under Commands)
[ -n "$all" ] || fail "no commands found in ebb help --all"
for command in $all; do
    file_name=${command//-/_}
    page_of "$command"
    page=$out
    pages=$page
    is_shown=no
    grep -qx -- "$command" <<<"$shown" && is_shown=yes
    verbs=$(list_under Verbs <<<"$page")
    for verb in $verbs; do
        page_of "$command" "$verb"
        pages+=$'\n'$out
        [ $is_shown = no ] || documented "$command" "$out"
        [[ $out == *--json* ]] || fail "'$command $verb' does not offer --json"
        expect 2 "$ebb" "$command" "$verb" --no-such-option-anywhere
        expect 0 "$ebb" help "$command" "$verb"
    done
    if [ -n "$verbs" ]; then
        expect 2 "$ebb" "$command" "${verb}x"
        [[ $err == *"did you mean"* ]] || fail "'$command ${verb}x' names no nearest verb"
    else
        [[ $page == *--json* ]] || fail "'$command' does not offer --json"
        [ $is_shown = no ] || documented "$command" "$page"
        expect 2 "$ebb" "$command" --no-such-option-anywhere
        [[ $err == *"--help"* ]] || fail "'$command' does not say where to read more"
    fi
    expect 0 "$ebb" help "$command"
    for option in $(declared_options "$file_name"); do
        checks=$((checks + 1))
        grep -qE -- "^ {2,6}(-., )?--$option( |\$)" <<<"$pages" ||
            fail "no help page of '$command' names --$option (declared in src/cli/cmd_$file_name*.c)"
    done
done

echo "$checks checks, $failures failed"
[ "$failures" = 0 ]
