"""lab: see scripts/lab --help."""
import argparse, collections, errno, glob, json, os, random, shutil, signal, subprocess
import sys, tempfile, threading, time
sys.dont_write_bytecode = True
import history, nodes, schedule
from checker import Operation
from nodes import SOURCE, TTL_MS, Trouble, boot_ns
sys.path.insert(0, os.path.join(SOURCE, 'test/fs'))
import outside

GATEWAY = os.path.join(SOURCE, 'test/s3/gateway')
SABOTAGE = os.path.join(SOURCE, 'test/lab/sabotage')

USAGE = """usage: scripts/lab [--seed N] [--minutes N] [--mounts N] [--clients N]
                   [--cells N] [--attempts N] [--keep] [--sabotage NAME | all]

Is celldfs right when everything goes wrong at once? MOUNTS nodes, each in a
network namespace of its own, keep their leases and share a bucket of a real S3
gateway. CLIENTS processes claim, renew, release and lock the same cells. Clients
and daemons are killed, stopped and cut off, requests and answers are lost, late
or turned into errors. Every client writes down what it does and what it is told,
and in the end it is decided whether all that can be true of records that change
by compare-and-swap alone, have one owner in each epoch, and are taken only from
the dead.

Needs root, for the namespaces. Installs what is missing, builds, and starts the
gateway if none runs.

  --seed N        of the schedule of faults and of the clients; else a random one
  --minutes N     may be a fraction (1)
  --mounts N      (4)
  --clients N     (200)
  --cells N       that are fought for, beside new ones; no fewer than mounts (16)
  --attempts N    fail if fewer swaps reached the store, unless the machine was
                  busy with something else before
  --keep          keep the logs, not only after a failure
  --sabotage NAME run a celldfs without one of its safety steps, built from a copy
                  of the tree, and fail unless that is found out; all: without
                  each in turn; NAME is one of
                  %s

Exit status 0: all is well; 1: it is not, and the logs are kept; 2: usage; 77: not
root."""

SKIPPED = 77

class Interrupted(Exception):
    pass

def interrupt(number, frame):
    raise Interrupted(signal.Signals(number).name)

def on_signals(what):
    for name in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
        signal.signal(name, what)

def sabotages():
    return sorted(os.path.basename(p)[:-len('.patch')]
                  for p in glob.glob(SABOTAGE + '/*.patch'))

def usage():
    return USAGE % '\n                  '.join(sabotages())

def options():
    parser = argparse.ArgumentParser(add_help=False, usage=usage()[7:])
    parser.add_argument('--help', action='store_true')
    parser.add_argument('--keep', action='store_true')
    parser.add_argument('--sabotage')
    parser.add_argument('--minutes', type=float, default=1)
    parser.add_argument('--seed', type=int, default=random.randrange(1 << 30))
    for name, default in ('mounts', 4), ('clients', 200), ('cells', 16), \
            ('attempts', 0):
        parser.add_argument('--' + name, type=int, default=default)
    found = parser.parse_args()
    if found.help:
        print(usage())
        sys.exit(0)
    if found.minutes <= 0 or not 1 <= found.mounts <= 60 or \
            found.clients < 1 or found.cells < found.mounts:
        parser.error('out of range')
    if found.sabotage not in [None, 'all'] + sabotages():
        parser.error('no such sabotage: ' + found.sabotage)
    return found

def patch_of(name):
    return os.path.join(SABOTAGE, name + '.patch')

def idle_share(seconds=1):
    """Of all processors' time."""
    def sample():
        with open('/proc/stat') as f:
            words = [int(w) for w in f.readline().split()[1:]]
        return words[3] + words[4], sum(words)
    idle, total = sample()
    time.sleep(seconds)
    idle_then, total_then = sample()
    return (idle_then - idle) / max(1, total_then - total)

