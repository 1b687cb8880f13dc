# Before a list of attempts: each is a name and a piece of Perl that is true when it worked. Prints `NAME worked`, or the error's name.
use strict;
use warnings;
use Fcntl qw(:DEFAULT :flock);
use Socket;
$| = 1;

sub error_name {
    my ($number) = @_;
    local $! = $number;
    my ($name) = sort grep { $!{$_} } keys %!;
    return $name // "errno $number";
}

sub attempt {
    my ($name, $code) = @_;
    $! = 0;
    my $worked = eval { $code->() };
    my $error = $! + 0;
    print "$name ", $worked ? 'worked' : $@ ne '' ? "died: $@" : error_name($error), "\n";
}

# A system call by its number. Copies, because Perl hands the kernel no text that it may not change.
sub call { my ($number, @given) = @_; return syscall($number, @given) != -1 }
sub opens { my ($path, $flags) = @_; return sysopen(my $file, $path, $flags // O_RDONLY) }
sub writes { my ($path, $text) = @_; sysopen(my $file, $path, O_WRONLY) or return 0; return defined syswrite($file, $text) }
sub lists { my ($path) = @_; opendir(my $dir, $path) or return 0; return 1 }
sub connects { my ($path) = @_; socket(my $socket, AF_UNIX, SOCK_STREAM, 0) or return 0; return connect($socket, pack('S a*', AF_UNIX, $path)) }
