# SPDX-License-Identifier: MIT
# Fixed work of `sheaf bench real`: hashes, regular expressions, sorting of a text.
use strict;
my (%count, %lines, $total);
open(my $text, '<', $ARGV[0]) or die "$ARGV[0]: $!\n";
while (my $line = <$text>) {
	chomp $line;
	for my $word (split / /, $line) {
		$count{$word}++;
		push @{$lines{substr($word, 0, 3)}}, $. if length $word > 5;
	}
	$line =~ s/(\w+) (\w+)/$2 $1/g;
	$total += length $line;
}
my @sorted = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
$total += @{$lines{$_}} for sort keys %lines;
print join(' ', $total, @sorted[0 .. 9]), "\n";
