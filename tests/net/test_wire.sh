# The cable itself: delay, rate, loss and a cut are what was asked for. test_wire.sh WIRE
WIRE=$1
here=$(cd "$(dirname "$0")" && pwd)
RUN=$(mktemp -d /tmp/ebb-wire-XXXXXX)
. "$here/net.sh"
[ "$(id -u)" = 0 ] && command -v ip tc > /dev/null && ip netns add ebb-try 2> /dev/null && ip netns del ebb-try ||
    { rm -rf "$RUN"; echo "skipped: needs root, iproute2 and network namespaces"; exit 77; }
trap 'net_close; rm -rf "$RUN"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }
ok() { echo "  ok: $*"; }
between() { /usr/bin/python3 -c "import sys; v, a, b = map(float, sys.argv[1:]); sys.exit(not a <= v <= b)" "$@"; }

net_open rate=100M delay=20 || fail "no cable: $(cat "$RUN/wire.log")"
$THERE /usr/bin/python3 "$here/tcp.py" serve 10.88.0.2 7000 & server=$!
sleep 0.5
rtt=$($HERE /usr/bin/python3 "$here/tcp.py" echo 10.88.0.2 7000)
between "$rtt" 0.040 0.060 || fail "a round trip takes $rtt s, not 0.04"
ok "a round trip by 20 ms each way: $rtt s"
for way in put get; do
    rate=$($HERE /usr/bin/python3 "$here/tcp.py" $way 10.88.0.2 7000 40000000)
    between "$rate" 9e6 12.6e6 || fail "$way: $rate bytes/s at 100 Mbit/s"
    ok "$way at 100 Mbit/s: $rate bytes/s"
done
net_cut
timeout 2 $HERE /usr/bin/python3 "$here/tcp.py" echo 10.88.0.2 7000 > /dev/null 2>&1 && fail "cut, and an answer"
net_mend
sleep 0.2
timeout 5 $HERE /usr/bin/python3 "$here/tcp.py" echo 10.88.0.2 7000 > /dev/null || fail "mended, and no answer"
ok "cut and mended"
kill $server 2> /dev/null
net_close
net_open loss=20 seed=3 || fail "no cable"
lost=$($HERE ping -n -q -c 200 -i 0.005 -W 1 10.88.0.2 2> /dev/null | sed -n 's/.* \([0-9.]*\)% packet loss.*/\1/p')
if [ -n "$lost" ]; then # both ways: 1 - 0.8^2 = 36 %
    between "$lost" 20 52 || fail "lost $lost % of echoes, not about 36"
    ok "lost $lost % of echoes by 20 % each way"
fi
exit 0
