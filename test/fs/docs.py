#!/usr/bin/env python3
"""docs: does what a document shows, as it is printed.

    docs FILE [OLD=NEW...]

FILE is README.md, whose ```sh blocks are run, or a manual page, of which the
displays in EXAMPLES are, but for units of systemd. One bash runs all of a
document's, in order, with NEW in the place of OLD. None may fail.

A ```text block right after a block of README.md is all that this prints, and none
is nothing. In it an ellipsis, with the hexadecimal digits before it, stands for
anything, and on a line of its own for any lines. What the examples of a manual
print is printed.
"""
import re, subprocess, sys, tempfile

MARK = 'THE END OF A BLOCK'

def blocks_of_readme(text):
    """Pairs of the commands and what they print."""
    found = re.findall(r'^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?', text,
                       re.M | re.S)
    return [(commands, printed) for commands, printed in found]

def blocks_of_manual(text):
    examples = re.search(r'^\.Sh EXAMPLES\n(.*?)^\.Sh ', text, re.M | re.S).group(1)
    for block in re.findall(r'^\.Bd -literal.*?\n(.*?)^\.Ed\n', examples, re.M | re.S):
        if not block.startswith('['):
            yield block.replace('\\e', '\\'), None

def pattern(printed):
    lines = []
    for line in printed.splitlines():
        parts = re.split('[0-9a-f]*…', line)
        lines.append('(?:.*\n)*' if line == '…' else
                     '.*'.join(map(re.escape, parts)) + '\n')
    return re.compile(''.join(lines))

def main():
    name, changes = sys.argv[1], dict(word.split('=', 1) for word in sys.argv[2:])
    text = open(name).read()
    if name.endswith('.md'):
        blocks = blocks_of_readme(text)
    else:
        blocks = list(blocks_of_manual(text))
    script = ''.join('%secho "%s"\n' % (commands, MARK) for commands, _ in blocks)
    if changes:
        script = re.sub('|'.join(map(re.escape, changes)),
                        lambda old: changes[old.group()], script)
    # not a pipe, which the daemons would keep open
    with tempfile.TemporaryFile('w+') as out:
        status = subprocess.run(['bash', '-e', '-c', script], stdout=out,
                                stderr=out, stdin=subprocess.DEVNULL).returncode
        out.seek(0)
        # as an interactive bash puts it
        said = re.sub('^bash: line [0-9]+: ', 'bash: ', out.read(), flags=re.M)
    said = said.split(MARK + '\n')
    for (commands, printed), found in zip(blocks, said):
        if printed is None:
            print(found, end='')
        elif not pattern(printed).fullmatch(found):
            sys.exit('%s\nprints\n\n%s\nand should print\n\n%s' %
                     (commands, found, printed))
    if status or len(said) != len(blocks) + 1:
        sys.exit('%s\nfails with status %d: %s' %
                 (blocks[len(said) - 1][0], status, said[-1]))
    print(len(blocks), 'blocks')

main()
