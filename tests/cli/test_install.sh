# cmake --install: the program finds what it needs from there, under both of its names.
# $1 = the ebb program, $2 = source folder
. "$2/tests/cli/exp_common.sh"
command -v cmake >/dev/null || { echo "skipped: no cmake"; exit 0; }

build=$(dirname "$ebb")
[ -f "$build/cmake_install.cmake" ] || { echo "skipped: $build is no build folder"; exit 0; }
expect 0 cmake --install "$build" --prefix "$work/usr"
[ -f usr/include/ebb.h ] || fail "include/ebb.h is not installed"
[ ! -e usr/share/ebb/python/ebb_client/__pycache__ ] || fail "__pycache__ is installed"
expect 0 usr/bin/ebb bench resnet50 --dry-run
has out.txt "usr/share/ebb/bench/resnet50.yaml"
cp -r "$source_dir/data/budget_sweep" figure
expect 0 usr/bin/ebb plan figure --dir figure --stage plot
expect 0 usr/bin/det --version
same "version" "$(cat out.txt)" "$("$ebb" --version)"
cp -r "$source_dir/examples/python-class" class
expect 0 usr/bin/det e create class/exp.yaml --test-mode
has out.txt "checkpointing  ok"
expect 0 usr/bin/det master config
has out.txt "usr/share/ebb/python"

finish
