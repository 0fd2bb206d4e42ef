"""checker: can the history of a record be true? Knows nothing of celldfs but what
its manual promises.

A record is a compare-and-swap register. Its value is a text "NODE/EPOCH/TAG", "-"
as long as there is none. Its history is a list of operations with the times of
their call and their return; it is linearizable if each can be given an instant
between the two so that, one after the other, they are what a single register
does. One whose outcome is unknown has no return: it took effect at any time after
its call, or never. One that was rejected is left out: it must not have happened.

The search is that of Wing and Gong with the memory of Lowe. It tries, at each
instant, every operation that fits the value and was called before the first
return that is still missing. Reads that fit are taken at once, since they change
nothing; operations that cannot be told apart are tried once; and since epochs
never go back, the value never goes beyond what the operations that have returned
still need.

A state is the value and what has been done. Of operations whose outcome is unknown
those that name the version they replace need not be compared: that version never
comes again. Of flock's, which fit any version, it counts only how many of a node
are used up, and where some have led nowhere more of them do not either.

Before that, an unknown write whose value was seen is given the time at which that
was: nobody else has written it.

What would take too long is not searched: more than UNSEEN_MOST versions in a row
that nobody has seen, more than STEPS_MOST steps. If no order was found without
that, what comes after one of the last versions that were reached is searched alone:
if there is no order of that, there is none of all. Else the record is undecided,
which is no success, but no violation either.
"""
import collections, copy, operator

NEVER = float('inf')
UNSEEN_MOST = 6
STEPS_MOST = 50_000
BACK_MOST = 20 # versions that are searched alone

def parse(value):
    """NODE, EPOCH, TAG"""
    if value == '-':
        return '', 0, ''
    node, epoch, tag = value.split('/')
    return node, int(epoch), tag

def order(value):
    """Versions come in this order: first a claim of an epoch, then its release."""
    node, epoch, _ = parse(value)
    return epoch, value != '-' and not node

class Operation:
    """value: what was read, or is written. found: what it replaces; None: the
    operation is flock's or its release's, which tell only the node, and the
    value if it is known."""

    def __init__(self, kind, call, ret=NEVER, value=None, found=None, node=None,
                 who=''):
        self.kind, self.call, self.ret = kind, call, ret
        self.value, self.found, self.node, self.who = value, found, node, who
        self.bit = 0 # in a Search

    def after(self, value):
        """The value after it, or None: it does not fit."""
        if self.kind == 'read':
            return value if value == self.value else None
        if self.kind == 'swap':
            return self.value if value == self.found else None
        node, epoch, tag = parse(value)
        if self.kind == 'lock':
            # what was claimed for another who waited, and is gone
            if value == self.value:
                return value
            new = '%s/%d/' % (self.node, epoch + 1)
            return new if self.value in (None, new) else None
        # unlock
        if node != self.node or tag or self.found not in (None, value):
            return None
        return '/%d/' % epoch

    def needs(self):
        """The value must not go beyond that before it is done."""
        needed = self.value if self.kind == 'lock' else self.found or self.value
        return order(needed) if needed else (NEVER, True)

    def alike(self):
        """Unknown ones that say the same cannot be told apart."""
        return self.kind, self.found, self.value, self.node, \
            None if self.ret == NEVER else id(self)

    def of_any(self):
        """Whose it is if it fits any version."""
        if self.ret == NEVER and not self.value and not self.found:
            return self.kind, self.node

    def __str__(self):
        what = {'read': 'read %s' % self.value,
                'swap': 'wrote %s over %s' % (self.value, self.found),
                'lock': 'locked as %s' % (self.value or self.node),
                'unlock': 'unlocked %s' % (self.found or self.node)}[self.kind]
        return '%.6f to %s  %s: %s' % (
            self.call / 1e9,
            'unknown' if self.ret == NEVER else '%.6f' % (self.ret / 1e9),
            self.who, what)

