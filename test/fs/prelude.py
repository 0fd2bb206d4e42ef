"""What the Python scripts of the end-to-end tests have (watched.bash, py()).

OWN is cells/x/own in the mount m, which the spy watches; CALLS is its log.
    eq(found, expected)     ends the test unless they are equal
    err(f, ...)             the errno's name that f(...) fails with, or 0
    rec(node, epoch)        a record
    etag(file), arm(etag)   file: a path or a descriptor
    rdwr(), rd(fd), wr(fd, record), rdwr_and_read()
    echo(record, path)      what the shell's echo does, without a guard
    sent()                  "gets puts lists" since it was last asked
    wire()                  likewise, the guards of the PUTs
    interrupted(f, ...)     a libc call by a caller that does not try again, as
                            Python's own functions do
"""
import ctypes, errno, fcntl, os, outside, signal, sys, time
SCRIPT = sys.stdin.read()
OWN = os.environ['OWN']
CALLS = os.environ['CALLS']
MATCH = 'user.celld.if-match'
a = sys.argv[1:]
def eq(found, expected):
    if found != expected:
        line = sys._getframe(1).f_lineno
        print('line %d: %s' % (line, SCRIPT.split('\n')[line - 1]))
        print('found %r, expected %r' % (found, expected))
        sys.exit(1)
def err(f, *args):
    try:
        f(*args)
    except OSError as e:
        return errno.errorcode[e.errno]
    return 0
def rec(node, epoch):
    return b'{"node":"%s","epoch":%d}\n' % (node.encode(), epoch)
def etag(file=OWN):
    return os.getxattr(file, 'user.celld.etag').decode()
def arm(tag, file=OWN):
    os.setxattr(file, MATCH, tag.encode())
def rdwr():
    return os.open(OWN, os.O_RDWR)
def rdwr_and_read():
    fd = rdwr()
    rd(fd)
    return fd
def rd(fd):
    return os.pread(fd, 1 << 20, 0)
def wr(fd, record):
    eq(os.pwrite(fd, record, 0), len(record))
def echo(record, path=OWN):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        os.write(fd, record)
    finally:
        err(os.close, fd)
def calls():
    with open(CALLS, 'a+') as log:
        log.seek(0)
        lines = log.read().splitlines()
        log.truncate(0)
    return [l.split() for l in lines]
def sent():
    names = [l[0] for l in calls()]
    return ' '.join(str(names.count(n)) for n in ('get', 'put_if', 'list'))
def wire():
    return [' '.join(l[2:-2]) for l in calls() if l[0] == 'put_if']
libc = ctypes.CDLL(None, use_errno=True)
def interrupted(f, *args):
    """The errno's name, or 0, of a libc call under a rain of signals."""
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.2, 0.1)
    result = f(*args)
    found = ctypes.get_errno()
    signal.setitimer(signal.ITIMER_REAL, 0)
    return errno.errorcode[found] if result < 0 else 0
def write_interrupted(fd, record):
    return interrupted(libc.pwrite, fd, record, ctypes.c_size_t(len(record)),
                       ctypes.c_long(0))
def write_interrupted_once_landed(fd, record):
    """Likewise; the signals come when the store has the record."""
    signal.signal(signal.SIGUSR1, lambda *_: None)
    parent, child = os.getpid(), os.fork()
    if child == 0:
        store = outside.connect(os.environ['STORE'])
        while os.getppid() == parent:
            if store.get('cells/x/own.json') == record:
                os.kill(parent, signal.SIGUSR1)
            time.sleep(0.05)
        os._exit(0)
    result = libc.pwrite(fd, record, ctypes.c_size_t(len(record)), ctypes.c_long(0))
    found = ctypes.get_errno()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return errno.errorcode[found] if result < 0 else 0
calls()
exec(compile(SCRIPT, 'script', 'exec'))
