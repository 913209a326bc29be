"""The second client, which reads what ebb has written: boto3 (s3), fsspec (hdfs); gcs_client.js is that of gcs.

second.py KIND ADDRESS VERB [ARGUMENT]   of the bucket ckpt, or the folder /data
    make             the bucket (s3)
    list             names of objects, and "upload ..." for each upload that was not finished
    sum KEY          SHA-256 of one
    compare PREFIX   is every file below PREFIX (of a checkpoint) what its manifest.json says?"""
import hashlib, json, sys, urllib.parse, urllib.request

PIECE = 8 << 20


class S3:
    def __init__(self, address):
        import boto3
        from botocore.config import Config
        self.s3 = boto3.client('s3', endpoint_url=address, aws_access_key_id='test:ebb', aws_secret_access_key='secretkey',
                               region_name='us-east-1', config=Config(s3={'addressing_style': 'path'}))

    def make(self):
        self.s3.create_bucket(Bucket='ckpt')

    def list(self):
        for page in self.s3.get_paginator('list_objects_v2').paginate(Bucket='ckpt'):
            yield from (o['Key'] for o in page.get('Contents', []))
        for page in self.s3.get_paginator('list_multipart_uploads').paginate(Bucket='ckpt'):
            yield from ('upload ' + u['Key'] for u in page.get('Uploads', []))

    def open(self, key):
        return self.s3.get_object(Bucket='ckpt', Key=key)['Body']


class Hdfs:
    def __init__(self, address):
        import fsspec
        host, port = urllib.parse.urlsplit(address).netloc.split(':')
        self.fs = fsspec.filesystem('webhdfs', host=host, port=int(port), user='someone')

    def list(self, path='/data'):
        for e in self.fs.ls(path, detail=True) if self.fs.exists(path) else []:
            name = e['name'].split('/webhdfs/v1')[-1]
            yield from self.list(name) if e['type'] == 'directory' else [name[len('/data/'):]]

    def open(self, key):
        return self.fs.open('/data/' + key, block_size=PIECE)


class Gcs: # a listing that says more than Google's: the server of tests counts its sessions
    def __init__(self, address):
        self.base = address + '/storage/v1/b/ckpt/o'

    def list(self):
        x = json.load(urllib.request.urlopen(self.base))
        yield from (o['name'] for o in x['items'])
        yield from ['upload'] * x['sessions']

    def open(self, key):
        return urllib.request.urlopen(self.base + '/' + urllib.parse.quote(key, safe='') + '?alt=media')


def read(store, key):
    with store.open(key) as f:
        for piece in iter(lambda: f.read(PIECE), b''):
            yield piece


def sha256(store, key):
    h = hashlib.sha256()
    for piece in read(store, key):
        h.update(piece)
    return h.hexdigest()


def compare(store, prefix):
    for f in json.loads(b''.join(read(store, prefix + '/manifest.json')))['files']:
        if sha256(store, prefix + '/' + f['path']) != f['sha256']:
            sys.exit('differs: ' + f['path'])


def main():
    kind, address, verb = sys.argv[1:4]
    store = {'s3': S3, 'hdfs': Hdfs, 'gcs': Gcs}[kind](address)
    if verb == 'make':
        store.make()
    elif verb == 'list':
        for name in store.list():
            print(name)
    elif verb == 'sum':
        print(sha256(store, sys.argv[4]))
    else:
        compare(store, sys.argv[4])


main()