class Client:
    def __init__(self, lab, number):
        self.lab, self.number, self.lives = lab, number, 0
        self.node = lab.nodes[number % len(lab.nodes)]
        self.stopped = False

    def start(self):
        name = 'k%d-%d' % (self.number, self.lives)
        seed = random.Random('%d %s' % (self.lab.options.seed, name))
        self.process = subprocess.Popen(
            [os.path.join(self.lab.build, 'test/lab_client'), self.node.path,
             self.node.name, os.path.join(self.lab.dir, 'clients', '%s.%s.log' %
                                          (self.node.name, name)),
             name, str(seed.getrandbits(62)), str(self.lab.options.cells),
             str(self.node.number), str(len(self.lab.nodes)),
             str(self.lab.began), str(self.lab.pace_ms)],
            stdin=subprocess.DEVNULL, close_fds=False)
        self.lives += 1

    def kill(self):
        self.process.kill()
        self.process.wait()

class Lab:
    def __init__(self, found):
        self.options, self.seconds = found, found.minutes * 60
        self.build = os.environ['CELLDFS_BUILD']
        self.celldfs = os.path.join(self.build, 'celldfs')
        # so that a run of any size asks about as much of the machine
        self.pace_ms = max(1, found.clients * 3 // 2)
        self.nodes, self.clients, self.threads = [], [], []
        self.over, self.gone = threading.Event(), threading.Event()
        self.counts = collections.Counter()
        self.lock = threading.Lock() # of the counts
        self.troubles, self.dir = [], None
        self.id, self.subnet = os.getpid(), random.randrange(1, 255)

    def start(self, command, **named):
        return subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL,
                                preexec_fn=nodes.die_with_us, **named)

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    # --- beginning and end ---------------------------------------------------

    def sabotage(self):
        """A build of the tree as the patch makes it."""
        tree = os.path.join(self.dir, 'tree')
        os.mkdir(tree)
        for name in 'fs', 'lib', 'scripts', 'test', 'CMakeLists.txt', \
                'CMakePresets.json', 'celldfs.8':
            path = os.path.join(SOURCE, name)
            copy = shutil.copytree if os.path.isdir(path) else shutil.copy
            copy(path, os.path.join(tree, name))
        for command in (['patch', '-p1', '-i', patch_of(self.options.sabotage)],
                        ['cmake', '-B', 'build', '-DCMAKE_BUILD_TYPE=Release'],
                        ['cmake', '--build', 'build', '-j2', '--target',
                         'celldfs']):
            done = subprocess.run(command, cwd=tree, text=True,
                                  stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT)
            if done.returncode:
                raise Trouble('%s: %s' % (' '.join(command), done.stdout))
        self.celldfs = os.path.join(tree, 'build/celldfs')

    def begin(self):
        nodes.sweep()
        self.dir = tempfile.mkdtemp(prefix='celldfs-lab.%d.' % self.id)
        os.mkdir(os.path.join(self.dir, 'clients'))
        if self.options.sabotage:
            print('lab: building without: ' + self.options.sabotage, flush=True)
            self.sabotage()
        self.store = 's3://%s/%s' % (os.environ['GATEWAY_BUCKET'],
                                     os.path.basename(self.dir))
        self.idle = idle_share()
        for number in range(self.options.mounts):
            self.nodes.append(nodes.Node(self, number))
            self.nodes[-1].prepare()
        for node in self.nodes:
            node.start()
        for node in self.nodes:
            if not node.serves():
                raise Trouble('%s does not serve: see %s.err' % (node.name,
                                                                node.log))
        # all at once, when all have been started
        self.began = boot_ns() + int(1e9 + self.options.clients * 1e7)
        self.clients = [Client(self, k) for k in range(self.options.clients)]
        for client in self.clients:
            client.start()
        for what in [self.spoil, self.trouble_clients] + \
                [node.live for node in self.nodes]:
            done = threading.Event()
            self.threads.append(done)
            threading.Thread(target=self.guarded, args=(what, done),
                             daemon=True).start()

    def guarded(self, what, done):
        try:
            what()
        except Exception as e:
            self.troubles.append('%s: %s' % (type(e).__name__, e))
            self.over.set()
        done.set()
        self.gone.wait() # what it has started dies with it

    def until(self, at):
        """Waits until AT seconds after the beginning; False: it is all over."""
        left = at + (self.began - boot_ns()) / 1e9
        return not self.over.wait(max(0, left))

    def end_clients(self):
        for client in self.clients:
            client.process.send_signal(signal.SIGCONT)
            client.process.terminate()
        until = time.monotonic() + 10
        while time.monotonic() < until and \
                any(c.process.poll() is None for c in self.clients):
            time.sleep(0.05)
        for client in self.clients:
            client.kill()

    def end(self):
        """Nothing of it is left but the logs. In any state."""
        self.over.set()
        for done in self.threads:
            done.wait(60)
        for step in [node.heal for node in self.nodes] + [self.end_clients] + \
                [node.end for node in self.nodes]:
            try:
                step()
            except Exception as e:
                self.troubles.append('%s: %s' % (type(e).__name__, e))
        self.gone.set()

    def remove(self, keep):
        if self.dir and hasattr(self, 'store'):
            outside.connect(self.store).rm(
                outside.connect(self.store).keys())
        if self.dir and not keep:
            shutil.rmtree(self.dir)

    # --- faults --------------------------------------------------------------

    def spoil(self):
        slots = [schedule.rules(self.options.seed, self.seconds, node.name)
                 for node in self.nodes]
        for slot in range(len(slots[0])):
            if not self.until(slot * schedule.SLOT_S):
                break
            for node, rules in zip(self.nodes, slots):
                node.set_rules(faults=rules[slot])
        for node in self.nodes:
            node.set_rules(faults=[])

    def trouble_clients(self):
        wakes = [] # of those that are stopped
        plan = schedule.clients(self.options.seed, self.seconds,
                                len(self.clients))
        for at, what, number, length in plan:
            if not self.until(at):
                return
            for wake in [w for w in wakes if w[0] <= at]:
                wake[1].process.send_signal(signal.SIGCONT)
                wake[1].stopped = False
                wakes.remove(wake)
            client = self.clients[number]
            if client.process.poll() is not None:
                raise Trouble('client %d has ended: status %d' %
                              (number, client.process.returncode))
            if client.stopped:
                continue
            self.count('clients: ' + what)
            if what == 'stop':
                client.process.send_signal(signal.SIGSTOP)
                client.stopped = True
                wakes.append((at + length, client))
            else:
                client.kill()
                client.start()

    # --- watching ------------------------------------------------------------

    def watch(self):
        """Prints how it goes, until it is over."""
        at = 0
        while at < self.seconds:
            at = min(at + 5, self.seconds)
            if not self.until(at):
                return
            for node in self.nodes:
                node.read_requests()
            print('%4.0f s: %d attempts at the store, %s' % (
                at, self.attempts(), ', '.join(
                    '%s %s' % (n.name, n.state) for n in self.nodes)),
                flush=True)

    def attempts(self):
        return sum(len(node.attempts) for node in self.nodes)

    def final_state(self, found):
        """What is in the bucket now, when nobody is left to change it."""
        store = outside.connect(self.store)
        for key in store.keys('cells/'):
            call = boot_ns()
            record = json.loads(store.get(key))
            value = '%s/%d/%s' % (record['node'], record['epoch'],
                                  record.get('w', ''))
            cell = key.split('/')[1]
            found.cells[cell].append(Operation('read', call, boot_ns(), value,
                                               who='the bucket'))

    def judge(self):
        for node in self.nodes:
            node.read_requests()
        found = history.History()
        for path in glob.glob(os.path.join(self.dir, 'clients', '*.log')):
            found.read_client(path)
        for node in self.nodes:
            found.sort_out_fenced(node.name, node.starts)
        self.final_state(found)
        to_boot = boot_ns() - time.time_ns()
        runs = [run for node in self.nodes
                for run in history.lives(
                    node.name, node.starts, [t + to_boot for t in node.renewals],
                    TTL_MS, found.holds)]
        violations, takeovers = history.check(found, runs)
        self.tell(found, takeovers)
        return violations

    def tell(self, found, takeovers):
        faults = collections.Counter()
        for node in self.nodes:
            faults.update(node.faults)
        print('attempts that reached the store: %d' % self.attempts())
        print('writes: ' + ', '.join('%d %s' % (found.counts[k], k) for k in (
            'applied', 'rejected', 'unknown', 'refused')))
        print('reads: %d; takeovers: %d; fences: %d; cells: %d' % (
            found.counts['reads'], takeovers,
            sum(node.fences() for node in self.nodes), len(found.cells)))
        for title, counts in ('done', self.counts), ('by the proxies', faults):
            print('%s: %s' % (title, ', '.join(
                '%s %d' % item for item in sorted(counts.items()))))
        print('errnos: ' + ', '.join('%s %s %d' % (
            what, errno.errorcode.get(number, 'ok'), n)
            for (what, number), n in sorted(found.errnos.items())))

