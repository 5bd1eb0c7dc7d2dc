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

// outcome is how a step ended.
type outcome struct {
	name    string
	err     error
	skipped bool
	seconds float64
}

func (c *cluster) steps() []step {
	list := []step{
		{"kubeadm init", c.initialize},
		{workerJoins, c.joinWorker},
		{workloadAnswers, c.startWorkload},
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
		step{planesJoin, c.joinPlanes},
		step{"one of three control planes is killed", c.killPlane},
		step{"the killed control plane comes back", c.revive},
		step{"kubeadm reset of a control plane", c.reset},
	)
}

// needed are the steps without which those that follow make no sense.
var needed = map[string]bool{"kubeadm init": true, workerJoins: true, workloadAnswers: true, planesJoin: true}

const (
	workerJoins     = "kubeadm join, as kubeadm prints it"
	workloadAnswers = "a workload answers by its name"
	planesJoin      = "kubeadm join --control-plane, twice, with stacked etcd"
)

// run does the steps in their order.
func (c *cluster) run(ctx context.Context) (outcomes []outcome) {
	over := false
	for _, s := range c.steps() {
		if over {
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
		outcomes, over = append(outcomes, o), ctx.Err() != nil || err != nil && needed[s.name]
		if err != nil {
			fmt.Printf("FAILED %6.1f s  %s\n%v\n", o.seconds, o.name, err)
			continue
		}
		fmt.Printf("passed %6.1f s  %s\n", o.seconds, o.name)
	}
	return outcomes
}
