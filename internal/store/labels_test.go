package store

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
)

// labelled is a view whose objects are their labels: "a=1,b=2".
func labelled(b testing.TB, values []string) *View {
	b.Helper()
	s := New(nil, Options{Prefix: "/registry/"})
	v := s.View(Kind{Prefix: "labelled/", Labels: func(value []byte) (labels.Set, error) {
		return labels.ConvertSelectorToLabelsMap(string(value))
	}})
	v.state = loaded
	for n, value := range values {
		feed(v, int64(n+1), fmt.Sprintf("ns%d/name-%06d", n%30, n), value)
	}
	return v
}

// A filter must agree with its selector, whatever the bits say.
func TestLabelFilterAgreesWithSelector(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	word := func() string { return string(rune('a' + r.IntN(6))) }
	values := make([]string, 300)
	for n := range values {
		var set []string
		for range r.IntN(12) {
			set = append(set, word()+"="+word())
		}
		values[n] = strings.Join(set, ",")
	}
	v := labelled(t, values)
	matched := 0
	for range 2000 {
		var terms []string
		for range 1 + r.IntN(3) {
			terms = append(terms, fmt.Sprintf([]string{"%s=%s", "%s==%s", "%s!=%s", "%s in (%s)", "%s in (a,%s)", "%s notin (%s)", "!%s%.0s", "%s%.0s"}[r.IntN(8)], word(), word()))
		}
		selector, err := labels.Parse(strings.Join(terms, ","))
		if err != nil {
			t.Fatal(terms, err)
		}
		f := NewLabelFilter(selector)
		n := r.IntN(len(values))
		i, err := v.Get(t.Context(), fmt.Sprintf("ns%d/name-%06d", n%30, n))
		if err != nil {
			t.Fatal(err)
		}
		set, err := v.kind.Labels(i.Value())
		if err != nil {
			t.Fatal(err)
		}
		got, err := v.MatchLabels(i, f)
		if want := selector.Matches(set); got != want || err != nil {
			t.Fatalf("%s of %s: %v, %v, want %v", selector, set, got, err, want)
		}
		if got {
			matched++
		}
	}
	if matched < 100 || matched > 1900 {
		t.Errorf("%d of 2000 matched: the test does not see both", matched)
	}
}

func TestLabelFilterReportsBrokenItems(t *testing.T) {
	v := labelled(t, []string{"not labels"})
	i, err := v.Get(t.Context(), "ns0/name-000000")
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := v.MatchLabels(i, NewLabelFilter(labels.SelectorFromSet(labels.Set{"a": "1"}))); ok || err == nil {
		t.Errorf("labels that cannot be read: %v, %v, want an error", ok, err)
	}
	if ok, err := v.MatchLabels(i, NewLabelFilter(nil)); !ok || err != nil {
		t.Errorf("no selector: %v, %v", ok, err)
	}
}

func TestCount(t *testing.T) {
	values := make([]string, 1000)
	v := labelled(t, values)
	s, err := v.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []Range{{}, {Prefix: "ns3/"}, {Prefix: "ns3/", From: "ns3/name-000500"}, {From: "ns3/"}, {Prefix: "none/"},
		{Prefix: "ns29/", From: "ns29/z"}, {Prefix: "ns3/", From: "zz"}, {From: "ns12/name-000012\x00"}, {Prefix: "ns3/", From: "a"}} {
		want := int64(0)
		if err := s.Ascend(t.Context(), r, func(*Item) bool { want++; return true }); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Count(t.Context(), r); got != want || err != nil {
			t.Errorf("%+v: %d, %v, want %d", r, got, err, want)
		}
	}
}

func BenchmarkCountRest(b *testing.B) {
	s, err := labelled(b, make([]string, 200_000)).Snapshot(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if n, err := s.Count(b.Context(), Range{From: "ns1/"}); n == 0 || err != nil {
			b.Fatal(n, err)
		}
	}
}

// BenchmarkNoneByLabel looks at 200,000 objects of which none matches.
func BenchmarkNoneByLabel(b *testing.B) {
	values := make([]string, 200_000)
	for n := range values {
		values[n] = fmt.Sprintf("app=web,tier=t%d,name=n%d,version=v1", n%7, n)
	}
	v := labelled(b, values)
	s, err := v.Snapshot(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	f := NewLabelFilter(labels.SelectorFromSet(labels.Set{"app": "other"}))
	list := func() {
		err := s.Ascend(b.Context(), Range{}, func(i *Item) bool {
			ok, err := v.MatchLabels(i, f)
			return !ok && err == nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	list() // the first one reads the labels
	for b.Loop() {
		list()
	}
}
