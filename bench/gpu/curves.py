#!/usr/bin/env python3
"""curves.py EBB DIR [--updates N] [--short N]: losses of ebb and of PyTorch from the same weights on the same batches, on this GPU.

GPT-2 124M, 32 x 1,024 tokens, AdamW, no dropout, no clipping. `EBB model init` makes the weights; a file of tokens is the text, read in
order by both. N updates (default 200) of ebb in bf16 and of PyTorch under autocast to bf16; of the first `short` (default 50) also of
PyTorch in float32. Writes DIR/curves.csv (update, ebb, torch_bf16, torch_fp32) and prints the average differences: ebb's from float32
must be at most twice those of PyTorch's bf16."""
import argparse
import csv
import os
import subprocess
import sys

import numpy as np
import torch
from safetensors.torch import load_file

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import peers  # noqa: E402

BATCH, LENGTH, VOCABULARY = 32, 1024, peers.VOCABULARY
YAML = """description: GPT-2 124M against PyTorch
entrypoint: ebb:language_model
data: {{name: tokens, train_files: [text.bin], token_dtype: u16, sequence_length: {length}, vocabulary: {vocabulary}, shuffle: false}}
model: {{name: gpt2_124M, vocabulary: {vocabulary}, dropout: 0.0}}
hyperparameters: {{global_batch_size: {batch}}}
opt: {{name: AdamW, lr: 0.0006, betas: [0.9, 0.95], weight_decay: 0.1}}
memory: {{budget: unlimited, precision: bf16, master_weights: split, device: cuda}}
searcher: {{name: single, metric: validation_loss, max_steps: 1}}
"""
NAMES = {"qkv": "attn.c_attn", "proj": "attn.c_proj", "fc": "mlp.c_fc", "fc_proj": "mlp.c_proj", "ln_1": "ln_1", "ln_2": "ln_2"}


def text(count):
    """Each word is followed by one of four, chosen by the two before it; low words are frequent."""
    random = np.random.default_rng(7)
    after = (VOCABULARY * random.random((4096, 4)) ** 3).astype(np.int64)
    chains, steps = 1024, count // 1024 + 1
    words = np.zeros((steps, chains), dtype=np.int64)
    before, last = random.integers(0, VOCABULARY, chains), random.integers(0, VOCABULARY, chains)
    for i in range(steps):
        way = np.minimum(random.geometric(0.5, chains) - 1, 3)
        word = after[(before * 31 + last * 17) % 4096, way]
        words[i], before, last = word, last, word
    return words.T.reshape(-1)[:count].astype(np.uint16)


def theirs(name):
    """Our name of a parameter of peers.GPT."""
    if not name.startswith("blocks."):
        return "transformer." + name
    _, layer, part, kind = name.split(".")
    return f"transformer.h.{layer}.{NAMES[part]}.{kind}"


def torch_losses(words, weights, updates, is_low):
    net = peers.GPT(**peers.SMALL).cuda()
    given = load_file(weights)
    with torch.no_grad():
        for name, p in net.named_parameters():
            p.copy_(given[theirs(name)])
    optimizer = torch.optim.AdamW(net.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    step, losses = torch.compile(net) if is_low else net, []
    for i in range(updates):
        first = i * BATCH * LENGTH
        part = torch.from_numpy(words[first:first + BATCH * LENGTH + 1].astype(np.int64)).cuda()
        x, y = part[:-1].view(BATCH, LENGTH), part[1:].view(BATCH, LENGTH)
        with torch.autocast("cuda", torch.bfloat16, enabled=is_low):
            loss = step(x, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
    del net, step, optimizer
    torch.cuda.empty_cache()
    return losses


def ebb_losses(ebb, folder, updates):
    subprocess.run([ebb, "train", "curves.yaml", "--updates", str(updates), "--init-weights", "w.safetensors", "--no-validation",
                    "--csv", "ebb.csv"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    with open(os.path.join(folder, "ebb.csv")) as f:
        return [float(row["value"]) for row in csv.DictReader(f) if row["name"] == "loss"]


def difference(a, b):
    return sum(abs(x - y) for x, y in zip(a, b)) / len(b)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ebb")
    parser.add_argument("dir")
    parser.add_argument("--updates", type=int, default=200)
    parser.add_argument("--short", type=int, default=50)
    args = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    os.makedirs(args.dir, exist_ok=True)
    words = text(args.updates * BATCH * LENGTH + 1 + LENGTH)
    words.tofile(os.path.join(args.dir, "text.bin"))
    with open(os.path.join(args.dir, "curves.yaml"), "w") as f:
        f.write(YAML.format(batch=BATCH, length=LENGTH, vocabulary=VOCABULARY))
    subprocess.run([args.ebb, "model", "init", "gpt2_124M", "--set", f"vocabulary={VOCABULARY}", "--seed", "1", "-o", "w.safetensors"],
                   cwd=args.dir, check=True, stdout=subprocess.DEVNULL)
    ours = ebb_losses(args.ebb, args.dir, args.updates)
    weights = os.path.join(args.dir, "w.safetensors")
    low = torch_losses(words, weights, args.updates, True)
    full = torch_losses(words, weights, args.short, False)
    with open(os.path.join(args.dir, "curves.csv"), "w") as f:
        f.write("update,ebb,torch_bf16,torch_fp32\n")
        for i, (a, b) in enumerate(zip(ours, low)):
            f.write(f"{i + 1},{a:.6f},{b:.6f},{f'{full[i]:.6f}' if i < len(full) else ''}\n")
    own, other = difference(ours, full), difference(low, full)
    print(f"{len(full)} updates: loss {ours[0]:.4f} {low[0]:.4f} {full[0]:.4f} to {ours[len(full) - 1]:.4f} {low[len(full) - 1]:.4f} {full[-1]:.4f} "
          f"(ebb, torch bf16, torch fp32)")
    print(f"average difference from torch fp32: ebb {own:.6f}, torch bf16 {other:.6f}: {own / other:.2f} times, allowed 2")
    print(f"{len(ours)} updates: last losses ebb {ours[-1]:.4f}, torch bf16 {low[-1]:.4f}; average difference {difference(ours, low):.6f}")
    sys.exit(own > 2 * other)


if __name__ == "__main__":
    main()
