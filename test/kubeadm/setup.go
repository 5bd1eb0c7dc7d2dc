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

	"github.com/kanzen-io/kanzen/test/machine"
)

// ignored are the preflight checks whose failure says nothing of the server: the nodes have the first version of control groups if the machine has.
const ignored = "--ignore-preflight-errors=SystemVerification"

// initialize makes the first control plane.
func (c *cluster) initialize(ctx context.Context) error {
	if err := c.power(ctx, first); err != nil {
		return err
	}
	c.balancer.Add(ctx, serverOf(first))
	if _, err := c.on(ctx, first, "kubeadm", "init", "--config="+c.s.Config(first, "kubeadm.yaml"), "--upload-certs"); err != nil {
		return err
	}
	if err := c.login(ctx); err != nil {
		return err
	}
	return c.serves(ctx, first, c.image())
}

// image is what the static pod of kube-apiserver starts from where nothing else is said.
func (c *cluster) image() string {
	if c.s.peer {
		return peerImage
	}
	return kanzenImage
}

// serves asks whether the server of a node is the image's, by what it says and by what the static pod says.
func (c *cluster) serves(ctx context.Context, number int, image string) error {
	pod, err := c.staticPod(ctx, "kube-apiserver", number)
	if err != nil {
		return err
	}
	got, err := serverVersion(ctx, c.directly(number))
	if err != nil {
		return err
	}
	if pod.Spec.Containers[0].Image != image || strings.Contains(got, "kanzen") != (image != peerImage) {
		return fmt.Errorf("the image of the static pod is %s, the server says it is %s; want %s", pod.Spec.Containers[0].Image, got, image)
	}
	return nil
}

// staticPod is a pod of the control plane on a node.
func (c *cluster) staticPod(ctx context.Context, name string, number int) (*corev1.Pod, error) {
	return c.client.CoreV1().Pods("kube-system").Get(ctx, name+"-"+machine.NodeName(number), metav1.GetOptions{})
}

// joinWorker calls what kubeadm prints for nodes that join.
func (c *cluster) joinWorker(ctx context.Context) error {
	if err := c.power(ctx, worker); err != nil {
		return err
	}
	command, err := c.on(ctx, first, "kubeadm", "token", "create", "--print-join-command")
	if err != nil {
		return err
	}
	c.join = strings.TrimSpace(command)
	if _, err := c.shell(ctx, worker, c.join+" "+ignored); err != nil {
		return err
	}
	return c.ready(ctx, 2)
}

// ready waits until so many nodes are ready.
func (c *cluster) ready(ctx context.Context, nodes int) error {
	return machine.Eventually(ctx, patience, fmt.Sprintf("%d nodes are ready", nodes), func(ctx context.Context) error {
		list, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var are []string
		for _, node := range list.Items {
			for _, condition := range node.Status.Conditions {
				if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
					are = append(are, node.Name)
				}
			}
		}
		if len(are) != nodes {
			return fmt.Errorf("these are: %v", are)
		}
		return nil
	})
}

// useKubectl does what people do with kubectl, and looks for what it has to print.
func (c *cluster) useKubectl(ctx context.Context) error {
	for _, call := range []struct{ args, prints string }{
		{"get nodes -o wide", machine.NodeAddress(worker)},
		{"get pods -A -o wide", "kube-apiserver-node-1"},
		{"cluster-info", "control plane"},
		{"get --raw /readyz?verbose", "readyz check passed"},
		{"auth can-i create pods --as=system:serviceaccount:shop:default", ""},
		{"auth whoami", "kubeadm:cluster-admins"},
		{"describe node node-2", "kubelet"},
		{"explain pods.spec.containers", "image"},
		{"-n shop logs deployment/web", "HTTP server"},
		{"-n shop exec caller -- curl -s web.shop.svc.cluster.local/hostname", "web-"},
		{"-n shop create configmap colours --from-literal=a=red", "created"},
		{"-n shop patch configmap colours -p {\"data\":{\"a\":\"blue\"}}", "patched"},
		{"-n shop get configmap colours -o jsonpath={.data.a}", "blue"},
		{"-n shop delete configmap colours", "deleted"},
		{"-n shop scale deployment web --replicas=4", "scaled"},
		{"-n shop rollout status deployment web --timeout=8m", "successfully rolled out"},
		{"-n shop scale deployment web --replicas=3", "scaled"},
		{"get csr", "Approved,Issued"},
		{"drain node-2 --ignore-daemonsets --force --delete-emptydir-data --dry-run=server", "node/node-2"},
	} {
		out, err := c.kubectl(ctx, strings.Fields(call.args)...)
		if call.prints == "" { // it says no, with an exit code
			if !strings.HasPrefix(out, "no") {
				return fmt.Errorf("kubectl %s: %w: %s", call.args, err, out)
			}
			continue
		}
		if err != nil {
			return err
		}
		if !strings.Contains(out, call.prints) {
			return fmt.Errorf("kubectl %s has not printed %q: %s", call.args, call.prints, out)
		}
	}
	return nil
}

