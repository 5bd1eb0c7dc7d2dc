package builtin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kanzen-io/kanzen/internal/api/openapi"
	"github.com/kanzen-io/kanzen/internal/engine"
)

func benchPod() engine.Object {
	p := &corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}, ObjectMeta: benchMeta()}
	for n := range 3 {
		c := corev1.Container{
			Name: fmt.Sprintf("c%d", n), Image: "registry.example.com/team/app:v1.2.3",
			Args:         []string{"--listen=:8080", "--log-level=info"},
			Ports:        []corev1.ContainerPort{{Name: "http", ContainerPort: int32(8080 + n), Protocol: "TCP"}},
			Resources:    corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("128Mi")}},
			VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/app"}},
		}
		for k := range 6 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", k), Value: "value"})
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	return p
}

func benchMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: "a", Namespace: "default", Labels: map[string]string{"app": "web", "tier": "front"}}
}

// BenchmarkManagers is the cost of keeping managers, by ourselves and by the library: of a creation, of a change of one field,
// and of a write that changes nothing.
func BenchmarkManagers(b *testing.B) {
	types := openapi.NewTypeConverter()
	phase := func(o engine.Object) { o.(*corev1.Pod).Status.Phase = "Running" }
	for _, c := range []struct {
		name, prefix, sub string
		obj               engine.Object
		change            func(engine.Object)
	}{
		{"Pod", "pods", "", benchPod(), func(o engine.Object) { o.SetLabels(map[string]string{"app": "other", "tier": "front"}) }},
		{"PodStatus", "pods", "status", benchPod(), phase},
		{"ConfigMap", "configmaps", "", &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}, ObjectMeta: benchMeta(), Data: map[string]string{"a": "1", "b": "2"}},
			func(o engine.Object) { o.(*corev1.ConfigMap).Data["a"] = "2" }},
		{"Lease", "leases", "", &coordinationv1.Lease{TypeMeta: metav1.TypeMeta{Kind: "Lease", APIVersion: "coordination.k8s.io/v1"}, ObjectMeta: benchMeta(), Spec: coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: time.Unix(1, 0)}}},
			func(o engine.Object) {
				o.(*coordinationv1.Lease).Spec.RenewTime = &metav1.MicroTime{Time: time.Unix(2, 0)}
			}},
	} {
		j := wayOf(b, c.prefix, c.sub, types)
		created := must(j.ours.Update(context.Background(), emptyLike(c.obj), c.obj.DeepCopyObject().(engine.Object), "creator")).(engine.Object)
		created.SetUID("uid")
		changed := created.DeepCopyObject().(engine.Object)
		c.change(changed)
		for _, op := range []struct {
			name      string
			live, obj engine.Object
		}{{"Create", emptyLike(c.obj), c.obj}, {"Update", created, changed}, {"Same", created, created}} {
			for name, update := range map[string]func(live, obj engine.Object){
				"ours":    func(live, obj engine.Object) { must(j.ours.Update(context.Background(), live, obj, "creator")) },
				"library": func(live, obj engine.Object) { j.library.UpdateNoErrors(live, obj, "creator") },
			} {
				b.Run(c.name+"/"+op.name+"/"+name, func(b *testing.B) {
					b.ReportAllocs()
					obj := op.obj.DeepCopyObject().(engine.Object)
					sent := obj.GetManagedFields()
					for b.Loop() {
						obj.SetManagedFields(sent)
						update(op.live, obj)
					}
				})
			}
		}
	}
}

// BenchmarkApplies is the cost of server-side applies, by ourselves and by the library.
func BenchmarkApplies(b *testing.B) {
	types := openapi.NewTypeConverter()
	pods, maps := wayOf(b, "pods", "", types), wayOf(b, "configmaps", "", types)
	pod := untyped(b, benchPod())
	delete(pod.Object, "status")
	other := pod.DeepCopy()
	other.SetLabels(map[string]string{"app": "other", "tier": "front"})
	fewer := pod.DeepCopy()
	fewer.SetLabels(map[string]string{"app": "web"})
	label := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "a", "labels": map[string]any{"app": "other"}}}}
	configMap := untyped(b, &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}, ObjectMeta: benchMeta(), Data: map[string]string{"a": "1", "b": "2"}})
	none := &corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}}
	applied, err := pods.ours.Apply(context.Background(), none, pod.DeepCopy(), "applier", false)
	if err != nil {
		b.Fatal(err)
	}
	live := applied.(engine.Object)
	live.SetUID("uid")
	for _, c := range []struct {
		name   string
		j      *judged
		live   engine.Object
		config *unstructured.Unstructured
		by     string
		force  bool
	}{
		{"NewPod", pods, none, pod, "applier", false},
		{"NewConfigMap", maps, &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}}, configMap, "applier", false},
		{"PodOneField", pods, live, other, "applier", false},
		{"PodOneFieldLess", pods, live, fewer, "applier", false},
		{"PodSame", pods, live, pod, "applier", false},
		{"PodForced", pods, live, label, "other", true},
	} {
		for name, apply := range map[string]func(config *unstructured.Unstructured) (runtime.Object, error){
			"ours": func(config *unstructured.Unstructured) (runtime.Object, error) {
				return c.j.ours.Apply(context.Background(), c.live, config, c.by, c.force)
			},
			"library": func(config *unstructured.Unstructured) (runtime.Object, error) {
				return c.j.library.Apply(c.live.DeepCopyObject(), config, c.by, c.force)
			},
		} {
			b.Run(c.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := apply(c.config); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func untyped(b *testing.B, obj engine.Object) *unstructured.Unstructured {
	out := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(jsonOf(obj)), out); err != nil {
		b.Fatal(err)
	}
	return out
}

func emptyLike(obj engine.Object) engine.Object {
	out := obj.DeepCopyObject().(engine.Object)
	switch o := out.(type) {
	case *corev1.Pod:
		*o = corev1.Pod{TypeMeta: o.TypeMeta}
	case *corev1.ConfigMap:
		*o = corev1.ConfigMap{TypeMeta: o.TypeMeta}
	case *coordinationv1.Lease:
		*o = coordinationv1.Lease{TypeMeta: o.TypeMeta}
	}
	return out
}

func wayOf(b *testing.B, prefix, sub string, types *openapi.TypeConverter) *judged {
	for _, w := range ways() {
		if w.r.Prefix == prefix && w.sub == sub {
			return judge(b, w, types)
		}
	}
	b.Fatalf("no %s %s", prefix, sub)
	return nil
}
