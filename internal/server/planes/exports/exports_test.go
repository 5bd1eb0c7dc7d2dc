package exports

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// An object in protobuf gets the annotation that names its plane, and keeps everything else.
func TestAnnotatedProtobuf(t *testing.T) {
	for name, annotations := range map[string]map[string]string{
		"none": nil, "others": {"a": "b", "z": "y"}, "its own": {PlaneAnnotation: "forged", "a": "b"},
	} {
		was := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "n", Annotations: annotations, Finalizers: []string{"f"},
			Labels: map[string]string{"l": "m"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}}, Data: map[string]string{"k": "v"}}
		raw, err := was.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Raw: raw}
		text, err := unknown.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		out, err := annotated(append([]byte("k8s\x00"), text...), "one")
		if err != nil {
			t.Fatal(err)
		}
		var back runtime.Unknown
		var now corev1.ConfigMap
		if err := back.Unmarshal(out[4:]); err != nil {
			t.Fatal(err)
		}
		if err := now.Unmarshal(back.Raw); err != nil {
			t.Fatal(err)
		}
		want := was.DeepCopy()
		metav1.SetMetaDataAnnotation(&want.ObjectMeta, PlaneAnnotation, "one")
		if !reflect.DeepEqual(&now, want) || back.Kind != "ConfigMap" {
			t.Errorf("%s: %+v", name, now)
		}
	}
}

func TestAnnotatedJSON(t *testing.T) {
	for in, want := range map[string]string{
		`{"metadata":{"name":"x"},"spec":{}}`:                                   `{"metadata":{"annotations":{"planes.kanzen.io/plane":"one"},"name":"x"},"spec":{}}`,
		`{"a":1,"metadata":{}}`:                                                 `{"a":1,"metadata":{"annotations":{"planes.kanzen.io/plane":"one"}}}`,
		`{"metadata":{"annotations":{"planes.kanzen.io/plane":"two","b":"c"}}}`: `{"metadata":{"annotations":{"b":"c","planes.kanzen.io/plane":"one"}}}` + "\n",
		`{"metadata":{"annotations":null}}`:                                     `{"metadata":{"annotations":{"planes.kanzen.io/plane":"one"}}}` + "\n",
	} {
		if got, err := annotated([]byte(in), "one"); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v", in, got, err)
		}
	}
	for _, in := range []string{`{}`, `[]`, `{"metadata":1}`, `k8s`, "k8s\x00", "k8s\x00\x12\x02\x0a\x05"} {
		if got, err := annotated([]byte(in), "one"); err == nil {
			t.Errorf("%q: %q", in, got)
		}
	}
}

// What is granted is what the export asks for and the binding accepts, no more.
func TestGranted(t *testing.T) {
	yes, no := &metav1.LabelSelector{MatchLabels: map[string]string{"l": "yes"}}, &metav1.LabelSelector{MatchLabels: map[string]string{"l": "no"}}
	claim := func(resource string, selector *metav1.LabelSelector, verbs ...string) Claim {
		return Claim{GroupResource{"", resource}, verbs, selector}
	}
	for name, c := range map[string]struct {
		asked, accepted []Claim
		want            []grant
		whole           bool
	}{
		"nothing asked":    {nil, []Claim{claim("pods", nil, "get")}, nil, true},
		"nothing accepted": {[]Claim{claim("pods", nil, "get")}, nil, nil, false},
		"all":              {[]Claim{claim("pods", yes, "get")}, []Claim{claim("pods", yes, "get", "list")}, []grant{{GroupResource{"", "pods"}, []string{"get"}, []*metav1.LabelSelector{yes}}}, true},
		"accepted without its selector": {[]Claim{claim("pods", yes, "get")}, []Claim{claim("pods", nil, "get")},
			[]grant{{GroupResource{"", "pods"}, []string{"get"}, []*metav1.LabelSelector{yes}}}, true},
		"narrower":     {[]Claim{claim("pods", yes, "get")}, []Claim{claim("pods", no, "get")}, []grant{{GroupResource{"", "pods"}, []string{"get"}, []*metav1.LabelSelector{yes, no}}}, false},
		"other verbs":  {[]Claim{claim("pods", nil, "get")}, []Claim{claim("pods", nil, "list")}, nil, false},
		"fewer verbs":  {[]Claim{claim("pods", nil, "get", "list")}, []Claim{claim("pods", nil, "list")}, []grant{{GroupResource{"", "pods"}, []string{"list"}, nil}}, false},
		"another kind": {[]Claim{claim("pods", nil, "get")}, []Claim{claim("secrets", nil, "get")}, nil, false},
	} {
		if got, whole := granted(c.asked, c.accepted); !reflect.DeepEqual(got, c.want) || whole != c.whole {
			t.Errorf("%s: %+v, %v", name, got, whole)
		}
	}
	both := grant{Selectors: []*metav1.LabelSelector{yes, no}}
	if which, err := both.selector(); err != nil || which.Matches(labels.Set{}) || which.Empty() || which.String() != "l=yes,l=no" {
		t.Errorf("%v, %v", which, err)
	}
}

func TestDefinitions(t *testing.T) {
	all, err := Definitions()
	if err != nil || len(all) != 2 {
		t.Fatal(all, err)
	}
}
