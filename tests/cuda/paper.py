#!/usr/bin/env python3
"""paper.py EBB: does ebb know the sizes of the plug-in's kernels where the plug-in is not there?

Steps of models are recorded for an H200 with the plug-in and by a copy of the program alone: as many ops, the same times, the same bytes
(workspaces among them)."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

# name, batch, precision, options; shapes for products, attention of both kinds, norms, convolutions, recurrent cells, losses
CASES = [
    ("gpt2_124M", 2, "bf16", "layers=2"), ("gpt2_124M", 3, "fp32", "layers=1,length=96"), ("gpt2_124M", 2, "bf16", "layers=1,width=96,heads=2"),
    ("gpt2_124M", 2, "fp16", "layers=1,length=64"), ("bert_base", 2, "bf16", "layers=1"), ("bert_base", 2, "fp32", "layers=1"),
    ("resnet50", 4, "bf16", ""), ("resnet50", 4, "fp32", ""), ("resnet50", 4, "fp16", ""), ("densenet121", 2, "bf16", ""), ("unet", 1, "bf16", ""),
    ("deepcam", 1, "bf16", ""), ("cosmoflow", 1, "bf16", ""), ("mobilenet_v2", 2, "bf16", ""), ("cifar_resnet20", 8, "bf16", ""),
    ("wlm_lstm", 4, "fp32", ""), ("dtr_treelstm", 2, "fp32", ""), ("unrolled_gan", 16, "fp32", ""),
]


def record(ebb, case, rewrites):
    name, batch, precision, options = case
    words = [ebb, "model", "trace", name, "--batch", str(batch), "--precision", precision, "--device", "nvidia-h200", "-o", "x.trace", "--json"]
    words += [w for option in options.split(",") if option for w in ("--set", option)]
    words += ["--passes", rewrites] if rewrites else []
    environment = {k: v for k, v in os.environ.items() if k != "EBB_PLUGIN_PATH"}
    r = subprocess.run(words, capture_output=True, text=True, env=environment)
    return json.loads(r.stdout) if r.returncode == 0 else r.stderr.strip()


def main():
    ebb, wrong = os.path.abspath(sys.argv[1]), 0
    with tempfile.TemporaryDirectory() as folder:
        alone = shutil.copy(ebb, os.path.join(folder, "ebb"))
        os.chdir(folder)
        for case in CASES:
            for rewrites in ("", "-head,-packed,+entropy"):
                here, there = record(ebb, case, rewrites), record(alone, case, rewrites)
                if here != there or not isinstance(here, dict):
                    wrong += 1
                    print(f"paper: {case} {rewrites}: with the plug-in {here}, without {there}")
        os.chdir("/")
    print(f"paper: {2 * len(CASES)} steps, {wrong} wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
