//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kanzen-io/kanzen/test/machine"
)

// joinPlanes makes control planes of two more nodes, each with a server and a member of etcd.
func (c *cluster) joinPlanes(ctx context.Context) error {
	for _, number := range []int{second, third} {
		if err := c.power(ctx, number); err != nil {
			return err
		}
		out, err := c.on(ctx, first, "kubeadm", "init", "phase", "upload-certs", "--upload-certs")
		if err != nil {
			return err
		}
		key := lastLines(out, 1)
		if _, err := c.shell(ctx, number, fmt.Sprintf("%s --control-plane --certificate-key=%s --patches=%s %s", c.join, key, c.s.Config(number, "patches"), ignored)); err != nil {
			return err
		}
		c.balancer.Add(ctx, serverOf(number))
	}
	if err := c.ready(ctx, allNodes); err != nil {
		return err
	}
	for _, number := range []int{first, second, third} {
		if err := c.planeRuns(ctx, number); err != nil {
			return err
		}
	}
	return nil
}

// planeRuns waits until all of a node's control plane is ready, and its server is the one it should be.
func (c *cluster) planeRuns(ctx context.Context, number int) error {
	return machine.Eventually(ctx, patience, "the control plane of "+machine.NodeName(number)+" is ready", func(ctx context.Context) error {
		for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
			pod, err := c.staticPod(ctx, name, number)
			if err != nil {
				return err
			}
			if !isReady(pod) {
				return fmt.Errorf("%s is not", pod.Name)
			}
		}
		return c.serves(ctx, number, c.image())
	})
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// killPlane takes the power of the first control plane away while clients count through the balancer. Then its controllers and its scheduler
// are those of other nodes.
func (c *cluster) killPlane(ctx context.Context) error {
	if err := c.moveDNS(ctx); err != nil {
		return err
	}
	metrics, err := c.on(ctx, first, "curl", "-s", "http://127.0.0.1:2381/metrics")
	if err != nil {
		return err
	}
	role := "a follower of etcd"
	if strings.Contains(metrics, "etcd_server_is_leader 1") {
		role = "the leader of etcd"
	}
	return c.counted(ctx, "one of three control planes is killed, "+role, true, func(ctx context.Context) error {
		if err := c.kill(first); err != nil {
			return err
		}
		if err := machine.Eventually(ctx, patience, "the node is known to be away", func(ctx context.Context) error {
			node, err := c.client.CoreV1().Nodes().Get(ctx, machine.NodeName(first), metav1.GetOptions{})
			if err != nil {
				return err
			}
			for _, condition := range node.Status.Conditions {
				if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionUnknown {
					return nil
				}
			}
			return errors.New("it is still ready")
		}); err != nil {
			return err
		}
		return c.controlled(ctx)
	})
}

// revive gives the node its power back. What was written meanwhile is read from its own server.
func (c *cluster) revive(ctx context.Context) error {
	if err := c.power(ctx, first); err != nil {
		return err
	}
	c.killed[first].Store(false)
	if err := c.answers(ctx, first); err != nil {
		return err
	}
	if err := c.ready(ctx, allNodes); err != nil {
		return err
	}
	if err := c.planeRuns(ctx, first); err != nil {
		return err
	}
	if err := c.sameEverywhere(ctx); err != nil {
		return err
	}
	return c.counted(ctx, "through the node that is back", false, c.controlled)
}

// sameEverywhere asks all three servers for the objects of the last count.
func (c *cluster) sameEverywhere(ctx context.Context) error {
	var want string
	for _, number := range []int{second, third, first} {
		got, err := c.countedObjects(ctx, number)
		if err != nil {
			return err
		}
		if want == "" {
			want = got
		}
		if got != want || got == "" {
			return fmt.Errorf("%s has other objects than %s", machine.NodeName(number), machine.NodeName(second))
		}
	}
	return nil
}

// activePeer is a line of etcd's metrics.
var activePeer = regexp.MustCompile(`(?m)^etcd_network_active_peers\{.*\} 1$`)

// reset takes the last control plane out of the cluster, with its member of etcd.
func (c *cluster) reset(ctx context.Context) error {
	return c.counted(ctx, "kubeadm reset of a control plane", true, func(ctx context.Context) error {
		out, err := c.on(ctx, third, "kubeadm", "reset", "--force")
		if err != nil {
			return err
		}
		if strings.Contains(strings.ToLower(out), "failed to remove") {
			return fmt.Errorf("kubeadm reset: %s", out)
		}
		if err := c.client.CoreV1().Nodes().Delete(ctx, machine.NodeName(third), metav1.DeleteOptions{}); err != nil {
			return err
		}
		return machine.Eventually(ctx, patience, "etcd has two members", func(ctx context.Context) error {
			metrics, err := c.on(ctx, first, "curl", "-s", "http://127.0.0.1:2381/metrics")
			if err != nil {
				return err
			}
			if n := len(activePeer.FindAllString(metrics, -1)); n != 1 {
				return fmt.Errorf("it has %d, and itself", n)
			}
			return nil
		})
	})
}

// countedObjects is the names and values of the objects of the last count, as a node's server has them.
func (c *cluster) countedObjects(ctx context.Context, number int) (string, error) {
	client, err := kubernetes.NewForConfig(c.directly(number))
	if err != nil {
		return "", err
	}
	list, err := client.CoreV1().ConfigMaps(countedNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, m := range list.Items {
		fmt.Fprintf(&b, "%s=%s@%s\n", m.Name, m.Data["value"], m.ResourceVersion)
	}
	return b.String(), nil
}
