//go:build linux

package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/test/machine"
)

//go:embed workload.yaml
var workload string

// startWorkload creates pods that serve and a pod that calls them, on the worker, and waits until it is answered.
func (c *cluster) startWorkload(ctx context.Context) error {
	path := c.s.Config(first, "workload.yaml")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(workload, "$AGNHOST", agnhostImage)), 0o644); err != nil {
		return err
	}
	if err := c.moveDNS(ctx); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"apply", "-f", path},
		{"-n", "shop", "rollout", "status", "deployment", "web", "--timeout=8m"},
		{"-n", "shop", "wait", "pod", "caller", "--for=condition=Ready", "--timeout=8m"},
	} {
		if _, err := c.kubectl(ctx, args...); err != nil {
			return err
		}
	}
	return machine.Eventually(ctx, patience, "the service answers by its name", func(ctx context.Context) error {
		answered, failures, err := c.called(ctx, time.Now().Add(-3*time.Second))
		if err == nil && (answered == 0 || len(failures) > 0) {
			err = fmt.Errorf("%d requests were answered, %d failed: %v", answered, len(failures), failures)
		}
		return err
	})
}

// moveDNS moves the cluster's DNS to the worker, so that nothing but the control plane is on the other nodes. kubeadm upgrade undoes it.
func (c *cluster) moveDNS(ctx context.Context) error {
	toWorker := `{"spec":{"template":{"spec":{"nodeSelector":{"kubernetes.io/hostname":"` + machine.NodeName(worker) + `"}}}}}`
	if _, err := c.kubectl(ctx, "-n", "kube-system", "patch", "deployment", "coredns", "--patch", toWorker); err != nil {
		return err
	}
	_, err := c.kubectl(ctx, "-n", "kube-system", "rollout", "status", "deployment", "coredns", "--timeout=8m")
	return err
}

// called says how many requests of the caller have been answered since then, and why others were not.
func (c *cluster) called(ctx context.Context, since time.Time) (answered int, failures []string, err error) {
	from := metav1.NewTime(since)
	text, err := c.client.CoreV1().Pods("shop").GetLogs("caller", &corev1.PodLogOptions{SinceTime: &from}).DoRaw(ctx)
	if err != nil {
		return 0, nil, err
	}
	for line := range strings.Lines(string(text)) {
		switch line = strings.TrimSpace(line); {
		case line == "answered":
			answered++
		case line != "":
			failures = append(failures, line)
		}
	}
	return answered, failures, nil
}

// undisturbed is an error if a request of the caller has failed since then, or a pod of the workload was restarted.
func (c *cluster) undisturbed(ctx context.Context, since time.Time) (answered int, err error) {
	answered, failures, err := c.called(ctx, since)
	if err != nil {
		return 0, fmt.Errorf("asking what the workload has done: %w", err)
	}
	if len(failures) > 0 {
		err = fmt.Errorf("%d requests of the workload failed, as %q", len(failures), failures[0])
	}
	if least := int(time.Since(since).Seconds()) / 2; answered < least {
		err = errors.Join(err, fmt.Errorf("%d requests of the workload were answered in %.0f s", answered, time.Since(since).Seconds()))
	}
	pods, listErr := c.client.CoreV1().Pods("shop").List(ctx, metav1.ListOptions{})
	if listErr != nil {
		return answered, errors.Join(err, listErr)
	}
	for _, pod := range pods.Items {
		for _, status := range pod.Status.ContainerStatuses {
			if status.RestartCount > 0 {
				err = errors.Join(err, fmt.Errorf("%s was restarted", pod.Name))
			}
		}
	}
	return answered, err
}

// settle is how long a count goes on before and after what is done.
const settle = 3 * time.Second

// counted does something while clients of the first node's server count, and the workload goes on.
func (c *cluster) counted(ctx context.Context, what string, balanced bool, do func(context.Context) error) error {
	config := c.directly(first)
	if balanced {
		config = c.config
	}
	began := time.Now()
	counting, err := startCount(ctx, what, config)
	if err != nil {
		return err
	}
	time.Sleep(settle)
	done := do(ctx)
	if done == nil {
		time.Sleep(settle)
	}
	result, err := counting.finish(ctx)
	err = errors.Join(done, err)
	if err == nil {
		result.served, err = c.undisturbed(ctx, began)
	}
	c.counts = append(c.counts, result)
	c.log("%s: %+v\n\n", what, result)
	return err
}
