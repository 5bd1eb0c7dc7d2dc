package engine

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// stored encodes a pod as it is stored.
func stored(t testing.TB, p *corev1.Pod) []byte {
	t.Helper()
	raw, err := p.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	u := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Pod"}, Raw: raw}
	b, err := u.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return append(append([]byte{}, magic...), b...)
}

func TestWithRevision(t *testing.T) {
	for _, p := range []*corev1.Pod{
		{},
		{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b", UID: "c", Generation: 7, GenerateName: "x",
			Labels: map[string]string{"k": "v", "l": ""}, CreationTimestamp: metav1.Unix(1700000000, 0)},
			Spec: corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{Phase: "Running"}},
	} {
		for _, rev := range []int64{1, 127, 128, 1 << 40} {
			raw, err := rawOf(stored(t, p))
			if err != nil {
				t.Fatal(err)
			}
			v, err := withRevision(raw, rev)
			if err != nil {
				t.Fatal(err)
			}
			b := v.appendTo(nil)
			if len(b) != v.size {
				t.Errorf("size is %d, want %d", v.size, len(b))
			}
			var got corev1.Pod
			if err := got.Unmarshal(b); err != nil {
				t.Fatal(err)
			}
			want := p.DeepCopy()
			want.ResourceVersion = formatRev(rev)
			if !apiequality.Semantic.DeepEqual(&got, want) {
				t.Errorf("got %v, want %v", &got, want)
			}
			l, err := wireLabels(stored(t, p))
			if err != nil || len(l) != len(p.Labels) || l["k"] != p.Labels["k"] {
				t.Errorf("labels %v, %v; want %v", l, err, p.Labels)
			}
		}
	}
}

func FuzzWire(f *testing.F) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"k": "v"}}}
	raw, _ := p.Marshal()
	f.Add(raw)
	f.Fuzz(func(t *testing.T, raw []byte) {
		_, _ = wireLabels(append(append([]byte{}, magic...), raw...))
		if v, err := withRevision(raw, 5); err == nil && len(v.appendTo(nil)) != v.size {
			t.Error("size is wrong")
		}
	})
}
