#!/usr/bin/env python3
"""Makes further reference vectors in this folder, with the machinery of the reference folder.

    python3 generate.py GOLDEN [--all] [--out DIR]

GOLDEN is the folder that holds goldenlib.py and generate.py (it is not part of this tree); PyTorch
1.13.1 for the CPU is needed, as there. What is written has the format of that folder, for
`ebb dev golden DIR`. --all keeps the large cases and every variant; without it what is written
stays below 2 MB: the copy that is kept here.
"""
import argparse, importlib.util, json, math, os, random, struct, sys, warnings

warnings.filterwarnings("ignore")
HERE = os.path.dirname(os.path.abspath(__file__))
args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
args.add_argument("golden", help="folder with goldenlib.py and generate.py")
args.add_argument("--all", action="store_true", help="every case, of any size")
args.add_argument("--out", default=HERE, help="where to write (default: this folder)")
A = args.parse_args()


def load(name, folder, as_name):
    spec = importlib.util.spec_from_file_location(as_name, os.path.join(folder, name + ".py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[as_name] = module
    spec.loader.exec_module(module)
    return module


gl = load("goldenlib", A.golden, "goldenlib")
gen = load("generate", A.golden, "reference")
import torch
from op_cases import op_cases

Graph, make = gl.Graph, gl.make
N = "normal"


# ------------------------------------------------------------------ ops
def case_bytes(case):
    """data of a case: float32 and float64 of what is in, out and back"""
    total = 0
    for _, (shape, _) in case[3]:
        total += 16 * math.prod(shape)
    return total * (3 if case[4].get("gg") else 1)


KEEP = {"conv2d_c16", "conv2d_c16k1", "conv2d_dws2", "deconv2d_rect", "attention_longmask", "sum_big", "max_pool2d_c16", "ce_big", "lstm_cell_a", "conv3d_rect", "lrn_c16"}
DROP = ("attention_longmask",)


def ops(path):
    cases = op_cases()
    if not A.all:
        few = ("sub_", "div_", "minimum_", "maximum_")
        cases = [c for c in cases if (case_bytes(c) <= 1000 or c[0] in KEEP) and c[0] not in DROP]
        cases = [c for i, c in enumerate(cases) if not c[0].startswith(few) or c[0].split("_")[1] in ("r0b", "chan", "left", "tie", "deep")]
    return gl.run_ops(cases, path, "further op cases")


# ------------------------------------------------------------------ optimizers
def optim_cases():
    C = []

    def o(name, kind, **a):
        C.append((name, kind, a))
    for k, a in (("SGD", {"lr": 0.05}), ("Adam", {"lr": 0.05}), ("AdamW", {"lr": 0.05}), ("RMSprop", {"lr": 0.02}), ("Adagrad", {"lr": 0.2}), ("Adadelta", {"lr": 0.7}), ("Adamax", {"lr": 0.05})):
        o(k + "_max_wd", k, **a, maximize=True, weight_decay=0.05)
        o(k + "_lr0", k, **dict(a, lr=0.0))
        o(k + "_wd", k, **a, weight_decay=0.3)
    o("sgd_all", "SGD", lr=0.03, momentum=0.7, dampening=0.2, weight_decay=0.02, maximize=True)
    o("sgd_nesterov_max", "SGD", lr=0.03, momentum=0.7, nesterov=True, maximize=True)
    o("sgd_damp1", "SGD", lr=0.1, momentum=0.5, dampening=1.0)
    o("sgd_damp_negative", "SGD", lr=0.1, momentum=0.5, dampening=-0.5)
    o("sgd_zeros", "SGD", lr=0.1, momentum=0, weight_decay=0, nesterov=False)
    for k in ("Adam", "AdamW"):
        o(k + "_amsgrad_max", k, lr=0.1, amsgrad=True, maximize=True, weight_decay=0.05)
        o(k + "_betas0", k, lr=0.05, betas=[0.0, 0.0])
        o(k + "_betas", k, lr=0.05, betas=[0.9, 0.5], eps=1e-3)
        o(k + "_eps0", k, lr=0.05, eps=0.0)
        o(k + "_wd0", k, lr=0.05, weight_decay=0)
    o("adamw_wd_large", "AdamW", lr=0.1, weight_decay=2.0)
    for k in ("Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "LARS", "LAMB"):
        o(k + "_defaults", k)
    o("rmsprop_centered", "RMSprop", lr=0.01, centered=True)
    o("rmsprop_all", "RMSprop", lr=0.01, alpha=0.5, eps=1e-3, weight_decay=0.1, momentum=0.9, centered=True, maximize=True)
    o("rmsprop_alpha0", "RMSprop", lr=0.01, alpha=0.0)
    o("adagrad_all", "Adagrad", lr=0.3, lr_decay=0.2, weight_decay=0.05, initial_accumulator_value=0.5, eps=1e-3)
    o("adadelta_all", "Adadelta", lr=0.5, rho=0.5, eps=1e-3, weight_decay=0.1)
    o("adadelta_rho0", "Adadelta", lr=1, rho=0.0)
    o("adamax_all", "Adamax", lr=0.1, betas=[0.8, 0.9], eps=1e-3, weight_decay=0.1)
    o("nadam_all", "NAdam", lr=0.1, betas=[0.8, 0.9], eps=1e-3, weight_decay=0.1, momentum_decay=0.1)
    o("nadam_decay0", "NAdam", lr=0.05, momentum_decay=0.0)
    o("radam_all", "RAdam", lr=0.1, betas=[0.8, 0.9], eps=1e-3, weight_decay=0.1)
    o("radam_short", "RAdam", lr=0.05, betas=[0.9, 0.5])
    o("lars_wd", "LARS", lr=5.0, weight_decay=0.1)
    o("lars_all", "LARS", lr=2.0, momentum=0.9, weight_decay=0.01, eeta=0.01, epsilon=0.1)
    o("lamb_raw", "LAMB", lr=0.02, weight_decay=0.01, bias_correction=False)
    o("lamb_adam", "LAMB", lr=0.02, betas=[0.8, 0.9], eps=1e-3, weight_decay=0.1, adam=True)
    return C


# ------------------------------------------------------------------ schedules
def lr_cases():
    C, R = [], random.Random(3)

    def l(name, sched, a, **k):
        C.append(dict(name=name, scheduler=sched, args=a, **k))
    l("step_default", "StepLR", {"step_size": 3})
    l("step_up", "StepLR", {"step_size": 7, "gamma": 1.5}, base_lr=0.3)
    l("multi_twice", "MultiStepLR", {"milestones": [5, 5, 20], "gamma": 0.5})
    l("multi_at_0", "MultiStepLR", {"milestones": [0, 4], "gamma": 0.3})
    l("multi_none", "MultiStepLR", {"milestones": []})
    for T in (1, 2, 7, 100):
        l(f"cos_{T}_eta", "CosineAnnealingLR", {"T_max": T, "eta_min": 0.02}, base_lr=0.5)
    for T, m in ((5, 1), (1, 2), (3, 3)):
        l(f"restarts_{T}_{m}", "CosineAnnealingWarmRestarts", {"T_0": T, "T_mult": m, "eta_min": 0.003})
    l("linear_default", "LinearLR", {})
    l("linear_to_0", "LinearLR", {"start_factor": 0.5, "end_factor": 0.0, "total_iters": 10})
    l("constant_default", "ConstantLR", {})
    l("poly_default", "PolynomialLR", {})
    l("poly_root", "PolynomialLR", {"total_iters": 30, "power": 0.5})
    l("one_linear", "OneCycleLR", {"max_lr": 0.2, "total_steps": 50, "anneal_strategy": "linear"})
    l("one_epochs", "OneCycleLR", {"max_lr": 0.2, "epochs": 5, "steps_per_epoch": 10, "pct_start": 0.5})
    l("one_three", "OneCycleLR", {"max_lr": 0.2, "total_steps": 60, "three_phase": True, "anneal_strategy": "linear", "pct_start": 0.2})
    l("one_div", "OneCycleLR", {"max_lr": 0.2, "total_steps": 51, "div_factor": 10, "final_div_factor": 100, "base_momentum": 0.7, "max_momentum": 0.99})
    l("one_short", "OneCycleLR", {"max_lr": 0.2, "total_steps": 20, "cycle_momentum": False})
    for m in ("triangular", "triangular2", "exp_range"):
        l(f"cyclic_{m}", "CyclicLR", {"base_lr": 0.02, "max_lr": 0.2, "step_size_up": 5, "step_size_down": 9, "mode": m, "gamma": 0.97})
    l("cyclic_fixed_momentum", "CyclicLR", {"base_lr": 0.001, "max_lr": 0.2, "step_size_up": 4, "cycle_momentum": False})
    noisy = [1.0 / (1 + 0.1 * t) + 0.05 * R.random() for t in range(50)]
    up = [0.1 * math.sqrt(t) + 0.02 * R.random() for t in range(50)]
    for n, a, m in (("default", {}, noisy), ("cooldown", {"patience": 1, "factor": 0.5, "cooldown": 4}, [0.5] * 50), ("min_lr", {"patience": 0, "factor": 0.5, "min_lr": 0.01}, [0.5] * 50), ("eps", {"patience": 0, "factor": 0.9, "eps": 0.005}, [0.5] * 50),
                    ("max_abs", {"mode": "max", "patience": 1, "threshold": 0.05, "threshold_mode": "abs"}, up), ("rel", {"patience": 1, "threshold": 0.1, "factor": 0.7}, noisy)):
        l("plateau_" + n, "ReduceLROnPlateau", a, metrics=m)
    S = lambda n, **a: {"scheduler": n, "args": a}
    warm = S("LinearLR", start_factor=0.1, total_iters=4)
    l("sequence_3", "SequentialLR", {"schedulers": [S("LinearLR", start_factor=0.1, total_iters=5), S("ConstantLR", factor=1.0, total_iters=5), S("ExponentialLR", gamma=0.9)], "milestones": [5, 15]})
    l("sequence_early", "SequentialLR", {"schedulers": [S("LinearLR", start_factor=0.1, total_iters=20), S("CosineAnnealingLR", T_max=15, eta_min=0.01)], "milestones": [7]})
    l("sequence_restarts", "SequentialLR", {"schedulers": [warm, S("CosineAnnealingWarmRestarts", T_0=7)], "milestones": [10]})
    l("chain_2", "ChainedScheduler", {"schedulers": [S("ConstantLR", factor=0.1, total_iters=4), S("ExponentialLR", gamma=0.9)]})
    l("chain_cos_wrap", "ChainedScheduler", {"schedulers": [S("ExponentialLR", gamma=0.97), S("CosineAnnealingLR", T_max=10)]})
    l("chain_cos_eta", "ChainedScheduler", {"schedulers": [warm, S("CosineAnnealingLR", T_max=30, eta_min=0.01)]})
    l("chain_restarts", "ChainedScheduler", {"schedulers": [S("ExponentialLR", gamma=0.9), S("CosineAnnealingWarmRestarts", T_0=7)]})
    for sc, W in (("linear", 0), ("sqrt", 5), ("none", 1)):
        l(f"cosmo_{sc}", "CosmoFlow", {"base_lr": 0.002, "scaling": sc, "global_batch_size": 96, "base_batch_size": 64, "n_warmup_epochs": W, "decay_schedule": {"2": 0.5, "10": 0.25, "32": 0.1}})
    for W, f in ((0, 1), (10, 2), (60, 1)):
        l(f"deepcam_cos_{W}", "DeepCAMCosine", {"base_lr": 0.001, "lr_warmup_steps": W, "lr_warmup_factor": f, "t_max": 30, "eta_min": 1e-4})
        l(f"deepcam_multi_{W}", "DeepCAMMultiStep", {"base_lr": 0.001, "lr_warmup_steps": W, "lr_warmup_factor": f, "milestones": 15, "decay_rate": 0.3})
    for st, W, tot, e, d in ((0, 0, 50, 0.0, 1.0), (3, 10, 40, 1e-6, 2.0)):
        l(f"bert_{st}", "LinearWarmupPolyDecay", {"base_lr": 5e-5, "start_warmup_steps": st, "warmup_steps": W, "total_steps": tot, "end_lr": e, "degree": d})
    l("gpt_cold", "GPTCosine", {"lr": 6e-4, "warmup": 0, "total": 30, "final_frac": 0.0})
    return C


# ------------------------------------------------------------------ trainings
def densenet():
    g = Graph("densenet_more")
    x, t = g.input("x", (3, 3, 10, 10), N), g.input("t", (3,), "int:7")
    h, c = g.conv("c0", x, 3, 8, 3, padding=1), 8
    for b in range(2):
        for l in range(2):
            y = g.conv(f"b{b}.{l}.c1", g.relu(g.bn(f"b{b}.{l}.n1", h, c)), c, 8, 1)
            y = g.conv(f"b{b}.{l}.c2", g.relu(g.bn(f"b{b}.{l}.n2", y, 8)), 8, 4, 3, padding=1)
            h, c = g.op("cat", [h, y], {"dim": 1}), c + 4
        if b == 0:
            h, c = g.conv("tr", g.relu(g.bn("trn", h, c)), c, c // 2, 1), c // 2
            h = g.op("avg_pool2d", [h], {"kernel": 2})
    lo = g.linear("fc", g.op("mean", [g.relu(g.bn("last", h, c))], {"dims": [2, 3]}), c, 7)
    g.op("cross_entropy", [lo, t], {"label_smoothing": 0.1}, out="loss")
    return g, {"optimizer": "SGD", "args": {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 1e-4}, "watch": [lo]}


def bert():
    g = Graph("bert_more")
    B, T, C, H, W = 2, 8, 12, 2, 20
    idx, seg, t = g.input("idx", (B, T), f"int:{W}"), g.input("seg", (B, T), "int:2"), g.input("t", (B * T,), f"int:{W}")
    pad, zero = g.input("pad", (B, 1, 1, T), "mask:0.2"), g.input("zero", (B, 1, 1, T), "const:0")
    m = [g.input(f"m{i}", (B, T, C), "mask:0.9") for i in range(3)]
    far = g.op("masked_fill", [zero, pad], {"value": -10000.0})
    we, se, pe = g.param("we", [W, C], "normal*0.2"), g.param("se", [2, C], "normal*0.2"), g.param("pe", [T, C], "normal*0.2")
    h = g.op("add", [g.op("add", [g.op("embedding", [idx, we], {"padding_idx": 0}), g.op("embedding", [seg, se])]), pe])
    h = g.op("dropout_mask", [g.ln("eln", h, C, 1e-12), m[0]], {"p": 0.1})
    heads = lambda z: g.op("permute", [g.op("reshape", [z], {"shape": [B, T, H, C // H]})], {"dims": [0, 2, 1, 3]})
    q, k, v = (heads(g.linear("a." + n, h, C, C)) for n in "qkv")
    o = g.op("attention", [q, k, v, far], {})
    o = g.op("reshape", [g.op("permute", [o], {"dims": [0, 2, 1, 3]})], {"shape": [B, T, C]})
    h = g.ln("ln1", g.op("add", [h, g.op("dropout_mask", [g.linear("a.o", o, C, C), m[1]], {"p": 0.1})]), C, 1e-12)
    f = g.linear("fc2", g.op("gelu", [g.linear("fc1", h, C, 2 * C)]), 2 * C, C)
    h = g.ln("ln2", g.op("add", [h, g.op("dropout_mask", [f, m[2]], {"p": 0.1})]), C, 1e-12)
    lo = g.op("linear", [h, we, g.param("lb", [W], "const:0")])
    g.op("cross_entropy", [g.op("reshape", [lo], {"shape": [-1, W]}), t], {"ignore_index": 3}, out="loss")
    return g, {"optimizer": "LAMB", "args": {"lr": 0.01, "weight_decay": 0.01}, "clip_grad_norm": 1.0, "accum": 3, "watch": [lo, far]}


def gru():
    g = Graph("gru_more")
    T, B, E, H, W = 7, 3, 6, 9, 15
    idx, t, h0 = g.input("idx", (T, B), f"int:{W}"), g.input("t", (T * B,), f"int:{W}"), g.input("h0", (1, B, H), "normal*0.1")
    x = g.op("embedding", [idx, g.param("emb", [W, E], "normal*0.3")])
    for l, ci in enumerate((E, H)):
        p = [g.param(f"l{l}.{n}", s, k) for n, s, k in (("wi", [3 * H, ci], "normal*0.33"), ("wh", [3 * H, H], "normal*0.33"), ("bi", [3 * H], "normal*0.1"), ("bh", [3 * H], "normal*0.1"))[:4 if l else 2]]
        x, _ = g.op("gru", [x, h0] + p, nout=2)
    lo = g.op("log_softmax", [g.linear("dec", x, H, W)], {"dim": -1})
    g.op("nll_loss", [g.op("reshape", [lo], {"shape": [T * B, W]}), t], {}, out="loss")
    return g, {"optimizer": "Adam", "args": {"lr": 0.01, "amsgrad": True}, "clip_grad_norm": 0.5, "watch": [lo], "keep_f64": True}


def vnet():
    g = Graph("vnet_more")
    x, t, cw = g.input("x", (1, 2, 6, 6, 6), N), g.input("t", (1, 6, 6, 6), "int:3"), g.input("cw", (3,), "pos")
    gn = lambda p, h, c, k: g.op("group_norm", [h, g.param(p + ".w", [c], "pos"), g.param(p + ".b", [c], "normal*0.1")], {"groups": k})
    a = g.op("elu", [gn("n1", g.conv("c1", x, 2, 6, 3, padding=1, nd=3, bias=True), 6, 3)], {"alpha": 1.0})
    d = g.op("elu", [gn("n2", g.conv("c2", a, 6, 8, 2, 2, nd=3), 8, 4)], {"alpha": 0.7})
    d = g.op("add", [d, g.op("silu", [gn("n3", g.conv("c3", d, 8, 8, 1, nd=3), 8, 1)])])
    u = g.op("conv_transpose3d", [d, g.param("up.w", [8, 6, 2, 2, 2], "normal*0.2"), g.param("up.b", [6], "normal*0.1")], {"stride": 2})
    lo = g.conv("out", g.op("cat", [a, u], {"dim": 1}), 12, 3, 1, nd=3, bias=True)
    g.op("cross_entropy", [lo, t, cw], {}, out="loss")
    return g, {"optimizer": "AdamW", "args": {"lr": 0.01}, "watch": [lo]}


def shufflenet():
    g = Graph("shufflenet_more")
    x, t = g.input("x", (4, 3, 12, 12), N), g.input("t", (4,), "int:5")
    h = g.op("hardswish", [g.bn("b0", g.conv("c0", x, 3, 8, 3, 2, 1), 8)])
    for i in range(2):
        a, b = g.op("split", [h], {"sizes": [4, 4], "dim": 1}, nout=2)
        b = g.op("leaky_relu", [g.bn(f"u{i}.b1", g.conv(f"u{i}.p", b, 4, 4, 1), 4)], {"negative_slope": 0.1})
        b = g.bn(f"u{i}.b2", g.conv(f"u{i}.d", b, 4, 4, 3, padding=1, groups=4), 4, momentum=0.3)
        h = g.op("channel_shuffle", [g.op("cat", [a, b], {"dim": 1})], {"groups": 2})
    se = g.op("adaptive_avg_pool2d", [h], {"output_size": 1})
    se = g.op("hardsigmoid", [g.conv("se2", g.relu(g.conv("se1", se, 8, 4, 1, bias=True)), 4, 8, 1, bias=True)])
    h, _ = g.op("max_pool2d", [g.op("mul", [h, se])], {"kernel": 3, "stride": 2, "padding": 1, "ceil_mode": True}, nout=2)
    lo = g.linear("fc", g.op("reshape", [h], {"shape": [4, -1]}), 8 * 4 * 4, 5)
    g.op("cross_entropy", [lo, t], {"reduction": "sum"}, out="loss")
    return g, {"optimizer": "RMSprop", "args": {"lr": 1e-4, "alpha": 0.9, "momentum": 0.5, "eps": 1e-3}, "watch": [lo]}


def llama():
    g = Graph("llama_more")
    B, T, C, H, W = 2, 8, 12, 3, 20
    idx, t = g.input("idx", (B, T), f"int:{W}"), g.input("t", (B * T,), f"int:{W}")
    h = g.op("embedding", [idx, g.param("emb", [W, C], "normal*0.3")])
    heads = lambda z: g.op("transpose", [g.op("reshape", [z], {"shape": [B, T, H, C // H]})], {"dims": [1, 2]})
    for i in range(2):
        a = g.op("rms_norm", [h, g.param(f"{i}.n1", [C], "pos")], {"eps": 1e-6})
        o = g.op("attention", [heads(g.linear(f"{i}.{n}", a, C, C, False)) for n in "qkv"], {"causal": True, "scale": 0.4})
        h = g.op("add", [h, g.linear(f"{i}.o", g.op("reshape", [g.op("transpose", [o], {"dims": [1, 2]})], {"shape": [B, T, C]}), C, C, False)])
        m = g.op("rms_norm", [h, g.param(f"{i}.n2", [C], "pos")], {})
        h = g.op("add", [h, g.linear(f"{i}.d", g.op("mul", [g.op("silu", [g.linear(f"{i}.g", m, C, 16, False)]), g.linear(f"{i}.u", m, C, 16, False)]), 16, C, False)])
    lo = g.linear("head", h, C, W, False)
    g.op("cross_entropy", [g.op("reshape", [lo], {"shape": [B * T, W]}), t], {}, out="loss")
    return g, {"optimizer": "NAdam", "args": {"lr": 0.01}, "watch": [lo]}


def segnet():
    g = Graph("segnet_more")
    x, t = g.input("x", (2, 3, 8, 8), N), g.input("t", (2, 2, 8, 8), "unit")
    p, i = g.op("max_pool2d", [g.relu(g.bn("b1", g.conv("c1", x, 3, 8, 3, padding=1), 8))], {"kernel": 2, "stride": 2}, nout=2)
    h = g.op("lrn", [g.relu(g.conv("c2", p, 8, 8, 3, padding=1, bias=True))], {"size": 3, "alpha": 0.1})
    u = g.op("max_unpool2d", [h, i], {"kernel": 2, "stride": 2})
    b = g.op("add", [g.op("upsample_nearest2d", [h], {"scale": 2}), g.op("upsample_bilinear2d", [h], {"size": [8, 8]})])
    lo = g.conv("c3", g.op("add", [u, b]), 8, 2, 3, padding=1, bias=True)
    g.op("bce_loss", [g.op("sigmoid", [lo]), t], {}, out="loss")
    return g, {"optimizer": "Adagrad", "args": {"lr": 0.02, "lr_decay": 0.01}, "watch": [lo], "accum": 2}


def mlp():
    """losses added up, a penalty on weights, weights that only noise moves, a rate per update"""
    g = Graph("mlp_more")
    x, t = g.input("x", (6, 10), N), g.input("t", (6, 3), N)
    h = g.op("softplus", [g.linear("l2", g.op("tanh", [g.linear("l1", x, 10, 16)]), 16, 16)], {"beta": 2.0, "threshold": 20.0})
    h = g.op("instance_norm", [g.op("unsqueeze", [h], {"dim": 0}), g.param("iw", [6], "pos"), g.param("ib", [6])], {})
    h = g.op("squeeze", [h], {"dim": 0})
    mu, va = g.op("mean", [h], {"dims": [1], "keepdim": True}), g.op("var", [h], {"dims": [1], "keepdim": True, "unbiased": False})
    h = g.op("div", [g.op("sub", [h, mu]), g.op("sqrt", [g.op("add_scalar", [va], {"value": 1e-3})])])
    y = g.linear("l3", h, 16, 3)
    a, b = g.op("smooth_l1_loss", [y, t], {"beta": 0.5}), g.op("l1_loss", [y, t], {"reduction": "sum"})
    reg = g.op("mul_scalar", [g.op("norm2", ["l1.weight"])], {"value": 0.01})
    g.op("add", [g.op("add", [a, g.op("mul_scalar", [b], {"value": 0.1})]), reg], out="loss")
    return g, {"optimizer": "Adadelta", "args": {"lr": 1.0, "weight_decay": 1e-3}, "watch": [y], "lr": [1.0 - 0.05 * i for i in range(10)]}


def many():
    """more parameters and micro-batches than any fixed table would hold"""
    g = Graph("many_more")
    x, t = g.input("x", (2, 2), N), g.input("t", (2, 2), N)
    h = x
    for i in range(140 if A.all else 70):
        h = g.op("add", [h, g.op("mul_scalar", [g.op("tanh", [g.linear(f"l{i}", h, 2, 2)])], {"value": 0.1})])
    g.op("mse_loss", [h, t], {}, out="loss")
    return g, {"optimizer": "SGD", "args": {"lr": 0.01}, "watch": [h], "accum": 9}


def shifted():
    """integers through views: inputs and targets from one list of tokens; a mask with a gradient"""
    g = Graph("shifted_more")
    B, T, C, W = 2, 9, 8, 11
    tok = g.input("tok", (B, T), f"int:{W}")
    idx, t = g.op("slice", [tok], {"ranges": [[1, 0, -1, 1]]}), g.op("slice", [tok], {"ranges": [[1, 1, None, None]]})
    h = g.op("embedding", [g.op("transpose", [idx], {"dims": [0, 1]}), g.param("emb", [W, C], "normal*0.3")])  # [T-1, B, C]
    h = g.op("transpose", [h], {"dims": [0, 1]})
    q, k, v = g.op("split", [g.linear("qkv", h, C, 3 * C)], {"sizes": C, "dim": -1}, nout=3)
    o = g.op("attention", [q, k, v, g.param("bias", [T - 1, T - 1], "normal*0.2")], {"causal": True})
    lo = g.linear("out", g.op("add", [h, o]), C, W)
    g.op("cross_entropy", [g.op("permute", [lo], {"dims": [0, 2, 1]}), t], {}, out="loss")
    return g, {"optimizer": "RAdam", "args": {"lr": 0.02}, "watch": [lo]}


def with_adam(model):
    """a reference model with an optimizer that divides by the size of gradients"""
    g, tr = model()
    g.name += "_adam"
    return g, dict(tr, optimizer="Adam", args={"lr": 0.01})


def trainings(folder):
    models = [densenet(), bert(), gru(), vnet(), shufflenet(), llama(), segnet(), mlp(), many(), shifted()]
    if A.all:
        models += [with_adam(gen.resnet_mini), with_adam(gen.mobilenet_mini), with_adam(gen.gpt_mini), with_adam(gen.lstm_mini)]
    for g, tr in models:
        if A.all:
            gl.train_graph(g, tr, folder)
        else:
            gl.train_graph(g, tr, folder, steps=2 if g.name == "many_more" else 4)
    for name, kw in (("gan_k0", dict(K=0)), ("gan_k5", dict(K=5, B=4, z=3, hid=9, lr_d=1e-2, b1=0.9, eps=1e-6))):
        gen.unrolled_gan(folder, name=name, steps=6, **kw)
    return len(models) + 2


# ------------------------------------------------------------------ random numbers, batches, low precision
def rng(path):
    R = random.Random(5)
    out = {"philox4x32_10": [], "torch_mt19937": {}, "init": [], "distributed_sampler": []}
    for _ in range(6):
        c, k = [R.getrandbits(32) for _ in range(4)], [R.getrandbits(32) for _ in range(2)]
        out["philox4x32_10"].append({"counter": c, "key": k, "out": gen.philox(c, k)})
    for seed in (42, 2 ** 32 - 1, 2 ** 40 + 3):
        d = out["torch_mt19937"][str(seed)] = {}

        def draw(key, f):
            torch.manual_seed(seed)
            d[key] = f()
        draw("random_u32", lambda: [int(torch.empty(1, dtype=torch.int64).random_(0, (1 << 32) - 1).item()) for _ in range(9)])
        for n in (1, 15, 17, 33) + ((100, 700, 5000) if A.all else ()):
            draw(f"uniform_{n}", lambda: torch.rand(n).tolist())
            draw(f"normal_{n}", lambda: torch.randn(n).tolist())
            draw(f"randperm_{n}", lambda: torch.randperm(n).tolist())
            draw(f"bernoulli_p{0.1 + n / 50 % 0.8:.3g}_{n}", lambda: torch.empty(n).bernoulli_(float(f"{0.1 + n / 50 % 0.8:.3g}")).int().tolist())
    nn = torch.nn
    for text in ("Linear(7,4)", "Linear(5,3,bias=False)", "Conv1d(3,5,4)", "Conv2d(4,6,3,groups=2)", "Conv2d(2,3,(1,3))", "Conv3d(2,3,2)", "ConvTranspose2d(3,5,3)", "ConvTranspose3d(3,2,2)", "Embedding(10,3)", "Embedding(5,3,padding_idx=1)",
                 "LSTM(5,3,2)", "GRU(5,3)", "RNN(5,3)", "LSTMCell(4,3)", "GRUCell(4,3)", "LayerNorm(4)", "BatchNorm2d(4)", "GroupNorm(2,4)", "MultiheadAttention(6,2)"):
        torch.manual_seed(3)
        p = dict(eval("nn." + text).named_parameters())
        e = {"seed": 3, "module": text}
        if set(p) <= {"weight", "bias"}:
            e.update({k: v.flatten().tolist() for k, v in p.items()})
        else:
            e.update(order=list(p), values=[v.flatten().tolist() for v in p.values()])
        out["init"].append(e)
    from torch.utils.data.distributed import DistributedSampler
    for n, r, sh, dl, seed, ep in ((1, 1, True, False, 0, 0), (1, 4, False, False, 0, 0), (2, 5, True, False, 3, 1), (100, 7, True, True, 9, 4), (100, 7, True, False, 9, 4), (8, 8, True, True, 0, 0), (3, 4, True, True, 0, 0)) + (((5000, 2, True, True, 1, 2),) if A.all else ()):
        ranks = []
        for k in range(r):
            s = DistributedSampler(list(range(n)), r, k, shuffle=sh, seed=seed, drop_last=dl)
            s.set_epoch(ep)
            ranks.append(list(iter(s)))
        out["distributed_sampler"].append({"dataset": n, "replicas": r, "shuffle": sh, "drop_last": dl, "seed": seed, "epoch": ep, "indices": ranks})
    json.dump(out, open(path, "w"))


def batches(path):
    R, rows = random.Random(7), []
    for i in range(450 if A.all else 90):
        bm = ("resnet50", "deepcam", "cosmoflow")[i % 3]
        row = dict(devices=R.choice([1, 2, 3, 4, 7, 8, 16, 32, 64]), global_batch_size=R.choice([1, 2, 5, 8, 30, 32, 64, 100, 256, 1000, 2048, 4096]), local_batch_size=R.choice([0, 0, 0, 1, 3, 8, 64]),
                   gradient_accumulation_freq=R.choice([-1, -1, 1, 1, 2, 3, 4, 16]), dataset_size=R.choice([1, 10, 64, 100, 511, 2048, 9999, 121266]), drop_last=R.choice([True, False]))
        rows.append(dict(row, benchmark=bm, expect=gen.resolve(bm, row["devices"], row["global_batch_size"], row["local_batch_size"], row["gradient_accumulation_freq"], row["dataset_size"], row["drop_last"])))
    json.dump({"cases": rows}, open(path, "w"))
    return len(rows)


def amp(folder):
    R = random.Random(9)
    bits = [R.getrandbits(32) for _ in range(2000 if A.all else 200)] + [0x7F800001, 0xFFC00001, 0x477FE001, 0x33000002, 0x32FFFFFF, 0x387FDFFF, 0x387FE001, 0x38801000, 0x38803000, 0x3F801000, 0x3F803000, 0x3F800FFF, 0x3F801001]
    x = torch.frombuffer(bytearray(struct.pack(f"<{len(bits)}I", *bits)), dtype=torch.float32)
    x = torch.cat([x] + [make(((60,), f"normal*{s}"), f"ampmore/{s}") for s in ("1e-6", "1e-7", "30000")])
    bf = x.to(torch.bfloat16)
    t = {"f32": x, "bf16_bits": bf.view(torch.int16), "f16_bits": x.to(torch.float16).view(torch.int16), "bf16_back_f32": bf.float(), "f16_back_f32": x.to(torch.float16).float()}
    a, b = make(((9, 70), N), "ampmore/a"), make(((70, 5), N), "ampmore/b")
    for nm, dt in (("bf16", torch.bfloat16), ("f16", torch.float16)):
        ar, br = a.to(dt), b.to(dt)
        ref = ar.double() @ br.double()
        t[f"mm_{nm}_a_bits"], t[f"mm_{nm}_b_bits"], t[f"mm_{nm}_ref_f64"], t[f"mm_{nm}_out_bits"] = ar.view(torch.int16), br.view(torch.int16), ref, ref.float().to(dt).view(torch.int16)
    gl.save_safetensors(f"{folder}/amp.safetensors", t)
    found = [int(R.random() < 0.25) for _ in range(60)]
    scale, good, used = 1024.0, 0, []
    for f in found:
        used.append(scale)
        if f:
            scale, good = scale * 0.25, 0
        else:
            good += 1
            if good == 3:
                scale, good = scale * 4.0, 0
    tr = {"found_inf": found, "grad_scaler": {"init_scale": 1024.0, "growth_factor": 4.0, "backoff_factor": 0.25, "growth_interval": 3, "scale_used": used}}
    scale, last, left, used = 65536.0, -1, 3, []
    for i, f in enumerate(found):
        used.append(scale)
        if f:
            if left == 1:
                scale = max(scale / 2.0, 16.0)
            else:
                left -= 1
            last = i
        else:
            left = 3  # consecutive hysteresis
            if (i - last) % 4 == 0:
                scale *= 2.0
    tr["dynamic_loss_scaler"] = {"init_scale": 65536.0, "scale_factor": 2.0, "scale_window": 4, "min_scale": 16.0, "delayed_shift": 3, "consecutive_hysteresis": True, "scale_used": used}
    json.dump(tr, open(f"{folder}/amp.json", "w"))


def squeeze(path):
    """the same JSON without blanks"""
    doc = json.load(open(path))
    json.dump(doc, open(path, "w"), separators=(",", ":"))


os.makedirs(A.out + "/e2e", exist_ok=True)
print("ops", ops(A.out + "/ops"))
print("optim", gl.run_optim(optim_cases(), A.out + "/optim", "further optimizers", steps=20 if A.all else 7))
print("lr", gl.run_lr(lr_cases(), A.out + "/lr.json", "further schedules"))
print("trainings", trainings(A.out + "/e2e"))
print("batches", batches(A.out + "/config_cases.json"))
rng(A.out + "/rng.json")
amp(A.out)
for name in ("ops", "optim", "lr", "rng", "config_cases"):
    squeeze(f"{A.out}/{name}.json")
