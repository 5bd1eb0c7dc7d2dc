package store

import (
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/internal/store/etcd/etcdtest"
)

// TestExternal does one of everything over TLS, across a restart of etcd.
func TestExternal(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(map[bool]string{false: "plain", true: "tls"}[secure], func(t *testing.T) {
			x := etcdtest.Start(t, secure)
			s := run(t, x.Dial())
			v := s.View(things)
			a := create(t, v, "a", "1")
			w, err := v.Watch(t.Context(), WatchOptions{After: a.Rev - 1})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			if got := take(t, w, 1); got[0] != "+a=1" {
				t.Errorf("got %v", got)
			}
			if _, err := s.Size(t.Context()); err != nil {
				t.Error(err)
			}
			x.Restart()
			eventually(t, func() bool { return s.Ping(t.Context()) == nil })
			update(t, v, a, "2")
			if got := take(t, w, 1); got[0] != "a=1>2" {
				t.Errorf("got %v", got)
			}
			fresh(t, s)
		})
	}
}

// eventually waits for what has no event to wait for.
func eventually(t testing.TB, ok func() bool) {
	t.Helper()
	for range 1000 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("it did not come to be")
}
