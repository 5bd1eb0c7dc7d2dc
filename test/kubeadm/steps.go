//go:build linux

package main

import (
	"context"
	"fmt"
	"time"
)

// step is something that people do to a cluster of kubeadm.
type step struct {
	name string
	do   func(context.Context) error
}

// outcome is how a step ended; after one that failed no other is done.
type outcome struct {
	name    string
	err     error
	skipped bool
	seconds float64
}

func (c *cluster) steps() []step {
	list := []step{
		{"kubeadm init", c.initialize},
		{"kubeadm join, as kubeadm prints it", c.joinWorker},
		{"a workload answers by its name", c.startWorkload},
		{"kubectl", c.useKubectl},
		{"kubeadm token", c.tokens},
		{"kubeadm certs renew all, and the control plane started again", c.renew},
		{"kubeadm upgrade plan", c.plan},
	}
	if c.s.peer {
		list = append(list, step{"static pod of kube-apiserver changed", c.restart("kube-apiserver restarts", peerImage)})
	} else {
		list = append(list,
			step{"static pod of kanzen changed", c.restart("kanzen restarts", kanzenImage)},
			step{"from kanzen to kube-apiserver by the image line", c.restart("from kanzen to kube-apiserver", peerImage)},
			step{"static pod of kube-apiserver changed", c.restart("kube-apiserver restarts", peerImage)},
			step{"from kube-apiserver to kanzen by the image line", c.restart("from kube-apiserver to kanzen", kanzenImage)},
			step{"kubeadm upgrade apply, from kanzen to kube-apiserver", c.upgrade("kubeadm upgrade apply, to kube-apiserver", "", peerImage)},
			step{"kubeadm upgrade apply, from kube-apiserver to the released image of kanzen", c.upgrade("kubeadm upgrade apply, to the released image", "released", releasedImage)},
		)
	}
	return append(list,
		step{"kubeadm upgrade apply", c.upgrade("kubeadm upgrade apply", "patches", c.image())},
		step{"kubeadm upgrade node", c.upgradeWorker},
		step{"kubeadm join --control-plane, twice, with stacked etcd", c.joinPlanes},
		step{"one of three control planes is killed", c.killPlane},
		step{"the killed control plane comes back", c.revive},
		step{"kubeadm reset of a control plane", c.reset},
	)
}

// run does the steps in their order.
func (c *cluster) run(ctx context.Context) (outcomes []outcome) {
	failed := false
	for _, s := range c.steps() {
		if failed {
			outcomes = append(outcomes, outcome{name: s.name, skipped: true})
			continue
		}
		began := time.Now()
		c.log("=== %s\n\n", s.name)
		err := s.do(ctx)
		if cause := context.Cause(ctx); err != nil && cause != nil {
			err = fmt.Errorf("%w (%w)", err, cause)
		}
		o := outcome{name: s.name, err: err, seconds: time.Since(began).Seconds()}
		outcomes, failed = append(outcomes, o), err != nil
		said := "passed"
		if failed {
			said = "FAILED"
		}
		fmt.Printf("%s %6.1f s  %s\n", said, o.seconds, o.name)
		if failed {
			fmt.Printf("%v\n", err)
		}
	}
	return outcomes
}
