"""nodes: the mounts of the lab, each a node of the fleet in a network namespace of
its own, with a proxy on the only cable that leads out of it. See test/s3/proxy.
"""
import collections, ctypes, json, os, re, signal, subprocess, threading, time
import schedule
from checker import NEVER

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
TTL_MS = 3000
NETNS = '/run/netns'
START_LIMIT_S = 30
STOP_LIMIT_S = 20
STARTS_MOST = 5
libc = ctypes.CDLL(None)

def die_with_us():
    """Between fork and exec: what was started ends when the lab does, however."""
    libc.prctl(1, signal.SIGKILL)

def boot_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)

def run(*command):
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

def quietly(*command):
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)

def sweep():
    """What a lab has left that was killed itself; its processes died with it."""
    with open('/proc/mounts') as f:
        places = [line.split(' ')[1] for line in f]
    for place in places:
        found = re.search(r'/celldfs-lab[.]([0-9]+)[.][^/]*/n[0-9]+$', place)
        if found and not os.path.exists('/proc/' + found[1]):
            quietly('fusermount3', '-uz', place)
    for name in os.listdir(NETNS) if os.path.isdir(NETNS) else ():
        found = re.fullmatch('cl([0-9]+)-n[0-9]+', name)
        if found and not os.path.exists('/proc/' + found[1]):
            quietly('ip', 'netns', 'del', name)

class Trouble(Exception):
    """The lab itself fails: nothing is said about celldfs."""

class Network:
    """A namespace, a cable into it, and the address of this end."""

    def __init__(self, name, subnet):
        self.name, self.cable = name, name
        self.host = '169.254.%d.%d' % (subnet[0], subnet[1] + 1)
        self.inside = '169.254.%d.%d/30' % (subnet[0], subnet[1] + 2)

    def make(self):
        name = self.name
        run('ip', 'netns', 'add', name)
        run('ip', 'link', 'add', self.cable, 'type', 'veth', 'peer', 'name',
            'eth0', 'netns', name)
        run('ip', 'addr', 'add', self.host + '/30', 'dev', self.cable)
        self.up()
        # not by ip -n, which cannot where / is no mount point, in a chroot
        enter = ('nsenter', f'--net={NETNS}/{name}', 'ip')
        run(*enter, 'addr', 'add', self.inside, 'dev', 'eth0')
        run(*enter, 'link', 'set', 'eth0', 'up')

    def up(self):
        run('ip', 'link', 'set', self.cable, 'up')

    def down(self):
        run('ip', 'link', 'set', self.cable, 'down')

    def remove(self):
        quietly('ip', 'netns', 'del', self.name)

