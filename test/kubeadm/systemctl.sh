#!/bin/sh
# Stands in for systemctl on a node, which has no systemd. It knows the service kubelet, with the flags of the unit that kubeadm's packages bring, and
# starts it again when it ends. $PROGRAMS and $LOG are put in by what writes this file.
set -u
group=/run/kubelet.group # of the processes of the service

active() { [ -f $group ] && kill -s 0 -- "-$(cat $group)" 2>/dev/null; }

service() {
	while :; do
		KUBELET_KUBEADM_ARGS= KUBELET_EXTRA_ARGS=
		[ -f /var/lib/kubelet/kubeadm-flags.env ] && . /var/lib/kubelet/kubeadm-flags.env
		[ -f /etc/default/kubelet ] && . /etc/default/kubelet
		$PROGRAMS/kubelet --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf \
			--config=/var/lib/kubelet/config.yaml $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
		sleep 1
	done
}

stop() {
	active || return 0
	kill -s TERM -- "-$(cat $group)"
	while active; do sleep 0.1; done
}

start() {
	active && return 0
	setsid "$0" run-kubelet </dev/null >>$LOG 2>&1 &
	echo $! >$group
}

verb=
unit=
for word; do
	case $word in
	-*) ;;
	*) if [ -z "$verb" ]; then verb=$word; else unit=${word%.service}; fi ;;
	esac
done
case "$verb $unit" in
"run-kubelet ") service ;;
"daemon-reload ") ;;
"start kubelet") start ;;
"stop kubelet") stop ;;
"restart kubelet") stop && start ;;
"enable kubelet" | "is-enabled kubelet") echo enabled ;;
"is-active kubelet") if active; then echo active; else echo inactive && exit 3; fi ;;
"status kubelet") echo "Loaded: loaded" ;;
is-active*) echo inactive && exit 3 ;;
*) echo "Unit ${unit:-none} could not be found." && exit 4 ;;
esac
