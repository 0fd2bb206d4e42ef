#!/usr/bin/env python3
"""outside: what another program sees in the store, and does to it.

It shares no code with celldfs, so that what both believe is seen twice. Works on
$STORE, a sqlite:PATH or an s3://BUCKET/PREFIX (with AWS_ENDPOINT_URL and keys in
the environment; for S3 it writes without any guard, as a careless program
would).

    outside put KEY             its body is stdin
    outside get KEY             to stdout; nothing if there is none
    outside rm KEY...           one that ends in * is a prefix
    outside keys [PREFIX]       one a line, in order
    outside etags               likewise, with the ETag of each before it
    outside modified KEY        its Last-Modified, in ms since 1970
    outside fill FORMAT FROM TO objects of one body, stdin; their keys are FORMAT
                                % n; FROM to TO inclusive

A key is what celldfs means by it: below the store's prefix.
"""
import base64, concurrent.futures, datetime, email.utils, hashlib, hmac, http.client
import os, secrets, sqlite3, sys, threading, time, urllib.parse
import xml.etree.ElementTree as xml
from xml.sax.saxutils import escape

class SqliteStore:
    def __init__(self, path):
        self.db = sqlite3.connect(path, timeout=20, isolation_level=None)

    def put(self, key, body):
        self.fill([key], body)

    def fill(self, keys, body):
        self.db.execute('BEGIN IMMEDIATE')
        self.db.executemany('INSERT OR REPLACE INTO record VALUES (?, ?, ?, ?, ?)',
                            ((key, body, '"%s"' % secrets.token_hex(16), '',
                              int(time.time() * 1000)) for key in keys))
        self.db.execute('COMMIT')

    def get(self, key):
        rows = self.db.execute('SELECT body FROM record WHERE key = ?', (key,))
        row = rows.fetchone()
        return bytes(row[0]) if row else None

    def rm(self, keys):
        self.db.execute('BEGIN IMMEDIATE')
        self.db.executemany('DELETE FROM record WHERE key = ?',
                            ((key,) for key in keys))
        self.db.execute('COMMIT')

    def keys(self, prefix=''):
        rows = self.db.execute('SELECT key FROM record')
        return sorted((k for k, in rows if k.startswith(prefix)),
                      key=lambda k: k.encode('utf-8', 'surrogateescape'))

    def etag(self, key):
        rows = self.db.execute('SELECT etag FROM record WHERE key = ?', (key,))
        return rows.fetchone()[0]

    def modified(self, key):
        rows = self.db.execute('SELECT modified_ms FROM record WHERE key = ?',
                               (key,))
        return rows.fetchone()[0]

def quote(text):
    return urllib.parse.quote(text, safe='-_.~', errors='surrogateescape')

def sign(method, path, query, headers, body, access, secret,
         region='us-east-1', now=None):
    """Adds a signature (AWS version 4) of all HEADERS, which include Host, to
    them. PATH is encoded, QUERY a list of plain pairs. The query to send."""
    now = now or datetime.datetime.utcnow()
    scope = '%s/%s/s3/aws4_request' % (now.strftime('%Y%m%d'), region)
    headers['x-amz-date'] = now.strftime('%Y%m%dT%H%M%SZ')
    headers['x-amz-content-sha256'] = hashlib.sha256(body).hexdigest()
    signed = sorted((k.lower(), ' '.join(str(v).split()))
                    for k, v in headers.items())
    names = ';'.join(k for k, _ in signed)
    text = '&'.join('%s=%s' % pair for pair in
                    sorted((quote(k), quote(v)) for k, v in query))
    canonical = '\n'.join([method, path, text] + ['%s:%s' % h for h in signed] +
                          ['', names, headers['x-amz-content-sha256']])
    to_sign = '\n'.join(['AWS4-HMAC-SHA256', headers['x-amz-date'], scope,
                         hashlib.sha256(canonical.encode()).hexdigest()])
    key = ('AWS4' + secret).encode()
    for part in scope.split('/') + [to_sign]:
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    headers['Authorization'] = (
        'AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%s' %
        (access, scope, names, key.hex()))
    return text

