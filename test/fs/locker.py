#!/usr/bin/env python3
"""locker: processes that take the lock of a cell.

    locker FILE [--count N] [--nb] [--write] [--hold S]
                        N processes (1). Each opens FILE (as flock(1) does, or
                        for writing), takes its lock and says
                        on stdout "MS PID RESULT EPOCH", in one line: when, since
                        1970; the errno's name, or 0; as the open file shows it.
                        Then it holds it for S seconds, or until it is killed.
    locker --rounds N --log LOG [--tries S] --count N FILE...
                        a contest: see contest()
    locker --check LOG  prints how often the cell was held, or what is wrong with
                        a contest's log

Children die with their parent.
"""
import argparse, ctypes, errno, fcntl, json, os, random, signal, sys, time

def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)

# ---- for the scripts of the tests ----

EX, NB, UN = fcntl.LOCK_EX, fcntl.LOCK_EX | fcntl.LOCK_NB, fcntl.LOCK_UN

def epoch_of(fd):
    try:
        return os.getxattr(fd, 'user.celld.epoch').decode()
    except OSError as e:
        return errno.errorcode[e.errno]

def opened(path):
    """As flock(1) does."""
    return os.open(path, os.O_RDONLY | os.O_CREAT | os.O_NOCTTY, 0o644)

def out_of_time(*_):
    raise TimeoutError('flock does not end')

def flock(fd, operation, seconds=None):
    """The errno's name, or 0."""
    if seconds:
        signal.signal(signal.SIGALRM, out_of_time)
        signal.alarm(seconds)
    try:
        fcntl.flock(fd, operation)
    except OSError as e:
        return errno.errorcode.get(e.errno, str(e))
    finally:
        if seconds:
            signal.alarm(0)
    return 0

def rules(name, *lines):
    """As rules() in helper.bash."""
    path = '%s/%s.rules' % (os.environ['DIR'], name)
    with open(path + '.new', 'w') as f:
        f.writelines(line + '\n' for line in lines)
    os.rename(path + '.new', path)

def eventually(f, expected, seconds=20):
    """What f() becomes, if it does in time."""
    end = time.monotonic() + seconds
    while True:
        found = f()
        if found == expected or time.monotonic() > end:
            return found
        time.sleep(0.02)

# ---- the program ----

def say(*words):
    os.write(1, (' '.join(map(str, words)) + '\n').encode())

def take(path, options):
    fd = os.open(path, os.O_WRONLY) if options.write else opened(path)
    say(int(time.time() * 1000), os.getpid(), 'opened', '-')
    result = flock(fd, NB if options.nb else EX)
    say(int(time.time() * 1000), os.getpid(), result, epoch_of(fd))
    if result == 0:
        time.sleep(options.hold)

def again(f, tries):
    """f(), which may fail so often before it succeeds."""
    while True:
        try:
            return f()
        except OSError:
            tries -= 1
            if tries < 0:
                raise

def contest(path, rounds, log, tries):
    """Takes the lock so often, and writes into the log, which is shared, when it
    begins and when it ends, with the epoch that the record tells. The record is
    read through another open file. All but the lock itself may fail and be tried
    again."""
    def read():
        with open(path) as f:
            return json.load(f)
    log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for _ in range(rounds):
        fd = again(lambda: opened(path), tries)
        fcntl.flock(fd, EX)
        epoch = epoch_of(fd)
        os.write(log, ('start %s %d\n' % (epoch, os.getpid())).encode())
        found = again(read, tries)
        if str(found['epoch']) != epoch or not found['node']:
            os.write(log, ('wrong %r, not %s\n' % (found, epoch)).encode())
        time.sleep(random.random() * 0.01)
        os.write(log, ('end %s %d\n' % (epoch, os.getpid())).encode())
        if random.random() < 0.5:
            again(lambda: fcntl.flock(fd, UN), tries)
        os.close(fd)

def check(log):
    last, held, count = 0, None, 0
    for number, line in enumerate(open(log), 1):
        word, epoch, pid = line.split()[:3]
        if word == 'start' and held is None and int(epoch) > last:
            last, held, count = int(epoch), (epoch, pid), count + 1
        elif word == 'end' and held == (epoch, pid):
            held = None
        else:
            sys.exit('line %d: %safter epoch %d, held %s' %
                     (number, line, last, held))
    if held:
        sys.exit('held at the end: %s %s' % held)
    print(count)

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('files', nargs='*')
    parser.add_argument('--count', type=int, default=1)
    parser.add_argument('--nb', action='store_true')
    parser.add_argument('--write', action='store_true')
    parser.add_argument('--hold', type=float, default=600)
    parser.add_argument('--rounds', type=int)
    parser.add_argument('--log')
    parser.add_argument('--tries', type=int, default=0)
    parser.add_argument('--check')
    options = parser.parse_args()
    if options.check:
        check(options.check)
        return 0
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if options.count == 1 and not options.rounds:
        take(options.files[0], options)
        return 0
    children = []
    for k in range(options.count):
        child = os.fork()
        if child == 0:
            die_with_parent()
            path = options.files[k % len(options.files)]
            try:
                if options.rounds:
                    contest(path, options.rounds, options.log,
                            options.tries)
                else:
                    take(path, options)
            except OSError as e:
                print(e, file=sys.stderr)
                os._exit(1)
            os._exit(0)
        children.append(child)
    return max(os.waitpid(child, 0)[1] != 0 for child in children)

if __name__ == '__main__':
    sys.exit(main())
