//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/test/machine"
)

// hashAnnotation is what the kubelet tells a static pod's manifest by.
const hashAnnotation = "kubernetes.io/config.hash"

func serverVersion(ctx context.Context, config *rest.Config) (string, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return "", err
	}
	v, err := client.ServerVersion()
	if err != nil {
		return "", fmt.Errorf("asking the server for its version: %w", err)
	}
	return v.GitVersion, ctx.Err()
}

// restart changes the image line of the manifest on the first node, or where that stays, an annotation, so that the kubelet starts the server
// again. Clients count how long it is away.
func (c *cluster) restart(what, image string) func(context.Context) error {
	return func(ctx context.Context) error {
		pod, err := c.staticPod(ctx, "kube-apiserver", first)
		if err != nil {
			return err
		}
		change := `s|^\( *image: \).*|\1` + image + "|"
		if pod.Spec.Containers[0].Image == image {
			change = fmt.Sprintf(`s|^  annotations:$|&\n    changed: "%d"|`, time.Now().UnixNano())
		}
		return c.counted(ctx, what, false, func(ctx context.Context) error {
			// The kubelet reads whatever is in the folder of manifests: what is half written must not be there.
			if _, err := c.shell(ctx, first, fmt.Sprintf("sed -e '/^    changed: /d' -e '%s' %s >/etc/kubernetes/next.yaml; mv /etc/kubernetes/next.yaml %s", change, manifest, manifest)); err != nil {
				return err
			}
			return c.changed(ctx, pod, image)
		})
	}
}

// changed waits until another static pod of kube-apiserver than the one given is ready.
func (c *cluster) changed(ctx context.Context, before *corev1.Pod, image string) error {
	return machine.Eventually(ctx, patience, "the server has been started again", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		pod, err := c.staticPod(ctx, "kube-apiserver", first)
		if err != nil {
			return err
		}
		if pod.Annotations[hashAnnotation] == before.Annotations[hashAnnotation] {
			return errors.New("the kubelet has not yet begun")
		}
		if !isReady(pod) {
			return errors.New("its pod is not ready")
		}
		return c.serves(ctx, first, image)
	})
}

// plan asks kubeadm what it would do.
func (c *cluster) plan(ctx context.Context) error {
	out, err := c.on(ctx, first, "kubeadm", "upgrade", "plan", version, ignored)
	if err != nil {
		return err
	}
	if line := "Cluster version: " + strings.TrimPrefix(version, "v") + "\n"; !strings.Contains(out, line) {
		return fmt.Errorf("kubeadm upgrade plan does not say %q: %s", line, out)
	}
	return nil
}

// upgrade lets kubeadm write the manifests anew, with renewed certificates, and with a folder of patches unless it has no name. Then the static
// pod of the server starts from the image.
func (c *cluster) upgrade(what, patches, image string) func(context.Context) error {
	return func(ctx context.Context) error {
		args := []string{"upgrade", "apply", version, "--yes", ignored}
		if patches != "" {
			args = append(args, "--patches="+c.s.Config(first, patches))
		}
		if err := c.counted(ctx, what, false, func(ctx context.Context) error {
			if _, err := c.on(ctx, first, "kubeadm", args...); err != nil {
				return err
			}
			return c.answers(ctx, first)
		}); err != nil {
			return err
		}
		if err := c.login(ctx); err != nil {
			return err
		}
		if err := c.serves(ctx, first, image); err != nil {
			return err
		}
		return c.controlled(ctx)
	}
}

// upgradeWorker lets kubeadm write the kubelet's configuration anew.
func (c *cluster) upgradeWorker(ctx context.Context) error {
	if _, err := c.on(ctx, worker, "kubeadm", "upgrade", "node", ignored); err != nil {
		return err
	}
	if _, err := c.on(ctx, worker, "systemctl", "restart", "kubelet"); err != nil {
		return err
	}
	return c.ready(ctx, 2)
}
