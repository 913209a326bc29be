// webhdfs-proxy PORT DIRECTORY: the package parses, validates and redirects; files lie below DIRECTORY. While a file
// DIRECTORY.standby.PORT exists, this name node is on standby.
const fs = require('fs'), http = require('http'), path = require('path');
const port = Number(process.argv[2]), root = process.argv[3];
const host = process.env.SERVE_HOST || '127.0.0.1';
const listen = http.Server.prototype.listen;
http.Server.prototype.listen = function (...args) { // it would listen on all interfaces
  this.requestTimeout = 0; // large files on a busy machine
  return typeof args[0] === 'number' ? listen.call(this, args[0], host) : listen.apply(this, args);
};
const {createServer} = require('webhdfs-proxy');

function json(res, value, status = 200) {
  const text = JSON.stringify(value);
  res.writeHead(status, {'content-type': 'application/json', 'content-length': Buffer.byteLength(text)});
  res.end(text);
}
function fail(res, status, exception, message) {
  json(res, {RemoteException: {exception, javaClassName: 'java.io.' + exception, message}}, status);
}
function look(file, name) {
  const st = fs.statSync(file);
  return {accessTime: 0, blockSize: 0, group: 'g', owner: 'o', permission: '755', replication: 1, pathSuffix: name,
          length: st.isDirectory() ? 0 : st.size, modificationTime: Math.floor(st.mtimeMs), type: st.isDirectory() ? 'DIRECTORY' : 'FILE'};
}
const operations = {
  mkdirs: (file, q, req, res) => { fs.mkdirSync(file, {recursive: true}); json(res, {boolean: true}); },
  create: (file, q, req, res) => {
    fs.mkdirSync(path.dirname(file), {recursive: true});
    const out = fs.createWriteStream(file);
    req.pipe(out);
    req.on('aborted', () => out.destroy());
    out.on('error', () => req.socket.destroy()); // what was on its way into it
    out.on('finish', () => { res.writeHead(201, {'content-length': 0}); res.end(); });
  },
  open: (file, q, req, res) => {
    const start = Number(q.offset || 0), size = fs.statSync(file).size;
    const end = q.length !== undefined ? Math.min(size, start + Number(q.length)) : size;
    res.writeHead(200, {'content-type': 'application/octet-stream', 'content-length': Math.max(0, end - start)});
    if (end <= start) return res.end();
    fs.createReadStream(file, {start, end: end - 1}).pipe(res);
  },
  getfilestatus: (file, q, req, res) => json(res, {FileStatus: look(file, '')}),
  liststatus: (file, q, req, res) =>
      json(res, {FileStatuses: {FileStatus: fs.readdirSync(file).sort().map(n => look(path.join(file, n), n))}}),
  rename: (file, q, req, res) => {
    let to = path.join(root, String(q.destination));
    if (!fs.existsSync(file)) return json(res, {boolean: false});
    if (fs.existsSync(to) && fs.statSync(to).isDirectory()) to = path.join(to, path.basename(file)); // as HDFS does
    fs.renameSync(file, to);
    json(res, {boolean: true});
  },
  delete: (file, q, req, res) => {
    const found = fs.existsSync(file);
    if (found && String(q.recursive) !== 'true' && fs.statSync(file).isDirectory() && fs.readdirSync(file).length)
      return fail(res, 403, 'PathIsNotEmptyDirectoryException', `${file} is non empty`);
    fs.rmSync(file, {recursive: true, force: true});
    json(res, {boolean: found});
  },
};
createServer({path: '/webhdfs/v1', host, validate: true, http: {port}}, (err, name, op, q, req, res, next) => {
  if (err) return next(err);
  if (fs.existsSync(`${root}.standby.${port}`)) return fail(res, 403, 'StandbyException', 'Operation category READ is not supported in state standby');
  if (decodeURIComponent(name).includes(':')) // as Hadoop's DFSUtilClient.isValidName
    return fail(res, 400, 'InvalidPathException', `Invalid path name ${name}`);
  const file = path.join(root, decodeURIComponent(name));
  try {
    operations[op](file, q, req, res);
  } catch (e) {
    if (e.code === 'ENOENT') return fail(res, 404, 'FileNotFoundException', 'File does not exist: ' + name);
    fail(res, 500, 'RuntimeException', e.message);
  }
}, () => {});
