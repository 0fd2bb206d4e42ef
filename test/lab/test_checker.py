"""The checker finds what it must find, and nothing else."""
import random, unittest
from unittest import mock
import checker
from checker import NEVER, Operation, Run, authority, check_record, parse, \
    robbed, without_authority

def read(call, ret, value):
    return Operation('read', call, ret, value)

def swap(call, ret, found, value, node='a'):
    return Operation('swap', call, ret, value, found, node)

def lock(call, ret, node, value=None):
    return Operation('lock', call, ret, value, None, node)

def unlock(call, node, found=None):
    return Operation('unlock', call, NEVER, None, found, node)

def simulated(rng, count):
    """What the programs of four nodes are told of one cell."""
    now, value, locked = 0, '-', None
    for n in range(count):
        now += rng.random()
        me, call, ret = rng.choice('abcd'), now - 3 * rng.random(), now + 3
        node, epoch, _ = parse(value)
        told = rng.random() < 0.66
        happened = told or rng.random() < 0.5
        for _ in range(n % 3):
            yield read(call, ret, value)
        way = rng.random()
        if way < 0.25 and node != me:
            new = '%s/%d/' % (me, epoch + 1)
            yield lock(call, ret, me, new) if told else lock(call, NEVER, me)
            yield unlock(now, me, new if told else None)
            locked = new if happened else locked
        elif way < 0.6 and value == locked:
            value = '/%d/' % epoch # by the unlock that there is
            continue
        else:
            tag = n if rng.random() < 0.8 else ''
            new = '/%d/%s' % (epoch, tag) if node and rng.random() < 0.5 else \
                '%s/%d/%s' % (me, epoch + rng.randrange(1, 15), tag)
            yield swap(call, ret if told else NEVER, value, new, me)
        value = new if happened else value

