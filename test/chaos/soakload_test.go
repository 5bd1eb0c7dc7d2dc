package chaos

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/kanzen-io/kanzen/test/churn"
)

// ledger is what was acknowledged of objects that are created and deleted, each once. Those whose request had no answer may be there or not.
type ledger struct {
	mu      sync.Mutex
	there   map[string]string // the identity of each that was created
	gone    map[string]bool
	unknown map[string]bool
	writes  int
}

const ledgerSpace = "ledger"

func newLedger() *ledger {
	return &ledger{there: map[string]string{}, gone: map[string]bool{}, unknown: map[string]bool{}}
}

// write creates objects through a server, and deletes some of them, until ctx ends.
func (l *ledger) write(ctx context.Context, k *kubernetes.Clientset, prefix string, r *rand.Rand) {
	c := k.CoreV1().ConfigMaps(ledgerSpace)
	for n := 0; ctx.Err() == nil; n++ {
		name := fmt.Sprintf("%s-%d", prefix, n)
		request, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		made, err := c.Create(request, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		l.note(func() {
			switch {
			case err == nil:
				l.there[name] = string(made.UID)
				l.writes++
			default:
				l.unknown[name] = true
			}
		})
		if err == nil && r.IntN(2) == 0 {
			err = c.Delete(request, name, metav1.DeleteOptions{})
			l.note(func() {
				delete(l.there, name)
				if err == nil {
					l.gone[name] = true
					l.writes++
				} else {
					l.unknown[name] = true
				}
			})
		}
		cancel()
		churn.Pause(ctx, time.Duration(200+r.IntN(800))*time.Millisecond)
	}
}

func (l *ledger) note(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

// differs says what is not as it was acknowledged.
func (l *ledger) differs(found map[string]string) (wrong []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(l.there)) {
		switch uid := found[name]; uid {
		case l.there[name]:
		case "":
			wrong = append(wrong, fmt.Sprintf("configmaps %s/%s: its creation was acknowledged, and it is not there", ledgerSpace, name))
		default:
			wrong = append(wrong, fmt.Sprintf("configmaps %s/%s: was created as %s, and is %s", ledgerSpace, name, l.there[name], uid))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if l.gone[name] {
			wrong = append(wrong, fmt.Sprintf("configmaps %s/%s: its deletion was acknowledged, and it is there", ledgerSpace, name))
		} else if l.there[name] == "" && !l.unknown[name] {
			wrong = append(wrong, fmt.Sprintf("configmaps %s/%s: is there, and nobody created it", ledgerSpace, name))
		}
	}
	return wrong
}

// quota limits what users have; its use has to be what is there.
func quota() *corev1.ResourceQuota {
	return &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
		"count/configmaps": resource.MustParse("100000"), "count/deployments.apps": resource.MustParse("100"), "pods": resource.MustParse("1000"), "secrets": resource.MustParse("1000"),
		"services": resource.MustParse("100")}}}
}

// shop is what people of kubectl have.
const shop = `apiVersion: v1
kind: ConfigMap
metadata: {name: web, namespace: shop}
data: {color: "%s"}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {color: "%s"}}
    spec: {containers: [{name: c, image: "image:1"}]}
`

// people type kubectl.
type people struct {
	kubectl, kubeconfig, file string

	mu     sync.Mutex
	counts map[string]int
	said   []string // by commands that failed
}

// run runs a command; whether it succeeds depends on what is broken.
func (p *people) run(ctx context.Context, args ...string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 90*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, p.kubectl, append([]string{"--kubeconfig", p.kubeconfig, "--request-timeout=20s"}, args...)...).CombinedOutput()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts["kubectl "+args[0]]++
	if err != nil {
		p.counts["failed"]++
		p.said = append(p.said, fmt.Sprintf("%s kubectl %v: %v: %s", time.Now().Format(time.TimeOnly), args, err, out))
	}
	return err
}

// write writes the file, in a color.
func (p *people) write(color string) error {
	return os.WriteFile(p.file, fmt.Appendf(nil, shop, color, color), 0o600)
}

// work types commands until ctx ends.
func (p *people) work(ctx context.Context, round int) {
	for n := 0; ctx.Err() == nil; n++ {
		if err := p.write(fmt.Sprintf("%d-%d", round, n)); err != nil {
			panic(err)
		}
		commands := [][]string{{"apply", "-f", p.file}, {"rollout", "status", "deployment/web", "-n", "shop", "--timeout=60s"}, {"get", "all", "-n", "shop", "-o", "wide"},
			{"scale", "deployment/web", "-n", "shop", "--replicas=5"}, {"rollout", "restart", "deployment/web", "-n", "shop"},
			{"describe", "deployment", "web", "-n", "shop"}, {"get", "pods", "-A"}, {"label", "deployment/web", "-n", "shop", fmt.Sprintf("n=%d", n), "--overwrite"}}
		if n%5 == 4 {
			commands = append(commands, []string{"delete", "-f", p.file})
		}
		for _, c := range commands {
			if ctx.Err() != nil {
				return
			}
			_ = p.run(ctx, c...)
			churn.Pause(ctx, 3*time.Second)
		}
	}
}

var sitesKind = schema.GroupVersionResource{Group: "web.example.com", Version: "v1", Resource: "sites"}

const sitesSpace = "sites"

// sites creates Sites for the operator, changes and deletes them, until ctx ends.
func sites(ctx context.Context, c dynamic.Interface, round int, r *rand.Rand) {
	of := c.Resource(sitesKind).Namespace(sitesSpace)
	for n := 0; ctx.Err() == nil; n++ {
		request, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*patience)
		name, title := fmt.Sprintf("site-%d", r.IntN(8)), fmt.Sprintf("title %d-%d", round, n)
		now, err := of.Get(request, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			_, _ = of.Create(request, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "web.example.com/v1", "kind": "Site",
				"metadata": map[string]any{"name": name}, "spec": map[string]any{"title": title}}}, metav1.CreateOptions{})
		case err == nil && r.IntN(3) == 0:
			_ = of.Delete(request, name, metav1.DeleteOptions{})
		case err == nil:
			_ = unstructured.SetNestedField(now.Object, title, "spec", "title")
			_, _ = of.Update(request, now, metav1.UpdateOptions{}) // the operator may be faster
		}
		cancel()
		churn.Pause(ctx, 2*time.Second)
	}
}

// again does one kind of change after another, with pauses, until ctx ends.
func again(ctx context.Context, from int, between time.Duration, change func(context.Context, int)) {
	for n := from; ctx.Err() == nil; n++ {
		change(ctx, n)
		churn.Pause(ctx, between)
	}
}
