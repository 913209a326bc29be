#!/usr/bin/env bash
# Every kind of model is trained without a limit, at its floor and in between: the same weights, the budget kept. $1 = ebb,
# $2 = source folder.
set -u
python3 "$2/tests/models/train_zoo.py" "$1"