class Records(unittest.TestCase):
    def holds(self, *operations, rejected=()):
        self.assertEqual([str(v) for v in
                          check_record(operations, rejected)[0]], [])

    def fails(self, *operations, rejected=(), says='not linearizable'):
        """For that reason among others."""
        found = [v.text for v in check_record(operations, rejected)[0]]
        self.assertTrue(any(says in text for text in found), found)
        self.assertTrue(any('not linearizable' in text for text in found), found)

    def test_one_after_another(self):
        self.holds(swap(1, 2, '-', 'a/1/x'), read(3, 4, 'a/1/x'),
                   swap(5, 6, 'a/1/x', '/1/y'), read(7, 8, '/1/y'),
                   swap(9, 10, '/1/y', 'b/2/z'), read(11, 12, 'b/2/z'))

    def test_undecided(self):
        """What the limits left out is not called a violation."""
        history = [swap(1, 2, '-', 'a/1/x'), lock(3, NEVER, 'b'),
                   unlock(3, 'b'), lock(3, NEVER, 'c'), read(9, 10, 'c/3/')]
        self.holds(*history)
        for limit in 'UNSEEN_MOST', 'STEPS_MOST':
            with mock.patch.object(checker, limit, 0):
                found = check_record(history, ())[0]
            self.assertEqual([v.certain for v in found], [False])
            self.assertIn('undecided', found[0].text)

    def test_nothing_happened(self):
        self.holds()
        self.holds(read(1, 2, '-'))

    def test_reads_meanwhile_may_see_either(self):
        self.holds(swap(1, 2, '-', 'a/1/x'), swap(3, 9, 'a/1/x', 'a/2/y'),
                   read(4, 5, 'a/1/x'), read(4, 8, 'a/2/y'),
                   read(6, 7, 'a/2/y'))

    def test_new_then_old_while_it_is_written(self):
        self.fails(swap(1, 2, '-', 'a/1/x'), swap(3, 9, 'a/1/x', 'a/2/y'),
                   read(4, 5, 'a/2/y'), read(6, 7, 'a/1/x'), says='came back')

    def test_lost_update(self):
        self.fails(swap(1, 2, '-', 'a/1/x'), swap(3, 4, 'a/1/x', 'a/2/y'),
                   swap(3, 5, 'a/1/x', 'a/3/z'), read(6, 7, 'a/3/z'),
                   says='replaced twice')

    def test_acknowledged_write_that_never_was(self):
        self.fails(swap(1, 2, '-', 'a/1/x'), swap(3, 4, 'a/1/x', 'a/2/y'),
                   read(5, 6, 'a/1/x'), read(7, 8, 'a/1/x'), says='came back')
        self.fails(swap(1, 2, '-', 'a/1/x'), swap(3, 4, 'a/1/x', 'a/2/y'),
                   swap(5, NEVER, 'a/1/x', 'a/3/z'), read(6, 7, 'a/3/z'))

    def test_written_over_another_version(self):
        self.fails(swap(1, 2, '-', 'a/1/x'), swap(3, 4, 'a/1/x', 'a/2/y'),
                   read(5, 6, 'a/2/y'), swap(5, 7, 'a/1/x', 'a/9/z'),
                   read(8, 9, 'a/9/z'), says='replaced twice')

    def test_stale_read(self):
        self.fails(swap(1, 2, '-', 'a/1/x'), swap(3, 4, 'a/1/x', 'a/2/y'),
                   read(5, 6, 'a/1/x'), says='came back')
        self.fails(swap(1, 2, '-', 'a/1/x'), read(3, 4, '-'), says='came back')

    def test_from_nowhere(self):
        self.fails(swap(1, 2, '-', 'a/1/x'), read(3, 4, 'a/2/z'))

    def test_same_bytes_by_two(self):
        self.fails(swap(1, 2, '-', 'a/1/'), swap(3, 5, 'a/1/', 'a/2/'),
                   swap(3, 5, 'a/1/', 'a/2/'), says='replaced twice')
        self.holds(swap(1, 2, '-', 'a/1/'), swap(3, 5, 'a/1/', 'a/2/'),
                   swap(3, NEVER, 'a/1/', 'a/2/'), read(6, 7, 'a/2/'))

    def test_one_of_two_alike_is_known(self):
        self.holds(swap(1, 2, '-', 'a/1/'), swap(3, NEVER, 'a/1/', 'a/2/'),
                   swap(4, 5, 'a/1/', 'a/2/'), read(6, 7, 'a/2/'))

    def test_two_owners(self):
        self.fails(swap(1, 2, '-', 'a/1/x'), swap(3, 5, 'a/1/x', 'a/2/y'),
                   swap(3, NEVER, 'a/1/x', 'b/2/z'), read(6, 7, 'a/2/y'),
                   read(8, 9, 'b/2/z'), says='two owners')

    def test_release_undone(self):
        self.fails(swap(1, 2, '-', 'a/1/x'), swap(3, 4, 'a/1/x', '/1/y'),
                   read(5, 6, 'a/1/x'), says='came back')

    def test_rejected(self):
        self.holds(swap(1, 2, '-', 'a/1/x'), read(5, 6, 'a/1/x'),
                   rejected=[swap(3, 4, 'a/1/x', 'a/2/y')])
        self.fails(swap(1, 2, '-', 'a/1/x'), read(5, 6, 'a/2/y'),
                   rejected=[swap(3, 4, 'a/1/x', 'a/2/y')],
                   says='a rejected write has happened')
        # the bytes say nothing, but nobody else has written them
        self.fails(swap(1, 2, '-', 'a/1/x'), read(5, 6, 'a/2/'),
                   rejected=[swap(3, 4, 'a/1/x', 'a/2/')])

    def test_unknown(self):
        unknown = swap(3, NEVER, 'a/1/x', 'a/2/y')
        first = swap(1, 2, '-', 'a/1/x')
        self.holds(first, unknown)
        self.holds(first, unknown, read(4, 5, 'a/2/y'))
        self.holds(first, unknown, read(4, 5, 'a/1/x'), read(6, 7, 'a/2/y'))
        self.holds(first, unknown, swap(8, 9, 'a/1/x', 'a/3/z'))
        self.fails(first, read(2.5, 2.6, 'a/2/y'), unknown)
        self.fails(first, unknown, swap(8, 9, 'a/1/x', 'a/3/z'),
                   read(10, 11, 'a/2/y'), says='came back')

    def test_unknown_ones_below_one_another(self):
        self.holds(swap(1, 2, '-', 'a/1/x'), swap(3, NEVER, 'a/1/x', 'a/2/y'),
                   swap(3, NEVER, 'a/1/x', 'b/3/y'),
                   swap(4, NEVER, 'a/2/y', '/2/z'),
                   swap(5, 6, '/2/z', 'b/9/w', 'b'))

    def test_locks(self):
        self.holds(lock(1, 2, 'a', 'a/1/'), unlock(3, 'a', 'a/1/'),
                   read(4, 5, 'a/1/'), read(6, 7, '/1/'),
                   lock(8, 9, 'b', 'b/2/'))
        self.fails(lock(1, 2, 'a', 'a/1/'), lock(3, 4, 'b', 'b/1/'),
                   says='two owners')
        self.fails(lock(1, 2, 'a', 'a/1/'), read(3, 4, '/1/'))
        self.fails(lock(1, 2, 'a', 'a/1/'), lock(3, 4, 'a', 'a/1/'),
                   read(5, 6, '/0/'), says='locked twice')

    def test_locks_of_those_who_are_gone(self):
        self.holds(lock(1, NEVER, 'a'), unlock(1, 'a'), read(3, 4, 'a/1/'),
                   read(5, 6, '/1/'))
        self.holds(swap(1, 2, '-', 'a/1/x'), swap(2, 3, 'a/1/x', '/1/y'),
                   lock(4, NEVER, 'a'), unlock(4, 'a'), read(5, 6, '/2/'))
        # what was claimed for one is handed to the next
        self.holds(lock(1, NEVER, 'a'), unlock(1, 'a'), read(2, 3, 'a/1/'),
                   lock(4, 5, 'a', 'a/1/'))
        self.fails(read(0.1, 0.2, 'a/1/'), lock(1, NEVER, 'a'), unlock(1, 'a'))
        self.fails(lock(1, NEVER, 'a'), unlock(1, 'a'), read(3, 4, 'b/1/'))

    def test_a_lock_that_is_needed_later(self):
        self.holds(lock(1, NEVER, 'a'), swap(1, NEVER, '-', 'a/1/'),
                   unlock(1, 'a'), read(2, 3, 'a/1/'), read(4, 5, '/1/'),
                   read(6, 7, 'a/2/'))

    def test_many_that_are_unknown(self):
        """That takes no longer than it must, whether it holds or not."""
        operations = []
        for n in range(1, 150):
            node = 'ab'[n % 2]
            operations += [lock(8 * n, NEVER, node), unlock(8 * n, node)]
            if n % 3:
                operations.append(read(8 * n + 1, 8 * n + 2, '%s/%d/' % (node, n)))
            operations.append(read(8 * n + 3, 8 * n + 4, '/%d/' % n))
        self.holds(*operations)
        self.fails(*operations, read(2000, 2001, 'c/150/'))

    def test_unknown_that_were_seen(self):
        """They have happened, whatever else was under way when nobody looked."""
        some = [swap(1, 2, '-', 'a/1/x'), swap(3, 4, 'a/1/x', '/1/y')]
        more = [swap(5, NEVER, '/1/y', '%s/2/z' % node) for node in 'abcd']
        for node in 'abcd' * 10:
            more += [lock(5, NEVER, node), unlock(5, node)]
        with mock.patch.object(checker, 'STEPS_MOST', 20):
            self.holds(*some, swap(5, NEVER, '/1/y', 'b/40/'),
                       read(9, 10, 'b/40/'), *more)
            self.holds(*some, swap(5, NEVER, '/1/y', 'c/30/w'),
                       swap(5, NEVER, 'c/30/w', 'b/40/x'),
                       read(9, 10, 'b/40/x'), *more)

    def test_unknown_that_were_seen_too_early(self):
        self.fails(swap(1, 2, '-', 'a/1/x'), read(3, 4, 'a/3/z'),
                   swap(5, NEVER, 'a/1/x', 'a/2/y'),
                   swap(2, NEVER, 'a/2/y', 'a/3/z'))

    def test_long_histories(self):
        """A third of the attempts are without an answer; first as many as of one
        cell in ten minutes."""
        self.holds(*simulated(random.Random(1), 4000))
        for seed in range(3):
            operations = list(simulated(random.Random(seed), 200))
            self.holds(*operations)
            late = [o for o in operations if o.kind == 'read'][100]
            self.fails(*operations, read(1e6, 1e6 + 1, late.value),
                       says='came back')

    def test_what_takes_too_long(self):
        """What was reached last is enough to see that there is no order; where
        there is one, it is never denied."""
        operations = [swap(1, 2, '-', 'a/1/x'), swap(3, 4, 'a/1/x', '/1/y'),
                      read(6, 7, 'd/6/'), swap(8, 9, 'd/6/', 'd/7/z')]
        for node in 'abcd' * 10:
            operations += [lock(5, NEVER, node), unlock(5, node)]
        with mock.patch.object(checker, 'STEPS_MOST', 100):
            self.holds(*operations)
            self.fails(*operations, read(10, 11, 'nobody/8/'))
            for seed in range(20):
                found = check_record(list(simulated(random.Random(seed), 200)))[0]
                self.assertEqual([v.certain for v in found], [False])

    def test_random_histories_of_a_register(self):
        """What a register did is linearizable; with one read turned into that
        of a version long gone it is not."""
        for seed in range(60):
            rng = random.Random(seed)
            time, value, epoch = 0, '-', 0
            operations, values = [], ['-']
            for n in range(rng.randrange(5, 60)):
                time += 1
                call, ret = time - rng.random() * 3, time + rng.random() * 3
                if rng.random() < 0.4:
                    operations.append(read(call, ret, value))
                    continue
                epoch += 1
                new = 'a/%d/%d' % (epoch, n)
                if rng.random() < 0.2:
                    ret = NEVER
                    if rng.random() < 0.5:
                        operations.append(swap(call, ret, value, new))
                        continue
                operations.append(swap(call, ret, value, new))
                value = new
                values.append(value)
            self.holds(*operations)
            if len(values) > 3:
                late = read(time + 10, time + 11, rng.choice(values[:-3]))
                now = read(time + 4, time + 5, value)
                self.fails(*operations, now, late, says='came back')

