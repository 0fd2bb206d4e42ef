#!/usr/bin/env python3
"""imitation DIR NODE TTL_MS: keeps DIR looking like a mount whose node renews its
lease every third of TTL_MS, for celldfs-run: .celldfs/status, nodes/NODE, and
cells/ for the test to fill. A lock on a plain file is as good as one on a cell.

It obeys the words in DIR.orders: "" renews; "still" does not, as with the store
out of reach; "fenced WHY" and "stopped" have lost the lease. DIR.ends is the end
of the authority that the last renewal gave, in ms of CLOCK_BOOTTIME.
"""
import os, sys, time

root, node, ttl = sys.argv[1], sys.argv[2], int(sys.argv[3])
STEP = 0.02
STALE = 60  # what the file says is never older; so much less is promised

def now():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000000

def replace(path, text):
    with open(path + '.new', 'w') as file:
        file.write(text)
    os.rename(path + '.new', path)

def orders():
    try:
        with open(root + '.orders') as file:
            return file.read().split()
    except FileNotFoundError:
        return []

for name in '.celldfs', 'cells', 'nodes':
    os.makedirs(os.path.join(root, name), exist_ok=True)
replace(os.path.join(root, 'nodes', node), '{"node":"%s"}\n' % node)

until, renew = 0, 0
while os.getppid() != 1:
    word, *why = orders() or ['held']
    if word == 'held' and now() >= renew:
        until = now() + ttl
        renew = now() + ttl // 3
        replace(root + '.ends', '%d\n' % until)
    has = word in ('held', 'still')
    replace(os.path.join(root, '.celldfs', 'status'), ''.join(
        '%s %s\n' % line for line in (
            ('version', '0'), ('node', node), ('read_only', 'no'),
            ('deadline_ms', 2000), ('keeper', 'on'),
            ('lease', 'held' if has else word),
            ('fence', why[0] if why else '-'), ('lease_reason', '-'),
            ('authority_ms', max(0, until - now() - STALE) if has else 0),
            ('ttl_ms', ttl))))
    time.sleep(STEP)
