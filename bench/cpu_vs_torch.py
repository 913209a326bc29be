#!/usr/bin/env python3
"""Training steps of the zoo in ebb and in PyTorch on the same cores, in turns.

    cpu_vs_torch.py zoo PROGRAM [NAME[/SIZE]...] [--sizes small,real] [--threads 1,2] [--pairs 9] [--most 60]
                        [--whole] [--cpu] [--isa avx2] [--keep FILE] [--again] [--for 280] [--list]
    cpu_vs_torch.py table FILE...

PROGRAM is build/bench/bench_cpu_vs_torch. For every row of the list below there is one process of ebb and one of PyTorch per memory
format (contiguous; channels last where there are images), all with the same shapes, batch and optimizer, without dropout, on a batch
that lies ready. A round is a turn of each: as many steps as take 0.1 s, one at least; who does not run waits. The ratio of a row is the median over the rounds of
PyTorch's time over ebb's, for the format in which PyTorch is faster. Exit 1: a ratio is below 0.97, or the geometric mean below 1.2.

A row has --pairs rounds; one that is clearly faster needs fewer: three when every
round was above 1.3, five when every one was above 1.15. (All of three or five rounds lie above the median by chance once in 8 or 32
times, and the bar is far below: 0.97.) --whole takes all rounds of every row.

A run can be cut into pieces: what --keep FILE has is not measured again, and the verdict is about all that is in it. `table` prints
what the files of one or more runs have, in the list's order, and the verdict.

  --whole       no row ends early
  --most S      seconds of a row at most, once it has three rounds (0: no limit)
  --keep FILE   results are added to this file (JSON), row by row; rows in it are left out, or replaced with --again
  --for S       begin no row after so many seconds (0: no limit)
  --cpu         processor time of the steps instead of wall time: for busy machines
  --isa avx2    oneDNN and OpenBLAS do without AVX-512 (PyTorch's own loops have none, ebb's keep it)
  --list        print the rows and end

ebb's threads wait for each other as those of `ebb train` do (GOMP_SPINCOUNT=1000), unless the environment says something else.

Debian: python3-torch, python3-torchvision, libopenblas0-openmp. With the reference BLAS that Debian installs by default PyTorch's matrix
products are some fifteen times slower: the comparison refuses it. EBB_BLAS_DIR may name a folder with another libblas.so.3.
"""
import argparse
import json
import math
import os
import signal
import subprocess
import sys
import time
import traceback

SGD = ("SGD", {"lr": 0.001, "momentum": 0.9})
RMS = ("RMSprop", {"lr": 1e-5, "weight_decay": 1e-8, "momentum": 0.9})
ADAM = ("AdamW", {"lr": 1e-4})
PLAIN = ("SGD", {"lr": 0.001})

SMALL_GPT = "vocabulary=1000 positions=64 length=64 width=128 layers=4 heads=4"


def image(n, h=None):
    return f"height={n} width={h or n}"