class Violation:
    """certain: False, and it may be none; see what is not searched."""

    def __init__(self, text, operations=(), certain=True):
        self.text, self.operations = text, list(operations)
        self.certain = certain

    def __str__(self):
        return '\n    '.join([self.text] + [str(o) for o in self.operations])

def settle(operations):
    """An unknown write whose value was seen has happened by then, if nobody else
    can have written it, and so has the one whose value it replaced."""
    writers = collections.Counter(o.value for o in operations if o.kind != 'read')
    unknown = {o.value: o for o in operations if o.kind == 'swap' and
               o.ret == NEVER and parse(o.value)[2] and writers[o.value] == 1}
    happened = {}
    for o in sorted(operations, key=lambda o: o.ret):
        for value in (o.found, o.value) if o.ret != NEVER else ():
            while value in unknown:
                written = unknown.pop(value)
                happened[written] = settled = copy.copy(written)
                settled.ret = o.ret
                value = written.found
    return [happened.get(o, o) for o in operations]

class Search:
    def __init__(self, operations, first='-'):
        self.value, self.steps = first, 0
        self.reads = collections.defaultdict(list)
        self.fits = collections.defaultdict(list) # by what they go by
        self.returns = sorted((o for o in operations if o.ret != NEVER),
                              key=lambda o: o.ret)
        self.needed = sorted(self.returns, key=lambda o: o.needs())
        for n, o in enumerate(operations):
            o.bit = 1 << n
        for o in sorted(operations, key=lambda o: o.call):
            if o.kind == 'read':
                self.reads[o.value].append(o)
            elif o.found is not None:
                self.fits[o.found].append(o)
            elif o.kind == 'lock' and o.value:
                self.fits[parse(o.value)[1] - 1].append(o)
                self.fits[o.value].append(o)
            elif o.kind == 'lock':
                self.fits['lock'].append(o)
            else:
                self.fits[o.node, ''].append(o)
        self.compared = sum(o.bit for o in self.returns)
        kinds = sorted({o.of_any() for o in operations} - {None})
        self.any = {kind: n for n, kind in enumerate(kinds)}
        self.used = (0,) * (len(kinds) + 1) # and the last: unseen so far
        self.known = {v for o in self.returns for v in (o.value, o.found)}
        self.seen = {v for o in operations for v in (o.value, o.found) if v}
        self.done = 0       # a bit for each operation
        self.chain = []     # of (operation, value after it)
        self.returned = 0   # all of self.returns before this are done
        self.satisfied = 0  # and all of self.needed before that
        self.best = 0, 0, None, first
        self.best_needs = None
        self.decided = True
        self.tried = collections.defaultdict(list)

    def is_done(self, o):
        return self.done & o.bit

    def limit(self):
        """The first return that is missing."""
        while self.returned < len(self.returns) and \
                self.is_done(self.returns[self.returned]):
            self.returned += 1
        if self.returned == len(self.returns):
            return None
        return self.returns[self.returned]

    def bound(self):
        """As far as the value may go."""
        while self.satisfied < len(self.needed) and \
                self.is_done(self.needed[self.satisfied]):
            self.satisfied += 1
        if self.satisfied == len(self.needed):
            return NEVER, True
        return self.needed[self.satisfied].needs()

    def take(self, o, value):
        self.done |= o.bit
        if o.of_any():
            n = self.any[o.of_any()]
            self.used = self.used[:n] + (self.used[n] + 1,) + self.used[n + 1:]
        unseen = 0 if value in self.seen else self.used[-1] + 1
        self.used = self.used[:-1] + (unseen,)
        self.chain.append((o, value))
        self.value = value

    def take_reads(self):
        reads = self.reads.get(self.value, ())
        for o in reads:
            if self.is_done(o):
                continue
            blocked = self.limit()
            if o.call > blocked.ret:
                break
            self.take(o, self.value)

    def candidates(self, before):
        node, epoch, _ = parse(self.value)
        found, alike, now = [], set(), order(self.value)
        for key in (self.value, epoch, 'lock', (node, '')):
            for o in self.fits.get(key, ()):
                if o.call > before:
                    break
                if o.alike() in alike or self.is_done(o):
                    continue
                value = o.after(self.value)
                if value is None or order(value) < now:
                    continue
                if self.used[-1] >= UNSEEN_MOST and value not in self.seen:
                    self.decided = False
                    continue
                alike.add(o.alike())
                found.append((o, value))
        # the last is tried first: what has returned, the earliest of them; then
        # what makes a version that is needed; then what fits here and nowhere else
        return sorted(found, key=lambda f: (
            f[0].ret, f[1] not in self.known, not f[0].value and not f[0].found),
            reverse=True)

    def fits_bound(self, o, value):
        """Nothing that is missing is left behind by it."""
        self.done |= o.bit
        satisfied = self.satisfied
        fits = order(value) <= self.bound()
        self.satisfied = satisfied
        self.done &= ~o.bit
        return fits

    def run(self):
        """True: linearizable, and self.chain is how. False: if self.decided, not;
        else nothing is known."""
        stack = []
        while True:
            self.take_reads()
            blocked = self.limit()
            if blocked is None:
                return True
            if self.returned >= self.best[1]:
                self.best = len(self.chain), self.returned, blocked, self.value
                self.bound()
                self.best_needs = self.needed[self.satisfied]
            options = [c for c in self.candidates(blocked.ret)
                       if self.fits_bound(*c)]
            tried = self.tried[self.value, self.done & self.compared]
            if any(all(map(operator.le, before, self.used)) for before in tried):
                options = []
            else:
                tried.append(self.used)
            if options:
                stack.append((options, self.done, len(self.chain), self.value,
                              self.returned, self.satisfied, self.used))
            while stack and not stack[-1][0]:
                stack.pop()
            if not stack:
                return False
            options, self.done, length, self.value, self.returned, \
                self.satisfied, self.used = stack[-1]
            del self.chain[length:]
            self.take(*options.pop())
            self.steps += 1
            if self.steps > STEPS_MOST:
                self.decided = False
                return False

    def explain(self, operations):
        """The shortest that there is to say when run() was False."""
        _, _, blocked, value = self.best
        about = {value, blocked.value, blocked.found} - {None}
        if self.best_needs is not blocked:
            about |= {self.best_needs.value, self.best_needs.found} - {None}
        shown = [o for o in operations if o is not blocked and
                 (o.value in about and o.kind != 'read' or o.found in about)]
        reads = [o for o in operations if o.kind == 'read' and o is not blocked
                 and o.value in about]
        shown += reads[:2] + reads[2:][-1:]
        return Violation('%s: after %s this fits nowhere:\n    %s'
                         '\n  what else there is about these versions:' % (
                             'not linearizable' if self.decided else
                             'undecided, not all was tried', value, blocked),
                         sorted(shown, key=lambda o: o.call)[:20],
                         self.decided)

