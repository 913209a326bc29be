// raster.js - thousands of lines or dots as pixels of our own: a canvas takes ten times as long to stroke them.

// "#rrggbb" or "rgb(r g b / a)" as [r, g, b].
export function rgb(text) {
  const hex = /^#(..)(..)(..)$/.exec(text);
  return hex ? hex.slice(1).map((v) => parseInt(v, 16)) : text.match(/[\d.]+/g).slice(0, 3).map(Number);
}

// A picture as large as the canvas of g, all of it in one colour; put() shows it, in the place of everything that was there. A pixel is 0xAABBGGRR, and
// red and blue are mixed by one multiplication: they lie sixteen bits apart.
export function raster(g, background) {
  const W = g.canvas.width, H = g.canvas.height, image = g.createImageData(W, H), px = new Uint32Array(image.data.buffer);
  const [r, gr, b] = rgb(background);
  px.fill(0xff000000 | (b << 16) | (gr << 8) | r);
  let redBlue = 0, green = 0, rest = 0; // of the pen, times its opacity; what is left of the pixel below it, of 256
  const inside = (v, most) => Math.max(0, Math.min(most - 1, Math.round(v)));
  return {
    pen([red, green8, blue], opacity) {
      const part = Math.round(256 * opacity);
      redBlue = Math.imul((blue << 16) | red, part);
      green = Math.imul(green8, part);
      rest = 256 - part;
    },
    // One pixel wide.
    line(fromX, fromY, toX, toY) {
      const x0 = inside(fromX, W), y0 = inside(fromY, H), dx = inside(toX, W) - x0, dy = inside(toY, H) - y0, n = Math.max(Math.abs(dx), Math.abs(dy));
      const stepX = ((dx * 65536) / n) | 0, stepY = ((dy * 65536) / n) | 0, rb = redBlue, gg = green, left = rest;
      for (let k = 0, x = (x0 << 16) + 32768, y = (y0 << 16) + 32768; k < n; k++, x += stepX, y += stepY) {
        const i = (y >> 16) * W + (x >> 16), p = px[i];
        px[i] = 0xff000000 | (((Math.imul(p & 0xff00ff, left) + rb) >>> 8) & 0xff00ff) | ((Math.imul((p >>> 8) & 0xff, left) + gg) & 0xff00);
      }
    },
    // n by n pixels around (x, y).
    square(x, y, n) {
      const x0 = inside(x - n / 2, W), y0 = inside(y - n / 2, H);
      for (let j = y0; j < y0 + n && j < H; j++)
        for (let i = j * W + x0, end = j * W + Math.min(W, x0 + n); i < end; i++) {
          const p = px[i];
          px[i] = 0xff000000 | (((Math.imul(p & 0xff00ff, rest) + redBlue) >>> 8) & 0xff00ff) | ((Math.imul((p >>> 8) & 0xff, rest) + green) & 0xff00);
        }
    },
    put() { g.putImageData(image, 0, 0); },
  };
}
