//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kanzen-io/kanzen/test/machine"
)

// Where operators find the server.
const (
	serverHost = machine.Address
	serverPort = "6443"
)

// world is a server with an operator on it, and what its users have.
type world struct {
	l        machine.Layout
	operator *operator
	plane    *machine.Plane
	config   *rest.Config // the administrator's
	kube     kubernetes.Interface
	client   client.Client // knows no types
	source   string        // folder of the operator's repository
	version  string        // of the server
}

// newWorld starts a server on fresh data, and nodes.
func newWorld(ctx context.Context, l machine.Layout, o *operator, peer bool, ended func(string, error)) (*world, error) {
	if err := machine.MakeKeys(l); err != nil {
		return nil, err
	}
	if err := machine.MakeBridge(0); err != nil {
		return nil, err
	}
	w := &world{l: l, operator: o, source: source(l, o)}
	var err error
	if w.plane, err = machine.StartPlane(ctx, l, peer, ended); err != nil {
		return nil, err
	}
	w.kube = w.plane.Client
	if w.version, err = w.plane.Version(); err != nil {
		return nil, err
	}
	if w.config, err = clientcmd.BuildConfigFromFlags("", l.PKI("admin.kubeconfig")); err != nil {
		return nil, err
	}
	w.config.QPS, w.config.Burst = 100, 200
	if w.client, err = client.New(w.config, client.Options{Scheme: runtime.NewScheme()}); err != nil {
		return nil, err
	}
	if err := serveDNS(ctx, w.kube); err != nil {
		return nil, err
	}
	n := &nodes{l: l, operator: o, client: w.kube, pods: map[types.UID]context.CancelFunc{}}
	go func() {
		if err := n.run(ctx); err != nil {
			ended("nodes", err)
		}
	}()
	if o.serve != nil {
		return w, o.serve(ctx, w)
	}
	return w, nil
}

// read returns the objects of manifests.
func read(text string) (objects []*unstructured.Unstructured, err error) {
	d := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		u := &unstructured.Unstructured{}
		if err := d.Decode(&u.Object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, err
		}
		if len(u.Object) > 0 {
			objects = append(objects, u)
		}
	}
}

// install applies manifests; what has no namespace goes to the given one. Definitions that it has are waited for.
func (w *world) install(ctx context.Context, namespace, manifests string) error {
	objects, err := read(manifests)
	if err != nil {
		return err
	}
	// Namespaces and definitions first: charts have an order of names.
	for _, first := range []bool{true, false} {
		for _, o := range objects {
			if kind := o.GetKind(); (kind == "Namespace" || kind == "CustomResourceDefinition") != first {
				continue
			}
			if err := w.eventually(ctx, "", func(ctx context.Context) error {
				err := w.applyObject(ctx, namespace, o.DeepCopy())
				if err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
					return fatal{err}
				}
				return err
			}); err != nil {
				return fmt.Errorf("apply %s %s: %w", o.GetKind(), o.GetName(), err)
			}
		}
	}
	return nil
}

// fatal is an error that asking again does not mend.
type fatal struct{ error }

func (f fatal) Unwrap() error { return f.error }

