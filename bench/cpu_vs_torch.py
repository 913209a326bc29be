"""The three models of bench_cpu_vs_torch.c in PyTorch, and the comparison of both.

    cpu_vs_torch.py MODEL THREADS STEPS [channels_last]    one model, one JSON line
    cpu_vs_torch.py compare PROGRAM [THREADS [STEPS]]       all models, both engines in turn, a table

PROGRAM is build/bench/bench_cpu_vs_torch. Debian: python3-torch, libopenblas0-openmp (with the reference
BLAS that is installed by default PyTorch's matrix products are some fifty times slower; EBB_BLAS_DIR may
name a folder with another libblas.so.3). On a busy machine compare CPU seconds.
"""
import json
import os
import resource
import subprocess
import sys
import time

if __name__ == "__main__" and sys.argv[1:2] != ["compare"]:
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
else:  # the table needs no PyTorch in this process
    class nn:
        class Module:
            pass


class Bottleneck(nn.Module):
    def __init__(self, ci, width, stride):
        super().__init__()
        self.c1 = nn.Conv2d(ci, width, 1, bias=False)
        self.b1 = nn.BatchNorm2d(width)
        self.c2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.b2 = nn.BatchNorm2d(width)
        self.c3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.b3 = nn.BatchNorm2d(4 * width)
        self.down = None
        if stride != 1 or ci != 4 * width:
            self.down = nn.Sequential(nn.Conv2d(ci, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))

    def forward(self, x):
        y = F.relu(self.b1(self.c1(x)), inplace=True)
        y = F.relu(self.b2(self.c2(y)), inplace=True)
        y = self.b3(self.c3(y))
        y += x if self.down is None else self.down(x)
        return F.relu(y, inplace=True)


class ResNet50(nn.Module):
    def __init__(self):
        super().__init__()
        layers, ci = [], 64
        for i, depth in enumerate((3, 4, 6, 3)):
            for k in range(depth):
                layers.append(Bottleneck(ci, 64 << i, 2 if k == 0 and i > 0 else 1))
                ci = 256 << i
        self.stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True),
                                  nn.MaxPool2d(3, 2, 1))
        self.body = nn.Sequential(*layers)
        self.fc = nn.Linear(2048, 1000)

    def forward(self, x):
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(self.body(self.stem(x)), 1), 1))


