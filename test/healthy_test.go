package test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

var healthyFor = flag.Duration("healthy", 5*time.Second, "how long a healthy server has load of many kinds while 'kanzen diagnose' must find nothing")

// TestHealthy has 'kanzen diagnose' look at a healthy server every second, while clients of many kinds do what they do in a cluster.
// Whatever it finds is false.
func TestHealthy(t *testing.T) {
	t.Parallel()
	k := serve(t, t.TempDir())
	l := &healthyLoad{kanzen: k, done: map[string]int{}}
	ctx, cancel := context.WithTimeout(t.Context(), *healthyFor)
	defer cancel()
	work := map[string]func(ctx context.Context, n int) error{
		"lease": l.lease, "update": l.update, "apply": l.apply, "events": l.event, "namespace": l.namespace, "definition": l.definition, "conflict": l.conflict, "read": l.read,
	}
	var running sync.WaitGroup
	for name, do := range work {
		running.Go(func() { l.repeat(ctx, name, do) })
	}
	running.Go(func() { l.inform(ctx) })
	looks, reported := 0, map[string]bool{}
	for ticker := time.NewTicker(time.Second); ctx.Err() == nil; looks++ {
		all, _ := k.findings("--fail-on=info")
		for _, f := range all {
			if !reported[f.Check+f.Summary] {
				t.Errorf("after %d looks: %s %s\n%s", looks, f.Severity, f.Check, f.text())
			}
			reported[f.Check+f.Summary] = true
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			ticker.Stop()
		}
	}
	running.Wait()
	var done []string
	for _, name := range slices.Sorted(maps.Keys(l.done)) {
		done = append(done, fmt.Sprintf("%s %d", name, l.done[name]))
		if l.done[name] == 0 {
			t.Errorf("nothing was done of %s", name)
		}
	}
	t.Logf("%d looks; %s", looks, strings.Join(done, ", "))
}

// healthyLoad is what clients do in a cluster in which nothing is wrong.
type healthyLoad struct {
	*kanzen
	mu   sync.Mutex
	done map[string]int // guarded by mu
}

// repeat does something again and again until ctx ends, 20 times a second.
func (l *healthyLoad) repeat(ctx context.Context, name string, do func(ctx context.Context, n int) error) {
	for n := 0; ctx.Err() == nil; n++ {
		err := do(ctx, n)
		if err != nil && ctx.Err() == nil && !strings.Contains(err.Error(), "deadline") {
			l.t.Errorf("%s: %v", name, err)
			return
		}
		l.mu.Lock()
		if l.done[name] += 0; err == nil {
			l.done[name]++
		}
		l.mu.Unlock()
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// inform runs informers of three controllers, which come and go as their leaders do.
func (l *healthyLoad) inform(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		term, cancel := context.WithTimeout(ctx, 20*time.Second)
		for _, name := range []string{"deployer", "backup", "quotas"} {
			f := informers.NewSharedInformerFactory(l.as("", name+"/1.0", nil), 0)
			f.Core().V1().ConfigMaps().Informer()
			f.Core().V1().Namespaces().Informer()
			f.Core().V1().Secrets().Informer()
			f.Coordination().V1().Leases().Informer()
			f.Start(term.Done())
		}
		<-term.Done()
		cancel()
	}
}

// lease is five leaders that renew their leases.
func (l *healthyLoad) lease(ctx context.Context, n int) error {
	name := fmt.Sprintf("leader-%d", n%5)
	leases, now := l.as("", name+"/1.0 leader-election", nil).CoordinationV1().Leases("default"), metav1.NowMicro()
	lease, err := leases.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: ptr.To(int32(15)), RenewTime: &now}}, metav1.CreateOptions{})
		return err
	} else if err != nil {
		return err
	}
	lease.Spec.RenewTime = &now
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}

