#!/usr/bin/env bash
# Random trainings keep every promise; a few seeds here, more by hand. $1 = ebb, $2 = source folder.
set -u
count=3
[ "${EBB_TEST_LONG:-}" = 1 ] && count=300
OMP_WAIT_POLICY=passive python3 "$2/tests/models/train_random.py" "$1" 3 "$count"
