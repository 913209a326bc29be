// gcs_server.js PORT DIRECTORY [PUBLIC_KEY_PEM]: the part of Google Cloud Storage's JSON API that checkpoints need, as
// documented: media, multipart and resumable uploads with crc32c checked, ranged reads, listing, deletion; tokens by
// /token (a JWT signed RS256, or a refresh token) and by the metadata path. With a key, requests need a token.
// The official client passes against it (gcs_client.js).
const fs = require('fs'), http = require('http'), path = require('path'), crypto = require('crypto');
const [port, root, keyFile] = [Number(process.argv[2]), process.argv[3], process.argv[4]];
const publicKey = keyFile ? fs.readFileSync(keyFile) : null;
const buckets = new Map([['ckpt', new Map()]]), sessions = new Map(), tokens = new Map();
let serial = 0, received = 0;

const table = new Int32Array(256).map((_, n) => {
  for (let k = 0; k < 8; k++) n = n & 1 ? (n >>> 1) ^ 0x82f63b78 : n >>> 1;
  return n;
});
function crc32c(crc, bytes) {
  crc = ~crc;
  for (let i = 0; i < bytes.length; i++) crc = table[(crc ^ bytes[i]) & 255] ^ (crc >>> 8);
  return ~crc;
}
function sum(crc) { const b = Buffer.alloc(4); b.writeInt32BE(crc); return b.toString('base64'); }

function json(res, status, value, headers = {}) {
  const text = JSON.stringify(value);
  res.writeHead(status, {'content-type': 'application/json; charset=UTF-8', 'content-length': Buffer.byteLength(text), ...headers});
  res.end(text);
}
function fail(res, status, reason, message) {
  json(res, status, {error: {code: status, message, errors: [{domain: 'global', reason, message}]}});
}
function describe(bucket, o) {
  return {kind: 'storage#object', id: `${bucket}/${o.name}/1`, name: o.name, bucket, generation: String(o.serial), metageneration: '1',
          contentType: o.type, size: String(o.size), crc32c: sum(o.crc), md5Hash: o.md5, etag: 'e' + o.serial, timeCreated: o.time, updated: o.time};
}
class Taker { // bytes into a file, with their sums
  constructor() { this.file = path.join(root, String(++serial)); this.fd = fs.openSync(this.file, 'w'); this.size = 0; this.crc = 0; this.hash = crypto.createHash('md5'); }
  add(bytes) { fs.writeSync(this.fd, bytes); this.size += bytes.length; this.crc = crc32c(this.crc, bytes); this.hash.update(bytes); }
  drop() { fs.closeSync(this.fd); fs.unlinkSync(this.file); }
  store(bucket, name, type, want) {
    if (want.crc32c && want.crc32c !== sum(this.crc)) { this.drop(); return null; }
    fs.closeSync(this.fd);
    const o = {name, type: type || 'application/octet-stream', file: this.file, size: this.size, crc: this.crc,
               md5: this.hash.digest('base64'), serial, time: new Date().toISOString()};
    remove(bucket, name);
    buckets.get(bucket).set(name, o);
    return o;
  }
}
function remove(bucket, name) {
  const o = buckets.get(bucket).get(name);
  if (o) { fs.unlinkSync(o.file); buckets.get(bucket).delete(name); }
  return !!o;
}
function whole(req, then) { const parts = []; req.on('data', b => parts.push(b)); req.on('end', () => then(Buffer.concat(parts))); }

