// aws_server.js PORT UPSTREAM: what Amazon has around a bucket, before another S3 server.
//   - the bucket is in region eu-test-1: requests signed for another one are sent away, for keys "one" by 301 with
//     x-amz-bucket-region, for others by 400 AuthorizationHeaderMalformed with <Region>
//   - the machine's metadata service, version 2: keys S3RVER for the role "role"; of version 1 nothing is given
//   - the container's, at /container
const http = require('http');
const [port, upstream] = [Number(process.argv[2]), new URL(process.argv[3])];
const keys = () => JSON.stringify({AccessKeyId: 'S3RVER', SecretAccessKey: 'S3RVER', Token: 'session', Expiration: new Date(Date.now() + 3600e3).toISOString().replace(/\.\d+/, '')});
function say(res, status, text, headers = {}) { res.writeHead(status, {'content-length': Buffer.byteLength(text), ...headers}); res.end(text); }

http.createServer({keepAliveTimeout: 600e3, requestTimeout: 0}, (req, res) => {
  if (req.url === '/container') return say(res, req.headers.authorization === 'pass' ? 200 : 401, keys());
  if (req.url === '/latest/api/token') { req.resume(); return say(res, req.method === 'PUT' && req.headers['x-aws-ec2-metadata-token-ttl-seconds'] ? 200 : 400, 'the-token'); }
  if (req.url.startsWith('/latest/meta-data/iam/security-credentials/')) {
    if (req.headers['x-aws-ec2-metadata-token'] !== 'the-token') return say(res, 401, '');
    return say(res, 200, req.url.endsWith('/') ? 'role' : keys());
  }
  const [, key, region] = /Credential=([^/]*)\/\d+\/([^/]+)\//.exec(req.headers.authorization || '') || [];
  if (region !== 'eu-test-1') {
    req.resume();
    return req.on('end', () => key === 'one'
      ? say(res, 301, '<Error><Code>PermanentRedirect</Code><Message>elsewhere</Message></Error>', {'x-amz-bucket-region': 'eu-test-1'})
      : say(res, 400, '<Error><Code>AuthorizationHeaderMalformed</Code><Message>the region is wrong</Message><Region>eu-test-1</Region></Error>'));
  }
  const forward = http.request({host: upstream.hostname, port: upstream.port, method: req.method, path: req.url, headers: {...req.headers, host: upstream.host, authorization: req.headers.authorization.replace(/Credential=[^/]+/, 'Credential=S3RVER')}}, answer => {
    res.writeHead(answer.statusCode, answer.headers);
    answer.pipe(res);
  });
  forward.on('error', () => req.socket.destroy());
  req.pipe(forward);
}).listen(port, process.env.SERVE_HOST || '127.0.0.1');
