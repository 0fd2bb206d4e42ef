"""history: what the clients' logs (test/tools/lab_client.c) and the proxies' say."""
import collections, errno, os

from checker import NEVER, Operation, Run, authority, check_record, parse, \
    robbed, without_authority

# The manual: nothing was written.
NOT_DONE = {errno.EBUSY, errno.EPERM, errno.EINVAL, errno.EACCES, errno.EINTR,
            errno.ECANCELED, errno.ENOENT, errno.EIO}
SLACK_NS = 50_000_000 # between two clocks, one of which may be adjusted

class History:
    def __init__(self):
        self.cells = collections.defaultdict(list)
        self.rejected = collections.defaultdict(list)
        self.fenced = collections.defaultdict(list)
        self.holds = []     # of (node, call, return, until)
        self.errnos = collections.Counter()
        self.counts = collections.Counter()

    def read_client(self, path):
        """Its name is NODE.CLIENT.log. The last line of one that was killed may
        be cut."""
        node, name = os.path.basename(path).split('.')[:2]
        self.node, self.who = node, '%s on %s' % (name, node)
        self.pending = {} # by id: the cell, and the operations
        with open(path) as f:
            lines = f.read().split('\n')[:-1]
        for line in lines:
            words = line.split(' ')
            getattr(self, 'on_' + words[0])(*words[1:])
        for cell, *operations in self.pending.values():
            self.cells[cell] += operations
            self.counts['unknown'] += operations[0].kind == 'swap'

    def on_r(self, call, ret, cell, value):
        self.cells[cell].append(Operation('read', int(call), int(ret), value,
                                          who=self.who))
        self.counts['reads'] += 1

    def on_w(self, number, call, cell, way, found, new):
        self.pending[number] = cell, Operation(
            'swap', int(call), NEVER, new, found, self.node,
            '%s (%s)' % (self.who, way))

    def on_W(self, number, ret, error):
        cell, o = self.pending.pop(number)
        error = int(error)
        self.errnos['write', error] += 1
        if error == errno.EBUSY:
            o.ret = int(ret)
            self.rejected[cell].append(o)
            self.counts['rejected'] += 1
        elif error in NOT_DONE:
            self.counts['refused'] += 1
        elif error == 0:
            o.ret = int(ret)
            self.cells[cell].append(o)
            self.counts['applied'] += 1
        elif error == errno.EROFS:
            self.fenced[self.node].append((int(ret), cell, o))
        else:
            self.cells[cell].append(o)
            self.counts['unknown'] += 1

    def sort_out_fenced(self, node, starts):
        """EROFS may come with "applied, fenced". But once a mount has said it,
        it sends nothing any more."""
        for began, _, ended in starts:
            told = [f for f in self.fenced[node] if began < f[0] and
                    f[0] < (NEVER if ended is None else ended)]
            since = min((f[0] for f in told), default=NEVER)
            for ret, cell, o in told:
                if o.call > since:
                    self.counts['refused'] += 1
                    self.fenced[node].remove((ret, cell, o))
        for _, cell, o in self.fenced[node]:
            self.cells[cell].append(o)
            self.counts['unknown'] += 1

    def on_l(self, number, call, cell):
        # it is given back when its process ends, or its descriptor
        self.pending[number] = cell, *(
            Operation(kind, int(call), NEVER, node=self.node, who=self.who)
            for kind in ('lock', 'unlock'))

    def on_L(self, number, ret, error, value):
        _, lock, unlock = self.pending[number]
        self.errnos['flock', int(error)] += 1
        if int(error) == errno.EWOULDBLOCK:
            del self.pending[number]
        elif int(error) == 0:
            lock.ret = int(ret)
            if value != '?':
                lock.value = unlock.found = value

    def on_u(self, number, call):
        self.pending[number][2].call = int(call)

    def on_U(self, number, ret):
        pass

    def on_h(self, call, ret, cell, value, until):
        self.holds.append((self.node, int(call), int(ret), int(until)))

def lives(node, starts, renewals_ns, ttl_ms, holds):
    """The Run of each of NODE's daemons. STARTS: of each when it was started, when
    it served (None: never) and when its end began (None: not yet). RENEWALS_NS:
    when those that the store took came to the proxy."""
    runs = []
    for began, served, ended in starts:
        if served is None:
            continue
        run = Run(node, None, began, NEVER if ended is None else ended)
        inside = [h for h in holds if h[0] == node and began < h[1] and
                  h[2] < run.ended and h[3] > h[1]]
        if inside:
            run.alive = (min(h[2] for h in inside), max(h[3] for h in inside))
        run.no_write_after = SLACK_NS + authority(
            [t for t in renewals_ns if began <= t <= run.ended],
            ttl_ms * 1_000_000, served + SLACK_NS)
        runs.append(run)
    return runs

def check(history, runs):
    """Pairs of a cell and its violation, and how often a cell was taken from
    another node."""
    found, takeovers = [], 0
    for cell in sorted(history.cells):
        operations = history.cells[cell]
        violations, chain = check_record(operations, history.rejected[cell])
        violations += robbed(operations, chain, runs)
        violations += without_authority(operations, runs)
        found += [(cell, v) for v in violations]
        node = ''
        for o, value in chain:
            after = parse(value)[0]
            takeovers += bool(node and after and node != after)
            node = after
    return found, takeovers