class Node:
    def __init__(self, lab, number):
        self.lab, self.number, self.name = lab, number, 'n%d' % (number + 1)
        self.path = os.path.join(lab.dir, self.name)
        self.requests, self.rules = self.path + '.requests', self.path + '.rules'
        self.log = self.path + '.log'
        self.network = self.proxy = self.daemon = None
        # of each daemon: when it was started, when it served, when its end began
        self.starts = []
        self.state = 'new'
        self.lock = threading.Lock() # of the next two, and of the file
        self.outage, self.faults_now = [], []
        self.read_so_far, self.attempts = 0, set()
        self.renewals, self.faults = [], collections.Counter()

    def prepare(self):
        os.mkdir(self.path)
        for path in self.rules, self.requests, self.log:
            open(path, 'w').close()
        self.network = Network('cl%d-%s' % (self.lab.id, self.name),
                               (self.lab.subnet, 4 * self.number))
        self.network.make()
        port_file = self.path + '.port'
        self.proxy = self.lab.start(
            [os.path.join(SOURCE, 'test/s3/proxy'), '--port-file', port_file,
             '--log', self.requests, '--rules', self.rules,
             '--listen', self.network.host,
             '--strip', '/%s/' % self.lab.store[len('s3://'):]],
            stderr=open(self.path + '.proxy', 'w'))
        while not os.path.exists(port_file):
            if self.proxy.poll() is not None:
                raise Trouble('the proxy has ended: see %s.proxy' % self.path)
            time.sleep(0.02)
        with open(port_file) as f:
            self.endpoint = 'http://%s:%d' % (self.network.host, int(f.read()))

    # --- the proxy ------------------------------------------------------------

    def set_rules(self, outage=None, faults=None):
        with self.lock:
            if outage is not None:
                self.outage = outage
            if faults is not None:
                self.faults_now = faults
            with open(self.rules + '.new', 'w') as f:
                f.write('\n'.join(self.outage + self.faults_now))
            os.rename(self.rules + '.new', self.rules)

    def read_requests(self):
        """What has come to the proxy since the last time."""
        with open(self.requests, 'rb') as f:
            f.seek(self.read_so_far)
            text = f.read()
        text = text[:text.rfind(b'\n') + 1]
        self.read_so_far += len(text)
        for line in text.splitlines():
            r = json.loads(line)
            if r['rule']:
                self.faults[schedule.kind_of(r['rule'])] += 1
            if r['op'] != 'PUT' or not r['upstream']:
                continue
            if r['key'].startswith('cells/'):
                self.attempts.add(r['attempt'])
            elif r['upstream'] == 200 and \
                    r['key'] == 'nodes/%s.json' % self.name:
                self.renewals.append(int(r['begun'] * 1e9))

    # --- the daemon -----------------------------------------------------------

    def start(self):
        environment = dict(os.environ, AWS_ENDPOINT_URL=self.endpoint,
                           no_proxy=self.network.host)
        self.starts.append([boot_ns(), None, None])
        self.daemon = self.lab.start(
            ['nsenter', '--net=%s/%s' % (NETNS, self.network.name),
             self.lab.celldfs, self.lab.store, self.path, '-f', '-o',
             'node=%s,ttl-ms=%d,allow-http,log=%s' % (self.name, TTL_MS,
                                                      self.log)],
            env=environment, stderr=open(self.log + '.err', 'a'))

    def status(self):
        """What .celldfs/status says; {} if nothing serves there. Blocks while
        the daemon is stopped."""
        try:
            with open(self.path + '/.celldfs/status') as f:
                return dict((line.rstrip('\n').split(' ', 1) + [''])[:2]
                            for line in f)
        except OSError:
            return {}

    def serves(self):
        """Waits until it does. False: it has ended, or does not."""
        until = time.monotonic() + START_LIMIT_S
        while not self.status():
            if self.daemon.poll() is not None or time.monotonic() > until:
                return False
            time.sleep(0.05)
        self.starts[-1][1] = boot_ns()
        self.state = 'serves'
        return True

    def detach(self):
        quietly('fusermount3', '-uz', self.path)

    def kill(self):
        self.starts[-1][2] = self.starts[-1][2] or boot_ns()
        self.daemon.kill()
        self.daemon.wait()
        self.detach()

    def stop(self):
        """An orderly stop."""
        self.starts[-1][2] = self.starts[-1][2] or boot_ns()
        self.daemon.terminate()
        try:
            self.daemon.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            raise Trouble('%s does not end on SIGTERM' % self.name)
        finally:
            self.kill()

    def start_anew(self):
        """An earlier run's renewal that lands late can look like a twin's."""
        for _ in range(STARTS_MOST):
            if self.lab.over.is_set():
                return
            self.state = 'starts'
            self.start()
            if self.serves():
                return
            self.kill()
        raise Trouble('%s is not mounted again: see %s.err' % (self.name,
                                                              self.log))

    # --- its life -------------------------------------------------------------

    def live(self):
        options = self.lab.options
        for at, what, length in schedule.outages(
                options.seed, self.lab.seconds, self.name, TTL_MS / 1000):
            if not self.watch_until(at):
                return
            self.state = what
            self.lab.count('nodes: ' + what)
            getattr(self, 'on_' + what.replace(' ', '_'))(length)
            self.state = 'serves'
            self.lab.over.wait(1) # a fenced mount is used, too
        self.watch_until(NEVER)

    def watch_until(self, at):
        """Mounts it again when it is fenced. False: it is all over."""
        while not self.lab.over.is_set():
            if self.daemon.poll() is not None:
                raise Trouble('%s has ended by itself: status %d, see %s' % (
                    self.name, self.daemon.returncode, self.log))
            if self.status().get('lease') == 'fenced':
                self.lab.count('nodes: mounted anew')
                self.stop()
                self.start_anew()
            if at * 1e9 + self.lab.began - boot_ns() <= 0:
                return True
            self.lab.over.wait(0.3)
        return False

    def on_kill(self, length):
        self.kill()
        self.start_anew()

    def on_stop(self, length):
        self.daemon.send_signal(signal.SIGSTOP)
        self.lab.over.wait(length)
        self.daemon.send_signal(signal.SIGCONT)

    def on_cut(self, length):
        self.network.down()
        self.lab.over.wait(length)
        self.network.up()

    def on_lease_lost(self, length):
        self.set_rules(outage=['PUT nodes/* hang'])
        self.lab.over.wait(length)
        self.set_rules(outage=[])

    def on_lease_late(self, length):
        self.set_rules(outage=['PUT nodes/* delay %d' % (800 * length)])
        self.lab.over.wait(length)
        self.set_rules(outage=[])

    def heal(self):
        if self.daemon and self.daemon.poll() is None:
            self.daemon.send_signal(signal.SIGCONT)
        if self.proxy:
            self.set_rules([], [])
            self.network.up()

    def end(self):
        """In any state."""
        try:
            if self.daemon and self.daemon.poll() is None:
                self.stop()
        finally:
            self.detach()
            if self.proxy:
                self.proxy.kill()
                self.proxy.wait()
            if self.network:
                self.network.remove()

    def fences(self):
        with open(self.log) as f:
            return f.read().count('SELF-FENCE')
