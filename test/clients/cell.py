#!/usr/bin/env python3
"""Claims a cell or renews a lease with plain file I/O:

    cell.py claim cells/CELL/own NODE   at a line of input; releases at the next
    cell.py renew nodes/NODE NODE       for 10 s at each line; then ends it

A write replaces what this descriptor has read or written last, or is EBUSY.
"""
import errno, json, os, sys, time

TTL_MS = 10_000


def get(fd):
    text = os.read(fd, 65536).decode()
    print(text.strip(), flush=True)
    return json.loads(text or '{"epoch": 0}')


def put(fd, record):
    text = json.dumps(record)
    os.pwrite(fd, text.encode(), 0)
    print(text, flush=True)


def claim(fd, node):
    epoch = get(fd)["epoch"] + 1
    sys.stdin.readline()
    put(fd, {"node": node, "epoch": epoch})
    sys.stdin.readline()
    put(fd, {"node": "", "epoch": epoch})


def renew(fd, node):
    get(fd)
    for _ in sys.stdin:
        expires_ms = int(time.time() * 1000) + TTL_MS
        put(fd, {"node": node, "expires_ms": expires_ms, "addr": node})
    put(fd, {"node": node, "expires_ms": 0, "addr": node})


if len(sys.argv) != 4 or sys.argv[1] not in ("claim", "renew"):
    sys.exit("usage: cell.py claim|renew FILE NODE")
command, path, node = sys.argv[1:]
try:
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    {"claim": claim, "renew": renew}[command](fd, node)
except OSError as error:
    if error.errno != errno.EBUSY:
        raise
    sys.exit(f"{path}: busy: nothing was written")
