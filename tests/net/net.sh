# Two machines that are network namespaces of this one, and the cable between them; to be sourced. Needs root and iproute2.
#
#   net_open [rate=BITS] [delay=MS] [loss=PERCENT] [queue=MS]   joined by tests/net/wire ($WIRE); without options by a veth pair
#   net_limit RATE    a limit both ways by the kernel's own token bucket (tc tbf), of a veth pair
#   net_cut, net_mend a cable of wire
#   net_close         everything away; what still runs there is ended by who started it
#
# $HERE and $THERE are words to put before a command: HERE is 10.88.0.1, THERE 10.88.0.2.

net_open() {
    NET=ebb$$ net_pid=
    HERE="ip netns exec $NET-here" THERE="ip netns exec $NET-there"
    ip netns add $NET-here && ip netns add $NET-there || return 1
    if [ $# -eq 0 ]; then
        ip link add v0 netns $NET-here type veth peer name v0 netns $NET-there || return 1
    else
        ip netns add $NET-wire &&
            ip link add v0 netns $NET-here type veth peer name w0 netns $NET-wire &&
            ip link add v0 netns $NET-there type veth peer name w1 netns $NET-wire || return 1
        for end in w0 w1; do
            ip netns exec $NET-wire sysctl -qw net.ipv6.conf.$end.disable_ipv6=1
            ip -n $NET-wire link set $end up
        done
    fi
    ip -n $NET-here addr add 10.88.0.1/24 dev v0
    ip -n $NET-there addr add 10.88.0.2/24 dev v0
    for side in here there; do
        ip -n $NET-$side link set lo up
        ip -n $NET-$side link set v0 up
    done
    [ $# -gt 0 ] || return 0
    ip netns exec $NET-wire "$WIRE" w0 w1 "$@" > "${RUN:-/tmp}/wire.log" 2>&1 &
    net_pid=$!
    sleep 0.3
    kill -0 $net_pid
}

net_limit() {
    for side in here there; do
        tc -n $NET-$side qdisc replace dev v0 root tbf rate "$1" burst 256k latency 50ms || return 1
    done
}

net_cut() { kill -USR1 $net_pid; }
net_mend() { kill -USR2 $net_pid; }

net_close() {
    [ -n "${NET-}" ] || return 0
    [ -z "$net_pid" ] || { kill $net_pid && wait $net_pid; } 2> /dev/null
    for side in here there wire; do ip netns del $NET-$side 2> /dev/null; done
    NET=
}
