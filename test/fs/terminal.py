#!/usr/bin/env python3
"""terminal: an interactive bash on a terminal of its own, and keys for it. Reads
steps from its input, one a line, and does them in order:

    type TEXT       and the Enter key
    key C|Z|D       with Ctrl
    see REGEX       waits until the terminal shows it, after what was seen before
    pause SECONDS
    mark FILE       waits until FILE is there and not empty

Fails, and prints all that was shown, if something is not seen within 15 s.
"""
import os, pty, re, select, signal, sys, time

TIMEOUT = float(os.environ.get("T", "15"))

def fail(why):
    print('%s; the terminal shows:\n%s' % (why, shown))
    os.kill(shell, signal.SIGKILL)
    sys.exit(1)

def read_more(until):
    global shown
    ready, _, _ = select.select([terminal], [], [], max(0, until - time.monotonic()))
    if not ready:
        return False
    try:
        shown += os.read(terminal, 65536).decode(errors='replace')
    except OSError:
        return False
    return True

def see(regex):
    global seen
    until = time.monotonic() + TIMEOUT
    while not (found := re.compile(regex, re.M).search(shown, seen)):
        if not read_more(until):
            fail('not seen: ' + regex)
    seen = found.end()

def mark(path):
    until = time.monotonic() + TIMEOUT
    while not os.path.exists(path) or not os.path.getsize(path):
        if time.monotonic() > until:
            fail('not there: ' + path)
        time.sleep(0.02)

steps = sys.stdin.read().splitlines()
shown, seen = '', 0
shell, terminal = pty.fork()
if shell == 0:
    for number in range(1, signal.SIGSYS + 1):
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
    os.environ.update(PS1='ready> ', TERM='dumb', HISTFILE='/dev/null')
    os.execvp('bash', ['bash', '--norc', '--noprofile', '--noediting', '-i'])
see('ready> ')
for step in steps:
    verb, _, text = step.strip().partition(' ')
    if verb == 'type':
        os.write(terminal, text.encode() + b'\n')
    elif verb == 'key':
        os.write(terminal, bytes([ord(text) - 64]))
    elif verb == 'see':
        see(text)
    elif verb == 'pause':
        read_more(time.monotonic() + float(text))
        time.sleep(float(text))
    elif verb == 'mark':
        mark(text)
    elif verb:
        fail('no step: ' + step)
os.write(terminal, b'exit\n')
os.close(terminal)
os.waitpid(shell, 0)
