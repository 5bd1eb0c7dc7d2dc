package merge

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/bundle"
	bundlev1 "github.com/kanzen-io/kanzen/internal/engine/bundle/v1"
	v1 "github.com/kanzen-io/kanzen/internal/engine/forks/v1"
	"github.com/kanzen-io/kanzen/internal/store"
)

// Lists and maps as long as an object can hold are merged in time: what is quadratic takes minutes here.
func TestLong(t *testing.T) {
	const long = 100_000
	began := time.Now()
	keys := func(prefix string) (out []string) {
		for n := range long {
			out = append(out, fmt.Sprint(prefix, n))
		}
		return out
	}
	if got := order(keys("a"), keys("b"), keys("c")); len(got) != 2*long {
		t.Errorf("%d keys", len(got))
	}
	set := fieldpath.NewSet()
	for n := range long {
		set.Insert(fieldpath.MakePathOrDie("data", fmt.Sprintf("k%06d", n)))
	}
	ours, theirs := ownership{sets: map[manager]*fieldpath.Set{{name: "a"}: set}}, ownership{sets: map[manager]*fieldpath.Set{{name: "b"}: set}}
	merged := mergeOwners(ownership{}, ours, theirs, set)
	if a, b := setOf(merged, manager{name: "a"}), setOf(merged, manager{name: "b"}); !a.Equals(set) || !b.Empty() {
		t.Errorf("a has %d fields, b %d", a.Size(), b.Size())
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}

// What only one side has keeps its place.
func TestOrder(t *testing.T) {
	for _, c := range []struct{ base, ours, theirs, want string }{
		{"abc", "abc", "abc", "abc"}, {"abc", "xabyc", "abc", "xabyc"}, {"abc", "abc", "xaybc", "xaybc"}, {"abc", "axybc", "abzc", "axybzc"},
		{"abc", "xabc", "yabc", "yxabc"}, {"abc", "abx", "cba", "cbxa"}, {"abc", "cab", "abcx", "cxab"}, {"", "ab", "cd", "cdab"}, {"abc", "", "axbc", "axbc"},
	} {
		of := func(s string) []string { return strings.Split(s, "")[:len(s):len(s)] }
		if got := strings.Join(order(of(c.base), of(c.ours), of(c.theirs)), ""); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// large is a fork in which requests have written many objects. It answers each request with an object of a megabyte.
type large struct {
	bundle.Fork
	reads   *int
	objects int
}

func (f large) Transport(user.Info) http.RoundTripper { return f }

func (f large) RoundTrip(r *http.Request) (*http.Response, error) {
	*f.reads++
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(`{"metadata":{"name":"a","annotations":{"a":"` + strings.Repeat("x", 1<<20) + `"}}}`)), Request: r}, nil
}

func (f large) Written() []bundle.Change {
	out := make([]bundle.Change, f.objects)
	for n := range out {
		out[n] = bundle.Change{Version: "v1", Kind: "ConfigMap", Asked: n + 1, Other: bundlev1.Other{Resource: "configmaps", Namespace: "default", Name: fmt.Sprint(n), Result: bundlev1.Changed}}
	}
	return out
}

func (large) Fields(schema.GroupVersionKind) *typed.ParseableType { return nil }
func (large) Head(context.Context) (int64, error)                 { return 1, nil }
func (large) Cut() *store.Cut                                     { return nil }
func (f large) Began(context.Context) (Plane, func() error, error) {
	return f, func() error { return nil }, nil
}

// However much was changed in a fork, a merge reads no more than it may, and says so. A smaller one is merged.
func TestLarge(t *testing.T) {
	for objects, want := range map[int]int{10: 30, 10_000: maxRead>>20 + 1} {
		reads := 0
		f := large{reads: &reads, objects: objects}
		r := Resources(Deps{
			Use: func(context.Context, string) (Fork, func(), error) { return f, func() {}, nil },
			Carry: func(ctx context.Context, _ *metav1.CreateOptions, prepare func(context.Context, bundle.Fork) ([]bundle.Write, error)) (*bundlev1.BundleStatus, error) {
				_, err := prepare(ctx, f)
				return &bundlev1.BundleStatus{}, err
			},
		})[0]
		_, err := r.Create(t.Context(), &v1.Merge{Spec: v1.MergeSpec{Fork: "f"}}, allowed, &metav1.CreateOptions{})
		if small := objects == 10; small && err != nil || !small && !apierrors.IsRequestEntityTooLargeError(err) || reads > want || small && reads != want {
			t.Errorf("%d objects: %d reads, %v", objects, reads, err)
		}
	}
}

func allowed(context.Context, engine.Object) error { return nil }
