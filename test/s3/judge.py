"""judge: what a proxy's log tells of the authority of the node behind it.

    judge end LOG NODE TTL_MS       when it ends, or has ended, in ms since 1970
    judge puts LOG NODE TTL_MS      had every PUT some when it came to the proxy?

There is authority from the answer to a renewal on, for ttl from when it was sent.
That was no later than when it came to the proxy, so the end is not later than what
is taken for it here. Acquiring the lease, and probing, need none.
"""
import json, math, sys

verb, log, node, ttl_ms = sys.argv[1:]
ttl, lease = int(ttl_ms) / 1000, 'nodes/%s.json' % node
puts = [r for r in map(json.loads, open(log))
        if r['op'] == 'PUT' and 'probe/' not in r['key']]
renewals = [r for r in puts if r['key'] == lease and r['status'] == 200]
acquired = min(r['time'] for r in renewals)

def end(at):
    return ttl + max((r['begun'] for r in renewals if r['time'] <= at),
                     default=-math.inf)

if verb == 'end':
    print(math.ceil(end(math.inf) * 1000))
    sys.exit()
wrong = [r for r in puts if r['begun'] >= end(r['begun']) and
         not (r['key'] == lease and r['begun'] <= acquired)]
for r in wrong:
    print('%.3f s after the end: %s' % (r['begun'] - end(r['begun']), r))
sys.exit(1 if wrong else 0)