// update creates an object, changes it and deletes it.
func (l *healthyLoad) update(ctx context.Context, n int) error {
	maps := l.as("", "deployer/1.0", nil).CoreV1().ConfigMaps("default")
	m, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m-%d", n)}, Data: map[string]string{"n": "0"}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	m.Data["n"] = "1"
	if _, err = maps.Update(ctx, m, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if _, err = maps.Patch(ctx, m.Name, types.MergePatchType, []byte(`{"data":{"n":"2"}}`), metav1.PatchOptions{}); err != nil {
		return err
	}
	return maps.Delete(ctx, m.Name, metav1.DeleteOptions{})
}

// apply is two managers that apply fields of their own.
func (l *healthyLoad) apply(ctx context.Context, n int) error {
	for _, manager := range []string{"gitops", "tuner"} {
		patch := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"applied-%d"},"data":{%q:"%d"}}`, n%50, manager, n)
		if _, err := l.as("", manager+"/2.0", nil).CoreV1().ConfigMaps("default").Patch(ctx, fmt.Sprintf("applied-%d", n%50), types.ApplyPatchType, []byte(patch), metav1.PatchOptions{FieldManager: manager}); err != nil {
			return err
		}
	}
	return nil
}

func (l *healthyLoad) event(ctx context.Context, n int) error {
	_, err := l.as("", "deployer/1.0", nil).CoreV1().Events("default").Create(ctx, &corev1.Event{ObjectMeta: metav1.ObjectMeta{GenerateName: "e-"}, Type: "Normal", Reason: "Tested",
		InvolvedObject: corev1.ObjectReference{Kind: "ConfigMap", Namespace: "default", Name: fmt.Sprintf("applied-%d", n%50)}}, metav1.CreateOptions{})
	return err
}

// namespace makes a namespace with objects, one of which has a finalizer that its controller removes, and waits until it is gone.
func (l *healthyLoad) namespace(ctx context.Context, n int) error {
	name, tenant := fmt.Sprintf("tenant-%d", n), l.as("", "tenants/3.0", nil)
	if _, err := tenant.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	for i := range 5 {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("s-%d", i)}, StringData: map[string]string{"a": "b"}}
		if i == 0 {
			s.Finalizers = []string{"example.com/tidy"}
		}
		if _, err := tenant.CoreV1().Secrets(name).Create(ctx, s, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	if err := tenant.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	tidied := false
	return l.gone(ctx, func() error {
		s, err := tenant.CoreV1().Secrets(name).Get(ctx, "s-0", metav1.GetOptions{})
		if err == nil && s.DeletionTimestamp != nil && !tidied {
			_, err = tenant.CoreV1().Secrets(name).Patch(ctx, s.Name, types.JSONPatchType, []byte(`[{"op":"remove","path":"/metadata/finalizers"}]`), metav1.PatchOptions{})
			tidied = err == nil
		}
		_, err = tenant.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		return err
	})
}

// gone waits until a read says NotFound.
func (l *healthyLoad) gone(ctx context.Context, read func() error) error {
	for {
		if err := read(); apierrors.IsNotFound(err) {
			return nil
		} else if err != nil {
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// definition makes a CustomResourceDefinition and objects of it, and deletes it with them.
func (l *healthyLoad) definition(ctx context.Context, n int) error {
	c := l.config()
	c.UserAgent = "operators/4.0"
	d, plural, group := dynamic.NewForConfigOrDie(c), "gadgets", fmt.Sprintf("g%d.example.com", n)
	name := plural + "." + group
	crd := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"group": group, "scope": "Namespaced", "names": map[string]any{"plural": plural, "singular": "gadget", "kind": "Gadget"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}}}
	if _, err := d.Resource(definitions).Create(ctx, crd, metav1.CreateOptions{}); err != nil {
		return err
	}
	of := d.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural}).Namespace("default")
	for i := 0; i < 3; {
		_, err := of.Create(ctx, &unstructured.Unstructured{Object: map[string]any{"apiVersion": group + "/v1", "kind": "Gadget", "metadata": map[string]any{"name": fmt.Sprintf("g-%d", i)}, "spec": map[string]any{"size": int64(i)}}}, metav1.CreateOptions{})
		switch {
		case err == nil:
			i++
		case !apierrors.IsNotFound(err): // until it is served
			return err
		}
	}
	if err := d.Resource(definitions).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return l.gone(ctx, func() error { _, err := d.Resource(definitions).Get(ctx, name, metav1.GetOptions{}); return err })
}

// conflict has two clients change an object at the same time now and then: one of them is refused, reads it again, and succeeds.
func (l *healthyLoad) conflict(ctx context.Context, n int) error {
	if n%20 != 0 {
		return nil
	}
	var errs [2]error
	var both sync.WaitGroup
	for i := range errs {
		both.Go(func() { errs[i] = l.counted(ctx, l.as("", fmt.Sprintf("counter-%d/1.0", i), nil), i) })
	}
	both.Wait()
	return errors.Join(errs[:]...)
}

func (l *healthyLoad) counted(ctx context.Context, c *kubernetes.Clientset, by int) error {
	for {
		m, err := c.CoreV1().ConfigMaps("default").Get(ctx, "counted", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			_, err = c.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "counted"}}, metav1.CreateOptions{})
		} else if err == nil {
			if m.Data == nil {
				m.Data = map[string]string{}
			}
			m.Data[fmt.Sprint(by)] += "1"
			m.Data[fmt.Sprint(by)] = m.Data[fmt.Sprint(by)][max(0, len(m.Data[fmt.Sprint(by)])-9):] + fmt.Sprint(time.Now().Second())
			_, err = c.CoreV1().ConfigMaps("default").Update(ctx, m, metav1.UpdateOptions{})
		}
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
}

// read is what people and dashboards ask for.
func (l *healthyLoad) read(ctx context.Context, n int) error {
	c := l.as("", "dashboard/9", nil)
	if _, err := c.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{Limit: 50}); err != nil {
		return err
	}
	if _, err := c.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{LabelSelector: "a=b"}); err != nil {
		return err
	}
	_, err := c.CoreV1().ConfigMaps("default").Get(ctx, "not-there", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
