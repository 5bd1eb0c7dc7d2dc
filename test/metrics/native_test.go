package metrics

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
	"github.com/kanzen-io/kanzen/test/peer"
)

// TestNativeHistograms has the histograms native that are on kube-apiserver, with the gate and without it.
func TestNativeHistograms(t *testing.T) {
	used := func(c *rest.Config) map[string]native {
		use(t, c)
		return histograms(t, c)
	}
	theirs := peer.NewRecorded[map[string]native](t, "native")
	for _, args := range [][]string{nil, {"--feature-gates=NativeHistograms=false"}, {"--emulated-version=1.36"}, {"--emulated-version=1.36", "--feature-gates=NativeHistograms=true"}} {
		want := theirs.Answer(strings.Join(args, " "), func() map[string]native { return used(peer.Start(t, args...)) })
		got := used(kanzentest.Start(t, kanzentest.Listen(), kanzentest.Flags(args...)).SocketConfig())
		both := 0
		for _, name := range slices.Sorted(maps.Keys(want)) {
			native, ok := got[name]
			if ok {
				both++
			}
			if ok && native != want[name] && name != "apiserver_watch_events_sizes" { // docs/differences.md
				t.Errorf("%v: %s: native is %v, on kube-apiserver %v", args, name, native, want[name])
			}
		}
		if both < 20 {
			t.Errorf("%v: only %d histograms to compare", args, both)
		}
	}
}

// native is how a histogram is told.
type native struct {
	Is      bool
	Buckets bool // it has named ones too
}

// histograms are those that a server tells in protobuf.
func histograms(t *testing.T, c *rest.Config) map[string]native {
	t.Helper()
	h, err := rest.HTTPClientFor(c)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", c.Host+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", string(expfmt.NewFormat(expfmt.TypeProtoDelim)))
	resp, err := h.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	out := map[string]native{}
	for d := expfmt.NewDecoder(resp.Body, expfmt.ResponseFormat(resp.Header)); ; {
		var f dto.MetricFamily
		if err := d.Decode(&f); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatal(err)
		}
		for _, m := range f.Metric {
			if h := m.Histogram; h != nil && h.GetSampleCount() > 0 {
				out[f.GetName()] = native{h.Schema != nil && h.GetZeroThreshold() > 0, len(h.Bucket) > 0}
			}
		}
	}
}
