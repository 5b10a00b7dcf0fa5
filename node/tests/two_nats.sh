#!/bin/bash
# Two nodes behind two NATs, and a relay in the open: they meet through the relay and move to a direct connection.
#
#   two_nats.sh PROGRAM [symmetric]
#
# By hand, as root: it makes network namespaces and needs ip, nft and python3. The NATs masquerade, keep the port where they
# can, and let in only what answers (Linux's own; address- and port-dependent filtering). With `symmetric` they give every
# connection a port of its own; no hole can be punched then, and the two stay with the relay. Ends by itself; 0: as it should.
set -u
program=$(realpath "$1")
wanted=hole-punched masquerade=masquerade
[ "${2:-}" = symmetric ] && wanted=relayed masquerade='masquerade fully-random'
work=$(mktemp -d)
pids=
clean() {
    [ -n "$pids" ] && kill $pids 2>/dev/null && wait $pids 2>/dev/null
    for space in folk-open folk-nat-a folk-nat-b folk-a folk-b; do ip netns del $space 2>/dev/null; done
    rm -rf "$work"
}
trap clean EXIT

for space in folk-open folk-nat-a folk-nat-b folk-a folk-b; do
    ip netns add $space || exit 2
    ip -n $space link set lo up
done
ip -n folk-open link add br0 type bridge
ip -n folk-open addr add 198.51.100.1/24 dev br0
ip -n folk-open link set br0 up
host=2
for site in a b; do
    nat=folk-nat-$site inside=folk-$site
    ip link add wan-$site netns folk-open type veth peer name wan0 netns $nat
    ip -n folk-open link set wan-$site master br0
    ip -n folk-open link set wan-$site up
    ip -n $nat addr add 198.51.100.$host/24 dev wan0
    ip -n $nat link set wan0 up
    ip link add lan0 netns $nat type veth peer name eth0 netns $inside
    ip -n $nat addr add 10.$host.0.1/24 dev lan0
    ip -n $nat link set lan0 up
    ip -n $inside addr add 10.$host.0.2/24 dev eth0
    ip -n $inside link set eth0 up
    ip -n $inside route add default via 10.$host.0.1
    ip netns exec $nat sysctl -qw net.ipv4.ip_forward=1
    ip netns exec $nat nft -f - <<RULES || exit 2
table ip nat {
    chain post {
        type nat hook postrouting priority 100;
        oifname "wan0" $masquerade
    }
}
table ip filter {
    chain in {
        type filter hook input priority 0; policy accept;
        iifname "wan0" ct state new drop
    }
    chain through {
        type filter hook forward priority 0; policy accept;
        iifname "wan0" ct state new drop
    }
}
RULES
    host=$((host + 1))
done

at() {
    local site=$1
    shift
    ip netns exec folk-$site "$program" --data "$work/$site" "$@"
}
up() {
    local site=$1
    shift
    at $site init >/dev/null
    ip netns exec folk-$site "$program" --data "$work/$site" -v up "$@" >"$work/$site.log" 2>&1 &
    pids="$pids $!"
    until at $site status >/dev/null 2>&1; do sleep 0.2; done
}
# Waits until PYTHON holds of the JSON of a verb at a site.
until_json() {
    local site=$1 verb=$2 python=$3
    for _ in $(seq 120); do
        at $site $verb --json | python3 -c "import json,sys; a = json.load(sys.stdin); sys.exit(0 if $python else 1)" && return
        sleep 0.5
    done
    echo "never at $site: $python" >&2
    at $site $verb >&2
    tail -20 "$work/$site.log" >&2
    exit 1
}

up open --listen 198.51.100.1:4001 --relay
relay=$(at open status --json | python3 -c 'import json,sys; print("/ip4/198.51.100.1/tcp/4001/p2p/" + json.load(sys.stdin)["node"])')
up a --listen 10.2.0.2:4001 --via "$relay"
up b --listen 10.3.0.2:4001 --via "$relay"
for n in $(seq 20); do
    echo "{\"kind\": \"pitfall\", \"title\": \"lesson $n\", \"content\": \"number $n\"}" | at a teach >/dev/null
done
until_json a status 'a["network"]["relays"]'
at b bank join "$(at a bank invite)" >/dev/null
until_json b peers "any(p['route'] == '$wanted' for p in a['peers'])"
until_json b list 'a["total"] == 20'
until_json a status "a['network']['nat'] == 'private'"
at b peers
echo "as it should: $wanted, and everything is there"
