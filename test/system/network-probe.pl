# Tries to reach each address that it is given, as `NAME=KIND:ADDRESS` arguments, and prints `NAME reached` or the error's name.
# Runs inside a sandbox on nothing but Perl itself.
use strict;
use warnings;
use Socket qw(:all);

use constant { AF_NETLINK => 16, AF_PACKET => 17, AF_VSOCK => 40, WAIT_SECONDS => 3 };
$| = 1;

sub error_name {
    my ($number) = @_;
    local $! = $number;
    my ($name) = sort grep { $!{$_} } keys %!;
    return $name // "errno $number";
}

# Waits for an answer of a datagram or stream socket; 0 when there is one.
sub answer_of {
    my ($socket) = @_;
    my $bits = '';
    vec($bits, fileno($socket), 1) = 1;
    my $ready = select($bits, undef, undef, WAIT_SECONDS);
    return 110 if $ready < 1; # ETIMEDOUT
    return defined(recv($socket, my $data, 65536, 0)) ? 0 : $! + 0;
}

sub connect_to {
    my ($family, $type, $address, $say) = @_;
    socket(my $socket, $family, $type, 0) or return $! + 0;
    # A datagram socket gets its answer at an address of its own.
    $family == AF_UNIX && $type == SOCK_DGRAM and (bind($socket, pack('S', AF_UNIX)) or return $! + 0);
    local $SIG{ALRM} = sub { };
    alarm WAIT_SECONDS;
    my $connected = connect($socket, $address);
    my $error = $! + 0;
    alarm 0;
    return $error unless $connected;
    return 0 unless defined $say;
    defined(send($socket, $say, 0)) or return $! + 0;
    return answer_of($socket);
}

sub internet {
    my ($type, $text, $say) = @_;
    my ($host, $port) = $text =~ /^\[?(.*?)\]?:(\d+)$/;
    return connect_to(AF_INET6, $type, pack_sockaddr_in6($port, inet_pton(AF_INET6, $host)), $say) if $host =~ /:/;
    return connect_to(AF_INET, $type, pack_sockaddr_in($port, inet_aton($host)), $say);
}

# One routing message that only the network's administrator may send; the kernel's answer.
sub routing {
    my ($type, $body) = @_;
    socket(my $socket, AF_NETLINK, SOCK_RAW, 0) or return $! + 0;
    my $flags = 0x605; # request, acknowledge, create, exclusive
    send($socket, pack('LSSLL', 16 + length $body, $type, $flags, 1, 0) . $body, 0) or return $! + 0;
    recv($socket, my $answer, 65536, 0) // return $! + 0;
    return -unpack('x16 l', $answer);
}

my %try = (
    tcp => sub { internet(SOCK_STREAM, $_[0]) },
    udp => sub { internet(SOCK_DGRAM, $_[0], 'hello') },
    unix => sub { connect_to(AF_UNIX, SOCK_STREAM, pack_sockaddr_un($_[0])) },
    datagram => sub { connect_to(AF_UNIX, SOCK_DGRAM, pack_sockaddr_un($_[0])) },
    abstract => sub { connect_to(AF_UNIX, SOCK_STREAM, pack('S a*', AF_UNIX, "\0$_[0]")) },
    gateway => sub { connect_to(AF_UNIX, SOCK_STREAM, pack_sockaddr_un('/run/djinn/gw/model.sock'), "GET /v1/models HTTP/1.0\r\n\r\n") },
    raw => sub { socket(my $socket, AF_INET, SOCK_RAW, $_[0]) ? 0 : $! + 0 },
    packet => sub { socket(my $socket, AF_PACKET, SOCK_RAW, 0) ? 0 : $! + 0 },
    # Never connected: that would leave the machine.
    vsock => sub { socket(my $socket, AF_VSOCK, SOCK_STREAM, 0) ? 0 : $! + 0 },
    # A default route through the loopback interface; a new interface.
    route => sub { routing(24, pack('CCCCCCCCL', 2, 0, 0, 0, 254, 3, 253, 1, 0) . pack('SSL', 8, 4, 1)) },
    link => sub { routing(16, pack('CCSlLL', 0, 0, 0, 0, 0, 0) . pack('SS a8', 12, 3, 'dummy77')) },
    namespace => sub { open(my $file, '<', "/proc/$_[0]/ns/net") ? 0 : $! + 0 },
);

for my $argument (@ARGV) {
    my ($name, $kind, $address) = $argument =~ /^(.*?)=(\w+):?(.*)$/ or die "what is $argument?\n";
    my $error = $try{$kind}->($address);
    print "$name ", $error == 0 ? 'reached' : error_name($error), "\n";
}
