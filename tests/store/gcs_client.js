// The official client against the same server: gcs_client.js ENDPOINT compare|try|count. `try`: everything of it that
// the server must know, so that the server is not only what our own client believes.
const {Storage} = require('@google-cloud/storage'), crypto = require('crypto');
const storage = new Storage({apiEndpoint: process.argv[2], projectId: 'p', retryOptions: {autoRetry: false}});
const bucket = storage.bucket('ckpt');
(async () => {
  const verb = process.argv[3];
  if (verb === 'compare') { // PREFIX: every file as the manifest says
    const prefix = process.argv[4];
    const [text] = await bucket.file(prefix + 'manifest.json').download();
    for (const f of JSON.parse(text).files) {
      const hash = crypto.createHash('sha256');
      for await (const bytes of bucket.file(prefix + f.path).createReadStream({validation: 'crc32c'})) hash.update(bytes);
      if (hash.digest('hex') !== f.sha256) throw new Error('differs: ' + f.path);
    }
  } else if (verb === 'try') {
    const bytes = crypto.randomBytes(3 << 20);
    for (const resumable of [false, true]) {
      const f = bucket.file('a b/ü+%' + resumable);
      await f.save(bytes, {resumable, validation: 'crc32c'});
      const [back] = await f.download({validation: 'crc32c'});
      const [part] = await f.download({start: 5, end: 9, validation: false});
      if (!back.equals(bytes) || !part.equals(bytes.subarray(5, 10))) throw new Error('differs');
      const [meta] = await f.getMetadata();
      if (Number(meta.size) !== bytes.length) throw new Error('size');
      await f.delete();
      if ((await f.exists())[0]) throw new Error('still there');
    }
  } else {
    const [files] = await bucket.getFiles();
    console.log(files.length);
  }
})().catch(e => { console.error(e.message); process.exit(1); });
