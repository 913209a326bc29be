#!/usr/bin/env python3
"""Weights both ways: state_dicts that torch saved give torch's outputs here, and weights written here load there with strict=True and
give the same. A torchvision ResNet in its own size, MobileNetV2, and a GPT-2.

Usage: weights_torch.py EBB. Exit 77 when torch or torchvision is not installed. Debian: python3-torch, python3-torchvision."""
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
    import torchvision.models as tv
    from torch import nn
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

from torch_modules import GPT

torch.set_num_threads(1)
LIMIT = 1e-5  # of the largest output

NETS = [  # name of the zoo, options, torch's
    ("resnet18", "", lambda: tv.resnet18()),
    ("mobilenet_v2", "height=64 width=64", lambda: tv.mobilenet_v2()),
    ("gpt2_124M", "vocabulary=211 positions=32 length=24 width=48 layers=3 heads=4", lambda: GPT(211, 32, 48, 3, 4)),
]


def call(ebb, *args):
    run = subprocess.run([ebb, *args], capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError(f"ebb {' '.join(args)}: exit {run.returncode}\n{run.stderr[-800:]}")


def off(ebb, name, sets, model, weights):
    """How far the outputs of a file of weights are from torch's, as a part of the largest."""
    call(ebb, "model", "eval", name, *sets, "--weights", weights, "--batch", "2", "-o", "out.npz")
    data = np.load("out.npz")
    x = next(torch.from_numpy(data[k]) for k in data.files if k.startswith("input/"))
    with torch.no_grad():
        want = model.eval()(x).numpy()
    have = data["output/logits"].reshape(want.shape)
    return float(np.abs(have - want).max() / np.abs(want).max())


def compare(ebb, name, options, make):
    torch.manual_seed(7)
    sets = [word for part in options.split() for word in ("--set", part)]
    model = make()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    torch.save(model.state_dict(), "theirs.pt")
    errors = [off(ebb, name, sets, model, "theirs.pt")]
    for file in "ours.npz", "ours.safetensors":
        call(ebb, "model", "init", name, *sets, "--seed", "3", "-o", file)
    state = {k: torch.from_numpy(v) for k, v in np.load("ours.npz").items()}
    model.load_state_dict(state, strict=True)
    errors += [off(ebb, name, sets, model, file) for file in ("ours.npz", "ours.safetensors")]
    good = max(errors) <= LIMIT
    print(f"{'ok  ' if good else 'FAIL'} {name}: {len(state)} items with strict=True; outputs off by {errors[0]:.1e} of the largest from "
          f"torch's weights, {errors[1]:.1e} and {errors[2]:.1e} from ours", flush=True)
    return good


def main():
    ebb = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        good = [compare(ebb, *net) for net in NETS]
    sys.exit(0 if all(good) else 1)


main()