def verdict(lab, violations):
    found = lab.options
    if found.sabotage:
        caught = any(violation.certain for _, violation in violations)
        print('lab: %s: %s' % (found.sabotage, 'caught' if caught else
                               'not found out'))
        return 0 if caught else 1
    if violations:
        return 1
    if found.attempts > lab.attempts():
        if lab.idle >= 0.75:
            print('lab: too few attempts: %d, not %d' % (lab.attempts(),
                                                         found.attempts))
            return 1
        print('lab: the machine was busy (%d %% idle): the number of attempts '
              'is not judged' % (100 * lab.idle))
    print('lab: no violation')
    return 0

def experiment(lab):
    try:
        lab.begin()
        lab.watch()
    finally:
        on_signals(signal.SIG_IGN)
        lab.end()
        on_signals(interrupt)
    if lab.troubles:
        raise Trouble('; '.join(lab.troubles))
    violations = lab.judge()
    violations.sort(key=lambda v: len(v[1].operations))
    for cell, violation in violations[:5]:
        print('\n%s in %s: %s' % ('VIOLATION' if violation.certain else
                                  'UNDECIDED', cell, violation))
    if violations:
        print('\nviolations: %d, undecided: %d' % (
            sum(violation.certain for _, violation in violations),
            sum(not violation.certain for _, violation in violations)))
    return verdict(lab, violations)

