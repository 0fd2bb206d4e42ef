#!/usr/bin/env bats
# hostile: a bucket that sends what it likes. celldfs.8, SECURITY: it ends in an error
# that is documented, by the deadline, with no more memory than the limits allow.

bats_require_minimum_version 1.5.0
load helper

# hostile: serves a bucket, each of whose records is another trouble; sets STORE.
hostile() {
	python3 - "$DIR" 3>&- <<-'PY' &
		import http.server, itertools, os, socket, sys, threading, time

		top = sys.argv[1]
		elsewhere = socket.create_server(('127.0.0.1', 0))
		RECORD = b'{"node":"a","epoch":1}'

		def watch():
		    elsewhere.accept()
		    open(f'{top}/elsewhere', 'w')

		def page(contents, token):
		    return (b'<ListBucketResult>%s<IsTruncated>true</IsTruncated>'
		            b'<NextContinuationToken>%s</NextContinuationToken>'
		            b'</ListBucketResult>' % (contents, token))

		class Bucket(http.server.BaseHTTPRequestHandler):
		    tokens = itertools.count()
		    def log_message(self, *_):
		        pass
		    def reply(self, status, body, *headers, length=None):
		        self.send_response(status)
		        for name, value in headers:
		            self.send_header(name, value)
		        self.send_header('Content-Length', length or len(body))
		        self.end_headers()
		        self.wfile.write(body)
		    def do_GET(self):
		        try:
		            if 'list-type' in self.path:
		                name = 'nodes' if 'nodes' in self.path else 'cells'
		            else:
		                name = self.path.split('/')[3]
		            getattr(self, name)()
		        except (ConnectionError, TimeoutError):
		            pass
		        self.close_connection = True
		    def drip(self, bytes_, pause=0):
		        while True:
		            self.wfile.write(bytes_)
		            time.sleep(pause)

		    def nodes(self): # the same place again and again
		        self.reply(200, page(b'', b'same'))
		    def cells(self): # always further, and nothing there
		        self.reply(200, page(b'', b'%d' % next(self.tokens)))
		    def large(self):
		        self.reply(200, b'x' * (1 << 21))
		    def length(self):
		        self.reply(200, b'', length=1 << 62)
		        self.drip(b'x' * 65536)
		    def chunks(self):
		        self.send_response(200)
		        self.send_header('Transfer-Encoding', 'chunked')
		        self.end_headers()
		        self.drip(b'10000\r\n' + b'x' * 65536 + b'\r\n')
		    def slow(self):
		        self.send_response(200)
		        self.send_header('Content-Length', 1000)
		        self.end_headers()
		        self.drip(b'x', 0.1)
		    def headers_(self):
		        self.reply(200, RECORD, *((f'X-{n}', 'x' * 1000)
		                                  for n in range(100)))
		    def hundreds(self):
		        self.drip(b'HTTP/1.1 100 Continue\r\n\r\n' * 1000)
		    def away(self):
		        self.reply(307, b'', ('Location', 'http://127.0.0.1:%d%s' % (
		            elsewhere.getsockname()[1], self.path)))
		    def bomb(self):
		        doctype = '<!DOCTYPE Error [<!ENTITY a0 "%s">%s]>' % ('x' * 1000,
		            ''.join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 100}">'
		                    for n in range(1, 9)))
		        self.reply(403, (doctype + '<Error><Code>A</Code><Message>&a8;'
		                         '</Message></Error>').encode())
		    def words(self):
		        self.reply(403, '<Error><Code>Denied</Code><Message>a\n'
		                   'b\u009b2J</Message></Error>'.encode(),
		                   ('x-amz-request-id', 'a\x1b[2J'))
		    def deep(self):
		        self.reply(200, b'{"a":' + b'[' * 100000 + b']' * 100000 + b'}',
		                   ('ETag', '"deep"'))
		    def tag(self):
		        self.reply(200, RECORD, ('ETag', '"a\x1b[2J"'))

		threading.Thread(target=watch, daemon=True).start()
		server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Bucket)
		with open(f'{top}/port.new', 'w') as f:
		    print(server.server_port, file=f)
		os.rename(f'{top}/port.new', f'{top}/port')
		server.serve_forever()
	PY
	bucket=$!
	until [ -e "$DIR/port" ]; do sleep 0.05; done
	export AWS_ENDPOINT_URL=http://127.0.0.1:$(cat "$DIR/port")
	export AWS_ACCESS_KEY_ID=key AWS_SECRET_ACCESS_KEY=hush no_proxy=127.0.0.1
	export AWS_CONFIG_FILE=$DIR/none AWS_SHARED_CREDENTIALS_FILE=$DIR/none
	STORE=s3://bucket
}

eval "mounts_$(declare -f teardown)"
teardown() {
	kill "$bucket"
	STORE=none mounts_teardown
}

@test "hostile: a bucket that sends what it likes costs an error, and no more" {
	local name wanted found start

	only_on sqlite "the bucket is the test's own"
	hostile
	mount_at m -o ro,deadline-ms=10000
	# that one which fails is tried again can take the time of a lookup
	while read -r name wanted; do
		start=$(now_ms)
		found=$(errno_of 'os.read(os.open(a[0], os.O_RDONLY), 1 << 21)' \
			"$DIR/m/cells/$name/own")
		[[ $found =~ ^($wanted)$ ]] || { echo "$name: $found"; return 1; }
		within 25000 "$start"
	done <<-'END'
		large EFBIG
		length EFBIG
		chunks EFBIG
		slow ETIMEDOUT
		headers_ EIO|ETIMEDOUT
		hundreds EIO|ETIMEDOUT
		away EIO
		bomb EACCES
		words EACCES
		deep 0
		tag 0
	END
	for name in cells nodes; do
		is "$(errno_of 'os.listdir(a[0])' "$DIR/m/$name")" EIO
	done
	[ ! -e "$DIR/elsewhere" ]
	# too deep to be a record; no ETag
	is "$(errno_of 'os.getxattr(a[0], "user.celld.node")' "$DIR/m/cells/deep/own")" \
		ENODATA
	is "$(errno_of 'os.getxattr(a[0], "user.celld.etag")' "$DIR/m/cells/tag/own")" \
		ENODATA
	grep -q 'Denied: a?b??2J' "$DIR/m.log"
	run ! env LC_ALL=C grep -P '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]' "$DIR/m.log"
	run ! grep hush "$DIR/m.log"
	[ "$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$(pid_of m)/status")" \
		-lt 150000 ] || ! timed
}
