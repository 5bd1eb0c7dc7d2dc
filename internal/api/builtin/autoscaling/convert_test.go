package autoscaling

import (
	"reflect"
	"slices"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"sigs.k8s.io/yaml"

	"github.com/kanzen-io/kanzen/internal/api/builtin/rulestest"
	"github.com/kanzen-io/kanzen/internal/engine"
)

func version(t *testing.T, name string) *engine.Version {
	t.Helper()
	vs := Resources(Deps{})[0].Versions
	i := slices.IndexFunc(vs, func(v *engine.Version) bool { return v.Version == name })
	if i < 0 {
		t.Fatalf("no version %s", name)
	}
	return vs[i]
}

// Conversion to v1 keeps in annotations what v1 cannot express.
func TestThroughVersion1(t *testing.T) {
	tests := []struct {
		name, text  string
		annotations []string
	}{
		{"cpu only", `{spec: {metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]}}`, nil},
		{"memory too", `{spec: {metrics: [
  {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}},
  {type: Resource, resource: {name: memory, target: {type: AverageValue, averageValue: 1Gi}}},
  {type: External, external: {metric: {name: q}, target: {type: Value, value: 3}}}]}}`,
			[]string{"autoscaling.alpha.kubernetes.io/metrics"}},
		{"behavior", `{spec: {behavior: {scaleDown: {stabilizationWindowSeconds: 5}}, metrics: [
  {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]}}`,
			[]string{"autoscaling.alpha.kubernetes.io/behavior"}},
		{"conditions", `{status: {conditions: [{type: AbleToScale, status: "True", reason: r, observedGeneration: 3}]}, spec: {metrics: [
  {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]}}`,
			[]string{"autoscaling.alpha.kubernetes.io/conditions"}},
	}
	v1 := version(t, "v1")
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			in := new(autoscalingv2.HorizontalPodAutoscaler)
			if err := yaml.UnmarshalStrict([]byte(test.text), in); err != nil {
				t.Fatal(err)
			}
			old, err := v1.FromHub(t.Context(), in.DeepCopy())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for name := range old.GetAnnotations() {
				got = append(got, name)
			}
			if !slices.Equal(got, test.annotations) {
				t.Errorf("annotations %q, want %q", got, test.annotations)
			}
			out, err := v1.ToHub(t.Context(), old)
			if err != nil {
				t.Fatal(err)
			}
			hpa := out.(*autoscalingv2.HorizontalPodAutoscaler)
			// The order is lost: the metric with its own field in v1 comes last.
			slices.SortFunc(hpa.Spec.Metrics, byType)
			slices.SortFunc(in.Spec.Metrics, byType)
			if !reflect.DeepEqual(in.Spec.Metrics, hpa.Spec.Metrics) || len(hpa.Annotations) > 0 ||
				!reflect.DeepEqual(in.Spec.Behavior, hpa.Spec.Behavior) ||
				!reflect.DeepEqual(in.Status.Conditions, hpa.Status.Conditions) {
				t.Errorf("got %+v\nwant %+v", hpa, in)
			}
		})
	}
}

func byType(a, b autoscalingv2.MetricSpec) int {
	key := func(m autoscalingv2.MetricSpec) string {
		if m.Resource != nil {
			return string(m.Type) + string(m.Resource.Name)
		}
		return string(m.Type)
	}
	switch x, y := key(a), key(b); {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

func TestDefaultCPU(t *testing.T) {
	v1 := version(t, "v1")
	h := &autoscalingv1.HorizontalPodAutoscaler{}
	v1.Default(h)
	obj, err := v1.ToHub(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	hpa := obj.(*autoscalingv2.HorizontalPodAutoscaler)
	if *hpa.Spec.MinReplicas != 1 {
		t.Errorf("minReplicas %d", *hpa.Spec.MinReplicas)
	}
}

func TestValidate(t *testing.T) {
	k := rulestest.Of(t, Resources(Deps{}), "horizontalpodautoscalers", `
metadata: {name: h}
spec:
  maxReplicas: 3
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]
`)
	k.Create(t, []rulestest.Case{
		{Name: "limits", Edit: `{spec: {minReplicas: 5, maxReplicas: 3}}`, Want: []string{"spec.maxReplicas Invalid"}},
		{Name: "zero", Edit: `{spec: {maxReplicas: 0, minReplicas: 0}}`,
			Want: []string{"spec.maxReplicas Required", "spec.metrics Forbidden"}},
		{Name: "target", Edit: `{spec: {scaleTargetRef: {kind: "", name: a/b}}}`,
			Want: []string{"spec.scaleTargetRef.kind Required", "spec.scaleTargetRef.name Invalid"}},
		{Name: "no source", Edit: `{spec: {metrics: [{type: Pods}]}}`,
			Want: []string{"spec.metrics[0].pods Required"}},
		{Name: "window", Edit: `{spec: {behavior: {scaleUp: {stabilizationWindowSeconds: 5000}}}}`,
			Want: []string{"spec.behavior.scaleUp.stabilizationWindowSeconds Invalid"}},
	})
}
