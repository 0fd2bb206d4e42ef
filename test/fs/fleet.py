"""What the Python scripts of lease.bats and fence.bats have (fleet.bash).

A mount is meant by the name that the test gave it.
    a                            the arguments
    eq(found, expected), ok(condition, said), within(ms, most_ms)
                                 end the test unless; time is not judged in a
                                 sanitized build
    rec(node, epoch)             a record
    own(mount, cell)             its path
    err(f, ...)                  the errno's name that f(...) fails with, or 0
    ready(path)                  an open file that has read
    create(mount, cell), claim(mount, cell, epoch)
                                 by the node of that name, or NODE=; as err
    take(mount, cell, epoch)     claims as long as that is EBUSY
    in_time(expires_ms)          now is the time to take a dead node's cells, or soon after
    read(path), why(mount, cell), outcome(mount, cell), authority(mount, node)
    status(mount), left(mount)   a dict; its authority_ms
    log(mount), fences(mount)    the log; its SELF-FENCE lines
    rules(mount, line...), puts(mount, key)
                                 the spy's; the outcomes of the PUTs of KEY
    clock(mount, ms)             clocked_node's wall clock is off by that
    lease(node), raw(key), version(key), put(key, bytes), rm(key), keys()
                                 in the store, past all mounts
    strict(bytes, node)          a lease as celld reads it, or the test ends
    boot(), wall()               ms, of CLOCK_BOOTTIME and since 1970, which is the
                                 store's time here
    until(f, s=20)               waits for f() to be true, and is that
    fresh(mount)                 waits for the next renewal
    terminate(mount)             SIGTERM, and waits for the end; for daemons that are
                                 nobody's child
    stopped(pid)                 a context in which the daemon stands still
    CELLDFS, STORE, SKEW, S3     the program and the store; the default; is it a bucket
    at_once(f, ...)              the futures' results; parallel(f, args) likewise
"""
import concurrent.futures, contextlib, errno, json, linecache, os, outside, re
import signal, subprocess, sys, threading, time, traceback

SCRIPT = sys.stdin.read()
DIR = os.environ['DIR']
TIMED = not os.environ.get('CELLDFS_SANITIZE')
STORE = os.environ['STORE']
S3 = STORE.startswith('s3:')
CELLDFS = os.environ['CELLDFS_BUILD'] + '/celldfs'
SKEW = 1000
a = sys.argv[1:]

def ok(condition, said=''):
    if not condition:
        raise AssertionError(str(said)[:600])

def eq(found, expected):
    ok(found == expected, 'found %r, expected %r' % (found, expected))

def within(ms, most_ms):
    ok(ms <= most_ms or not TIMED, 'took %d ms, may take %d' % (ms, most_ms))

def boot():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000000

def wall():
    return time.time_ns() // 1000000

def until(f, s=20):
    end = time.monotonic() + s
    while not (found := f()):
        ok(time.monotonic() < end, 'it did not happen in %d s' % s)
        time.sleep(0.02)
    return found

def err(f, *args):
    try:
        f(*args)
    except OSError as e:
        return errno.errorcode[e.errno]
    return 0

# ---- through a mount ----

def rec(node, epoch):
    return b'{"node":"%s","epoch":%d}\n' % (node.encode(), epoch)

def own(mount, cell):
    return '%s/%s/cells/%s/own' % (DIR, mount, cell)

def mounted(mount):
    return os.path.ismount('%s/%s' % (DIR, mount))

def read(path):
    with open(path, 'rb') as f:
        return f.read()

def ready(path):
    fd = os.open(path, os.O_RDWR)
    os.read(fd, 1 << 20)
    return fd

def closing(fd, record):
    found = err(os.write, fd, record)
    err(os.close, fd)
    return found