# name, size, batch, options, optimizer
ROWS = [
    ("cifar_resnet20", "small", 16, "", SGD), ("cifar_resnet20", "real", 128, "", SGD),
    ("cifar_resnet32", "real", 64, "", SGD), ("cifar_resnet44", "real", 64, "", SGD),
    ("cifar_resnet56", "real", 64, "", SGD), ("cifar_resnet110", "real", 32, "", SGD),
    ("cifar_resnet1202", "real", 4, "", SGD),
    ("resnet18", "small", 8, image(64), SGD), ("resnet18", "real", 8, image(224), SGD),
    ("resnet34", "small", 8, image(64), SGD), ("resnet34", "real", 8, image(224), SGD),
    ("resnet50", "small", 8, image(64), SGD), ("resnet50", "real", 8, image(224), SGD),
    ("resnet101", "small", 8, image(64), SGD), ("resnet101", "real", 4, image(224), SGD),
    ("resnet152", "small", 8, image(64), SGD), ("resnet152", "real", 4, image(224), SGD),
    ("resnet50_epcc", "small", 4, image(64), SGD), ("resnet50_epcc", "real", 2, image(224), SGD),
    ("densenet_bc_100_12", "small", 16, "", SGD), ("densenet_bc_100_12", "real", 64, "", SGD),
    ("densenet121", "small", 8, image(64), SGD), ("densenet121", "real", 8, image(224), SGD),
    ("densenet161", "small", 8, image(64), SGD), ("densenet161", "real", 4, image(224), SGD),
    ("densenet169", "small", 8, image(64), SGD), ("densenet169", "real", 4, image(224), SGD),
    ("densenet201", "small", 8, image(64), SGD), ("densenet201", "real", 4, image(224), SGD),
    ("unet", "small", 1, image(104, 152), RMS), ("unet", "real", 1, image(416, 608), RMS),
    ("unet_transposed", "small", 1, image(104, 152), RMS), ("unet_transposed", "real", 1, image(416, 608), RMS),
    ("inception_v3", "small", 4, image(139), SGD), ("inception_v3", "real", 8, image(299), SGD),
    ("inception_v4", "small", 2, image(139), SGD), ("inception_v4", "real", 4, image(299), SGD),
    ("googlenet", "small", 8, image(64), SGD), ("googlenet", "real", 8, image(224), SGD),
    ("mobilenet_v1", "small", 8, image(64), SGD), ("mobilenet_v1", "real", 16, image(224), SGD),
    ("mobilenet_v2", "small", 8, image(64), SGD), ("mobilenet_v2", "real", 16, image(224), SGD),
    ("mnasnet1_0", "small", 8, image(64), SGD), ("mnasnet1_0", "real", 16, image(224), SGD),
    ("shufflenet_v2_x1_0", "small", 8, image(64), SGD), ("shufflenet_v2_x1_0", "real", 16, image(224), SGD),
    ("vgg16", "small", 8, image(64), SGD), ("vgg16", "real", 4, image(224), SGD),
    ("vgg16_bn", "small", 8, image(64), SGD), ("vgg16_bn", "real", 4, image(224), SGD),
    ("vgg19", "real", 4, image(224), SGD),
    ("alexnet", "small", 32, image(64), SGD), ("alexnet", "real", 32, image(224), SGD),
    ("squeezenet1_1", "small", 8, image(64), SGD), ("squeezenet1_1", "real", 16, image(224), SGD),
    ("vgg_unet", "small", 2, image(96), SGD), ("vgg_unet", "real", 1, image(416, 608), SGD),
    ("unet_vanilla", "small", 2, image(96), SGD), ("unet_vanilla", "real", 1, image(416, 608), SGD),
    ("segnet", "small", 2, image(96), SGD), ("segnet", "real", 1, image(416, 608), SGD),
    ("vgg_segnet", "small", 2, image(96), SGD), ("vgg_segnet", "real", 1, image(416, 608), SGD),
    ("fcn8", "small", 2, image(96), SGD), ("fcn8", "real", 1, image(416, 608), SGD),
    ("fcn8_vgg", "small", 2, image(96), SGD), ("fcn8_vgg", "real", 1, image(416, 608), SGD),
    ("deepcam", "small", 2, image(96), ADAM), ("deepcam", "real", 1, image(384, 576), ADAM),
    ("cosmoflow", "small", 2, "size=32", SGD), ("cosmoflow", "real", 1, "size=128", SGD),
    ("wlm_lstm", "small", 4, "vocabulary=1000 embedding=64 hidden=64", SGD), ("wlm_lstm", "real", 20, "", SGD),
    ("wlm_gru", "small", 4, "vocabulary=1000 embedding=64 hidden=64", SGD), ("wlm_gru", "real", 20, "", SGD),
    ("wlm_transformer", "small", 4, "vocabulary=1000 width=64 hidden=64", SGD), ("wlm_transformer", "real", 20, "", SGD),
    ("dtr_lstm", "small", 1, "features=64 memory=128 steps=32", PLAIN), ("dtr_lstm", "real", 1, "", PLAIN),
    ("dtr_treelstm", "small", 1, "features=64 memory=128 depth=4", PLAIN), ("dtr_treelstm", "real", 1, "", PLAIN),
    ("transformer_12_6", "small", 4, "length=32 width=128 hidden=512 heads=4 encoder_layers=2 decoder_layers=2", ADAM),
    ("transformer_12_6", "real", 2, "", ADAM),
    ("unrolled_gan", "small", 64, "noise=64 hidden=64 unroll=3", ADAM), ("unrolled_gan", "real", 512, "", ADAM),
    ("unrolled_gan_large", "real", 32, "unroll=10", ADAM),
    ("gpt2_124M", "small", 4, SMALL_GPT, ADAM), ("gpt2_124M", "real", 2, "positions=256 length=256", ADAM),
    ("gpt2_350M", "real", 1, "positions=128 length=128", ADAM),
    ("gpt3_epcc_13B", "small", 4, SMALL_GPT, ADAM),
    ("gpt3_epcc_13B", "real", 1, "positions=256 length=256 width=1024 layers=4 heads=8", ADAM),
    ("GPT2_1B", "small", 4, SMALL_GPT, ADAM),
    ("GPT2_1B", "real", 1, "positions=256 length=256 width=1024 layers=4 heads=8", ADAM),
    ("bert_base", "small", 4, SMALL_GPT.replace("1000", "2000"), ADAM), ("bert_base", "real", 4, "", ADAM),
    ("bert_large", "real", 1, "", ADAM), ("Bert", "small", 4, SMALL_GPT.replace("1000", "2000"), ADAM),
    ("Bert", "real", 4, "length=128", ADAM),
    ("linear", "small", 8, image(32), SGD), ("linear", "real", 4, image(224), SGD),
    ("test", "small", 8, image(32), SGD), ("test", "real", 4, image(224), SGD),
    ("testBERT", "small", 4, "length=64 width=128 layers=4 heads=4", ADAM), ("testBERT", "real", 4, "", ADAM),
]

