#!/usr/bin/env bash
# Every kind of model is trained without a limit, at its floor and in between: the same weights, the budget kept; from its file, too. $1 = ebb,
# $2 = source folder.
set -u
python3 "$2/tests/models/train_zoo.py" "$1" --files || exit 1
python3 "$2/tests/models/train_zoo.py" "$1" --precision bf16 cifar_resnet20 unet gpt2_124M bert_base dtr_treelstm unrolled_gan || exit 1
python3 "$2/tests/models/train_zoo.py" "$1" --precision fp16 densenet121 gpt2_124M