class S3Store:
    PARALLEL = 16

    def __init__(self, name):
        self.bucket, _, prefix = name.partition('/')
        self.prefix = prefix.rstrip('/') + '/' if prefix.strip('/') else ''
        # past any proxy that stands between the mount and the gateway
        endpoint = os.environ.get('GATEWAY_ENDPOINT') or \
            os.environ['AWS_ENDPOINT_URL']
        self.host = endpoint.split('://')[1]
        self.own = threading.local()

    def send(self, method, key=None, query=(), body=b'', headers=()):
        path = '/' + self.bucket
        if key is not None:
            path += '/' + '/'.join(map(quote, (self.prefix + key).split('/')))
        for last in False, True:
            if not hasattr(self.own, 'connection'):
                self.own.connection = http.client.HTTPConnection(self.host,
                                                                 timeout=60)
            sent = dict(headers, Host=self.host)
            text = sign(method, path, query, sent, body,
                        os.environ['AWS_ACCESS_KEY_ID'],
                        os.environ['AWS_SECRET_ACCESS_KEY'])
            try:
                self.own.connection.request(method, path +
                                            ('?' + text if text else ''),
                                            body, sent)
                answer = self.own.connection.getresponse()
                return answer.status, answer.headers, answer.read()
            except (OSError, http.client.HTTPException):
                del self.own.connection
                if last:
                    raise

    def expect(self, status, *args, **named):
        answer = self.send(*args, **named)
        if answer[0] not in status:
            sys.exit('%s: %d %s' % (' '.join(args[:2]), answer[0], answer[2]))
        return answer

    def parallel(self, f, keys):
        with concurrent.futures.ThreadPoolExecutor(self.PARALLEL) as pool:
            for _ in pool.map(f, keys):
                pass

    def put(self, key, body):
        self.expect((200,), 'PUT', key, body=body)

    def fill(self, keys, body):
        self.parallel(lambda key: self.put(key, body), keys)

    def get(self, key):
        status, _, body = self.expect((200, 404), 'GET', key)
        return body if status == 200 else None

    def rm(self, keys):
        plain = [k for k in keys if k.isprintable() and k.isascii()]
        odd = set(keys) - set(plain) # not to be said in XML
        self.parallel(lambda key: self.expect((204, 404), 'DELETE', key), odd)
        for start in range(0, len(plain), 1000):
            body = '<Delete><Quiet>true</Quiet>%s</Delete>' % ''.join(
                '<Object><Key>%s</Key></Object>' % escape(self.prefix + k)
                for k in plain[start:start + 1000])
            md5 = base64.b64encode(hashlib.md5(body.encode()).digest()).decode()
            self.expect((200,), 'POST', query=[('delete', '')],
                        body=body.encode(), headers={'Content-MD5': md5})

    def keys(self, prefix=''):
        found, token = [], None
        while True:
            query = [('list-type', '2'), ('encoding-type', 'url'),
                     ('prefix', self.prefix + prefix)]
            if token:
                query.append(('continuation-token', token))
            page = xml.fromstring(self.expect((200,), 'GET', query=query)[2])
            space = page.tag[:page.tag.index('}') + 1] if '}' in page.tag else ''
            for key in page.iter(space + 'Key'):
                found.append(urllib.parse.unquote_plus(
                    key.text, errors='surrogateescape')[len(self.prefix):])
            token = page.findtext(space + 'NextContinuationToken')
            if page.findtext(space + 'IsTruncated') != 'true':
                return found

    def etag(self, key):
        return self.expect((200,), 'HEAD', key)[1]['ETag']

    def modified(self, key):
        headers = self.expect((200,), 'HEAD', key)[1]
        when = email.utils.parsedate_to_datetime(headers['Last-Modified'])
        return int(when.timestamp() * 1000)

def connect(url):
    if url.startswith('sqlite:'):
        return SqliteStore(url[len('sqlite:'):])
    return S3Store(url[len('s3://'):])

def main(verb, *args):
    store = connect(os.environ['STORE'])
    if verb == 'put':
        store.put(args[0], sys.stdin.buffer.read())
    elif verb == 'get':
        sys.stdout.buffer.write(store.get(args[0]) or b'')
    elif verb == 'rm':
        for key in args:
            store.rm(store.keys(key[:-1]) if key.endswith('*') else [key])
    elif verb == 'keys':
        for key in store.keys(*args):
            sys.stdout.buffer.write(key.encode('utf-8', 'surrogateescape') +
                                    b'\n')
    elif verb == 'etags':
        for key in store.keys():
            print(store.etag(key), key)
    elif verb == 'modified':
        print(store.modified(args[0]))
    elif verb == 'fill':
        store.fill((args[0] % n for n in range(int(args[1]), int(args[2]) + 1)),
                   sys.stdin.buffer.read())
    elif verb == 'bucket': # for the gateway's own start
        store.expect((200,), 'PUT')
    else:
        sys.exit(__doc__)

if __name__ == '__main__':
    main(*sys.argv[1:])
