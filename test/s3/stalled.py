"""stalled MOUNT NODE TTL_MS FOR_S: writes through the mount of a node while its
renewals are held back, and on beyond the end of its authority.

Needs $REQUESTS and $RULES of the node's proxy, and the cells `often` and `slow`,
owned by the node at epoch 1. Holds the renewals back as soon as one has been
answered, writes `often` again and again, and once `slow`, which the store asks to
try again for ever. Ends with a complaint if a write failed while there was
authority, or did not fail with EROFS after. Prints the end of the authority as the
proxy can know it at the latest: when the last renewal that was answered came to
it, plus ttl; since 1970, in ms.

The writes keep away from that instant, but not from what comes after it: one that
was sent before may be at the proxy only after.
"""
import errno, json, math, os, sys, threading, time

mount, node, ttl, lasts = sys.argv[1], sys.argv[2], int(sys.argv[3]) / 1000, \
    int(sys.argv[4])
MARGIN = 0.6

def renewed():
    """When the last renewal that was answered came to the proxy."""
    whole = (l for l in open(os.environ['REQUESTS']) if l.endswith('\n'))
    times = [r['begun'] for r in map(json.loads, whole)
             if r['op'] == 'PUT' and r['status'] == 200 and
             r['key'] == 'nodes/%s.json' % node]
    return max(times, default=0)

def obey(*lines):
    with open(os.environ['RULES'] + '.new', 'w') as f:
        f.writelines(l + '\n' for l in lines)
    os.rename(os.environ['RULES'] + '.new', os.environ['RULES'])

class Cell:
    def __init__(self, name):
        self.fd = os.open('%s/cells/%s/own' % (mount, name), os.O_RDWR)
        os.pread(self.fd, 4096, 0)
        self.epoch = 1

    def write(self):
        """The errno's name, or 0."""
        record = b'{"node":"%s","epoch":%d}' % (node.encode(), self.epoch + 1)
        try:
            os.pwrite(self.fd, record, 0)
        except OSError as e:
            return errno.errorcode[e.errno]
        self.epoch += 1
        return 0

def sleep_until(when):
    while time.time() < when:
        time.sleep(max(0.001, when - time.time()))

def write_slowly():
    # again a second later, and another, and then not
    sleep_until(end - ttl + 0.4)
    found = slow.write()
    slow_ended.append((found, time.time()))

often, slow, slow_ended = Cell('often'), Cell('slow'), []
before = renewed()
while renewed() == before:
    time.sleep(0.01)
end = renewed() + ttl
obey('PUT nodes/%s.json stray' % node, 'PUT cells/slow/own.json answer 503 SlowDown')
thread = threading.Thread(target=write_slowly, daemon=True)
thread.start()
results = []
while time.time() < end - MARGIN:
    results.append(often.write())
    time.sleep(0.05)
if time.time() > end or set(results) != {0}:
    sys.exit('before the end: %s' % results)
if renewed() + ttl != end:
    sys.exit('there was another renewal')
sleep_until(end)
writes = 0
while time.time() < end - ttl + lasts:
    found = often.write()
    if found != 'EROFS':
        sys.exit('after the end: %s' % found)
    writes += 1
    time.sleep(0.02 if writes < 50 else 0.25)
thread.join()
if slow_ended[0][0] != 'EROFS' or slow_ended[0][1] > end + 1:
    sys.exit('slow: %s at %+.3f' % (slow_ended[0][0], slow_ended[0][1] - end))
print(math.ceil(end * 1000))