class Leases(unittest.TestCase):
    def robbed(self, alive, call, ret):
        operations = [swap(1, 2, '-', 'a/1/x'),
                      swap(call, ret, 'a/1/x', 'b/2/y', 'b')]
        return self.found(operations, alive)

    def found(self, operations, alive):
        chain = check_record(operations)[1]
        return len(list(robbed(operations, chain, [Run('a', alive)])))

    def test_taken_from_the_living(self):
        self.assertEqual(self.robbed((3, 9), 5, 6), 1)
        self.assertEqual(self.robbed((3, 9), 5, 10), 0)
        self.assertEqual(self.robbed((5.5, 9), 5, 6), 0)
        self.assertEqual(self.robbed(None, 5, 6), 0)

    def test_given_back_first(self):
        self.assertEqual(self.found([swap(1, 2, '-', 'a/1/x'),
                                     swap(3, 4, 'a/1/x', '/1/z'),
                                     swap(5, 6, '/1/z', 'b/2/y', 'b')],
                                    (3, 9)), 0)

    def test_locked_over_the_living(self):
        claim = swap(1, 2, '-', 'a/1/')
        locked = lock(5, 6, 'b', 'b/2/')
        self.assertEqual(self.found([claim, locked], (3, 9)), 1)
        for back in swap(3, NEVER, 'a/1/', '/1/z'), unlock(3, 'a'):
            self.assertEqual(self.found([claim, back, locked], (3, 9)), 0)
        self.assertEqual(self.found([claim, unlock(7, 'a'), locked], (3, 9)), 1)

    def test_written_when_it_was_over(self):
        late = swap(11, 12, '-', 'a/1/x')
        run = Run('a', None, 0, 100, 10)
        self.assertEqual(len(list(without_authority([late], [run]))), 1)
        self.assertEqual(list(without_authority(
            [swap(9, 12, '-', 'a/1/x'), swap(11, NEVER, '-', 'a/1/x'),
             swap(11, 12, '-', 'b/1/x', 'b')], [run])), [])
        self.assertEqual(list(without_authority(
            [late], [Run('a', None, 0, 11.5, 10), Run('a', None, 11.5)])), [])

    def test_authority(self):
        self.assertEqual(authority([], 3, 0), NEVER)
        self.assertEqual(authority([1, 2, 4], 3, 1), 7)
        # it lapses at 4, and what comes at 5 is too late
        self.assertEqual(authority([1, 5, 6], 3, 2), 4)
        self.assertEqual(authority([1, 5, 6], 3, 5.5), 9)

if __name__ == '__main__':
    unittest.main()