function giveToken(res) {
  const t = 'ya29.' + crypto.randomBytes(12).toString('hex');
  tokens.set(t, Date.now() + 3600e3);
  json(res, 200, {access_token: t, expires_in: 3600, token_type: 'Bearer'});
}
function token(req, res) {
  whole(req, body => {
    const q = new URLSearchParams(body.toString());
    if (q.get('grant_type') === 'refresh_token')
      return q.get('refresh_token') === 'good-refresh' && q.get('client_id') ? giveToken(res) : json(res, 400, {error: 'invalid_grant', error_description: 'Bad refresh token'});
    const [head, claims, signature] = (q.get('assertion') || '').split('.');
    let good = false;
    try {
      const c = JSON.parse(Buffer.from(claims, 'base64url'));
      good = JSON.parse(Buffer.from(head, 'base64url')).alg === 'RS256' && c.exp > Date.now() / 1000 && /devstorage/.test(c.scope) && c.aud.endsWith('/token') &&
             crypto.verify('sha256', Buffer.from(head + '.' + claims), publicKey, Buffer.from(signature, 'base64url'));
    } catch (e) { good = false; }
    good ? giveToken(res) : json(res, 400, {error: 'invalid_grant', error_description: 'Invalid JWT Signature.'});
  });
}

function beginSession(req, res, bucket, name) {
  whole(req, body => {
    let meta = {};
    try { meta = body.length ? JSON.parse(body) : {}; } catch (e) { return fail(res, 400, 'parseError', 'Parse Error'); }
    const id = crypto.randomBytes(12).toString('hex');
    sessions.set(id, {bucket, name: name || meta.name, meta, taker: new Taker(), type: meta.contentType || req.headers['x-upload-content-type']});
    res.writeHead(200, {location: `http://${req.headers.host}/upload/storage/v1/b/${bucket}/o?uploadType=resumable&upload_id=${id}`, 'content-length': 0});
    res.end();
  });
}
function feedSession(req, res, id) {
  const s = sessions.get(id);
  if (!s) { req.resume(); return fail(res, 404, 'notFound', 'No such session'); }
  if (s.done) { req.resume(); return json(res, 200, s.done); }
  const m = /^bytes (?:(\d+)-(\d+|\*)|\*)\/(\d+|\*)$/.exec(req.headers['content-range'] || `bytes 0-${Number(req.headers['content-length']) - 1}/${req.headers['content-length']}`);
  if (!m) { req.resume(); return fail(res, 400, 'badRequest', 'Content-Range'); }
  const answer = () => {
    if (m[2] === '*' || (m[3] !== '*' && s.taker.size === Number(m[3]))) { // "0-*/*": what comes is all
      const o = s.taker.store(s.bucket, s.name, s.type, s.meta);
      if (!o) { sessions.delete(id); return fail(res, 400, 'invalid', 'Provided CRC32C does not match calculated CRC32C.'); }
      s.done = describe(s.bucket, o);
      return json(res, 200, s.done);
    }
    res.writeHead(308, {...(s.taker.size ? {range: `bytes=0-${s.taker.size - 1}`} : {}), 'content-length': 0});
    res.end();
  };
  if (m[1] === undefined) { req.resume(); req.on('end', answer); return; }
  s.feeder = req; // what is left of one that broke off comes no more
  let skip = s.taker.size - Number(m[1]);
  if (skip < 0) { req.resume(); return fail(res, 400, 'badRequest', 'a gap'); }
  req.on('data', b => {
    if (s.feeder !== req) return;
    const n = Math.min(skip, b.length);
    skip -= n;
    if (b.length > n) s.taker.add(b.subarray(n));
  });
  req.on('end', () => { if (s.feeder === req) answer(); });
}
function multipart(req, res, bucket, name) {
  whole(req, body => {
    const mark = '--' + /boundary="?([^";]+)/.exec(req.headers['content-type'])[1];
    const text = body.toString('latin1');
    const at = text.indexOf(mark), next = text.indexOf(mark, at + mark.length), end = text.lastIndexOf('\r\n' + mark);
    const meta = JSON.parse(Buffer.from(text.slice(text.indexOf('\r\n\r\n', at) + 4, next).trim(), 'latin1').toString());
    const t = new Taker();
    t.add(body.subarray(text.indexOf('\r\n\r\n', next) + 4, end));
    const o = t.store(bucket, name || meta.name, meta.contentType, meta);
    o ? json(res, 200, describe(bucket, o)) : fail(res, 400, 'invalid', 'CRC32C');
  });
}
function media(req, res, bucket, name) {
  const t = new Taker();
  let whole = false;
  req.on('data', b => t.add(b));
  req.on('close', () => { if (!whole) t.drop(); });
  req.on('end', () => { whole = true; json(res, 200, describe(bucket, t.store(bucket, name, req.headers['content-type'], {}))); });
}
function read(req, res, o) {
  const m = /^bytes=(\d+)-(\d*)$/.exec(req.headers.range || '');
  const start = m ? Number(m[1]) : 0, end = m && m[2] !== '' ? Math.min(o.size, Number(m[2]) + 1) : o.size;
  if (m && start >= o.size) return fail(res, 416, 'requestedRangeNotSatisfiable', 'Request range not satisfiable');
  const headers = {'content-type': o.type, 'content-length': end - start, etag: 'e' + o.serial, 'x-goog-hash': `crc32c=${sum(o.crc)},md5=${o.md5}`};
  res.writeHead(m ? 206 : 200, m ? {...headers, 'content-range': `bytes ${start}-${end - 1}/${o.size}`} : headers);
  end > start ? fs.createReadStream(o.file, {start, end: end - 1}).pipe(res) : res.end();
}

