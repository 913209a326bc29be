#!/usr/bin/python3
"""make_variants.py: the HDF5 and image files beside it, as other programs write them.

Needs the Debian packages python3-h5py, python3-pil, python3-numpy. Values are formulas, so that the
tests compute what they expect."""
import os, h5py, numpy as np
from PIL import Image
here = os.path.dirname(os.path.abspath(__file__))


def ramp(shape, dtype):  # element i = (7 * i) % 251 - 100
    n = int(np.prod(shape))
    return ((np.arange(n) * 7) % 251 - 100).reshape(shape).astype(dtype)


def fill(f):
    f["flat_i32"] = ramp((5, 4, 3), "<i4")
    f["big_i16"] = ramp((5, 7), ">i2")
    f["half"] = ramp((5, 3), "<f2")
    f["double_big"] = ramp((5, 3), ">f8")
    f.create_dataset("chunk_plain", data=ramp((7, 10), "<f4"), chunks=(3, 4))
    f.create_dataset("chunk_gzip", data=ramp((50, 6), "<i8"), chunks=(4, 6), compression="gzip")
    f.create_dataset("chunk_all", data=ramp((13, 9, 4), "<i2"), chunks=(5, 4, 3), compression="gzip", shuffle=True, fletcher32=True)
    f.create_dataset("chunk_grown", data=ramp((9, 2), "<i4"), chunks=(2, 2), maxshape=(None, 2), compression="gzip")
    f.create_dataset("holes", shape=(8, 4), dtype="<i4", chunks=(2, 4))[4:6] = ramp((2, 4), "<i4")
    f["deep/er/est"] = ramp((3,), "<u1")
    rows = f.create_dataset("rows", (4,), dtype=h5py.vlen_dtype(np.dtype("<i2")))
    for i in range(4):
        rows[i] = ramp((3 * i,), "<i2")
    f["flags"] = np.array([True, False, True])
    f["scalar"] = np.int32(-42)


with h5py.File(f"{here}/variants.h5", "w") as f:
    fill(f)
    for i in range(100):
        f[f"many/item{i:03d}"] = np.array([i], "<i4")
with h5py.File(f"{here}/variants_user_block.h5", "w", userblock_size=512) as f:
    f["x"] = ramp((4, 2), "<i4")
with h5py.File(f"{here}/variants_latest.h5", "w", libver="latest") as f:
    f["flat"] = ramp((5, 4), "<i4")
    f.create_dataset("single", data=ramp((4, 4), "<i4"), chunks=(4, 4), compression="gzip")
    f["in/side"] = ramp((3,), "<i4")
    f.create_dataset("fixed", data=ramp((9, 4), "<i4"), chunks=(2, 4), compression="gzip")

a = np.zeros((50, 70, 3), np.uint8)
for c in range(3):
    y, x = np.mgrid[0:50, 0:70]
    a[:, :, c] = (x * (2 + c) + y * (3 - c)) % 256 // (1 + c)
im = Image.fromarray(a)
im.save(f"{here}/plain.jpg", quality=90)
im.save(f"{here}/progressive.jpg", quality=90, progressive=True)
im.convert("L").save(f"{here}/gray.jpg", quality=90)
im.convert("CMYK").save(f"{here}/cmyk.jpg", quality=90)
im.quantize(64).save(f"{here}/palette.png", bits=8)
im.convert("LA").save(f"{here}/gray_alpha.png")
out = []
for name in ("plain.jpg", "progressive.jpg", "gray.jpg", "cmyk.jpg", "palette.png", "gray_alpha.png"):
    b = np.asarray(Image.open(f"{here}/{name}").convert("RGB").resize((28, 20), Image.BILINEAR))
    out.append(b)
np.savez_compressed(f"{here}/decoded.npz", x=np.stack(out))
np.savez(f"{here}/arrays.npz", x=ramp((6, 4), "<f4"), y=np.arange(6, dtype="<i8"))