def two_owners(operations):
    """An epoch has one owner, and one claim."""
    claims = {}
    for o in operations:
        for value in (o.value if o.ret != NEVER else None, o.found):
            if not value or value == '-':
                continue
            node, epoch, _ = parse(value)
            if not node:
                continue
            other, value_there = claims.setdefault(epoch, (o, value))
            if value_there != value:
                yield Violation('epoch %d has two owners: %s and %s' %
                                (epoch, value_there, value), [other, o])
                return

def twice(operations):
    """One version is replaced once, one claim locked once."""
    over = {}
    for o in operations:
        if o.ret != NEVER and o.kind in ('swap', 'lock') and \
                (o.found or o.value):
            key = o.found or o.kind + o.value
            if key in over:
                yield Violation('%s was %s twice' % (
                    o.found or o.value,
                    'replaced' if o.found else 'locked'), [over[key], o])
                return
            over[key] = o

def came_back(operations):
    """Who has seen an epoch sees no lower one later; nor a release undone."""
    last = None
    points = sorted((o for o in operations if o.ret != NEVER and o.value),
                    key=lambda o: o.ret)
    highest = []
    for o in points:
        if not highest or order(o.value) > order(highest[-1].value):
            highest.append(o)
    at = 0
    for o in sorted(points, key=lambda o: o.call):
        while at < len(highest) and highest[at].ret < o.call:
            last = highest[at]
            at += 1
        if last and order(o.value) < order(last.value):
            yield Violation('%s came back after %s' % (o.value, last.value),
                            [last, o])
            return