// apply does what a user does with manifests in a namespace.
func (w *world) apply(ctx context.Context, namespace, manifests string) error {
	objects, err := read(manifests)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := w.applyObject(ctx, namespace, o); err != nil {
			return fmt.Errorf("apply %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}

func (w *world) applyObject(ctx context.Context, namespace string, o *unstructured.Unstructured) error {
	mapping, err := w.client.RESTMapper().RESTMapping(o.GroupVersionKind().GroupKind(), o.GroupVersionKind().Version)
	if err != nil {
		return err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace && o.GetNamespace() == "" {
		o.SetNamespace(namespace)
	}
	return w.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("user"), client.ForceOwnership)
}

// refused is an error unless the manifests are refused with these words.
func (w *world) refused(ctx context.Context, namespace, manifests, words string) error {
	return refusedWith(w.apply(ctx, namespace, manifests), words)
}

// refusedWith is an error unless the error is a refusal with these words.
func refusedWith(err error, words string) error {
	if err == nil {
		return fmt.Errorf("it was not refused (%s)", words)
	}
	if !strings.Contains(err.Error(), words) {
		return fmt.Errorf("it was refused for something else than %q: %w", words, err)
	}
	return nil
}

// key names an object: its API version and kind, and NAMESPACE/NAME or NAME.
type key struct{ version, kind, name string }

func (k key) String() string { return k.kind + " " + k.name }

// named is an object that has nothing but its names.
func (k key) named() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(k.version)
	u.SetKind(k.kind)
	namespace, name, namespaced := strings.Cut(k.name, "/")
	if !namespaced {
		namespace, name = "", k.name
	}
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

func (w *world) get(ctx context.Context, k key) (*unstructured.Unstructured, error) {
	u := k.named()
	if err := w.client.Get(ctx, client.ObjectKeyFromObject(u), u); err != nil {
		return nil, err
	}
	return u, nil
}

// change changes an object as a user does who has read it.
func (w *world) change(ctx context.Context, k key, change func(*unstructured.Unstructured) error) error {
	return w.eventually(ctx, "change "+k.String(), func(ctx context.Context) error {
		u, err := w.get(ctx, k)
		if err != nil {
			return fatal{err}
		}
		if err := change(u); err != nil {
			return fatal{err}
		}
		if err := w.client.Update(ctx, u); err != nil && !apierrors.IsConflict(err) {
			return fatal{err}
		} else if err != nil {
			return err
		}
		return nil
	})
}

func (w *world) delete(ctx context.Context, k key) error { return w.client.Delete(ctx, k.named()) }

// eventually asks until there is no error, or the step has no more time.
func (w *world) eventually(ctx context.Context, what string, ask func(context.Context) error) error {
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		var f fatal
		if errors.As(err, &f) {
			return f.error
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// until waits until an object is as it should be.
func (w *world) until(ctx context.Context, k key, is func(*unstructured.Unstructured) error) error {
	return w.eventually(ctx, k.String(), func(ctx context.Context) error {
		u, err := w.get(ctx, k)
		if err != nil {
			return err
		}
		return is(u)
	})
}

// gone waits until an object is no longer there.
func (w *world) gone(ctx context.Context, k key) error {
	return w.eventually(ctx, k.String(), func(ctx context.Context) error {
		_, err := w.get(ctx, k)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("it is still there"))
	})
}

// condition asks for a condition of an object. Without a status it must not be there.
func condition(kind, status string) func(*unstructured.Unstructured) error {
	return func(u *unstructured.Unstructured) error {
		list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
		got := ""
		for _, c := range list {
			if c, is := c.(map[string]any); is && c["type"] == kind {
				got, _ = c["status"].(string)
			}
		}
		if got != status {
			return fmt.Errorf("its condition %s is %q, not %q: %v", kind, got, status, list)
		}
		return nil
	}
}

// value asks for the value of a field. The path has its names with dots between.
func value(path string, want any) func(*unstructured.Unstructured) error {
	return func(u *unstructured.Unstructured) error {
		got, _, err := unstructured.NestedFieldNoCopy(u.Object, strings.Split(path, ".")...)
		if err != nil {
			return err
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("%s is %v, not %v", path, got, want)
		}
		return nil
	}
}

// both asks for several things.
func both(asks ...func(*unstructured.Unstructured) error) func(*unstructured.Unstructured) error {
	return func(u *unstructured.Unstructured) error {
		for _, ask := range asks {
			if err := ask(u); err != nil {
				return err
			}
		}
		return nil
	}
}

// available waits until all workloads in a namespace have all their pods ready.
func (w *world) available(ctx context.Context, namespace string) error {
	return w.eventually(ctx, "workloads in "+namespace, func(ctx context.Context) error {
		deployments, err := w.kube.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		sets, err := w.kube.AppsV1().StatefulSets(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(deployments.Items)+len(sets.Items) == 0 {
			return errors.New("there are none")
		}
		for _, d := range deployments.Items {
			if !deployed(&d) {
				return fmt.Errorf("deployment %s: %d of %d are available", d.Name, d.Status.AvailableReplicas, *d.Spec.Replicas)
			}
		}
		for _, s := range sets.Items {
			if s.Status.ObservedGeneration != s.Generation || s.Status.ReadyReplicas != *s.Spec.Replicas {
				return fmt.Errorf("stateful set %s: %d of %d are ready", s.Name, s.Status.ReadyReplicas, *s.Spec.Replicas)
			}
		}
		return nil
	})
}

func deployed(d *appsv1.Deployment) bool {
	s := d.Status
	return s.ObservedGeneration == d.Generation && s.UpdatedReplicas == *d.Spec.Replicas && s.AvailableReplicas == *d.Spec.Replicas && s.Replicas == *d.Spec.Replicas
}

// finish ends the pods of a job as a node does when their programs have.
func (w *world) finish(ctx context.Context, namespace, job string) error {
	return w.eventually(ctx, "the pods of job "+job, func(ctx context.Context) error {
		pods, err := w.kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "batch.kubernetes.io/job-name=" + job})
		if err != nil {
			return err
		}
		if len(pods.Items) == 0 {
			return errors.New("there are none")
		}
		for _, p := range pods.Items {
			if p.Status.Phase == corev1.PodPending {
				return fmt.Errorf("pod %s does not run yet", p.Name)
			}
			p.Status.Phase = corev1.PodSucceeded
			for i := range p.Status.ContainerStatuses {
				p.Status.ContainerStatuses[i].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed"}}
			}
			if _, err := w.kube.CoreV1().Pods(namespace).UpdateStatus(ctx, &p, metav1.UpdateOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *world) secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	return w.kube.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
}