http.createServer({keepAliveTimeout: 600e3, requestTimeout: 0}, (req, res) => {
  req.on('data', b => { received += b.length; });
  const u = new URL(req.url, 'http://x'), q = u.searchParams, upload = u.pathname.startsWith('/upload/');
  if (u.pathname === '/token') return token(req, res);
  if (u.pathname.startsWith('/computeMetadata/'))
    return req.headers['metadata-flavor'] === 'Google' ? giveToken(res) : fail(res, 403, 'forbidden', 'Missing Metadata-Flavor:Google header.');
  const given = (req.headers.authorization || '').replace(/^Bearer /, '');
  if (publicKey && !(tokens.get(given) > Date.now())) { req.resume(); return fail(res, 401, 'authError', 'Invalid Credentials'); }
  const m = /^(?:\/upload|\/download)?\/storage\/v1\/b(?:\/([^/]+)(\/o(?:\/([^/]+))?)?)?$/.exec(u.pathname);
  if (!m) { req.resume(); return fail(res, 404, 'notFound', 'Not Found: ' + req.method + ' ' + req.url); }
  const bucket = m[1] && decodeURIComponent(m[1]), name = m[3] && decodeURIComponent(m[3]);
  if (bucket && !buckets.has(bucket)) { req.resume(); return fail(res, 404, 'notFound', 'The specified bucket does not exist.'); }
  const objects = buckets.get(bucket);
  if (upload && q.get('upload_id')) {
    if (req.method !== 'DELETE') return feedSession(req, res, q.get('upload_id'));
    const s = sessions.get(q.get('upload_id'));
    if (s && !s.done) s.taker.drop();
    sessions.delete(q.get('upload_id'));
    res.writeHead(s ? 499 : 404, {'content-length': 0});
    return res.end();
  }
  if (upload && q.get('uploadType') === 'resumable') return beginSession(req, res, bucket, q.get('name'));
  if (upload && q.get('uploadType') === 'multipart') return multipart(req, res, bucket, q.get('name'));
  if (upload && q.get('uploadType') === 'media') return media(req, res, bucket, q.get('name'));
  req.resume();
  if (bucket && !m[2]) return json(res, 200, {kind: 'storage#bucket', name: bucket});
  if (m[2] && !name && req.method === 'GET') // with the test's own questions
    return json(res, 200, {kind: 'storage#objects', items: [...objects.values()].filter(o => o.name.startsWith(q.get('prefix') || '')).map(o => describe(bucket, o)),
                           sessions: [...sessions.values()].filter(s => !s.done).length, received});
  const o = objects.get(name);
  if (!o) return fail(res, 404, 'notFound', `No such object: ${bucket}/${name}`);
  if (req.method === 'DELETE') { remove(bucket, name); res.writeHead(204); return res.end(); }
  q.get('alt') === 'media' ? read(req, res, o) : json(res, 200, describe(bucket, o));
}).listen(port, process.env.SERVE_HOST || '127.0.0.1');
