// raster.js - thousands of lines or dots as pixels of our own: a canvas takes ten times as long to stroke them.

// "#rrggbb" or "rgb(r g b / a)" as [r, g, b].
export function rgb(text) {
  const hex = /^#(..)(..)(..)$/.exec(text);
  return hex ? hex.slice(1).map((v) => parseInt(v, 16)) : text.match(/[\d.]+/g).slice(0, 3).map(Number);
}

// A colour over the pixel i; part of 256.
function blend(px, i, r, g, b, part) {
  const p = px[i], x = p & 255, y = (p >>> 8) & 255, z = (p >>> 16) & 255;
  px[i] = 0xff000000 | ((z + (((b - z) * part) >> 8)) << 16) | ((y + (((g - y) * part) >> 8)) << 8) | (x + (((r - x) * part) >> 8));
}

// A picture as large as the canvas of g, all of it in one colour; put() shows it, in the place of everything that was there.
export function raster(g, background) {
  const W = g.canvas.width, H = g.canvas.height, image = g.createImageData(W, H), px = new Uint32Array(image.data.buffer);
  const [br, bg, bb] = rgb(background);
  px.fill(0xff000000 | (bb << 16) | (bg << 8) | br);
  let red = 0, green = 0, blue = 0, all = 256;
  return {
    pen(colour, opacity) { [red, green, blue] = colour; all = Math.round(256 * opacity); },
    // From (x0, y0) to the right, to (x1, y1), one pixel wide: two pixels share it where it runs between them.
    line(x0, y0, x1, y1) {
      const r = red, gr = green, b = blue, alpha = all, dx = x1 - x0, dy = y1 - y0;
      if (Math.abs(dy) <= dx) {
        const slope = dy / dx;
        for (let x = Math.max(0, Math.round(x0)), y = y0 + slope * (x - x0), end = Math.min(W, x1); x < end; x++, y += slope) {
          const j = Math.floor(y), part = ((y - j) * alpha) | 0;
          if (j < 0 || j >= H - 1) continue;
          blend(px, j * W + x, r, gr, b, alpha - part);
          blend(px, (j + 1) * W + x, r, gr, b, part);
        }
        return;
      }
      const slope = dx / dy, end = Math.min(H, Math.max(y0, y1));
      for (let y = Math.max(0, Math.round(Math.min(y0, y1))), x = x0 + slope * (y - y0); y < end; y++, x += slope) {
        const i = Math.floor(x), part = ((x - i) * alpha) | 0;
        if (i < 0 || i >= W - 1) continue;
        blend(px, y * W + i, r, gr, b, alpha - part);
        blend(px, y * W + i + 1, r, gr, b, part);
      }
    },
    // n by n pixels around (x, y).
    square(x, y, n) {
      const x0 = Math.max(0, Math.round(x - n / 2)), y0 = Math.max(0, Math.round(y - n / 2));
      for (let j = y0; j < y0 + n && j < H; j++)
        for (let i = x0; i < x0 + n && i < W; i++) blend(px, j * W + i, red, green, blue, all);
    },
    put() { g.putImageData(image, 0, 0); },
  };
}
