package allocation

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/core"
)

// TestPortSetStored compares the stored form with bytes that kube-apiserver wrote with port 30003 allocated.
func TestPortSetStored(t *testing.T) {
	const stored = "k8s\x00\n\x15\n\x02v1\x12\x0fRangeAllocation\x12\"\n\x10\n\x00\x12\x00\x1a\x00\"\x00*\x002\x008\x00B\x00\x12\v30000-32767\x1a\x01\b\x1a\x00\"\x00"
	s, err := decodePorts([]byte(stored))
	if err != nil {
		t.Fatal(err)
	}
	var ports []int32
	s.each(func(p int32) { ports = append(ports, p) })
	if !slices.Equal(ports, []int32{30003}) || s.portRange != (portRange{30000, 2768}) {
		t.Errorf("got %v of %s", ports, s.portRange)
	}
	if got, err := s.encode(); err != nil || string(got) != stored {
		t.Errorf("encoded again: %q, %v", got, err)
	}
	s.add(32767)
	s.remove(30003)
	if s.has(30003) || !s.has(32767) || s.has(32768) || s.has(math.MinInt32) {
		t.Error("the set does not hold what was put in")
	}
}

func FuzzDecodePorts(f *testing.F) {
	s := &portSet{portRange: portRange{30000, 2768}}
	s.add(30100)
	b, err := s.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(_ *testing.T, b []byte) {
		if s, err := decodePorts(b); err == nil {
			s.has(30100)
			_, _ = s.encode()
		}
	})
}

func TestAllocatePort(t *testing.T) {
	s := newCluster(t).server(t, 1, 30000, 30031)
	var taken *TakenError
	var outside *RangeError
	for _, c := range []struct {
		name   string
		asked  int32
		dryRun bool
		want   any
	}{
		{"any on a dry run", 0, true, int32(32769)},
		{"given on a dry run", 30001, true, int32(30001)},
		{"given", 30001, false, int32(30001)},
		{"taken", 30001, false, &taken},
		{"taken on a dry run", 30001, true, &taken},
		{"below", 29999, false, &outside},
		{"above", 30032, false, &outside},
		{"above on a dry run", 30032, true, int32(30032)},
	} {
		got, err := s.ports.Allocate(t.Context(), service("a"), c.asked, c.dryRun)
		if want, ok := c.want.(int32); ok {
			if err != nil || got != want {
				t.Errorf("%s: %d, %v; want %d", c.name, got, err, want)
			}
		} else if !errors.As(err, c.want) {
			t.Errorf("%s: %d, %v; want %T", c.name, got, err, c.want)
		}
	}
	for n := range 31 {
		got, err := s.ports.Allocate(t.Context(), service("a"), 0, false)
		if err != nil || (n < 16) != (got >= 30016) {
			t.Fatalf("port %d: %d, %v", n, got, err)
		}
	}
	if _, err := s.ports.Allocate(t.Context(), service("a"), 0, false); !errors.Is(err, core.ErrExhausted) {
		t.Errorf("all taken: %v", err)
	}
	if err := s.ports.Release(t.Context(), service("a"), 30020); err != nil {
		t.Fatal(err)
	}
	if got, err := s.ports.Allocate(t.Context(), service("a"), 0, false); err != nil || got != 30020 {
		t.Errorf("after a release: %d, %v", got, err)
	}
	s.put(withPorts(service("stored"), 30020))
	if err := s.ports.Release(t.Context(), service("stored"), 30020); err != nil || !slices.Contains(s.allocatedPorts(), 30020) {
		t.Errorf("released the port of a service that is stored with it: %v", err)
	}
}

// TestPortsOfServers uses two servers in turn, so that the cached set of each is always outdated.
func TestPortsOfServers(t *testing.T) {
	c := newCluster(t)
	a, b := c.server(t, 1, 30000, 32767), c.server(t, 2, 30000, 32767)
	for range 2 {
		for _, pair := range [][2]*server{{a, b}, {b, a}} {
			if _, err := pair[0].ports.Allocate(t.Context(), service("x"), 30005, false); err != nil {
				t.Fatal(err)
			}
			var taken *TakenError
			if _, err := pair[1].ports.Allocate(t.Context(), service("y"), 30005, false); !errors.As(err, &taken) {
				t.Fatalf("the port of the other: %v", err)
			}
			if err := pair[1].ports.Release(t.Context(), service("x"), 30005); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestPortsLost checks that ports of services are not allocated again if the stored set is missing, or is of another
// range.
func TestPortsLost(t *testing.T) {
	c := newCluster(t)
	s := c.server(t, 1, 30000, 30031)
	s.put(withPorts(service("a"), 30001))
	var taken *TakenError
	if _, err := s.ports.Allocate(t.Context(), service("b"), 30001, false); !errors.As(err, &taken) {
		t.Errorf("the port of a service, with nothing stored: %v", err)
	}
	if _, err := s.ports.Allocate(t.Context(), service("b"), 30020, false); err != nil {
		t.Error(err)
	}
	wide := c.server(t, 1, 30010, 30050)
	if _, err := wide.ports.Allocate(t.Context(), service("b"), 30020, false); !errors.As(err, &taken) {
		t.Errorf("a port of the old range: %v", err)
	}
	if got, err := wide.ports.Allocate(t.Context(), service("b"), 30050, false); err != nil || got != 30050 {
		t.Errorf("a port of the new range: %d, %v", got, err)
	}
	// The stored range has changed since the first server cached it.
	if _, err := s.ports.Allocate(t.Context(), service("b"), 30001, false); !errors.As(err, &taken) {
		t.Errorf("the port of a service, in a range that was changed: %v", err)
	}
}

func TestLockHonoursContext(t *testing.T) {
	s := newCluster(t).server(t, 1, 30000, 30031)
	if err := s.ports.lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.ports.Allocate(ctx, service("a"), 30001, false); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func BenchmarkAllocatePort(b *testing.B) {
	s := newCluster(b).server(b, 1, 30000, 32767)
	svc := &corev1.Service{}
	b.ReportAllocs()
	for b.Loop() {
		p, err := s.ports.Allocate(b.Context(), svc, 0, false)
		if err == nil {
			b.StopTimer()
			err = s.ports.Release(b.Context(), svc, p)
			b.StartTimer()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
