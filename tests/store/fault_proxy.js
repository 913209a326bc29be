// fault_proxy.js PORT UPSTREAM CONTROL: requests go to UPSTREAM (http://host:port); the one whose number stands in the
// file CONTROL ("MODE N", counted from 1 since that file changed) suffers MODE:
//   cut-request   the connection ends before anything is forwarded
//   cut-body      the connections end within the request's body
//   cut-response  forwarded, and the connection ends within the answer
//   flip-request  a bit of the body is another when it arrives
//   flip-response a bit of the answer's body (without one: of its ETag) is another
//   stall         nothing is answered
//   stall-body    half of the answer, and no more
//   boast         a session of gcs has more bytes than there are
//   page          200 with a page of somebody else, nothing is forwarded
//   redirect      307 to a port where nobody is
//   500 503 429 403 400  that answer, nothing is forwarded; 429 with Retry-After: 1
// A server that sends on to itself (a data node of HDFS) sends on to here: its bytes pass through as well.
// CONTROL.count holds the number of requests and the bytes of their bodies (at each request, and every 4 MiB).
const fs = require('fs'), http = require('http');
const [port, upstream, control] = [Number(process.argv[2]), new URL(process.argv[3]), process.argv[4]];
const host = process.env.SERVE_HOST || '127.0.0.1', here = `http://${host}:${port}`;
const agent = new http.Agent({keepAlive: true, maxSockets: 64});
let stamp = null, mode = 'none', number = 0, count = 0, bytes = 0, noted = 0;

function note() { noted = bytes; fs.writeFileSync(control + '.count', `${count} ${bytes}\n`); }
function look() {
  let text = 'none 0';
  try { text = fs.readFileSync(control, 'utf8'); } catch (e) { /* none */ }
  if (text !== stamp) {
    stamp = text;
    [mode, number] = text.trim().split(' ');
    count = 0, bytes = 0;
  }
  count++;
  note();
  return Number(number) === count || number === 'all' ? mode : 'none';
}
function flip(b) { if (b.length) { b = Buffer.from(b); b[b.length >> 1] ^= 4; } return b; }
const code = {500: 'InternalError', 503: 'SlowDown', 429: 'TooManyRequests', 403: 'AccessDenied', 400: 'InvalidRequest'};

http.createServer({keepAliveTimeout: 600e3, requestTimeout: 0}, (req, res) => {
  const fault = look();
  req.on('data', b => { bytes += b.length; if (bytes - noted > 1 << 22) note(); });
  if (fault === 'cut-request') return req.socket.destroy();
  if (fault === 'stall') return req.resume();
  if (code[fault]) {
    req.resume();
    const text = `<?xml version="1.0"?><Error><Code>${code[fault]}</Code><Message>by the fault proxy</Message></Error>`;
    return req.on('end', () => { res.writeHead(Number(fault), {'content-type': 'application/xml', 'content-length': text.length, ...(fault === '429' ? {'retry-after': '1'} : {})}); res.end(text); });
  }
  if (fault === 'page') {
    req.resume();
    const text = '<html><body>Welcome to this network. Please log in.</body></html>';
    return req.on('end', () => { res.writeHead(200, {'content-type': 'text/html', 'content-length': text.length}); res.end(text); });
  }
  if (fault === 'redirect') {
    req.resume();
    return req.on('end', () => { res.writeHead(307, {location: 'http://127.0.0.1:9' + req.url, 'content-length': 0}); res.end(); });
  }
  const half = Number(req.headers['content-length'] || 0) >> 1;
  const forward = http.request({host: upstream.hostname, port: upstream.port, method: req.method, path: req.url, headers: req.headers, agent}, answer => {
    const sent_on = answer.headers.location;
    if (sent_on && sent_on.startsWith(upstream.origin)) answer.headers.location = here + sent_on.slice(upstream.origin.length);
    if (fault === 'boast' && answer.headers.range) answer.headers.range = 'bytes=0-9223372036854775807';
    if (fault === 'cut-response' || fault === 'flip-response' || fault === 'stall-body') {
      const parts = [];
      answer.on('data', b => parts.push(b));
      answer.on('end', () => {
        let body = Buffer.concat(parts), headers = {...answer.headers};
        delete headers['transfer-encoding'];
        if (fault === 'cut-response' || fault === 'stall-body') {
          res.writeHead(answer.statusCode, {...headers, 'content-length': body.length + 10});
          res.write(body.subarray(0, body.length >> 1));
          return fault === 'stall-body' || setTimeout(() => req.socket.destroy(), 50);
        }
        if (!body.length && headers.etag) headers.etag = headers.etag.replace(/[0-9a-f]/, c => (c === '0' ? '1' : '0'));
        body = flip(body);
        if (req.method !== 'HEAD' && answer.statusCode !== 204) headers['content-length'] = body.length;
        res.writeHead(answer.statusCode, headers);
        res.end(body);
      });
      return;
    }
    res.writeHead(answer.statusCode, answer.headers);
    answer.pipe(res);
    answer.on('aborted', () => req.socket.destroy());
  });
  forward.on('error', () => req.socket.destroy());
  req.on('aborted', () => forward.destroy());
  if (fault === 'cut-body') {
    let seen = 0;
    req.on('data', b => { if ((seen += b.length) > half) { forward.destroy(); req.socket.destroy(); } else forward.write(b); });
    return req.on('end', () => { forward.destroy(); req.socket.destroy(); });
  }
  if (fault !== 'flip-request') return req.pipe(forward);
  const parts = [];
  req.on('data', b => parts.push(b));
  req.on('end', () => forward.end(flip(Buffer.concat(parts))));
}).listen(port, host);
