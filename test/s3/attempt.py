"""attempt MOUNT OPERATION RULE...: does one thing through a mount while the proxy
obeys the rules, in which KEY stands for the record's key.

OPERATION is
    create      a first record, on a descriptor that found none
    write       a guarded write, on a descriptor that has read
    read        on an open descriptor, of a record that has changed meanwhile
    list        cells/

$EVER is a rule for before and after, too.

Prints the errno's name or 0 and "gets puts lists" at the proxy; on stderr, for
people, what user.celld.outcome says and how long it took. Ends with a complaint if that is not the truth: a
write that succeeded is what the store holds, one that failed definitely is not;
what is read is what is there, and a listing is never a part of one; nothing
outlasts the deadline by more than a second.
"""
import collections, errno, json, os, re, secrets, sys, time
import outside

UNKNOWN = 'ETIMEDOUT'

mount, operation, rules = sys.argv[1], sys.argv[2], sys.argv[3:]
earlier = 0
store = outside.connect(os.environ['STORE'])
cell = 'x' + secrets.token_hex(4)
path, key = '%s/cells/%s/own' % (mount, cell), 'cells/%s/own.json' % cell
deadline_ms = int(re.search(r'^deadline_ms (\d+)',
                            open(mount + '/.celldfs/status').read(), re.M)[1])

def record(node, epoch):
    return b'{"node":"%s","epoch":%d}\n' % (node, epoch)

def obey(lines):
    with open(os.environ['RULES'] + '.new', 'w') as f:
        f.writelines(l.replace('KEY', key) + '\n'
                     for l in [os.environ.get('EVER', '#')] + lines)
    os.rename(os.environ['RULES'] + '.new', os.environ['RULES'])

def requests():
    """Those of the deed."""
    return [json.loads(l) for l in open(os.environ['REQUESTS'])][earlier:]

def fail(text):
    for r in requests():
        print(r)
    sys.exit(text)

# the scene
if operation != 'create':
    store.put(key, record(b'a', 1))
if operation == 'create':
    fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
else:
    fd = os.open(path, os.O_RDWR)
    os.pread(fd, 4096, 0)
written = record(b'a', 1 if operation == 'create' else 2)
if operation == 'read':
    store.put(key, record(b'b', 7))
before = store.get(key)
names = sorted({k.split('/')[1] for k in store.keys('cells/')})

# the deed
obey(rules)
earlier = len(requests())
with open(os.environ['REQUESTS'] + '.mark', 'w') as f:
    print(earlier, file=f)
begun, found, result = time.monotonic(), '0', None
try:
    if operation == 'list':
        result = sorted(os.listdir(mount + '/cells'))
    elif operation == 'read':
        result = os.pread(fd, 4096, 0)
    else:
        os.pwrite(fd, written, 0)
except OSError as e:
    found = errno.errorcode[e.errno]
taken = time.monotonic() - begun
ops = collections.Counter(r['op'] for r in requests())
obey([])

# the truth
if taken > deadline_ms / 1000 + 1:
    fail('%s after %.1f s' % (found, taken))
told = ''
if operation == 'list':
    if found == '0' and result != names:
        fail('a wrong listing: %d names' % len(result))
elif operation == 'read':
    if found == '0' and result != store.get(key):
        fail('read %r' % result)
else:
    # on the descriptor: a record that was not made has no path
    told = os.getxattr(fd, 'user.celld.outcome').decode()
    word = told.split(';')[0]
    after = store.get(key)
    expected = {'0': 'applied', 'EBUSY': 'rejected', UNKNOWN: 'unknown',
                'ECANCELED': 'not done', 'EACCES': 'denied', 'EIO': 'failed'}
    if word != expected.get(found):
        fail('%s, but the outcome is %r' % (found, told))
    if found == '0' and after != written:
        fail('0, but the store has %r' % after)
    if found not in ('0', UNKNOWN) and after != before:
        fail('%s, but the store has %r' % (found, after))
    told = ' ' + told
print('%s %d %d %d' % (found, ops['GET'], ops['PUT'], ops['LIST']))
print('%s %s: %.1f s, %s' % (operation, rules, taken, told), file=sys.stderr)
