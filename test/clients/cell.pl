#!/usr/bin/env perl
# Claims a cell or renews a lease with plain file I/O:
#
#   cell.pl claim cells/CELL/own NODE   at a line of input; releases at the next
#   cell.pl renew nodes/NODE NODE       for 10 s at each line; then ends it
#
# A write replaces what this descriptor has read or written last, or is EBUSY.
use strict;
use warnings;
use Fcntl qw(O_RDWR O_CREAT SEEK_SET);

my $TTL_MS = 10_000;

my ($command, $path, $node) = @ARGV;
die "usage: cell.pl claim|renew FILE NODE\n"
    unless @ARGV == 3 && $command =~ /^(claim|renew)$/;

$| = 1;
sysopen(my $file, $path, O_RDWR | O_CREAT) or fail();
defined sysread($file, my $record, 65536) or fail();
print "$record\n";

sub fail {
    print STDERR "$path: ", $!{EBUSY} ? 'busy: nothing was written' : $!, "\n";
    close $file if $file; # or perl complains of the same error at its exit
    exit 1;
}

# Not print and seek, which go through a buffer.
sub put {
    my ($record) = @_;
    sysseek($file, 0, SEEK_SET) && syswrite($file, $record) or fail();
    print "$record\n";
}

if ($command eq 'claim') {
    # as an integer: exact up to 2 ** 64 - 1
    my ($last) = $record =~ /"epoch"\s*:\s*(\d+)/;
    my $epoch = ($last // 0) + 1;
    <STDIN>;
    put(qq({"node":"$node","epoch":$epoch}));
    <STDIN>;
    put(qq({"node":"","epoch":$epoch}));
} else {
    my $lease = qq({"node":"$node","expires_ms":%d,"addr":"$node"});
    put(sprintf $lease, time * 1000 + $TTL_MS) while <STDIN>;
    put(sprintf $lease, 0);
}