def create(mount, cell, node=None):
    fd = os.open(own(mount, cell), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    return closing(fd, rec(node or mount, 1))

def claim(mount, cell, epoch, node=None):
    return closing(ready(own(mount, cell)), rec(mount if node is None else node, epoch))

def take(mount, cell, epoch, node=None, meanwhile=lambda: None):
    def tried():
        found = claim(mount, cell, epoch, node)
        if found == 'EBUSY':
            meanwhile()
            return None
        return [found]
    eq(until(tried), [0])

def in_time(expires_ms, late_ms=1000):
    late = wall() - expires_ms - SKEW
    ok(late >= -20, '%d ms too early' % -late)
    within(late, late_ms)

def text(path, name):
    return os.getxattr(path, 'user.celld.' + name).decode()

def why(mount, cell):
    return text(own(mount, cell), 'why')

def outcome(mount, cell):
    return text(own(mount, cell), 'outcome')

def authority(mount, node):
    return int(text('%s/%s/nodes/%s' % (DIR, mount, node), 'authority-ms'))

def status(mount):
    lines = read('%s/%s/.celldfs/status' % (DIR, mount)).decode().splitlines()
    return dict(line.split(' ', 1) for line in lines)

def left(mount):
    return int(status(mount)['authority_ms'])

def log(mount):
    return read('%s/%s.log' % (DIR, mount)).decode()

def fences(mount):
    return [l for l in log(mount).splitlines() if 'SELF-FENCE' in l]

def fresh(mount):
    before = int(status(mount)['renewals'])
    until(lambda: int(status(mount)['renewals']) > before)

def write_at_once(path, text):
    with open(path + '.new', 'w') as f:
        f.write(text)
    os.rename(path + '.new', path)

def clock(mount, ms):
    write_at_once('%s/%s.clock' % (DIR, mount), str(ms))

# ---- the spy ----

def rules(mount, *lines):
    write_at_once('%s/%s.rules' % (DIR, mount), ''.join(l + '\n' for l in lines))

def puts(mount, key):
    lines = [l.split() for l in read('%s/%s.calls' % (DIR, mount)).decode().splitlines()]
    return [l[-2] for l in lines if l[0] == 'put_if' and l[1] == key]

# ---- the store, past all mounts ----

local = threading.local()

def store():
    if not hasattr(local, 'store'):
        local.store = outside.connect(STORE)
    return local.store

def raw(key):
    return store().get(key)

def lease(node):
    return json.loads(raw('nodes/%s.json' % node))

def version(key):
    return store().etag(key), raw(key)

def put(key, body):
    store().put(key, body)

def rm(key):
    store().rm([key])

def keys():
    return store().keys()

LOAD = {name: 'u64' for name in ('sampled_ms', 'resident_cells', 'host_websockets',
        'rss_bytes', 'cpu_percent_x100', 'open_fds', 'fd_limit', 'shed_cells')}
LOG = {'state': 'string', 'epoch': 'u64', 'ensemble': 'any', 'tiered': 'any'}

def is_a(kind, value):
    if kind in ('u64', 'u16'):
        return type(value) is int and 0 <= value < (1 << int(kind[1:]))
    return {'string': type(value) is str, 'bool': type(value) is bool,
            'any': True}[kind]

def strict(body, node):
    def once(pairs):
        known = [k for k, _ in pairs if k in ('node', 'expires_ms', 'addr', 'load', 'log')]
        eq(sorted(set(known)), sorted(known))
        return dict(pairs)
    def no_constant(word):
        raise AssertionError(word + ' is no JSON')
    found = json.loads(body.decode('utf-8'), object_pairs_hook=once,
                       parse_constant=no_constant)
    eq(found['node'], node)
    ok(is_a('u64', found['expires_ms']), found['expires_ms'])
    ok(is_a('string', found['addr']) and found['addr'], found['addr'])
    ok(re.fullmatch('([0-9a-f]{64})?', found['probe_public_key']))
    ok(is_a('u16', found['peer_protocol']), found['peer_protocol'])
    ok(is_a('string', found['ownership_index_generation']))
    for name, kind in LOAD.items():
        ok(is_a(kind, found['load'][name]), name)
    ok(is_a('bool', found['load']['pressured']))
    ok(is_a('u64', found['load'].get('in_use_bytes') or 0))
    if found.get('log') is not None:
        for name, kind in LOG.items():
            ok(is_a(kind, found['log'][name]), name)
    return found

# ---- daemons, and several things at once ----

def state(pid):
    """A letter, as in ps(1); X if it is gone."""
    try:
        return re.search(rb'\nState:\t(.)', read('/proc/%d/status' % pid)).group(1).decode()
    except OSError:
        return 'X'

def terminate(mount):
    pid = int(status(mount)['pid'])
    os.kill(pid, signal.SIGTERM)
    until(lambda: state(pid) in 'XZ')

POOL = concurrent.futures.ThreadPoolExecutor(64)

def at_once(f, *args):
    return POOL.submit(f, *args)

def parallel(f, args):
    return [future.result() for future in [at_once(f, arg) for arg in args]]

@contextlib.contextmanager
def stopped(pid):
    os.kill(pid, signal.SIGSTOP)
    try:
        until(lambda: state(pid) == 'T')
        yield
    finally:
        os.kill(pid, signal.SIGCONT)

linecache.cache['script'] = (len(SCRIPT), None, SCRIPT.splitlines(True), 'script')
try:
    exec(compile(SCRIPT, 'script', 'exec'))
except Exception:
    traceback.print_exc()
    sys.exit(1)
