#!/bin/busybox sh
# The first process of the guest: sends the frames of each case through netem, then through Weir, and leaves the records on the disk.
#
# s0 and a are the ends of one cable, b and r0 of another. Between a and b is a bridge with netem at its port b, or Weir.
# /cases has a line for each case: number, arguments of probe, the words of netem.
export PATH=/bin:/applets HOME=/root XDG_RUNTIME_DIR=/run WEIR_ERRORS=json
/bin/busybox --install -s /applets
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
while read -r module; do insmod "/modules/$module"; done </modules/order

# busybox has its own ip and tc, which its shell prefers.
ip() { /bin/ip "$@"; }
tc() { /bin/tc "$@"; }

end() {
    # The size of the disk is a multiple of tar's blocks.
    tar -c -C /out . >/dev/vda
    sync
    poweroff -f
    # Where that fails, the end of the first process ends the guest.
    exit 1
}

failed() {
    echo "guest: $*" >/dev/console
    end
}

ip link add name s0 type veth peer name a && ip link add name b type veth peer name r0 || failed "no veth"
for interface in s0 a b r0; do ip link set dev "$interface" up; done

# Times of the records are those of this guest, whose clock is stepped by nothing.
measure() {
    probe s0 r0 $1 "$2" 2>>/out/errors || failed "probe $1"
}

ip link add name br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0 && ip link set dev br0 up || failed "no bridge"
ip link set dev a master br0 && ip link set dev b master br0
while IFS='|' read -r number probe words; do
    tc qdisc add dev b root netem $words 2>>/out/errors || failed "netem $words"
    measure "$probe" "/out/$number.netem"
    tc -s qdisc show dev b >"/out/$number.qdisc"
    tc qdisc del dev b root
done </cases
ip link del dev br0

while IFS='|' read -r number probe words; do
    weir impair a b --netem "$words" --seed 1 --json --control-socket /run/weir.sock >"/out/$number.report" 2>"/out/$number.events" &
    weir=$!
    until [ -S /run/weir.sock ]; do
        kill -0 "$weir" 2>/dev/null || failed "weir impair a b --netem '$words': $(cat "/out/$number.events")"
        usleep 20000
    done
    measure "$probe" "/out/$number.weir"
    kill -INT "$weir"
    wait "$weir"
done </cases
touch /out/complete
end