def rejected_happened(operations, rejected):
    """A value that only a rejected write can have made."""
    made = {o.value for o in operations if o.kind != 'read'}
    for r in rejected:
        if parse(r.value)[2] and r.value not in made:
            for o in operations:
                if r.value in (o.value, o.found):
                    yield Violation('a rejected write has happened', [r, o])
                    return

def fails_from(value, operations):
    """From VALUE on, which was there: is there no order of what comes after it,
    even if all that fits any version is still unused?"""
    now = order(value)
    left = [o for o in operations if not o.value or order(o.value) > now or
            o.value == value and o.kind != 'swap']
    search = Search(left, value)
    return not search.run() and search.decided

def fails_soon(search, operations):
    """That, from one of the last versions that the search has reached."""
    # it would have to be known what these have locked
    if any(o.kind == 'lock' and o.ret != NEVER and not o.value for o in operations):
        return False
    before = sorted((v for v in search.known if v and
                     order(v) <= order(search.best[3])), key=order)
    return any(fails_from(v, operations) for v in before[-2:-BACK_MOST:-3])

def check_record(operations, rejected=(), first='-'):
    """The violations of one record's history, the plainest first, and the order
    in which everything happened: pairs of an operation and the value after it."""
    operations = settle(operations)
    search = Search(operations, first)
    found = [v for check in (twice(operations), two_owners(operations),
                             rejected_happened(operations, rejected),
                             came_back(operations)) for v in check]
    if not search.run():
        search.decided = search.decided or fails_soon(search, operations)
        found.append(search.explain(operations))
        search.chain = search.chain[:search.best[0]]
    return found, search.chain

class Run:
    """A daemon's life. alive: from when to when it has said, in all, that its
    node has authority. no_write_after: when that was over at the latest, by the
    renewals that the store had."""

    def __init__(self, node, alive=None, began=0, ended=NEVER,
                 no_write_after=NEVER):
        self.node, self.alive, self.began, self.ended = node, alive, began, ended
        self.no_write_after = no_write_after

def authority(renewals, ttl, served):
    """When it ended at the latest, by the times at which RENEWALS came to the
    store. A renewal that came when it was over revives nothing. Those until
    SERVED may have been tries to acquire the lease."""
    end = None
    for at in sorted(renewals):
        if end is not None and at > end and at > served:
            break
        end = max(end or 0, at + ttl)
    return NEVER if end is None else end

def robbed(operations, chain, runs, first='-'):
    """Nothing is taken from a node that is alive all the while. What flock took
    over is a guess if there was a release that may have happened before."""
    after = first
    for o, value in chain:
        before, after = after, value
        node, robber = parse(before)[0], parse(after)[0]
        if not node or not robber or node == robber or o.ret == NEVER:
            continue
        if o.kind == 'lock' and any(
                r.ret == NEVER and r.call < o.ret and r.node == node and
                parse(r.after(before) or before)[0] == '' for r in operations):
            continue
        for run in runs:
            if run.node == node and run.alive and \
                    run.alive[0] < o.call and o.ret < run.alive[1]:
                yield Violation(
                    'taken from %s, which had authority from %.6f to %.6f' %
                    (node, run.alive[0] / 1e9, run.alive[1] / 1e9), [o])

def without_authority(operations, runs):
    """Nothing is written for a node whose lease is over."""
    for o in operations:
        if o.kind != 'swap' or o.ret == NEVER or not o.node:
            continue
        for run in runs:
            if run.node == o.node and run.began <= o.call and \
                    o.ret <= run.ended and o.call > run.no_write_after:
                yield Violation(
                    'written for %s, whose authority was over at %.6f' %
                    (o.node, run.no_write_after / 1e9), [o])
