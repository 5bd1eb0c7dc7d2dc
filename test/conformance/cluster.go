//go:build linux

package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kanzen-io/kanzen/test/machine"
)

// The token with which nodes join. It is worth nothing outside of the run's namespaces.
const (
	bootstrapID     = "abcdef"
	bootstrapSecret = "0123456789abcdef"
)

//go:embed addons.yaml
var addons string

// cluster is the stage that has a cluster and runs the specs in it.
func cluster(l layout, s settings, args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// Nothing can go on when a program of the cluster has ended.
	ended := func(name string, err error) {
		if ctx.Err() == nil {
			cancel(fmt.Errorf("%s ended: %w; its log is %s", name, errors.Join(err, machine.ErrSaid), l.Log(name)))
		}
	}
	began := time.Now()
	p, err := startCluster(ctx, l, s, args, ended)
	if err == nil {
		fmt.Printf("%d nodes and DNS are ready after %.0f s\n", s.nodes, time.Since(began).Seconds())
		if s.hold {
			<-ctx.Done()
		} else {
			err = specs(ctx, l, s, p)
		}
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// startCluster starts the control plane and the nodes and waits until they are ready.
func startCluster(ctx context.Context, l layout, s settings, args []string, ended func(string, error)) (*machine.Plane, error) {
	if err := machine.MakeKeys(l.Layout); err != nil {
		return nil, err
	}
	if err := machine.WriteKubeconfig(l.Layout, "bootstrap", &clientcmdapi.AuthInfo{Token: bootstrapID + "." + bootstrapSecret}); err != nil {
		return nil, err
	}
	if err := machine.MakeBridge(s.nodes); err != nil {
		return nil, err
	}
	p, err := machine.StartPlane(ctx, l.Layout, s.peer, ended)
	if err != nil {
		return nil, err
	}
	if err := apply(ctx, l); err != nil {
		return nil, err
	}
	go approveServing(ctx, p.Client)
	for n := 1; n <= s.nodes; n++ {
		if err := startNode(l, n, s.nodes, args, ended); err != nil {
			return nil, err
		}
	}
	return p, ready(ctx, p.Client, s.nodes)
}

// apply creates what addons.yaml says.
func apply(ctx context.Context, l layout) error {
	values := strings.NewReplacer("$ID", bootstrapID, "$SECRET", bootstrapSecret, "$DOMAIN", machine.Domain, "$DNS", machine.ServiceOfDNS, "$COREDNS", coreDNSImage)
	return machine.Eventually(ctx, time.Minute, "the cluster's objects are created", func(ctx context.Context) error {
		cmd := exec.CommandContext(ctx, l.Program("kubectl"), "--kubeconfig="+l.PKI("admin.kubeconfig"), "apply", "--server-side", "-f", "-")
		cmd.Stdin = strings.NewReader(values.Replace(addons))
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

// approveServing approves the serving certificates that kubelets ask for, which in a cluster is somebody's decision.
func approveServing(ctx context.Context, client kubernetes.Interface) {
	requests := client.CertificatesV1().CertificateSigningRequests()
	for ctx.Err() == nil {
		w, err := requests.Watch(ctx, metav1.ListOptions{})
		if err != nil {
			time.Sleep(time.Second)
			continue
		}
		for e := range w.ResultChan() {
			r, is := e.Object.(*certificatesv1.CertificateSigningRequest)
			if !is || e.Type == watch.Deleted || r.Spec.SignerName != certificatesv1.KubeletServingSignerName || len(r.Status.Conditions) > 0 {
				continue
			}
			r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Conformance"})
			if _, err := requests.UpdateApproval(ctx, r.Name, r, metav1.UpdateOptions{}); err != nil {
				fmt.Fprintf(os.Stderr, "approving %s: %v\n", r.Name, err)
			}
		}
	}
}

// ready waits until all nodes are ready and DNS answers from each of its pods.
func ready(ctx context.Context, client kubernetes.Interface, nodes int) error {
	if err := machine.Eventually(ctx, 3*time.Minute, "all nodes are ready", func(ctx context.Context) error {
		list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		n := 0
		for _, node := range list.Items {
			for _, c := range node.Status.Conditions {
				if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
					n++
				}
			}
		}
		if n < nodes {
			return fmt.Errorf("%d are ready", n)
		}
		return nil
	}); err != nil {
		return err
	}
	return machine.Eventually(ctx, 3*time.Minute, "the cluster's DNS is ready", func(ctx context.Context) error {
		d, err := client.AppsV1().Deployments("kube-system").Get(ctx, "coredns", metav1.GetOptions{})
		if err == nil && d.Status.ReadyReplicas < *d.Spec.Replicas {
			err = fmt.Errorf("%d pods are ready", d.Status.ReadyReplicas)
		}
		return err
	})
}