# Parameters that one side has and the other does not: heads whose outputs no loss reads.
OTHERS = {"inception_v3": "without the second head", "googlenet": "without the side heads"}
LEAST, LEAST_MEAN = 0.97, 1.2
CLEAR = ((3, 1.3), (5, 1.15))  # rounds that are enough when all of them are above
WARM = 2  # steps
TURN = 0.1  # seconds: so many steps are a turn
PAUSE = 0.01  # between turns: OpenMP's threads spin that long at most


def median(values):
    values = sorted(values)
    n = len(values)
    return (values[n // 2] + values[(n - 1) // 2]) / 2


# ---- PyTorch's side ----------------------------------------------------------------------------------------------------------

def has_fast_blas():
    with open("/proc/self/maps") as f:
        text = f.read()
    return any(name in text for name in ("openblas", "libmkl", "libblis"))


def torch_turns(told, threads, form, come, go):
    """What ebb told of the model; then a step for every line that comes."""
    import torch
    import torch_zoo as zoo
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    model = zoo.make(told["model"], told["options"], told["items"])
    inputs, targets = zoo.data(told["inputs"])
    if form == "channels_last":
        inputs = zoo.channels_last(model, inputs)
    loss_of = zoo.loss_of(told["model"], targets)
    trained = model.parameters
    if told["model"].startswith("unrolled_gan"):
        trained = trained[:len(trained) // 2]  # G's; D is trained inside
    optimizer = zoo.optimizer(*told["optimizer"], trained)

    def step():
        optimizer.zero_grad(set_to_none=True)
        outputs = model.run(*inputs)
        loss = loss_of(outputs if isinstance(outputs, tuple) else (outputs,), targets)
        loss.backward(inputs=trained)
        optimizer.step()
        return loss.item()

    def say(answer):
        go.write(json.dumps(answer) + "\n")
        go.flush()

    for _ in range(WARM):
        step()
    say({"parameters": sum(p.numel() for p in model.parameters)})
    for text in come:
        begin, used = time.perf_counter(), time.process_time()
        for _ in range(int(text)):
            loss = step()
        say({"wall": time.perf_counter() - begin, "cpu": time.process_time() - used, "loss": loss})


# ---- turns -------------------------------------------------------------------------------------------------------------------

class Side:
    """A process that does steps when told."""
    steps = 1  # of a turn

    def hear(self):
        line = self.come.readline()
        if not line:
            raise RuntimeError(f"the process of {self.name} has ended")
        return json.loads(line)

    def turn(self, key):
        """Seconds of a step."""
        self.go.write(f"{self.steps}\n")
        self.go.flush()
        answer = self.hear()
        time.sleep(PAUSE)
        self.loss = answer["loss"]
        return answer[key] / self.steps

    def close(self):
        os.kill(self.pid, signal.SIGKILL)  # copies of this process hold its pipes, too
        self.end()
        self.go.close()
        self.come.close()


class Ebb(Side):
    def __init__(self, command, env):
        self.name, self.times = "ebb", []
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid, self.go, self.come, self.end = self.process.pid, self.process.stdin, self.process.stdout, self.process.wait
        self.told = self.hear()


class Torch(Side):
    """A copy of this process, which has loaded PyTorch and not used it."""

    def __init__(self, told, threads, form):
        self.name, self.times = form, []
        there, here = os.pipe(), os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(there[1])
            os.close(here[0])
            status = 1
            try:
                torch_turns(told, threads, form, os.fdopen(there[0]), os.fdopen(here[1], "w"))
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        os.close(there[0])
        os.close(here[1])
        self.go, self.come = os.fdopen(there[1], "w"), os.fdopen(here[0])
        self.end = lambda: os.waitpid(self.pid, 0)
        self.told = self.hear()


def prepare(options):
    """The environment of both sides; PyTorch is loaded in it."""
    if options.cpu:
        os.environ["OMP_WAIT_POLICY"] = "passive"  # waiting is no work
    if options.isa == "avx2":
        os.environ.update(ONEDNN_MAX_CPU_ISA="AVX2", ATEN_CPU_CAPABILITY="avx2", OPENBLAS_CORETYPE="Haswell")
    folder = os.environ.pop("EBB_BLAS_DIR", None)
    if folder:  # the loader reads it when a process begins
        os.environ["LD_LIBRARY_PATH"] = folder + ":" + os.environ.get("LD_LIBRARY_PATH", "")
        os.execv(sys.executable, [sys.executable] + sys.argv)
    import torch_zoo  # noqa: F401
    if not has_fast_blas():
        sys.exit("PyTorch has the reference BLAS, which says nothing: install libopenblas0-openmp or set EBB_BLAS_DIR")


def open_sides(options, row, threads):
    name, _, batch, text, (optimizer, args) = row
    command = [options.program, name, str(threads), str(WARM), "--turns", "--batch", str(batch), "--optimizer", optimizer,
               "--args", json.dumps(args)]
    for option in text.split():
        command += ["--set", option]
    sides = []
    try:
        env = dict(os.environ, OMP_NUM_THREADS=str(threads))
        if "OMP_WAIT_POLICY" not in env:
            env.setdefault("GOMP_SPINCOUNT", "1000")
        sides.append(Ebb(command, env))
        told = dict(sides[0].told, optimizer=[optimizer, args])
        is_image = any(len(shape) > 3 for _, shape, _, _ in told["inputs"])
        for form in ("contiguous", "channels_last")[:2 if is_image else 1]:
            sides.append(Torch(told, threads, form))
    except BaseException:
        for side in sides:
            side.close()
        raise
    return sides


def is_clear(ebb, others):
    ratios = [t / e for side in others for t, e in zip(side.times, ebb.times)]
    return any(len(ebb.times) >= n and min(ratios) > least for n, least in CLEAR)


def is_enough(options, ebb, others, spent):
    n = len(ebb.times)
    if options.most and n >= 3 and spent >= options.most:
        return True
    return n >= options.pairs or (not options.whole and is_clear(ebb, others))


def measure(options, row, threads):
    sides = open_sides(options, row, threads)
    key = "cpu" if options.cpu else "wall"
    try:
        ebb, others = sides[0], sides[1:]
        for side in sides:  # one more to warm up
            side.steps = max(1, math.ceil(TURN / side.turn("wall")))
        begin = time.monotonic()
        while True:
            for side in sides:
                side.times.append(side.turn(key))
            if is_enough(options, ebb, others, time.monotonic() - begin):
                break
    finally:
        for side in sides:
            side.close()
    best = min(others, key=lambda side: median(side.times))
    ratios = {side.name: median([t / e for t, e in zip(side.times, ebb.times)]) for side in others}
    result = {"model": row[0], "size": row[1], "batch": row[2], "options": row[3], "optimizer": row[4][0], "threads": threads,
              "pairs": len(ebb.times), "clock": key, "isa": options.isa or "", "ebb": median(ebb.times), "best": best.name,
              "torch": {side.name: median(side.times) for side in others}, "ratios": ratios, "ratio": ratios[best.name],
              "parameters": ebb.told["parameters"], "torch_parameters": best.told["parameters"],
              "gflops": ebb.told["gflop"] / median(ebb.times), "peak": ebb.told["peak_gflops"],
              "peak_bytes": ebb.told["peak_bytes"], "loss": [ebb.loss, best.loss]}
    if result["parameters"] != result["torch_parameters"]:
        result["note"] = OTHERS.get(row[0], "OTHER PARAMETERS")
    return result


HEAD = ("| model | size | batch | threads | pairs | ebb, s | PyTorch, s | channels last, s | ratio | GFLOP/s | parameters |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|")


def line(r):
    other = r["torch"].get("channels_last")
    note = f", PyTorch {r['torch_parameters']:,} ({r['note']})" if "note" in r else ""
    return (f"| {r['model']}{' (' + r['options'] + ')' if r['options'] else ''} | {r['size']} | {r['batch']} | {r['threads']} | "
            f"{r['pairs']} | {r['ebb']:.4g} | {r['torch']['contiguous']:.4g} | {f'{other:.4g}' if other else ''} | "
            f"{r['ratio']:.2f} | {r['gflops']:.1f} | {r['parameters']:,}{note} |")


def verdict(results):
    bad = [r for r in results if r["ratio"] < LEAST or r.get("note") == "OTHER PARAMETERS"]
    mean = math.exp(sum(math.log(r["ratio"]) for r in results) / len(results)) if results else 0
    print(f"\n{len(results)} rows, geometric mean {mean:.3f} (bar {LEAST_MEAN}), {len(bad)} below {LEAST}"
          + "".join(f"\n- {r['model']} {r['size']}, {r['threads']} threads: {r['ratio']:.2f}"
                    + (" " + r["note"] if "note" in r else "") for r in sorted(bad, key=lambda r: r["ratio"])))
    return bool(bad) or mean < LEAST_MEAN


def key_of(r):
    return r["model"], r["size"], r["batch"], r["options"], r["threads"], r["isa"], r["clock"]


def read(files):
    """What is kept in files, the last of a row counts."""
    kept = {}
    for name in files:
        if os.path.exists(name):
            with open(name) as f:
                kept.update((key_of(r), r) for r in json.load(f))
    return kept


def keep(options, kept):
    if options.keep:
        with open(options.keep + ".part", "w") as f:
            json.dump(list(kept.values()), f, indent=1)
        os.replace(options.keep + ".part", options.keep)


def table(files):
    place = {row[:2]: i for i, row in enumerate(ROWS)}
    results = sorted(read(files).values(), key=lambda r: (r["isa"], r["clock"], r["threads"], place[r["model"], r["size"]]))
    print(HEAD)
    for r in results:
        print(line(r))
    return int(verdict(results))


def chosen(options):
    """The rows that the names ask for, in the order of the names."""
    sizes = options.sizes.split(",")
    rows = [row for row in ROWS if row[1] in sizes]
    picked = []
    for name in options.names:
        model, _, size = name.partition("/")
        found = [row for row in rows if row[0] == model and (not size or row[1] == size)]
        if not found:
            raise ValueError(name)
        picked += [row for row in found if row not in picked]
    return picked or rows


def zoo(options):
    try:
        rows = chosen(options)
    except ValueError as e:
        print(f"unknown: {e}; --list names them all", file=sys.stderr)
        return 2
    if options.list:
        for name, size, batch, text, (optimizer, _) in rows:
            print(f"{name:20} {size:6} batch {batch:<4} {optimizer:8} {text}")
        return 0
    begin = time.monotonic()
    prepare(options)
    kept, failed, left = read([options.keep] if options.keep else []), 0, 0
    print(HEAD, flush=True)
    for threads in map(int, options.threads.split(",")):
        for i, row in enumerate(rows):
            key = (*row[:4], threads, options.isa or "", "cpu" if options.cpu else "wall")
            if key in kept and not options.again:
                continue
            if options.time and time.monotonic() - begin > options.time:
                left += 1
                continue
            print(f"{i + 1} of {len(rows)}, {threads} threads: {row[0]} {row[1]}", file=sys.stderr, flush=True)
            try:
                kept[key] = measure(options, row, threads)
            except RuntimeError as e:
                failed += 1
                print(f"{row[0]} {row[1]}: {e}", file=sys.stderr, flush=True)
                continue
            print(line(kept[key]), flush=True)
            keep(options, kept)
    is_bad = verdict(list(kept.values()))
    if left:
        print(f"{left} rows are left: the time is over")
    return int(is_bad or failed > 0 or left > 0)


def main():
    if sys.argv[1:2] == ["table"]:
        return table(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["zoo"])
    parser.add_argument("program")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--sizes", default="small,real")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--most", type=float, default=0)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--isa", choices=["avx2"])
    parser.add_argument("--keep")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--for", dest="time", type=float, default=0)
    parser.add_argument("--list", action="store_true")
    return zoo(parser.parse_intermixed_args())


if __name__ == "__main__":
    sys.exit(main())
