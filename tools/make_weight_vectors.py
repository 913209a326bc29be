#!/usr/bin/env python3
"""Small reference files of other programs for tests/golden/weights: state_dicts as torch saves them, arrays as numpy
saves them, and what torch computes with them. Needs Debian's python3-torch (1.13).

Usage: make_weight_vectors.py DIR"""
import json
import os
import struct
import sys

import numpy
import torch

OUT = sys.argv[1]


def path(name):
    return os.path.join(OUT, name)


def write_safetensors(name, tensors):
    """The format is short enough to be written by hand: Debian has no package of it."""
    kinds = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32", "int16": "I16",
             "int8": "I8", "uint8": "U8", "bool": "BOOL", "uint16": "U16", "uint32": "U32", "uint64": "U64"}
    header, data = {}, b""
    for key, value in sorted(tensors.items()):
        if isinstance(value, torch.Tensor):
            kind = str(value.dtype).replace("torch.", "")
            raw = value.contiguous().view(torch.int16).numpy().tobytes() if kind == "bfloat16" else value.contiguous().numpy().tobytes()
        else:
            kind, raw = str(value.dtype), value.tobytes()
        header[key] = {"dtype": kinds[kind], "shape": list(value.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path(name), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def dtypes():
    """One tensor of every kind that torch 1.13 and numpy have, with views that are not contiguous."""
    torch.manual_seed(1)
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6) / 3 - 2
    tensors = {
        "f32": base, "f64": base.double(), "f16": base.half(), "bf16": base.bfloat16(), "i64": base.long(), "i32": base.int(),
        "i16": base.short(), "i8": base.char(), "u8": base.abs().byte(), "bool": base > 0, "transposed": base.t(),
        "column": base[:, 2], "every_second": base[::2, ::3], "scalar": torch.tensor(2.5), "empty": torch.zeros(0, 3),
        "parameter": torch.nn.Parameter(base.clone()), "shared_a": base[1], "shared_b": base[1:3],
    }
    torch.save(tensors, path("dtypes.pt"))
    torch.save({"epoch": 3, "lr": 0.5, "optimizer": {"state": {}}, "state_dict": tensors, "args": {"name": "x"}}, path("checkpoint.pt"))
    torch.save(tensors, path("legacy.pt"), _use_new_zipfile_serialization=False)
    torch.save(torch.nn.Linear(2, 2), path("module.pt"))
    expected = {k: v.detach().float().contiguous() for k, v in tensors.items()}
    write_safetensors("dtypes.expected.safetensors", expected)
    write_safetensors("dtypes.safetensors", {k: v.detach().contiguous() for k, v in tensors.items()})
    arrays = {k: v.detach().numpy() for k, v in tensors.items() if k != "bf16"}
    arrays["u16"], arrays["u32"], arrays["u64"] = (numpy.arange(6).reshape(2, 3).astype(t) for t in ("uint16", "uint32", "uint64"))
    numpy.savez(path("arrays.npz"), **arrays)
    numpy.savez_compressed(path("packed.npz"), **arrays)


def outputs(model, images, name):
    model.eval()
    with torch.no_grad():
        write_safetensors(name, {"input/images": images, "output/logits": model(images)})



class Block(torch.nn.Module):
    def __init__(self, i, o, s=1):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(i, o, 3, stride=s, padding=1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(o)
        self.conv2 = torch.nn.Conv2d(o, o, 3, padding=1, bias=False)
        self.bn2 = torch.nn.BatchNorm2d(o)
        self.downsample = torch.nn.Sequential(torch.nn.Conv2d(i, o, 1, stride=s, bias=False), torch.nn.BatchNorm2d(o)) if s > 1 else None

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + (x if self.downsample is None else self.downsample(x)))


class Small(torch.nn.Module):
    """resnet18 of the zoo with blocks 1,1,1,1 and planes 4: the names of torchvision's."""

    def __init__(self, classes=10):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(3, 4, 7, stride=2, padding=3, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(4)
        self.layer1 = torch.nn.Sequential(Block(4, 4))
        self.layer2 = torch.nn.Sequential(Block(4, 8, 2))
        self.layer3 = torch.nn.Sequential(Block(8, 16, 2))
        self.layer4 = torch.nn.Sequential(Block(16, 32, 2))
        self.fc = torch.nn.Linear(32, classes)

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean([2, 3]))


def small():
    torch.manual_seed(3)
    model = Small()
    for m in model.modules():
        if isinstance(m, torch.nn.BatchNorm2d):
            m.running_mean.normal_(0, 0.1)
            m.running_var.uniform_(0.5, 1.5)
    torch.save(model.state_dict(), path("resnet.pt"))
    torch.save({"module." + k: v for k, v in model.state_dict().items()}, path("parallel.pt"))
    # two shards and their index, as Hugging Face writes them
    items = list(model.state_dict().items())
    half = len(items) // 2
    files = {"model-00001-of-00002.safetensors": dict(items[:half]), "model-00002-of-00002.safetensors": dict(items[half:])}
    for name, part in files.items():
        write_safetensors(name, part)
    with open(path("model.safetensors.index.json"), "w") as f:
        json.dump({"metadata": {}, "weight_map": {k: n for n, part in files.items() for k in part}}, f, indent=1)
    outputs(model, torch.randn(2, 3, 32, 32), "resnet.outputs.safetensors")
    return model


def gpt():
    """The names and layout of the published GPT-2: products [in, out] (Conv1D), no lm_head."""
    torch.manual_seed(4)
    width, layers, heads, words, positions = 16, 2, 2, 61, 16
    state = {"wte.weight": torch.randn(words, width) * 0.2, "wpe.weight": torch.randn(positions, width) * 0.2}
    for i in range(layers):
        p = f"h.{i}."
        for n in ("ln_1", "ln_2"):
            state[p + n + ".weight"], state[p + n + ".bias"] = torch.rand(width) + 0.5, torch.randn(width) * 0.1
        for n, a, b in (("attn.c_attn", width, 3 * width), ("attn.c_proj", width, width), ("mlp.c_fc", width, 4 * width),
                        ("mlp.c_proj", 4 * width, width)):
            state[p + n + ".weight"], state[p + n + ".bias"] = torch.randn(a, b) * 0.2, torch.randn(b) * 0.1
    state["ln_f.weight"], state["ln_f.bias"] = torch.rand(width) + 0.5, torch.randn(width) * 0.1
    torch.save(state, path("gpt2.pt"))
    tokens = torch.randint(0, words, (2, 8))
    F = torch.nn.functional

    def norm(x, n):
        return F.layer_norm(x, (width,), state[n + ".weight"], state[n + ".bias"])

    x = state["wte.weight"][tokens] + state["wpe.weight"][:8]
    for i in range(layers):
        p = f"h.{i}."
        y = norm(x, p + "ln_1") @ state[p + "attn.c_attn.weight"] + state[p + "attn.c_attn.bias"]
        q, k, v = (t.reshape(2, 8, heads, width // heads).transpose(1, 2) for t in y.split(width, 2))
        s = (q @ k.transpose(2, 3)) / (width // heads) ** 0.5
        s = s.masked_fill(torch.triu(torch.ones(8, 8), 1).bool(), float("-inf")).softmax(3)
        y = (s @ v).transpose(1, 2).reshape(2, 8, width)
        x = x + y @ state[p + "attn.c_proj.weight"] + state[p + "attn.c_proj.bias"]
        y = norm(x, p + "ln_2") @ state[p + "mlp.c_fc.weight"] + state[p + "mlp.c_fc.bias"]
        y = 0.5 * y * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (y + 0.044715 * y ** 3)))
        x = x + y @ state[p + "mlp.c_proj.weight"] + state[p + "mlp.c_proj.bias"]
    logits = norm(x, "ln_f") @ state["wte.weight"].t()
    write_safetensors("gpt2.outputs.safetensors", {"input/tokens": tokens, "output/logits": logits.reshape(16, words)})


def fine_tuning(model):
    """20 updates of a new head (4 classes) and the last stage; the rest is frozen, its norms in evaluation mode."""
    torch.manual_seed(5)
    tuned = Small(4)
    state = {k: v for k, v in model.state_dict().items() if not k.startswith("fc.")}
    tuned.load_state_dict({**tuned.state_dict(), **state})
    torch.save(tuned.state_dict(), path("tune.begin.pt"))
    frozen = [m for n, m in tuned.named_children() if n in ("conv1", "bn1", "layer1", "layer2", "layer3")]
    images, labels = torch.randn(80, 3, 32, 32).half(), torch.randint(0, 4, (80,))
    numpy.savez(path("tune.npz"), x=images.numpy(), y=labels.numpy())
    images = images.float()
    for m in frozen:
        for p in m.parameters():
            p.requires_grad_(False)
    optimizer = torch.optim.SGD([{"params": tuned.fc.parameters(), "lr": 0.05, "weight_decay": 0.0},
                                 {"params": tuned.layer4.parameters()}], lr=0.01, momentum=0.9, weight_decay=0.001)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20, eta_min=0.001)
    tuned.train()
    for m in frozen:
        m.eval()
    for i in range(20):
        x, y = images[4 * i:4 * i + 4], labels[4 * i:4 * i + 4]
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(tuned(x), y).backward()
        optimizer.step()
        schedule.step()
    torch.save(tuned.state_dict(), path("tune.end.pt"))


if __name__ == "__main__":
    os.makedirs(OUT, exist_ok=True)
    torch.set_num_threads(1)
    dtypes()
    fine_tuning(small())
    gpt()
    print("".join(sorted(f"{os.path.getsize(path(n)):8} {n}\n" for n in os.listdir(OUT))), end="")