// tokens makes a token, finds it in the list and in what anonymous clients read to join, and deletes it.
func (c *cluster) tokens(ctx context.Context) error {
	const token, id = "abcdef.0123456789abcdef", "abcdef"
	if _, err := c.on(ctx, first, "kubeadm", "token", "create", token, "--ttl=1h"); err != nil {
		return err
	}
	list, err := c.on(ctx, first, "kubeadm", "token", "list")
	if err != nil {
		return err
	}
	if !strings.Contains(list, token) {
		return fmt.Errorf("kubeadm token list does not name it: %s", list)
	}
	signed := func(want bool) error {
		return machine.Eventually(ctx, patience, fmt.Sprintf("cluster-info is signed with the token: %t", want), func(ctx context.Context) error {
			out, err := c.on(ctx, worker, "curl", "-sk", "https://"+machine.Address+":6443/api/v1/namespaces/kube-public/configmaps/cluster-info")
			if err == nil && strings.Contains(out, "jws-kubeconfig-"+id) != want {
				err = errors.New(out)
			}
			return err
		})
	}
	if err := signed(true); err != nil {
		return err
	}
	if _, err := c.on(ctx, first, "kubeadm", "token", "delete", token); err != nil {
		return err
	}
	return signed(false)
}

// renew renews all certificates and starts the whole control plane again, as kubeadm asks for: without its manifests for a while.
func (c *cluster) renew(ctx context.Context) error {
	address := serverOf(first)
	before, err := serial(address)
	if err != nil {
		return err
	}
	expiry, err := c.on(ctx, first, "kubeadm", "certs", "check-expiration")
	if err != nil {
		return err
	}
	if !regexp.MustCompile(`apiserver-kubelet-client .* 36\dd `).MatchString(expiry) {
		return fmt.Errorf("kubeadm certs check-expiration does not say that the certificate is valid for a year: %s", expiry)
	}
	if err := c.counted(ctx, "all of the control plane starts again", false, func(ctx context.Context) error {
		if _, err := c.on(ctx, first, "kubeadm", "certs", "renew", "all"); err != nil {
			return err
		}
		if _, err := c.shell(ctx, first, "mkdir /etc/kubernetes/held; mv /etc/kubernetes/manifests/*.yaml /etc/kubernetes/held/"); err != nil {
			return err
		}
		if err := machine.Eventually(ctx, patience, "the control plane has stopped", c.portsClosed); err != nil {
			return err
		}
		if _, err := c.shell(ctx, first, "mv /etc/kubernetes/held/*.yaml /etc/kubernetes/manifests/"); err != nil {
			return err
		}
		return c.answers(ctx, first)
	}); err != nil {
		return err
	}
	after, err := serial(address)
	if err != nil {
		return err
	}
	if after == before {
		return errors.New("the server still shows the certificate from before")
	}
	if err := c.login(ctx); err != nil {
		return err
	}
	return c.controlled(ctx)
}

// portsClosed is an error if somebody listens for the server, etcd, the controllers or the scheduler on the first node.
func (c *cluster) portsClosed(ctx context.Context) error {
	_, err := c.on(ctx, first, "bash", "-c", "for p in 6443 2379 10257 10259; do if 2>/dev/null >/dev/tcp/127.0.0.1/$p; then echo $p is open; exit 1; fi; done")
	return err
}

// answers waits until the server of a node is ready.
func (c *cluster) answers(ctx context.Context, number int) error {
	return machine.Eventually(ctx, patience, "the server of "+machine.NodeName(number)+" is ready", func(context.Context) error {
		ready, err := c.balancer.Ready(serverOf(number))
		if err != nil {
			return err
		}
		if !ready {
			return errors.New("it is not")
		}
		return nil
	})
}

// controlled asks whether controllers and the scheduler do their work: one more pod serves, and goes again.
func (c *cluster) controlled(ctx context.Context) error {
	for _, replicas := range []int32{4, 3} {
		deployments := c.client.AppsV1().Deployments("shop")
		if err := machine.Eventually(ctx, patience, fmt.Sprintf("the workload has %d pods", replicas), func(ctx context.Context) error {
			web, err := deployments.Get(ctx, "web", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if *web.Spec.Replicas != replicas {
				web.Spec.Replicas = &replicas
				if web, err = deployments.Update(ctx, web, metav1.UpdateOptions{}); err != nil {
					return err
				}
			}
			if web.Status.ObservedGeneration < web.Generation || web.Status.ReadyReplicas != replicas || web.Status.Replicas != replicas {
				return fmt.Errorf("%d pods, of which %d are ready", web.Status.Replicas, web.Status.ReadyReplicas)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}
