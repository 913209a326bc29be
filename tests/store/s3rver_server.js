// s3rver PORT DIRECTORY: one bucket, ckpt; keys S3RVER and S3RVER.
const S3rver = require('s3rver');
new S3rver({port: Number(process.argv[2]), address: process.env.SERVE_HOST || '127.0.0.1', silent: true, directory: process.argv[3],
            configureBuckets: [{name: 'ckpt', configs: []}]}).run();