def starts_gateway():
    """False: it runs already."""
    if subprocess.run([GATEWAY, 'env'], capture_output=True).returncode == 0:
        return False
    subprocess.run([GATEWAY, 'start'], check=True)
    return True

def use_gateway():
    for line in subprocess.check_output([GATEWAY, 'env'], text=True).splitlines():
        name, _, value = line.partition('=')
        os.environ[name] = value
    # neither this machine's settings nor its proxies
    for name in 'AWS_CONFIG_FILE', 'AWS_SHARED_CREDENTIALS_FILE':
        os.environ[name] = '/dev/null'
    for name in 'AWS_PROFILE', 'AWS_SESSION_TOKEN', 'AWS_ENDPOINT_URL_S3':
        os.environ.pop(name, None)

def run(found):
    print('lab: seed %d, %g s, %d mounts, %d clients' % (
        found.seed, found.minutes * 60, found.mounts, found.clients), flush=True)
    lab, status, keep = Lab(found), 1, True
    try:
        status = experiment(lab)
        keep = status != 0
    except Interrupted:
        keep = False
        raise
    except (Trouble, OSError, subprocess.CalledProcessError) as e:
        print('lab: %s' % e)
    finally:
        on_signals(signal.SIG_IGN)
        lab.remove(keep or found.keep)
        if lab.dir and (keep or found.keep):
            print('lab: the logs are in ' + lab.dir)
        on_signals(interrupt)
    print('lab: again: scripts/lab --seed %d --minutes %g --mounts %d '
          '--clients %d --cells %d%s' % (
              found.seed, found.minutes, found.mounts, found.clients, found.cells,
              ' --sabotage ' + found.sabotage if found.sabotage else ''))
    return status

def main():
    found = options()
    if os.geteuid() != 0 or not all(map(shutil.which, ('ip', 'nsenter'))):
        print('lab: skipped: network namespaces need root, ip and nsenter')
        return SKIPPED
    os.environ.setdefault('CELLDFS_BUILD', SOURCE + '/build')
    on_signals(interrupt)
    status, is_ours = 0, False
    try:
        is_ours = starts_gateway()
        use_gateway()
        for name in sabotages() if found.sabotage == 'all' else [found.sabotage]:
            found.sabotage = name
            status = max(status, run(found))
    except Interrupted as e:
        status = 1
        print('lab: ended by %s' % e)
    except subprocess.CalledProcessError as e:
        status = 1
        print('lab: %s' % e)
    finally:
        on_signals(signal.SIG_IGN)
        if is_ours:
            subprocess.run([GATEWAY, 'stop'])
    return status

if __name__ == '__main__':
    sys.exit(main())
