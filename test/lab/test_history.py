"""What the logs say, and what a seed makes."""
import os, tempfile, unittest
import history, schedule
from checker import NEVER

class Logs(unittest.TestCase):
    def read(self, text, name='n1.k7-0.log'):
        found = history.History()
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, name)
            with open(path, 'w') as f:
                f.write(text)
            found.read_client(path)
        return found

    def test_outcomes(self):
        found = self.read('r 1 2 c -\n'
                          'w 0 3 c create - n1/1/a\nW 0 4 0\n'
                          'w 1 5 c fd n1/1/a n1/2/b\nW 1 6 16\n'
                          'w 2 7 c fd n1/1/a n1/2/c\nW 2 8 110\n'
                          'w 3 9 c fd n1/1/a n1/2/d\nW 3 10 125\n'
                          'w 4 11 c fd n1/1/a n1/2/e\n'
                          'w 5 12 c fd n1/1')
        self.assertEqual([(o.kind, o.call, o.ret, o.value) for o in
                          found.cells['c']],
                         [('read', 1, 2, '-'), ('swap', 3, 4, 'n1/1/a'),
                          ('swap', 7, NEVER, 'n1/2/c'),
                          ('swap', 11, NEVER, 'n1/2/e')])
        self.assertEqual([o.value for o in found.rejected['c']], ['n1/2/b'])
        self.assertEqual(found.counts, {'reads': 1, 'applied': 1, 'rejected': 1,
                                        'unknown': 2, 'refused': 1})

    def test_locks(self):
        found = self.read('l 0 1 c\nL 0 2 0 n1/5/\nu 0 3\nU 0 4\n'
                          'l 1 5 c\nL 1 6 11 -\n' # EWOULDBLOCK
                          'l 2 7 c\nL 2 8 4 -\n'  # EINTR
                          'l 3 9 c\n')
        self.assertEqual([(o.kind, o.call, o.ret, o.value, o.found) for o in
                          found.cells['c']],
                         [('lock', 1, 2, 'n1/5/', None),
                          ('unlock', 3, NEVER, None, 'n1/5/'),
                          ('lock', 7, NEVER, None, None),
                          ('unlock', 7, NEVER, None, None),
                          ('lock', 9, NEVER, None, None),
                          ('unlock', 9, NEVER, None, None)])

    def test_fenced(self):
        """The first EROFS can hide a write that was applied. Another daemon's
        says nothing."""
        found = self.read('w 0 1 c fd - n1/1/a\nW 0 3 30\n'
                          'w 1 2 c fd - n1/1/b\nW 1 5 30\n'
                          'w 2 4 c fd - n1/1/c\nW 2 6 30\n'
                          'w 3 11 c fd - n1/1/d\nW 3 12 30\n')
        found.sort_out_fenced('n1', [[0, 0, 8], [9, 10, None]])
        self.assertEqual([o.value for o in found.cells['c']],
                         ['n1/1/a', 'n1/1/b', 'n1/1/d'])

    def test_lives(self):
        holds = [('n1', 2, 3, 6), ('n1', 4, 5, 9), ('n2', 1, 2, 99),
                 ('n1', 19, 21, 25), ('n1', 22, 23, 22)]
        runs = history.lives('n1', [[1, 2, 12], [13, None, 14], [15, 16, None]],
                             [1, 3, 17], 4e-6, holds)
        self.assertEqual([(r.alive, r.began, r.ended) for r in runs],
                         [((3, 9), 1, 12), ((21, 25), 15, NEVER)])
        self.assertEqual([r.no_write_after - history.SLACK_NS for r in runs],
                         [7, 21])

class Schedules(unittest.TestCase):
    def test_a_seed_is_a_schedule(self):
        for make in (lambda seed: schedule.rules(seed, 60, 'n1'),
                     lambda seed: schedule.outages(seed, 60, 'n1', 3),
                     lambda seed: schedule.clients(seed, 60, 200)):
            self.assertEqual(make(1), make(1))
            self.assertNotEqual(make(1), make(2))
            self.assertTrue(make(1))

    def test_no_rule_is_the_same_as_another(self):
        lines = [l for slot in schedule.rules(1, 600, 'n1') for l in slot]
        self.assertEqual(len(lines), len(set(lines)))

    def test_rules_are_counted_by_kind(self):
        kinds = {schedule.kind_of(line) for seed in range(9)
                 for slot in schedule.rules(seed, 60, 'n1') for line in slot}
        self.assertEqual(kinds, {kind for kind, _ in schedule.RULES})
        self.assertEqual(schedule.kind_of('PUT nodes/* hang'), 'outages')

if __name__ == '__main__':
    unittest.main()
