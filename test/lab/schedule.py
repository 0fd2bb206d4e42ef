"""schedule: what goes wrong, and when. The same seed, the same schedule."""
import random

SLOT_S = 0.4

# What the proxies do, a while and a few times: see test/s3/proxy. %(ms)d is a
# random delay.
RULES = [
    ('lost answers', 'PUT cells/* lose'),
    ('lost answers', 'PUT cells/* lose'),
    ('lost answers', 'PUT cells/* instead 500 InternalError'),
    ('lost answers', 'PUT cells/* instead 503'),
    ('lost answers', 'PUT cells/* instead 502'),
    ('late answers', 'PUT cells/* late %(ms)d'),
    ('late answers', 'GET cells/* late %(ms)d'),
    ('late requests', 'PUT cells/* delay %(ms)d'),
    ('lost requests', 'PUT cells/* drop'),
    ('lost requests', 'PUT cells/* reset'),
    ('lost requests', 'GET cells/* reset'),
    ('black holes', 'PUT cells/* hang'),
    ('black holes', 'GET nodes/* hang'),
    ('409', 'PUT cells/* answer 409 OperationAborted'),
    ('429', 'PUT cells/* answer 429 TooManyRequests'),
    ('500', 'PUT cells/* answer 500 InternalError'),
    ('500', 'GET cells/* answer 500 InternalError'),
    ('503', 'PUT cells/* answer 503 SlowDown'),
    ('leases unreadable', 'GET nodes/* answer 500 InternalError'),
    ('leases unreadable', 'GET nodes/* answer 403 AccessDenied'),
    ('leases unreadable', 'GET nodes/* body {'),
    ('leases unreadable', 'GET nodes/* drop'),
    ('renewals spoilt', 'PUT nodes/* lose'),
    ('renewals spoilt', 'PUT nodes/* reset'),
    ('renewals spoilt', 'PUT nodes/* instead 500 InternalError'),
    ('renewals spoilt', 'PUT nodes/* late %(ms)d'),
]

# What happens to a node for longer. The leases: its renewals do not come
# through, and everything else does.
OUTAGES = ['kill', 'stop', 'cut', 'lease lost', 'lease late']

def rules(seed, seconds, node):
    """For each slot of time the rules of NODE's proxy."""
    rng = random.Random('%d rules %s' % (seed, node))
    slots = []
    for slot in range(int(seconds / SLOT_S)):
        lines = []
        for _ in range(rng.choice((0, 1, 1, 2))):
            _, text = rng.choice(RULES)
            count = 1 if ' hang' in text or ' 429' in text else rng.randint(1, 4)
            # no two are the same, since the proxy counts them by their text
            lines.append('%s slot=%d.%d x%d' % (
                text % {'ms': rng.randint(100, 1500)} if '%' in text else text,
                slot, len(lines), count))
        slots.append(lines)
    return slots

def outages(seed, seconds, node, ttl_s):
    """Of NODE: (when, what, how long)."""
    rng = random.Random('%d outages %s' % (seed, node))
    found, at, kinds = [], rng.uniform(3, 12), []
    while at < seconds - 8:
        kinds = kinds or rng.sample(OUTAGES, len(OUTAGES))
        long = rng.random() < 0.7
        found.append((at, kinds.pop(),
                      rng.uniform(ttl_s + 1.5, ttl_s + 4) if long
                      else rng.uniform(0.2, ttl_s * 0.9)))
        at += found[-1][2] + rng.uniform(6, 14)
    return found

def clients(seed, seconds, count):
    """(when, 'kill' or 'stop', which, how long)"""
    rng = random.Random('%d clients' % seed)
    found, at = [], 2
    while at < seconds - 2:
        stop = rng.random() < 0.25
        found.append((at, 'stop' if stop else 'kill', rng.randrange(count),
                      rng.uniform(0.2, 6)))
        at += rng.uniform(0, 0.8)
    return found

def kind_of(rule):
    """Of a rule in a proxy's log, the fault's name."""
    for kind, text in RULES:
        words = text.split(' ')
        if rule.split(' ')[:len(words)] == words or (
                '%(ms)d' in text and
                rule.split(' ')[:len(words) - 1] == words[:-1]):
            return kind
    return 'outages'
