// embed_web.mjs WEB_DIR NODE_MODULES OUT.c: the files of the page, compressed, as a table of C (struct serve_file).
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { join } from "node:path";

const [web, modules, out] = process.argv.slice(2);
const types = { html: "text/html; charset=utf-8", js: "text/javascript; charset=utf-8", css: "text/css; charset=utf-8", svg: "image/svg+xml" };
const fetched = {
  "preact.js": "htm/preact/standalone.module.js",
  "uplot.js": "uplot/dist/uPlot.iife.min.js",
  "uplot.css": "uplot/dist/uPlot.min.css",
};
const files = readdirSync(web).filter((name) => types[name.split(".").pop()]).map((name) => [name, join(web, name)]);
for (const [name, path] of Object.entries(fetched)) files.push([name, join(modules, path)]);
files.sort(([a], [b]) => (a < b ? -1 : 1));

let arrays = "", rows = "", total = 0;
files.forEach(([name, path], i) => {
  const packed = gzipSync(readFileSync(path), { level: 9 });
  packed[9] = 255; // the system that packed it: any
  const tag = createHash("sha256").update(packed).digest("hex").slice(0, 32);
  const lines = [...packed].map((b, k) => b + (k % 24 === 23 ? ",\n" : ",")).join("");
  arrays += `static const unsigned char file_${i}[] = {\n${lines}};\n`;
  rows += `    {"${name}", "${types[name.split(".").pop()]}", "\\"${tag}\\"", file_${i}, sizeof file_${i}},\n`;
  total += packed.length;
});
writeFileSync(out, `/* Made by tools/embed_web.mjs: ${files.length} files, ${total} bytes. */\n#include "serve/inner.h"\n\n${arrays}\n` +
  `const struct serve_file serve_files[] = {\n${rows}    {0}};\n`);
