package planes

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/server/controlplane"
	"github.com/kanzen-io/kanzen/internal/server/planes/exports"
)

// membersWatch is a provider's watch of the planes that have bound its export.
type membersWatch struct {
	lines chan string // type and plane of each line; closed at the end
}

func (g *ground) watchMembers(t *testing.T) *membersWatch {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://root/exports/widgets/planes?watch=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := g.Transport("provider", controlplane.Itself()).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != http.StatusOK {
		t.Fatal(answer.Status)
	}
	w := &membersWatch{make(chan string, 100)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(w.lines)
		for lines := json.NewDecoder(answer.Body); ; {
			var line struct {
				Type   string
				Object struct{ Name, UID string }
			}
			if lines.Decode(&line) != nil {
				return
			}
			if has := line.Object.UID != ""; has != (line.Type != "BOOKMARK") {
				line.Type += " without UID"
			}
			w.lines <- line.Type + " " + line.Object.Name
		}
	}()
	t.Cleanup(func() { answer.Body.Close(); <-ended })
	return w
}

// next returns the next lines.
func (w *membersWatch) next(t *testing.T, n int) (lines []string) {
	t.Helper()
	for range n {
		select {
		case line, ok := <-w.lines:
			if !ok {
				t.Fatalf("the watch has ended after %q", lines)
			}
			lines = append(lines, line)
		case <-time.After(time.Minute):
			t.Fatalf("no line came after %q", lines)
		}
	}
	return lines
}

// A watch of the planes of an export begins with all of them, and goes on with what changes. Such a watch may last.
func TestExportMembers(t *testing.T) { inEachLog(t, nil, testExportMembers) }

func testExportMembers(t *testing.T, g *ground) {
	g.have(t, "provider", "alice", "bob", "carol")
	g.export(t, `{"planes":["alice","bob","carol"]}`)
	bind := func(name string) {
		g.bind(t, name, "")
		g.becomes(t, name, exports.Bound, metav1.ConditionTrue)
	}
	bind("alice")
	bind("bob")
	w := g.watchMembers(t)
	if got := w.next(t, 3); !slices.Equal(got, []string{"ADDED alice", "ADDED bob", "BOOKMARK "}) {
		t.Errorf("%q", got)
	}
	bind("carol")
	g.must(t, "alice", "DELETE", bindingsPath+"/widgets", "", nil)
	if got := w.next(t, 2); !slices.Equal(got, []string{"ADDED carol", "DELETED alice"}) {
		t.Errorf("%q", got)
	}
	if err := g.Delete(t.Context(), "bob"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the binding is not gone", func() bool {
		code, _ := g.ask(t, "alice", "alice", "GET", bindingsPath+"/widgets", "")
		return code == http.StatusNotFound
	})
	bind("alice")
	got := w.next(t, 2)
	slices.Sort(got)
	if !slices.Equal(got, []string{"ADDED alice", "DELETED bob"}) {
		t.Errorf("%q", got)
	}
	for path, want := range map[string]bool{"?watch=true": true, "?watch=1": true, "?watch=false": false, "": false} {
		if is := longRunning(httptest.NewRequest(http.MethodGet, "/exports/widgets/planes"+path, nil)); is != want {
			t.Errorf("%q is long-running: %v", path, is)
		}
	}
	g.must(t, "provider", "DELETE", exportsPath+"/widgets", "", nil)
	for ended := false; !ended; {
		select {
		case _, more := <-w.lines:
			ended = !more
		case <-time.After(time.Minute):
			t.Fatal("the watch goes on after its export is gone")
		}
	}
	g.fails(t, http.StatusNotFound, "widgets", "provider", "GET", "/exports/widgets/planes?watch=true", "")
}
