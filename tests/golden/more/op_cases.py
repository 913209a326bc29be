"""Op cases beyond those of the reference folder: every op of goldenlib.OPS, every attribute it reads.

A case is (name, op, attrs, inputs, options) as goldenlib.run_ops takes it. Left out is what float32
itself cannot decide (cancellation down to nothing) and second derivatives outside the op set.
"""
N = "normal"


def V(*s, k=N):
    return (tuple(s), k)


def op_cases():
    C = []
    seen = set()

    def c(name, op, attrs, ins, **o):
        assert name not in seen, name
        seen.add(name)
        C.append((name, op, attrs, ins, o))

    # ---- element-wise: ranks 0..6, one element, long, bounds hit exactly, second order
    smooth = ["exp", "square", "sigmoid", "tanh", "silu", "neg", "sin", "cos", "erf"]
    kinks = ["abs", "relu", "relu6", "hardswish", "hardsigmoid"]
    positive = ["log", "sqrt", "rsqrt", "reciprocal"]
    for u in smooth + kinks + positive:
        k = "pos" if u in positive else "normal*2"
        gg = u in ("exp", "square", "sigmoid", "tanh", "silu", "relu", "log", "sqrt", "neg", "sin", "cos", "erf", "rsqrt", "reciprocal")
        c(f"{u}_r0", u, {}, [("x", V(k=k))], gg=gg)
        c(f"{u}_r5", u, {}, [("x", V(2, 1, 3, 1, 5, k=k))], gg=gg)
        c(f"{u}_long", u, {}, [("x", V(1031, k=k))])
    for u, vs in (("relu", (0,)), ("abs", (0,)), ("relu6", (0, 6)), ("hardswish", (-3, 3)), ("hardsigmoid", (-3, 3)), ("leaky_relu", (0,)), ("elu", (0,)),
                  ("sigmoid", (-80, 90)), ("tanh", (-40, 40)), ("silu", (-80, 90)), ("gelu", (12,)), ("softplus", (20,)), ("exp", (-87, 80)), ("erf", (-5, 0, 5))):
        for v in vs:
            c(f"{u}_at_{v}".replace("-", "m"), u, {}, [("x", V(3, k=f"const:{v}"))])
    c("sigmoid_wide", "sigmoid", {}, [("x", V(7, 9, k="normal*30"))])
    c("tanh_small", "tanh", {}, [("x", V(7, 9, k="normal*1e-3"))])
    c("erf_small", "erf", {}, [("x", V(7, 9, k="normal*1e-3"))])
    c("silu_wide", "silu", {}, [("x", V(7, 9, k="normal*30"))])
    c("sin_wide", "sin", {}, [("x", V(7, 9, k="normal*300"))])
    c("cos_wide", "cos", {}, [("x", V(7, 9, k="normal*300"))])
    for s in (0.0, 0.01, 0.2, 1.0, -0.5, 2):
        c(f"leaky_relu_{s}".replace("-", "m"), "leaky_relu", {"negative_slope": s}, [("x", V(4, 5))])
    c("leaky_relu_default", "leaky_relu", {}, [("x", V(2, 3, 4))], gg=True)
    for a in (0.5, 2.0, 1):
        c(f"elu_{a}", "elu", {"alpha": a}, [("x", V(4, 5, k="normal*2"))])
    c("elu_default", "elu", {}, [("x", V(3, 3))], gg=True)
    c("gelu_default", "gelu", {}, [("x", V(3, 3, 2))], gg=True)
    c("gelu_tanh_gg", "gelu", {"approximate": "tanh"}, [("x", V(3, 5))], gg=True)
    c("hardswish_gg", "hardswish", {}, [("x", V(3, 5, k="normal*3"))], gg=True)
    c("conv2d_single", "conv2d", {"padding": 1, "stride": 2}, [("x", V(2, 5, 4)), ("w", V(3, 2, 3, 3)), ("b", V(3))])
    c("gelu_none_wide", "gelu", {"approximate": "none"}, [("x", V(40, k="normal*6"))])
    c("gelu_tanh_wide", "gelu", {"approximate": "tanh"}, [("x", V(40, k="normal*6"))])
    for b, t in ((2.0, 20.0), (0.5, 3.0), (1.0, 0.5), (5, 1)):
        c(f"softplus_{b}_{t}", "softplus", {"beta": b, "threshold": t}, [("x", V(5, 7, k="normal*5"))])
    c("softplus_default", "softplus", {}, [("x", V(5, 4, k="normal*10"))], gg=True)
    c("softplus_neg", "softplus", {}, [("x", V(5, k="const:-30"))])
    c("clamp_min", "clamp", {"min": 0.1}, [("x", V(3, 5))])
    c("clamp_max", "clamp", {"max": -0.1}, [("x", V(3, 5))])
    c("clamp_null", "clamp", {"min": None, "max": 0.5}, [("x", V(3, 5))])
    c("clamp_int", "clamp", {"min": -1, "max": 1}, [("x", V(3, 5, k="normal*2"))])
    c("clamp_atmin", "clamp", {"min": 0.5, "max": 1.5}, [("x", V(3, k="const:0.5"))])
    c("clamp_atmax", "clamp", {"min": 0.5, "max": 1.5}, [("x", V(3, k="const:1.5"))])
    for e in (2, 3, 1, 0, -1, -2, 0.5, 1.5, -0.5, 2.0, 4, 7):
        neg = isinstance(e, float) and e != int(e)
        c(f"pow_{e}".replace("-", "m"), "pow_scalar", {"exponent": e}, [("x", V(4, 6, k="pos" if neg or e < 0 else N))], gg=e in (2, 3, 1.5))
    c("pow_half_at0", "pow_scalar", {"exponent": 2.0}, [("x", V(4, k="const:0"))])
    c("pow_cube_at0", "pow_scalar", {"exponent": 3}, [("x", V(4, k="const:0"))])
    c("pow_1_at0", "pow_scalar", {"exponent": 1.0}, [("x", V(4, k="const:0"))])
    c("pow_0_at0", "pow_scalar", {"exponent": 0.0}, [("x", V(4, k="const:0"))])
    for v in (0, 1, -2.5, 1e-3, 1e6):
        c(f"add_scalar_{v}".replace("-", "m"), "add_scalar", {"value": v}, [("x", V(3, 4))])
        c(f"mul_scalar_{v}".replace("-", "m"), "mul_scalar", {"value": v}, [("x", V(3, 4))], gg=True)
    # ---- binary
    pairs = [("r0r0", (), ()), ("r0", (3, 4), ()), ("r0b", (), (3, 4)), ("one", (1,), (1,)), ("row", (4, 5), (5,)), ("col", (4, 5), (4, 1)), ("outer", (4, 1), (1, 6)),
             ("chan", (2, 3, 4, 5), (3, 1, 1)), ("deep", (1, 3, 1, 2, 1), (2, 1, 4, 1, 3)), ("left", (5,), (2, 3, 5)), ("big", (33, 65), (65,)), ("r6", (2, 1, 2, 1, 2, 3), (2, 2, 1, 3))]
    for b in ("add", "sub", "mul", "div", "maximum", "minimum"):
        for n, a, d in pairs:
            gg = b in ("mul", "div", "add", "sub") and n in ("chan", "outer", "r0", "deep")
            c(f"{b}_{n}", b, {}, [("a", V(*a)), ("b", V(*d, k="pos" if b == "div" else N))], gg=gg)
    c("maximum_tie", "maximum", {}, [("a", V(3, 4, k="const:1")), ("b", V(3, 4, k="const:1"))])
    c("minimum_tie", "minimum", {}, [("a", V(3, 1, k="const:1")), ("b", V(4, k="const:1"))])
    for n, m, a, d in (("same", (3, 5), (3, 5), (3, 5)), ("mb", (5,), (3, 5), (3, 5)), ("mcol", (3, 1), (3, 5), (3, 5)), ("ab", (2, 3, 5), (3, 5), (1, 5)), ("scal", (3, 5), (), ()), ("mbig", (4, 3, 5), (5,), (3, 1)), ("r0", (), (2, 2), (2, 2))):
        c(f"where_{n}", "where", {}, [("m", V(*m, k="mask:0.5")), ("a", V(*a)), ("b", V(*d))], gg=n == "mb")
    c("where_intmask", "where", {}, [("m", V(3, 5, k="int:3")), ("a", V(3, 5)), ("b", V(3, 5))])
    for n, x, m, v in (("same", (3, 4), (3, 4), 0.5), ("row", (3, 4), (4,), 0), ("bh", (2, 3, 4, 4), (2, 1, 1, 4), -1e9), ("big", (4,), (3, 4), 1.0), ("inf", (3, 4), (3, 4), float("-inf")), ("none", (3, 4), (1,), 2)):
        c(f"masked_fill_{n}", "masked_fill", {"value": v}, [("x", V(*x)), ("m", V(*m, k="mask:0.4"))])
    c("masked_fill_int", "masked_fill", {"value": 1.5}, [("x", V(4, 3)), ("m", V(4, 3, k="int:2"))])
    for p in (0.0, 0.1, 0.3, 0.9, 0):
        c(f"dropout_mask_{p}" + ("i" if isinstance(p, int) else ""), "dropout_mask", {"p": p}, [("x", V(3, 4, 5)), ("m", V(3, 4, 5, k=f"mask:{1 - p}"))], gg=p == 0.3)
    c("dropout_mask_bcast", "dropout_mask", {"p": 0.2}, [("x", V(2, 3, 4, 4)), ("m", V(2, 3, 1, 1, k="mask:0.8"))])
    c("dropout_mask_int", "dropout_mask", {"p": 0.2}, [("x", V(2, 3)), ("m", V(2, 3, k="int:2"))])
    # ---- reductions
    for r in ("sum", "mean"):
        for n, a, x in (("all", {}, (2, 3, 4)), ("r0", {}, ()), ("r1", {"dims": [0]}, (7,)), ("neg", {"dims": [-1]}, (3, 4, 5)), ("neg2", {"dims": [-2, 0], "keepdim": True}, (3, 4, 5)), ("int", {"dims": 1}, (3, 4, 5)), ("alld", {"dims": [0, 1, 2], "keepdim": True}, (3, 4, 5)),
                        ("mid", {"dims": [1, 2], "keepdim": False}, (2, 3, 4, 5)), ("ones", {"dims": [1]}, (3, 1, 5)), ("big", {"dims": [1]}, (1, 1009)), ("swap", {"dims": [2, 0]}, (3, 4, 5)), ("empty", {"dims": []}, (3, 4)), ("null", {"dims": None}, (3, 4)), ("r6", {"dims": [1, 3, 5]}, (2, 3, 2, 3, 2, 3))):
            if n == "r1": x = (7,)
            c(f"{r}_{n}", r, a, [("x", V(*x))], gg=n in ("all", "neg2", "mid"))
    for n, a, x in (("d0", {"dims": [0]}, (5, 6)), ("biased", {"dims": [1], "unbiased": False}, (5, 6)), ("keep", {"dims": [0, 2], "keepdim": True}, (3, 4, 5)), ("neg", {"dims": [-1, -2], "unbiased": False, "keepdim": True}, (3, 4, 5)), ("all", {"dims": [0, 1, 2]}, (3, 4, 5)), ("big", {"dims": [1]}, (2, 3001)), ("int", {"dims": 1}, (3, 4))):
        c(f"var_{n}", "var", a, [("x", V(*x))], gg=n in ("keep", "d0"))
    c("var_offset", "var", {"dims": [1]}, [("x", V(3, 50, k="pos"))])
    for n, a, x in (("d0", {"dims": [0]}, (5, 6)), ("keep", {"dims": [1, 2], "keepdim": True}, (3, 4, 5)), ("neg", {"dims": [-1]}, (3, 4, 5)), ("all", {"dims": [0, 1]}, (3, 4)), ("big", {"dims": [0]}, (2000,)), ("int", {"dims": 0}, (3, 4)), ("empty", {"dims": []}, (3, 4))):
        c(f"amax_{n}", "amax", a, [("x", V(*x))])
    c("amax_tie", "amax", {"dims": [1]}, [("x", V(3, 4, k="const:2"))])
    c("amax_tie2", "amax", {"dims": [0, 2], "keepdim": True}, [("x", V(3, 2, 4, k="const:-2"))])
    for n, x in (("r0", ()), ("r1", (9,)), ("r4", (2, 3, 4, 5)), ("big", (90, 110))):
        c(f"norm2_{n}", "norm2", {}, [("x", V(*x))], gg=n == "r1")
    c("norm2_zero", "norm2", {}, [("x", V(3, k="const:0"))])
    for n, d, x in (("r1", 0, (9,)), ("d0", 0, (4, 5)), ("neg", -2, (3, 4, 5)), ("last", -1, (3, 200)), ("mid", 1, (2, 7, 3))):
        c(f"cumsum_{n}", "cumsum", {"dim": d}, [("x", V(*x))], gg=n == "mid")
    for r in ("softmax", "log_softmax", "logsumexp"):
        for n, d, x, k in (("r1", 0, (9,), N), ("d0", 0, (5, 4), "normal*4"), ("neg", -2, (2, 5, 3), "normal*4"), ("one", 1, (4, 1), N), ("big", -1, (3, 1500), "normal*3"), ("hot", 1, (4, 6), "normal*40"), ("r5", 2, (2, 2, 5, 2, 2), N), ("r0", 0, (), N)):
            c(f"{r}_{n}", r, {"dim": d}, [("x", V(*x, k=k))], gg=n == "neg")
    c("logsumexp_list", "logsumexp", {"dim": [0, 2]}, [("x", V(3, 4, 5))])
    for n, d, x, k in (("r1", 0, (9,), N), ("neg", -1, (3, 4), N), ("tie", 1, (3, 4, 2), "const:1"), ("d0", 0, (4, 5), N), ("one", 1, (3, 1), N), ("null", None, (3, 4), N), ("r0", 0, (), N)):
        c(f"argmax_{n}", "argmax", {"dim": d}, [("x", V(*x, k=k))])
    # ---- products
    for n, at, a, b in (("1x1", {}, (1, 1), (1, 1)), ("tatb", {"ta": True, "tb": True}, (6, 3), (4, 6)), ("tb", {"tb": True}, (5, 7), (3, 7)), ("vec", {}, (7,), (7,)), ("vm", {}, (7,), (7, 3)), ("mv", {}, (3, 7), (7,)), ("bvm", {}, (7,), (2, 7, 3)), ("bmv", {}, (2, 3, 7), (7,)),
                        ("b3", {}, (4, 2, 3), (4, 3, 5)), ("bb", {}, (2, 1, 3, 4), (5, 4, 2)), ("lb", {}, (3, 4), (2, 4, 5)), ("ta3", {"ta": True}, (2, 5, 3), (2, 5, 4)), ("tabc", {"ta": True, "tb": True}, (2, 1, 5, 3), (3, 4, 5)), ("k1", {}, (5, 1), (1, 4)), ("long", {}, (3, 2000), (2000, 2)), ("wide", {}, (33, 17), (17, 129)), ("r5", {}, (2, 1, 2, 3, 4), (2, 1, 4, 2)), ("taf", {"ta": False, "tb": False}, (2, 3), (3, 2))):
        c(f"matmul_{n}", "matmul", at, [("a", V(*a)), ("b", V(*b))], gg=n in ("tatb", "bb", "b3", "ta3", "vec", "mv"))
    for n, x, o, i, b in (("r1", (6,), 4, 6, True), ("r1n", (6,), 4, 6, False), ("r4", (2, 3, 2, 5), 3, 5, True), ("o1", (4, 5), 1, 5, True), ("i1", (4, 1), 3, 1, True), ("n1", (1, 5), 3, 5, True), ("big", (37, 130), 65, 130, True), ("nob", (3, 5), 2, 5, False)):
        c(f"linear_{n}", "linear", {}, [("x", V(*x)), ("w", V(o, i))] + ([("b", V(o))] if b else []), gg=n in ("r4", "nob", "r1"))
    for n, at, q, k, v, m in (("mask", {}, (2, 2, 4, 3), (2, 2, 5, 3), (2, 2, 5, 3), (4, 5)), ("mask4", {}, (2, 2, 4, 3), (2, 2, 5, 3), (2, 2, 5, 3), (2, 1, 1, 5)), ("maskfull", {}, (2, 2, 4, 3), (2, 2, 5, 3), (2, 2, 5, 3), (2, 2, 4, 5)), ("scale", {"scale": 0.3}, (1, 2, 4, 3), (1, 2, 4, 3), (1, 2, 4, 3), None), ("scale1", {"scale": 1}, (1, 2, 4, 3), (1, 2, 4, 3), (1, 2, 4, 3), None),
                              ("causal_ts", {"causal": True}, (2, 2, 3, 4), (2, 2, 6, 4), (2, 2, 6, 5), None), ("r3", {"causal": True}, (3, 5, 4), (3, 5, 4), (3, 5, 4), None), ("r2", {}, (5, 4), (6, 4), (6, 3), None), ("r5", {}, (2, 1, 2, 3, 4), (2, 1, 2, 3, 4), (2, 1, 2, 3, 4), None), ("one", {"causal": True}, (1, 1, 1, 1), (1, 1, 1, 1), (1, 1, 1, 1), None), ("causal_mask", {"causal": True, "scale": 0.5}, (2, 2, 4, 3), (2, 2, 4, 3), (2, 2, 4, 3), (1, 1, 4, 4)),
                              ("mq", {}, (2, 3, 4, 3), (2, 1, 5, 3), (2, 1, 5, 3), None), ("kvb", {}, (2, 3, 4, 3), (3, 5, 3), (3, 5, 3), None), ("long", {"causal": True}, (1, 1, 150, 8), (1, 1, 150, 8), (1, 1, 150, 8), None), ("causal_false", {"causal": False}, (1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4), None), ("mask_r1", {}, (1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4), (3,)), ("longfull", {}, (1, 2, 70, 16), (1, 2, 130, 16), (1, 2, 130, 5), None), ("longmask", {}, (1, 2, 70, 16), (1, 2, 130, 16), (1, 2, 130, 5), (70, 130)), ("r3mask", {}, (3, 5, 4), (3, 5, 4), (3, 5, 4), (3, 1, 5))):
        ins = [("q", V(*q)), ("k", V(*k)), ("v", V(*v))] + ([("m", V(*m))] if m else [])
        c(f"attention_{n}", "attention", at, ins)
    # ---- convolution
    cv = [("1x1", (1, 1, 1, 1), (1, 1, 1, 1), True, {}), ("plain", (2, 3, 5, 6), (4, 3, 3, 2), True, {}), ("rect", (2, 3, 9, 10), (4, 3, 2, 5), False, dict(stride=[2, 3], padding=[1, 2], dilation=[2, 1])),
          ("k5", (1, 2, 9, 9), (3, 2, 5, 5), True, dict(padding=2)), ("k11s4", (1, 3, 27, 27), (2, 3, 11, 11), True, dict(stride=4, padding=2)), ("k16s8", (1, 2, 32, 32), (2, 2, 16, 16), False, dict(stride=8, padding=4)), ("k4s2", (2, 3, 8, 8), (4, 3, 4, 4), False, dict(stride=2, padding=1)),
          ("dil6", (1, 2, 16, 15), (3, 2, 3, 3), False, dict(padding=6, dilation=6)), ("dil12", (1, 2, 14, 15), (3, 2, 3, 3), False, dict(padding=12, dilation=12)), ("dil18", (1, 2, 9, 8), (2, 2, 3, 3), False, dict(padding=18, dilation=18)),
          ("dwm2", (2, 3, 6, 6), (6, 1, 3, 3), True, dict(padding=1, groups=3)), ("dws2", (2, 16, 9, 9), (16, 1, 3, 3), False, dict(stride=2, padding=1, groups=16)), ("dwd2", (1, 8, 9, 9), (8, 1, 3, 3), False, dict(padding=2, dilation=2, groups=8)), ("g4", (2, 8, 5, 5), (12, 2, 3, 3), True, dict(groups=4)), ("g3k1", (2, 6, 4, 4), (9, 2, 1, 1), True, dict(groups=3, stride=2)),
          ("c16", (1, 16, 4, 3), (16, 16, 3, 3), True, dict(padding=1)), ("c16k1", (1, 16, 3, 3), (32, 16, 1, 1), False, {}), ("padbig", (1, 2, 3, 3), (2, 2, 3, 3), False, dict(padding=4)), ("k2", (2, 3, 5, 5), (3, 3, 2, 2), True, dict(stride=3)), ("lists", (1, 2, 6, 6), (2, 2, 3, 3), True, dict(stride=[1, 1], padding=[1, 1], dilation=[1, 1], groups=1)), ("k3s8", (1, 2, 17, 17), (3, 2, 3, 3), False, dict(stride=8)),
          ("c17", (1, 17, 3, 3), (5, 17, 3, 3), True, dict(padding=1)), ("wide", (1, 3, 1, 40), (4, 3, 1, 9), True, dict(padding=[0, 4])), ("tall", (1, 3, 40, 1), (4, 3, 9, 1), True, dict(padding=[4, 0], stride=[2, 1])), ("n5", (5, 2, 4, 4), (3, 2, 4, 4), True, {}), ("k7x1", (1, 16, 9, 8), (16, 16, 7, 1), False, dict(padding=[3, 0])), ("dw5", (1, 16, 9, 8), (16, 1, 5, 5), True, dict(padding=2, groups=16))]
    for n, xs, ws, b, at in cv:
        c(f"conv2d_{n}", "conv2d", at, [("x", V(*xs)), ("w", V(*ws, k="normal*0.3"))] + ([("b", V(ws[0]))] if b else []), gg=n in ("rect", "dwm2", "plain"))
    for n, xs, ws, b, at in [("k1", (2, 3, 5), (4, 3, 1), True, {}), ("s2", (2, 3, 11), (4, 3, 4), False, dict(stride=2, padding=1)), ("dil", (1, 2, 15), (3, 2, 3), True, dict(dilation=4, padding=4)), ("g", (2, 4, 9), (8, 1, 3), True, dict(groups=4, padding=1)), ("g2", (2, 4, 9), (6, 2, 3), False, dict(groups=2, stride=3)), ("list", (1, 2, 8), (2, 2, 3), True, dict(stride=[2], padding=[1], dilation=[1])), ("c16", (2, 16, 20), (32, 16, 5), True, dict(padding=2)), ("one", (1, 1, 1), (1, 1, 1), False, {})]:
        c(f"conv1d_{n}", "conv1d", at, [("x", V(*xs)), ("w", V(*ws, k="normal*0.3"))] + ([("b", V(ws[0]))] if b else []), gg=n == "g2")
    for n, xs, ws, b, at in [("k1", (1, 2, 3, 4, 5), (3, 2, 1, 1, 1), True, {}), ("rect", (2, 2, 5, 6, 7), (3, 2, 2, 3, 1), True, dict(stride=[2, 1, 3], padding=[1, 0, 2], dilation=[1, 2, 1])), ("dw", (1, 4, 4, 5, 4), (4, 1, 3, 3, 3), False, dict(groups=4, padding=1)), ("g2", (1, 4, 4, 4, 4), (6, 2, 3, 3, 3), True, dict(groups=2, padding=1)), ("c16", (1, 16, 4, 4, 4), (16, 16, 3, 3, 3), True, dict(padding=1)), ("dil2", (1, 2, 6, 6, 6), (2, 2, 3, 3, 3), False, dict(dilation=2, padding=2)), ("c4", (2, 4, 8, 8, 8), (8, 4, 3, 3, 3), True, dict(padding=1)), ("one", (1, 1, 1, 1, 1), (1, 1, 1, 1, 1), True, {})]:
        c(f"conv3d_{n}", "conv3d", at, [("x", V(*xs)), ("w", V(*ws, k="normal*0.3"))] + ([("b", V(ws[0]))] if b else []), gg=n == "k1")
    for n, xs, ws, b, at in [("plain", (2, 3, 4, 5), (3, 4, 3, 3), True, {}), ("k4s2p1", (1, 4, 5, 5), (4, 3, 4, 4), False, dict(stride=2, padding=1)), ("k16s8p4", (1, 2, 4, 4), (2, 2, 16, 16), False, dict(stride=8, padding=4)), ("rect", (2, 3, 4, 5), (3, 2, 2, 5), True, dict(stride=[3, 2], padding=[0, 2], output_padding=[2, 1], dilation=[1, 1])), ("dil", (1, 2, 5, 4), (2, 3, 3, 3), True, dict(dilation=2, padding=1)), ("dils", (1, 2, 5, 4), (2, 3, 3, 2), True, dict(dilation=[2, 3], stride=[2, 3], padding=[1, 0], output_padding=[1, 2])), ("g2", (2, 4, 4, 4), (4, 3, 3, 3), True, dict(groups=2, stride=2, padding=1, output_padding=1)), ("dw", (2, 4, 4, 5), (4, 1, 3, 3), False, dict(groups=4, padding=1)), ("k1", (1, 3, 4, 4), (3, 5, 1, 1), True, {}), ("c16", (1, 16, 6, 6), (16, 16, 3, 3), True, dict(stride=2, padding=1, output_padding=1)), ("k1s2", (1, 3, 4, 4), (3, 2, 1, 1), False, dict(stride=2, output_padding=1)), ("k2s3", (1, 3, 4, 4), (3, 2, 2, 2), True, dict(stride=3)), ("oplist", (1, 2, 3, 3), (2, 2, 3, 3), False, dict(stride=2, output_padding=[1, 0])), ("opdil", (1, 2, 3, 3), (2, 2, 3, 3), False, dict(stride=1, dilation=2, output_padding=1))]:
        c(f"deconv2d_{n}", "conv_transpose2d", at, [("x", V(*xs)), ("w", V(*ws, k="normal*0.3"))] + ([("b", V(ws[1] * at.get("groups", 1)))] if b else []), gg=n in ("rect", "g2"))
    for n, xs, ws, b, at in [("plain", (1, 2, 3, 3, 2), (2, 3, 2, 2, 2), True, {}), ("s2", (1, 3, 3, 2, 4), (3, 2, 3, 3, 3), True, dict(stride=2, padding=1, output_padding=1)), ("g2", (2, 4, 2, 3, 2), (4, 2, 3, 2, 1), False, dict(groups=2, stride=[1, 2, 1], padding=[1, 0, 0], output_padding=[0, 1, 0])), ("dil", (1, 2, 3, 3, 3), (2, 2, 2, 2, 2), True, dict(dilation=[2, 1, 2]))]:
        c(f"deconv3d_{n}", "conv_transpose3d", at, [("x", V(*xs)), ("w", V(*ws, k="normal*0.3"))] + ([("b", V(ws[1] * at.get("groups", 1)))] if b else []))
    # ---- pooling
    for n, a, x in (("k1", dict(kernel=1), (1, 2, 4, 4)), ("nostride", dict(kernel=3), (2, 3, 9, 7)), ("rect", dict(kernel=[3, 2], stride=[2, 1], padding=[1, 0]), (2, 3, 7, 6)), ("dil", dict(kernel=2, stride=1, dilation=2), (1, 2, 7, 6)), ("dilp", dict(kernel=3, stride=2, padding=1, dilation=[1, 2]), (1, 2, 9, 9)), ("ceil_p", dict(kernel=3, stride=2, padding=1, ceil_mode=True), (1, 2, 8, 7)), ("ceil_s3", dict(kernel=2, stride=3, ceil_mode=True), (1, 1, 7, 8)), ("ceil_s3p", dict(kernel=2, stride=3, padding=1, ceil_mode=True), (1, 1, 7, 8)), ("all", dict(kernel=[4, 5]), (2, 2, 4, 5)), ("over", dict(kernel=5, stride=1, padding=2), (1, 3, 5, 5)), ("c16", dict(kernel=3, stride=2, padding=1), (2, 16, 12, 12)), ("snull", dict(kernel=2, stride=None), (1, 2, 4, 4))):
        c(f"max_pool2d_{n}", "max_pool2d", a, [("x", V(*x))])
    c("max_pool2d_tie", "max_pool2d", {"kernel": 3, "stride": 2, "padding": 1}, [("x", V(1, 2, 6, 5, k="const:1"))])
    c("max_pool2d_r3", "max_pool2d", {"kernel": 2}, [("x", V(3, 6, 5))])
    for n, a, x in (("k2", dict(kernel=2), (2, 3, 9)), ("full", dict(kernel=3, stride=2, padding=1, dilation=2, ceil_mode=True), (2, 3, 12)), ("list", dict(kernel=[3], stride=[1], padding=[1]), (1, 2, 6)), ("ceil", dict(kernel=3, stride=2, ceil_mode=True), (1, 2, 8))):
        c(f"max_pool1d_{n}", "max_pool1d", a, [("x", V(*x))])
    for n, a, x in (("k3s2p1", dict(kernel=3, stride=2, padding=1), (1, 2, 5, 6, 7)), ("rect", dict(kernel=[1, 2, 3], stride=[1, 2, 2], padding=[0, 1, 1]), (2, 2, 3, 5, 6)), ("dil", dict(kernel=2, stride=1, dilation=2), (1, 1, 4, 5, 4)), ("ceil", dict(kernel=3, stride=2, ceil_mode=True), (1, 2, 4, 6, 5)), ("nostride", dict(kernel=2), (1, 2, 5, 4, 4))):
        c(f"max_pool3d_{n}", "max_pool3d", a, [("x", V(*x))])
    c("max_unpool2d_k2", "max_unpool2d", {"kernel": 2, "stride": 2}, [("x", V(1, 2, 2, 3)), ("idx", V(1, 2, 2, 3, k="int:24"))])
    c("max_unpool2d_default", "max_unpool2d", {"kernel": 2}, [("x", V(2, 1, 1, 1)), ("idx", V(2, 1, 1, 1, k="int:4"))])
    c("max_unpool2d_size", "max_unpool2d", {"kernel": 2, "stride": 2, "output_size": [5, 7]}, [("x", V(1, 2, 2, 3)), ("idx", V(1, 2, 2, 3, k="int:35"))])
    c("max_unpool2d_pad", "max_unpool2d", {"kernel": 3, "stride": 2, "padding": 1}, [("x", V(1, 2, 3, 3)), ("idx", V(1, 2, 3, 3, k="int:25"))])
    c("max_unpool2d_rect", "max_unpool2d", {"kernel": [2, 3], "stride": [2, 1]}, [("x", V(1, 2, 2, 2)), ("idx", V(1, 2, 2, 2, k="int:16"))])
    c("max_unpool2d_size4", "max_unpool2d", {"kernel": 2, "stride": 2, "output_size": [1, 2, 5, 6]}, [("x", V(1, 2, 2, 3)), ("idx", V(1, 2, 2, 3, k="int:30"))])
    for n, a, x in (("nostride", dict(kernel=3), (2, 3, 9, 7)), ("rect", dict(kernel=[3, 2], stride=[2, 1], padding=[1, 0]), (2, 3, 7, 6)), ("rectn", dict(kernel=[3, 2], stride=[2, 1], padding=[1, 1], count_include_pad=False), (2, 3, 7, 6)), ("ceil", dict(kernel=3, stride=2, ceil_mode=True), (1, 2, 8, 8)), ("ceil_p", dict(kernel=3, stride=2, padding=1, ceil_mode=True), (1, 2, 8, 7)), ("ceil_pn", dict(kernel=3, stride=2, padding=1, ceil_mode=True, count_include_pad=False), (1, 2, 8, 7)), ("ceil_s3p", dict(kernel=2, stride=3, padding=1, ceil_mode=True), (1, 1, 7, 8)), ("k1", dict(kernel=1), (1, 2, 3, 3)), ("all", dict(kernel=[4, 5]), (1, 2, 4, 5)), ("c16", dict(kernel=3, stride=1, padding=1, count_include_pad=False), (2, 16, 8, 8)), ("k8", dict(kernel=8), (2, 4, 8, 8))):
        c(f"avg_pool2d_{n}", "avg_pool2d", a, [("x", V(*x))], gg=n in ("rect",))
    for n, a, x in (("k2", dict(kernel=2), (1, 2, 4, 5, 6)), ("p", dict(kernel=3, stride=2, padding=1), (1, 2, 5, 6, 7)), ("pn", dict(kernel=3, stride=2, padding=1, count_include_pad=False), (1, 2, 5, 6, 7)), ("rect", dict(kernel=[1, 2, 3], stride=[1, 2, 2], padding=[0, 1, 1], ceil_mode=True), (2, 2, 3, 5, 6)), ("ceiln", dict(kernel=3, stride=2, padding=1, ceil_mode=True, count_include_pad=False), (1, 2, 4, 6, 5))):
        c(f"avg_pool3d_{n}", "avg_pool3d", a, [("x", V(*x))])
    for n, o, x in (("int", 2, (1, 3, 7, 5)), ("up", [5, 7], (1, 2, 3, 4)), ("same", [4, 5], (1, 2, 4, 5)), ("one", 1, (2, 3, 5, 4)), ("1xw", [1, 3], (1, 2, 5, 8)), ("7", [7, 7], (1, 2, 10, 13)), ("null", [None, 2], (1, 2, 5, 6)), ("c16", [1, 1], (2, 16, 7, 7)), ("c16b", [3, 2], (2, 16, 7, 7)), ("r3", [2, 2], (3, 5, 5))):
        c(f"adaptive_{n}", "adaptive_avg_pool2d", {"output_size": o}, [("x", V(*x))])
    ups = [("s3", {"scale": 3}, (1, 2, 3, 4)), ("s15", {"scale": 1.5}, (1, 2, 5, 6)), ("s05", {"scale": 0.5}, (1, 2, 5, 7)), ("list", {"scale": [2, 3]}, (1, 2, 3, 4)), ("listf", {"scale": [1.7, 0.6]}, (1, 2, 7, 9)), ("size", {"size": [7, 5]}, (1, 2, 3, 4)), ("sizei", {"size": 6}, (1, 2, 4, 3)), ("down", {"size": [2, 3]}, (1, 2, 7, 8)), ("one", {"size": [1, 1]}, (1, 2, 3, 4)), ("from1", {"size": [4, 5]}, (2, 2, 1, 1)), ("row", {"size": [4, 1]}, (1, 1, 2, 3)), ("s23", {"scale": 2.3}, (1, 2, 4, 7)), ("s2c16", {"scale": 2}, (1, 16, 5, 6)), ("same", {"scale": 1}, (1, 2, 3, 3)), ("sizenull", {"scale": 2.0, "size": None}, (1, 1, 2, 3))]
    for n, a, x in ups:
        c(f"up_nearest_{n}", "upsample_nearest2d", a, [("x", V(*x))])
        c(f"up_bilinear_{n}", "upsample_bilinear2d", a, [("x", V(*x))], gg=n == "s15")
        c(f"up_bilinear_ac_{n}", "upsample_bilinear2d", dict(a, align_corners=True), [("x", V(*x))])
    for n, a, x in (("default", {"size": 5}, (2, 7, 3, 4)), ("even", {"size": 4, "alpha": 0.5, "beta": 0.5, "k": 2.0}, (1, 6, 3, 3)), ("one", {"size": 1, "alpha": 1.0}, (1, 3, 2, 2)), ("wide", {"size": 9, "alpha": 0.1, "beta": 0.75, "k": 1}, (1, 4, 3, 2)), ("r3", {"size": 3, "alpha": 0.2}, (2, 5, 6)), ("r5", {"size": 3, "alpha": 0.2}, (1, 4, 2, 2, 3)), ("beta1", {"size": 2, "alpha": 1e-1, "beta": 1}, (1, 4, 2, 3)), ("c16", {"size": 5, "alpha": 1e-2, "k": 2}, (1, 16, 4, 4))):
        c(f"lrn_{n}", "lrn", a, [("x", V(*x))])
    # ---- normalisation
    bnin = lambda ch, *xs: [("x", V(*xs)), ("w", V(ch, k="pos")), ("b", V(ch)), ("rm", V(ch, k="normal*0.1")), ("rv", V(ch, k="pos"))]
    for n, a, ch, xs in (("default", {}, 3, (4, 3, 2, 2)), ("mom1", {"training": True, "momentum": 1.0}, 3, (4, 3, 2, 2)), ("mom0", {"training": True, "momentum": 0.0}, 3, (4, 3, 2, 2)), ("mom001", {"momentum": 0.01, "eps": 1e-3}, 4, (2, 4, 5)), ("3d", {"eps": 1e-4}, 2, (2, 2, 3, 2, 4)), ("c16", {}, 16, (3, 16, 5, 5)), ("c1", {}, 1, (3, 1, 4)), ("big", {}, 2, (4, 2, 40, 40)), ("n1", {}, 3, (1, 3, 3, 3)), ("evaldef", {"training": False}, 3, (4, 3, 2, 2)), ("eval1d", {"training": False, "eps": 1e-2, "momentum": 0.3}, 6, (1, 6)), ("eval3d", {"training": False}, 2, (1, 2, 2, 3, 2)), ("evalc16", {"training": False}, 16, (2, 16, 3, 3))):
        c(f"bn_{n}", "batch_norm", a, bnin(ch, *xs), nodiff=["rm", "rv"], gg=n == "evaldef")
    c("bn_diffstats", "batch_norm", {}, bnin(3, 4, 3, 2, 2))
    c("bn_eval_diffstats", "batch_norm", {"training": False}, bnin(3, 4, 3, 2, 2))
    c("bn_offset", "batch_norm", {}, [("x", V(6, 3, 4, k="pos")), ("w", V(3, k="normal*2")), ("b", V(3)), ("rm", V(3)), ("rv", V(3, k="pos"))], nodiff=["rm", "rv"])
    c("bn_const", "batch_norm", {}, [("x", V(6, 3, 4, k="const:0.7")), ("w", V(3, k="normal*2")), ("b", V(3)), ("rm", V(3)), ("rv", V(3, k="pos"))], nodiff=["rm", "rv"])
    for n, sh, xs, aff, e in (("w", [5], (3, 5), 1, 1e-5), ("2d", [3, 4], (2, 3, 4), 2, 1e-5), ("2dn", [3, 4], (2, 2, 3, 4), 0, 1e-3), ("1row", [9], (9,), 2, 1e-5), ("big", [700], (3, 700), 2, 1e-6), ("all", [2, 3, 4], (2, 3, 4), 2, 1e-5), ("r4", [6], (2, 2, 3, 6), 2, None)):
        c(f"layer_norm_{n}", "layer_norm", {"shape": sh, "eps": e} if e else {"shape": sh}, [("x", V(*xs))] + [("w", V(*sh, k="pos"))][:aff] + [("b", V(*sh))][:max(aff - 1, 0)])
    c("layer_norm_int", "layer_norm", {"shape": [6]}, [("x", V(3, 6, k="const:2")), ("w", V(6)), ("b", V(6))])
    for n, g, xs, e in (("1", 1, (2, 4, 3, 3), 1e-5), ("all", 6, (2, 6, 3, 3), 1e-5), ("3", 3, (3, 6, 4), 1e-3), ("2d", 2, (4, 6), 1e-5), ("3d", 2, (1, 4, 2, 3, 2), None), ("c16", 4, (2, 16, 6, 6), 1e-5)):
        c(f"group_norm_{n}", "group_norm", {"groups": g, "eps": e} if e else {"groups": g}, [("x", V(*xs)), ("w", V(xs[1], k="pos")), ("b", V(xs[1]))])
    for n, xs, a in (("1d", (2, 3, 7), {}), ("2d", (2, 3, 4, 5), {"eps": 1e-3}), ("3d", (1, 2, 2, 3, 4), {}), ("c16", (2, 16, 5, 5), {})):
        c(f"instance_norm_{n}", "instance_norm", a, [("x", V(*xs)), ("w", V(xs[1], k="pos")), ("b", V(xs[1]))])
    for n, xs, a in (("r1", (9,), {}), ("r2", (4, 6), {"eps": 1e-2}), ("big", (2, 900), {"eps": 1e-8}), ("r4", (2, 2, 3, 5), {})):
        c(f"rms_norm_{n}", "rms_norm", a, [("x", V(*xs)), ("w", V(xs[-1], k="pos"))])
    # ---- indexing, shape
    for n, i, k, w, a in (("r1", (5,), 4, (4, 3), {}), ("r0", (), 4, (4, 3), {}), ("r3", (2, 2, 3), 3, (6, 5), {}), ("dup", (40,), 2, (2, 3), {}), ("padneg", (3, 5), 4, (4, 6), {"padding_idx": -1}), ("padmid", (3, 5), 4, (4, 6), {"padding_idx": 2}), ("padnull", (3, 5), 4, (4, 6), {"padding_idx": None}), ("w1", (3,), 1, (1, 1), {}), ("e1", (3, 2), 5, (5, 1), {})):
        c(f"embedding_{n}", "embedding", a, [("idx", V(*i, k=f"int:{k}")), ("w", V(*w))], gg=n == "r3")
    for n, x, d, i in (("d0", (4, 6), 0, (2, 6)), ("neg", (4, 6), -1, (4, 9)), ("r3", (3, 4, 5), 1, (2, 7, 3)), ("r1", (6,), 0, (11,)), ("r3l", (3, 4, 5), 2, (3, 4, 1)), ("r3n", (3, 4, 5), -3, (8, 4, 5))):
        c(f"gather_{n}", "gather", {"dim": d}, [("x", V(*x)), ("idx", V(*i, k=f"int:{x[d]}"))], gg=n == "r3")
    for n, x, d, i in (("d1", (4, 6), 1, (9,)), ("neg", (4, 6, 2), -1, (3,)), ("r1", (6,), 0, (4,)), ("one", (5, 3), 0, (1,)), ("dup", (2, 3), 0, (30,)), ("mid", (2, 5, 3), 1, (4,)), ("i0", (5, 3), 0, ())):
        c(f"index_select_{n}", "index_select", {"dim": d}, [("x", V(*x)), ("idx", V(*i, k=f"int:{x[d]}"))], gg=n == "mid")
    for n, x, s in (("m1", (2, 3, 4), [2, -1]), ("flat", (2, 3, 4), [-1]), ("r0", (1, 1), []), ("up", (), [1, 1, 1]), ("same", (2, 3), [2, 3]), ("r6", (8, 6), [2, 2, 2, 3, 1, 2]), ("m1mid", (4, 6), [2, -1, 3])):
        c(f"reshape_{n}", "reshape", {"shape": s}, [("x", V(*x))], gg=n == "m1")
    for n, x, d in (("r1", (4,), [0]), ("r2", (3, 4), [1, 0]), ("neg", (2, 3, 4), [-1, 0, 1]), ("id", (2, 3, 4), [0, 1, 2]), ("r5", (2, 1, 3, 2, 2), [4, 2, 0, 3, 1]), ("r6", (2, 1, 3, 2, 2, 2), [5, 4, 3, 2, 1, 0])):
        c(f"permute_{n}", "permute", {"dims": d}, [("x", V(*x))], gg=n == "neg")
    for n, x, d in (("01", (3, 4), [0, 1]), ("neg", (2, 3, 4), [-1, -2]), ("02", (2, 3, 4), [0, 2]), ("same", (2, 3), [1, 1]), ("r5", (2, 1, 3, 2, 2), [1, -1])):
        c(f"transpose_{n}", "transpose", {"dims": d}, [("x", V(*x))])
    for n, d, xs in (("d0", 0, [(1, 3), (4, 3)]), ("neg", -1, [(2, 3), (2, 1), (2, 5)]), ("one", 1, [(2, 3)]), ("neg2", -2, [(2, 3, 4), (2, 1, 4)]), ("r1", 0, [(3,), (2,), (1,)]), ("many", 1, [(2, 1, 2)] * 12), ("c16", 1, [(1, 16, 3, 3), (1, 32, 3, 3)]), ("last4", 3, [(1, 2, 3, 1), (1, 2, 3, 2)])):
        c(f"cat_{n}", "cat", {"dim": d}, [(f"x{j}", V(*x)) for j, x in enumerate(xs)], gg=n == "neg")
    for n, d, x, k in (("d0", 0, (2, 3), 3), ("d1", 1, (2, 3), 2), ("neg", -1, (2, 3), 4), ("neg2", -2, (2, 3), 2), ("r0", 0, (), 3), ("one", 0, (4,), 1)):
        c(f"stack_{n}", "stack", {"dim": d}, [(f"x{j}", V(*x)) for j in range(k)])
    for n, d, x, z in (("d0", 0, (5, 3), [1, 4]), ("neg", -1, (2, 6), [1, 2, 3]), ("int", 1, (2, 7), 3), ("intex", 1, (2, 6), 2), ("one", 1, (2, 6), [6]), ("mid", 1, (2, 9, 3), [4, 5]), ("many", 0, (12, 2), 1), ("c32", 1, (1, 32, 3, 3), [16, 16])):
        c(f"split_{n}", "split", {"sizes": z, "dim": d}, [("x", V(*x))], gg=n == "neg")
    for n, x, r in (("neg", (8, 3), [[0, -5, -1, 1]]), ("step3", (10, 3), [[0, 1, 10, 3]]), ("end", (10, 3), [[0, 4, 1 << 30, 1]]), ("negdim", (2, 3, 6), [[-1, 1, 5, 2]]), ("null", (6, 4), [[0, None, None, 2], [1, None, 3, None]]), ("three", (4, 5, 6), [[0, 0, 2, 1], [1, 1, 4, 2], [2, -3, 1 << 30, 1]]), ("one", (4, 5), [[1, 2, 3, 1]]), ("over", (4, 5), [[0, -100, 100, 1]]), ("twice", (12,), [[0, 2, 12, 2], [0, 1, 4, 2]]), ("none", (3, 4), []), ("bigstep", (4, 5), [[1, 0, 5, 7]])):
        c(f"slice_{n}", "slice", {"ranges": r}, [("x", V(*x))], gg=n == "three")
    for n, x, p, v in (("r1", (5,), [2, 3], 1.5), ("neg", (2, 5, 6), [-1, 2, 1, -2], 0.0), ("crop", (2, 5, 6), [-1, -2], 0.0), ("last", (2, 3), [0, 4], -1), ("r5", (1, 2, 2, 3, 2), [1, 0, 0, 1, 2, 2], 0.5), ("zero", (2, 3), [0, 0], 3.0), ("full", (2, 3), [1, 1, 2, 2], None), ("c16", (1, 16, 3, 3), [0, 0, 0, 0, 8, 8], 0.0), ("four", (2, 1, 2, 2), [1, 1, 1, 0, 1, 2, 0, 1], 2)):
        c(f"pad_{n}", "pad", {"pad": p, "value": v} if v is not None else {"pad": p}, [("x", V(*x))], gg=n == "neg")
    for n, x, s in (("lead", (3,), [2, 4, 3]), ("m1", (1, 3, 1), [5, -1, 2]), ("same", (2, 3), [2, 3]), ("r0", (), [2, 3]), ("m1all", (2, 1), [-1, 4]), ("r5", (1, 2, 1), [2, 2, 3, 2, 2]), ("to1", (1,), [1, 1])):
        c(f"expand_{n}", "expand", {"shape": s}, [("x", V(*x))], gg=n == "m1")
    for n, x, r in (("short", (2, 3), [2]), ("long", (2, 3), [2, 1, 2]), ("r1", (3,), [4]), ("ones", (2, 3), [1, 1]), ("mid", (2, 3, 2), [1, 3, 1]), ("all", (2, 3), [3, 2]), ("r0", (), [3])):
        c(f"tile_{n}", "tile", {"reps": r}, [("x", V(*x))])
    for n, x, d in (("0", (1, 3), 0), ("neg", (2, 1, 3, 1), -1), ("not", (2, 3), 1), ("mid", (2, 1, 3), 1)):
        c(f"squeeze_{n}", "squeeze", {"dim": d}, [("x", V(*x))])
    for n, x, d in (("0", (2, 3), 0), ("neg", (2, 3), -1), ("end", (2, 3), 2), ("neg3", (2, 3), -3), ("r0", (), 0)):
        c(f"unsqueeze_{n}", "unsqueeze", {"dim": d}, [("x", V(*x))])
    for n, x, g in (("3", (2, 6, 3, 2), 3), ("r3", (2, 8, 5), 4), ("1", (1, 4, 2, 2), 1), ("all", (1, 4, 2, 2), 4), ("r5", (1, 4, 2, 2, 2), 2), ("r2", (3, 6), 2), ("c32", (1, 32, 4, 4), 4)):
        c(f"channel_shuffle_{n}", "channel_shuffle", {"groups": g}, [("x", V(*x))])
    # ---- losses
    for red in ("mean", "sum", "none"):
        for n, at, xs, ts, w in (("plain", {}, (5, 4), (5,), False), ("w", {}, (5, 4), (5,), True), ("ign", {"ignore_index": 1}, (9, 4), (9,), False), ("wign", {"ignore_index": 1}, (9, 4), (9,), True), ("sp", {}, (2, 3, 4), (2, 4), False), ("sp3", {"ignore_index": 0}, (2, 3, 2, 3, 2), (2, 2, 3, 2), True)):
            ins = [("x", V(*xs, k="normal*2")), ("t", V(*ts, k=f"int:{xs[1]}"))] + ([("w", V(xs[1], k="pos"))] if w else [])
            c(f"ce_{red}_{n}", "cross_entropy", dict(at, reduction=red), ins, nodiff=["w"])
            c(f"ce_{red}_{n}_ls", "cross_entropy", dict(at, reduction=red, label_smoothing=0.2), ins, nodiff=["w"])
            c(f"nll_{red}_{n}", "nll_loss", dict(at, reduction=red), ins, nodiff=["w"])
        for l in ("mse_loss", "l1_loss", "smooth_l1_loss", "bce_loss", "bce_with_logits_loss", "kl_div_loss"):
            xk = {"bce_loss": "unit", "kl_div_loss": "normal*0.5", "bce_with_logits_loss": "normal*4"}.get(l, N)
            tk = {"bce_loss": "unit", "kl_div_loss": "prob", "bce_with_logits_loss": "unit"}.get(l, N)
            c(f"{l}_{red}", l, {"reduction": red}, [("x", V(3, 2, 5, k=xk)), ("t", V(3, 2, 5, k=tk))], nodiff=["t"], gg=l != "l1_loss")
            c(f"{l}_{red}_tgrad", l, {"reduction": red}, [("x", V(4, 3, k=xk)), ("t", V(4, 3, k=tk))])
            c(f"{l}_{red}_r1", l, {"reduction": red}, [("x", V(7, k=xk)), ("t", V(7, k=tk))], nodiff=["t"])
            c(f"{l}_{red}_big", l, {"reduction": red}, [("x", V(4, 40, k=xk)), ("t", V(4, 40, k=tk))], nodiff=["t"]) if red != "none" else None
        for b in (0.3, 2.0, 1, 5.0):
            c(f"smooth_l1_{red}_{b}", "smooth_l1_loss", {"reduction": red, "beta": b}, [("x", V(4, 5, k="normal*2")), ("t", V(4, 5))], nodiff=["t"])
    c("smooth_l1_beta0", "smooth_l1_loss", {"beta": 0.0}, [("x", V(4, 5, k="normal*2")), ("t", V(4, 5))], nodiff=["t"])
    c("kl_batchmean_tgrad", "kl_div_loss", {"reduction": "batchmean"}, [("x", V(3, 5, k="normal*0.5")), ("t", V(3, 5, k="prob"))])
    c("kl_batchmean_r3", "kl_div_loss", {"reduction": "batchmean"}, [("x", V(3, 2, 5, k="normal*0.5")), ("t", V(3, 2, 5, k="prob"))], nodiff=["t"])
    c("kl_zero", "kl_div_loss", {"reduction": "sum"}, [("x", V(3, 5)), ("t", V(3, 5, k="const:0"))], nodiff=["t"])
    c("bce_at0", "bce_loss", {}, [("x", V(3, k="const:0")), ("t", V(3, k="const:1"))], nodiff=["t"])
    c("bce_at1", "bce_loss", {"reduction": "none"}, [("x", V(3, k="const:1")), ("t", V(3, k="const:1"))], nodiff=["t"])
    c("bce_at0_t0", "bce_loss", {"reduction": "sum"}, [("x", V(3, k="const:0")), ("t", V(3, k="const:0"))], nodiff=["t"])
    c("bcel_wide", "bce_with_logits_loss", {}, [("x", V(4, 5, k="normal*40")), ("t", V(4, 5, k="unit"))], nodiff=["t"])
    c("l1_tie", "l1_loss", {}, [("x", V(4, 5, k="const:1")), ("t", V(4, 5, k="const:1"))])
    c("smooth_l1_tie", "smooth_l1_loss", {}, [("x", V(4, 5, k="const:2")), ("t", V(4, 5, k="const:1"))])
    c("mse_bcast", "mse_loss", {}, [("x", V(4, 5)), ("t", V(5))])
    c("l1_bcast", "l1_loss", {"reduction": "sum"}, [("x", V(4, 5)), ("t", V(4, 1))])
    c("smooth_l1_bcast", "smooth_l1_loss", {"reduction": "none"}, [("x", V(4, 1)), ("t", V(4, 5))])
    c("kl_bcast", "kl_div_loss", {"reduction": "mean"}, [("x", V(4, 5)), ("t", V(5, k="prob"))], nodiff=["t"])
    for l in ("mse_loss", "l1_loss", "smooth_l1_loss", "bce_loss", "bce_with_logits_loss", "kl_div_loss"):
        c(f"{l}_default", l, {}, [("x", V(3, 4, k="unit")), ("t", V(3, 4, k="unit"))], nodiff=["t"])
        c(f"{l}_r0", l, {}, [("x", V(k="unit")), ("t", V(k="unit"))], nodiff=["t"])
    c("ce_unbatched", "cross_entropy", {}, [("x", V(5)), ("t", V(k="int:5"))])
    c("nll_unbatched", "nll_loss", {}, [("x", V(5)), ("t", V(k="int:5"))])
    c("ce_one", "cross_entropy", {}, [("x", V(3, 1)), ("t", V(3, k="int:1"))])
    c("ce_big", "cross_entropy", {}, [("x", V(2, 150, k="normal*3")), ("t", V(2, k="int:150"))])
    c("ce_hot", "cross_entropy", {}, [("x", V(6, 7, k="normal*60")), ("t", V(6, k="int:7"))])
    c("ce_ls1", "cross_entropy", {"label_smoothing": 1.0}, [("x", V(6, 7)), ("t", V(6, k="int:7"))])
    c("ce_ignneg", "cross_entropy", {"ignore_index": -1}, [("x", V(6, 7)), ("t", V(6, k="int:7"))])
    c("ce_allign_sum", "cross_entropy", {"ignore_index": 0, "reduction": "sum"}, [("x", V(6, 7)), ("t", V(6, k="int:1"))])
    c("ce_allign_mean", "cross_entropy", {"ignore_index": 0}, [("x", V(6, 7)), ("t", V(6, k="int:1"))])
    c("ce_2d_ls_w", "cross_entropy", {"label_smoothing": 0.1}, [("x", V(2, 5, 3, 4)), ("t", V(2, 3, 4, k="int:5")), ("w", V(5, k="pos"))], nodiff=["w"])
    # ---- recurrent
    for n, B, I, H in (("a", 3, 4, 5), ("1", 1, 1, 1), ("big", 2, 33, 17)):
        for bias in (True, False):
            s = n + ("" if bias else "_nob")
            L = [("x", V(B, I)), ("h", V(B, H)), ("c", V(B, H)), ("wi", V(4 * H, I, k="normal*0.5")), ("wh", V(4 * H, H, k="normal*0.5"))] + ([("bi", V(4 * H)), ("bh", V(4 * H))] if bias else [])
            c(f"lstm_cell_{s}", "lstm_cell", {}, L)
            G = [("x", V(B, I)), ("h", V(B, H)), ("wi", V(3 * H, I, k="normal*0.5")), ("wh", V(3 * H, H, k="normal*0.5"))] + ([("bi", V(3 * H)), ("bh", V(3 * H))] if bias else [])
            c(f"gru_cell_{s}", "gru_cell", {}, G)
    for n, T, B, I, H in (("a", 4, 2, 3, 5), ("T1", 1, 3, 2, 4), ("long", 30, 2, 3, 4), ("one", 2, 1, 1, 1), ("T90", 90, 1, 2, 3)):
        for bias in (True, False):
            s = n + ("" if bias else "_nob")
            L = [("x", V(T, B, I)), ("h0", V(1, B, H)), ("c0", V(1, B, H)), ("wi", V(4 * H, I, k="normal*0.5")), ("wh", V(4 * H, H, k="normal*0.5"))] + ([("bi", V(4 * H)), ("bh", V(4 * H))] if bias else [])
            c(f"lstm_{s}", "lstm", {}, L)
            G = [("x", V(T, B, I)), ("h0", V(1, B, H)), ("wi", V(3 * H, I, k="normal*0.5")), ("wh", V(3 * H, H, k="normal*0.5"))] + ([("bi", V(3 * H)), ("bh", V(3 * H))] if bias else [])
            c(f"gru_{s}", "gru", {}, G)
    return C
