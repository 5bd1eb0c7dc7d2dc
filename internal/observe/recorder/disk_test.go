package recorder

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// onDisk opens a recorder on a directory. end writes what waits.
func onDisk(t *testing.T, dir string, memory int64) (r *Recorder, clk *testingclock.FakeClock, end func()) {
	t.Helper()
	clk = testingclock.NewFakeClock(begin)
	d, err := OpenDisk(DiskConfig{Dir: dir, Size: 16 << 20, Clock: clk, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return New(Config{Memory: memory, Disk: d, Clock: clk, Log: slog.New(slog.DiscardHandler)}), clk, func() {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := d.Run(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

func puts(t *testing.T, r *Recorder, clk *testingclock.FakeClock, by string) {
	t.Helper()
	serve(t, r, clk, "PUT", "/api/v1/namespaces/n/configmaps/c", by, 200, wrote(r, "configmaps", configMap("c", nil), configMap("c", map[string]string{"a": "b"})))
}

func usersOf(r *Recorder) (names []string) {
	for _, rec := range r.Records() {
		names = append(names, rec.User)
	}
	slices.Sort(names)
	return names
}

// TestDamagedFiles has files with lines in them that are no records: what is before and behind them is there after a restart, as is what
// the next process appends.
func TestDamagedFiles(t *testing.T) {
	for name, damage := range map[string]string{
		"torn": `{"verb":"upd`, "zeros": strings.Repeat("\x00", 5000), "garbage": "\n[1]\nnull\n\"a\"\n{\"verb\":1}\n\n", "long": strings.Repeat("a", 3*maxLine),
		"long line": strings.Repeat("a", 2*maxLine) + "\n", "exact": strings.Repeat("a", maxLine-1) + "\n", "one more": strings.Repeat("a", maxLine) + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			r, clk, end := onDisk(t, dir, 16<<20)
			puts(t, r, clk, "alice")
			end()
			f, err := os.OpenFile(filepath.Join(dir, diskFile), os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			_, err = f.WriteString(damage)
			if err != nil || f.Close() != nil {
				t.Fatal(err)
			}
			r, clk, end = onDisk(t, dir, 16<<20)
			if err := r.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
			puts(t, r, clk, "bob")
			if got := usersOf(r); !slices.Equal(got, []string{"alice", "bob"}) {
				t.Errorf("after the damage: %q", got)
			}
			end()
			r, _, _ = onDisk(t, dir, 16<<20)
			if err := r.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := usersOf(r); !slices.Equal(got, []string{"alice", "bob"}) {
				t.Errorf("at the next start: %q", got)
			}
		})
	}
}

// TestLoadKeepsCounts has what was served while files were read be of the same kind as what is in them.
func TestLoadKeepsCounts(t *testing.T) {
	dir := t.TempDir()
	r, clk, end := onDisk(t, dir, 1<<20)
	puts(t, r, clk, "alice")
	puts(t, r, clk, "alice")
	end()
	r, clk, _ = onDisk(t, dir, 1<<20)
	for range 3 {
		puts(t, r, clk, "alice")
	}
	o := v1alpha1.ObjectReference{Resource: "configmaps", Namespace: "n", Name: "c"}
	r.history.shard(o).objects[o].forgotten = 7
	if err := r.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	entries, forgotten := r.History(o)
	if len(entries) != 1 || entries[0].Count != 5 || forgotten != 7 {
		t.Errorf("%d forgotten, %+v", forgotten, entries)
	}
}

// TestLoadKnowsWhatIsGone has a recorder drop requests while files are read: it does not say to have those that came before these.
func TestLoadKnowsWhatIsGone(t *testing.T) {
	old, now := New(Config{Memory: 1 << 20, Clock: testingclock.NewFakeClock(begin)}), New(Config{Memory: 1 << 20, Clock: testingclock.NewFakeClock(begin)})
	gone := begin.Add(time.Hour)
	for n := range now.rings[reads].shards {
		now.rings[reads].shards[n].gone = gone
		old.rings[reads].shards[n].gone = begin
	}
	now.rings[reads].precede(&old.rings[reads])
	if _, since := now.rings[reads].recent(begin, 100); !since.Equal(gone) {
		t.Errorf("since %s, want %s", since, gone)
	}
}

// TestMuchIsRead counts the bytes of files, of whatever lines.
func TestMuchIsRead(t *testing.T) {
	r, _ := newTest(1 << 20)
	text := bytes.Repeat([]byte("x\n"), 100)
	if n, err := r.load(t.Context(), bytes.NewReader(text)); n != int64(len(text)) || err != nil {
		t.Error(n, err)
	}
}
