"""check_requests LOG: what must be true of every request, in any test."""
import json, re, sys

RECORD = '^(cells/[^/]+/own|nodes/[^/]+)[.]json$'
PROBE = '(^|/)probe/[^/]+$'

def complaint(r):
    guards = [g for g in (r['if_match'], r['if_none_match']) if g is not None]
    if r['op'] == 'PUT':
        if len(guards) != 1 or r['if_none_match'] not in (None, '*'):
            return 'a PUT without exactly one guard'
        if not r['attempt'] or len(r['attempt']) != 32:
            return 'a PUT without an attempt id'
        if not re.search(RECORD, r['key']) and not re.search(PROBE, r['key']):
            return 'a PUT of no record'
    elif r['op'] == 'DELETE':
        if not re.search(PROBE, r['key']):
            return 'a DELETE outside probe/'
    elif r['op'] not in ('GET', 'HEAD', 'LIST'):
        return 'a request of no kind that celldfs sends'
    elif r['if_match'] is not None:
        return 'a read with If-Match'
    return None

# one attempt is one write: of one key, under one guard (which the probe sends in
# every dialect)
attempts, status = {}, 0
for line in open(sys.argv[1]):
    r = json.loads(line)
    wrong = complaint(r)
    if r['op'] == 'PUT' and not wrong:
        write = r['key'], (r['if_match'] or '').strip('"'), r['if_none_match']
        if attempts.setdefault(r['attempt'], write) != write:
            wrong = 'an attempt id of another write'
    if wrong:
        print('%s: %s' % (wrong, line.strip()))
        status = 1
sys.exit(status)
