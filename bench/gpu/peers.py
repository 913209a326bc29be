#!/usr/bin/env python3
"""peers.py [NAME...] [--steps N] [--json FILE]: what PyTorch needs for the steps that ebb is measured with, on this GPU.

Every step takes a new batch and reads its loss. A row: median milliseconds of N steps (default 50) after warming up; GiB allocated at the
peak, reserved by the allocator, and taken from the device as the driver sees it (context and libraries included).

Numeric policy of all rows: float32 weights under autocast to bfloat16; the residual stream of GPT-2 stays float32, as autocast leaves it.
Names: gpt2 (124M, 32 x 1024), xl (1558M, 16 x 1024), resnet (ResNet-50, 256 x 3 x 224 x 224); name:variant runs one variant. Without
names: gpt2 and resnet."""
import argparse
import gc
import json
import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCABULARY = 50304
GIB = 1 << 30


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.fc_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = self.qkv(self.ln_1(x)).view(b, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, w))
        return x + self.fc_proj(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class ChunkedHead(torch.autograd.Function):
    """Product with the embedding and cross entropy, so many rows at a time, with the gradients made in the forward pass."""

    @staticmethod
    def forward(ctx, x, weight, target, rows):
        x16, w16 = x.to(torch.bfloat16), weight.to(torch.bfloat16)
        dx, dw = torch.empty_like(x16), torch.zeros_like(weight)
        loss = torch.zeros((), device=x.device, dtype=torch.float32)
        for i in range(0, x.shape[0], rows):
            logits = (x16[i:i + rows] @ w16.t()).float()
            lse = torch.logsumexp(logits, 1)
            loss += (lse - logits.gather(1, target[i:i + rows, None]).squeeze(1)).sum()
            p = torch.exp(logits - lse[:, None])
            p.scatter_add_(1, target[i:i + rows, None], torch.full_like(p[:, :1], -1))
            p16 = (p / x.shape[0]).to(torch.bfloat16)
            dx[i:i + rows] = p16 @ w16
            dw += (p16.t() @ x16[i:i + rows]).float()
        ctx.save_for_backward(dx, dw)
        return loss / x.shape[0]

    @staticmethod
    def backward(ctx, g):
        dx, dw = ctx.saved_tensors
        return (dx * g).float(), dw * g, None, None


class GPT(nn.Module):
    def __init__(self, layers, width, heads, length, chunk=0, checkpoint=False):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.chunk, self.checkpoint = chunk, checkpoint
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe.weight[:tokens.shape[1]]
        for block in self.blocks:
            if self.checkpoint:
                x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
            else:
                x = block(x)
        x = self.ln_f(x)
        if self.chunk:
            return ChunkedHead.apply(x.reshape(-1, x.shape[-1]), self.wte.weight, targets.reshape(-1), self.chunk)
        logits = F.linear(x, self.wte.weight)
        return F.cross_entropy(logits.view(-1, VOCABULARY), targets.view(-1))


def gpt_data(batch, length):
    def draw():
        data = torch.randint(0, VOCABULARY, (batch, length + 1), device="cuda")
        return data[:, :-1].contiguous(), data[:, 1:].contiguous()
    return draw


def image_data(batch):
    def draw():
        x = torch.randn(batch, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
        return x, torch.randint(0, 1000, (batch,), device="cuda")
    return draw


def resnet():
    import torchvision
    net = torchvision.models.resnet50().cuda().to(memory_format=torch.channels_last)

    def loss(x, y):
        return F.cross_entropy(net(x), y)
    return net, loss


SMALL = dict(layers=12, width=768, heads=12, length=1024)
XL = dict(layers=48, width=1600, heads=25, length=1024)
# name -> variant -> (kind, options of the model, compiled?, activation_memory_budget, offload?)
VARIANTS = {
    "gpt2": {
        "eager": (SMALL, {}, False, None, False),
        "compile": (SMALL, {}, True, None, False),
        "compile-0.5": (SMALL, {}, True, 0.5, False),
        "compile-0.3": (SMALL, {}, True, 0.3, False),
        "chunk": (SMALL, {"chunk": 4096}, True, None, False),
        "chunk-0.5": (SMALL, {"chunk": 4096}, True, 0.5, False),
        "chunk-0.4": (SMALL, {"chunk": 4096}, True, 0.4, False),
        "chunk-0.1": (SMALL, {"chunk": 4096}, True, 0.1, False),
    },
    "xl": {
        "eager": (XL, {}, False, None, False),
        "checkpoint": (XL, {"checkpoint": True}, False, None, False),
        "offload": (XL, {"checkpoint": True}, False, None, True),
        "chunk-checkpoint": (XL, {"checkpoint": True, "chunk": 4096}, False, None, False),
    },
    "resnet": {"eager": (None, {}, False, None, False), "compile": (None, {}, True, None, False),
               "compile-0.3": (None, {}, True, 0.3, False)},
}


def measure(name, variant, steps):
    kind, options, is_compiled, budget, is_offloaded = VARIANTS[name][variant]
    torch.manual_seed(0)
    torch._dynamo.reset()
    torch._functorch.config.activation_memory_budget = 1.0 if budget is None else budget
    if kind:
        net = GPT(**kind, **options).cuda()
        loss_of, draw = net, gpt_data(16 if name == "xl" else 32, kind["length"])
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
    else:
        net, loss_of = resnet()
        draw, optimizer = image_data(256), torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, fused=True)
    step_loss = torch.compile(loss_of) if is_compiled else loss_of
    times = []
    for i in range(steps + 8):
        begin = time.perf_counter()
        x, y = draw()
        with torch.autocast("cuda", torch.bfloat16):
            if is_offloaded:
                with torch.autograd.graph.save_on_cpu(pin_memory=True):
                    loss = step_loss(x, y)
            else:
                loss = step_loss(x, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        value = loss.item()
        times.append((time.perf_counter() - begin) * 1e3)
        if i == 5:
            torch.cuda.reset_peak_memory_stats()
    free, total = torch.cuda.mem_get_info()
    row = {"name": name, "variant": variant, "ms": statistics.median(times[8:]), "allocated_gib": torch.cuda.max_memory_allocated() / GIB,
           "reserved_gib": torch.cuda.memory_reserved() / GIB, "driver_gib": (total - free) / GIB, "loss": value}
    del net, loss_of, step_loss, optimizer, loss, x, y
    gc.collect()
    torch.cuda.empty_cache()
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=["gpt2", "resnet"])
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--json")
    args = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    rows = []
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    for word in args.names:
        name, _, only = word.partition(":")
        if name not in VARIANTS or (only and only not in VARIANTS[name]):
            sys.exit(f"peers: {word}: allowed: " + ", ".join(f"{n}:{v}" for n in VARIANTS for v in VARIANTS[n]))
        for variant in [only] if only else VARIANTS[name]:
            try:
                row = measure(name, variant, args.steps)
            except torch.cuda.OutOfMemoryError:
                row = {"name": name, "variant": variant, "ms": float("nan"), "allocated_gib": 0, "reserved_gib": 0, "driver_gib": 0, "loss": 0}
            rows.append(row)
            print(f"{name:8} {variant:18} {row['ms']:9.2f} ms  allocated {row['allocated_gib']:6.2f}  reserved {row['reserved_gib']:6.2f}  "
                  f"driver {row['driver_gib']:6.2f} GiB", flush=True)
    if args.json:
        with open(args.json, "w") as f:
            json.dump(rows, f, indent=1)


if __name__ == "__main__":
    main()