def double_conv(ci, mid, co):
    return nn.Sequential(nn.Conv2d(ci, mid, 3, padding=1), nn.BatchNorm2d(mid), nn.ReLU(inplace=True),
                         nn.Conv2d(mid, co, 3, padding=1), nn.BatchNorm2d(co), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.inc = double_conv(3, 64, 64)
        self.down = nn.ModuleList(double_conv(64 << i, c, c) for i, c in enumerate((128, 256, 512, 512)))
        self.up = nn.ModuleList(double_conv(a, a // 2, b) for a, b in ((1024, 256), (512, 128), (256, 64), (128, 64)))
        self.out = nn.Conv2d(64, 1, 1)

    def forward(self, x):
        levels = [self.inc(x)]
        for d in self.down:
            levels.append(d(F.max_pool2d(levels[-1], 2)))
        y = levels[4]
        for i, u in enumerate(self.up):
            skip = levels[3 - i]
            y = F.interpolate(y, scale_factor=2, mode="bilinear", align_corners=True)
            dy, dx = skip.size(2) - y.size(2), skip.size(3) - y.size(3)
            y = F.pad(y, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
            y = u(torch.cat([skip, y], 1))
        return self.out(y)


class Block(nn.Module):
    def __init__(self, c, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(c), nn.LayerNorm(c)
        self.qkv, self.proj = nn.Linear(c, 3 * c), nn.Linear(c, c)
        self.up, self.down = nn.Linear(c, 4 * c), nn.Linear(4 * c, c)

    def forward(self, x, mask):
        b, t, c = x.shape
        q, k, v = (p.view(b, t, self.heads, c // self.heads).transpose(1, 2) for p in self.qkv(self.n1(x)).split(c, 2))
        a = (q @ k.transpose(-2, -1)) * (c // self.heads) ** -0.5
        a = torch.softmax(a.masked_fill(mask, float("-inf")), -1) @ v
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.n2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self, t=256, c=768, v=50257):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(v, c), nn.Embedding(t, c)
        self.blocks = nn.ModuleList(Block(c, 12) for _ in range(12))
        self.norm = nn.LayerNorm(c)
        self.register_buffer("mask", torch.triu(torch.ones(t, t, dtype=torch.bool), 1))

    def forward(self, x):
        y = self.wte(x) + self.wpe.weight
        for b in self.blocks:
            y = b(y, self.mask)
        return self.norm(y) @ self.wte.weight.t()


def make(name):
    if name == "resnet50":
        m = ResNet50()
        x, t = torch.randn(8, 3, 224, 224), torch.randint(1000, (8,))
        return m, torch.optim.SGD(m.parameters(), 0.01, momentum=0.9), lambda: F.cross_entropy(m(x), t), 196.3
    if name == "unet":
        m = UNet()
        x, t = torch.randn(1, 3, 104, 152), torch.rand(1, 1, 104, 152)
        return (m, torch.optim.RMSprop(m.parameters(), 1e-5, weight_decay=1e-8, momentum=0.9),
                lambda: F.binary_cross_entropy_with_logits(m(x), t), 57.9)
    m = GPT2()
    x, t = torch.randint(50257, (2, 256)), torch.randint(50257, (512,))
    return (m, torch.optim.AdamW(m.parameters(), 1e-4), lambda: F.cross_entropy(m(x).view(512, -1), t), 394.0)


def median(values):
    values = sorted(values)
    return values[len(values) // 2]


def compare(program, threads, steps):
    env = dict(os.environ, OMP_WAIT_POLICY="passive", OMP_NUM_THREADS=str(threads))
    if "EBB_BLAS_DIR" in env:
        env["LD_LIBRARY_PATH"] = env["EBB_BLAS_DIR"]
    print("| model | engine | CPU s, best | CPU s, median | wall s, best | GFLOP/s per CPU second | of peak | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    for name in ("resnet50", "gpt2", "unet"):
        cpu, wall, peak, gflop = {"ebb": [], "torch": []}, {"ebb": [], "torch": []}, 0, 0
        for _ in range(2):  # in turn, so that a change of load meets both
            for engine, command in (("ebb", [program]), ("torch", [sys.executable, os.path.abspath(__file__)])):
                text = subprocess.run(command + [name, str(threads), str(steps)], env=env, check=True,
                                      stdout=subprocess.PIPE).stdout
                row = json.loads(text.decode().splitlines()[-1])
                cpu[engine] += row["cpu"][1:]  # the first step warms up
                wall[engine] += row["wall"][1:]
                peak, gflop = max(peak, row.get("peak_gflops", 0) / threads), row["gflop"]
        for engine in ("ebb", "torch"):
            best = min(cpu[engine])
            print("| %s | %s | %.3f | %.3f | %.3f | %.1f | %.2f | %.2f |"
                  % (name, engine, best, median(cpu[engine]), min(wall[engine]), gflop / best, gflop / best / peak,
                     min(cpu["torch"]) / best), flush=True)


def main():
    name, threads, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    model, optimizer, loss_of, gflop = make(name)
    if "channels_last" in sys.argv:
        model = model.to(memory_format=torch.channels_last)
    wall, cpu, loss = [], [], None
    for _ in range(steps):
        begin, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of()
        loss.backward()
        optimizer.step()
        value = loss.item()
        wall.append(round(time.perf_counter() - begin, 4))
        now = resource.getrusage(resource.RUSAGE_SELF)
        cpu.append(round(now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime, 4))
    print(json.dumps({"engine": "torch " + torch.__version__, "model": name, "threads": threads, "gflop": gflop,
                      "wall": wall, "cpu": cpu, "loss": value}))


if __name__ == "__main__":
    if sys.argv[1] == "compare":
        compare(sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 2, int(sys.argv[4]) if len(sys.argv) > 4 else 4)
    else:
        main()
