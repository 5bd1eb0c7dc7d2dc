package snapshot_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/kanzen-io/kanzen/internal/backup/snapshot"
)

// TestGrowth looks several times at a database that grows.
func TestGrowth(t *testing.T) {
	t.Parallel()
	clk, looks := testingclock.NewFakeClock(time.Unix(1_700_000_000, 0)), 0
	var now snapshot.Space
	h := snapshot.NewSpaceHandler(func(context.Context) (*snapshot.Space, error) {
		looks++
		found := now
		return &found, nil
	}, clk, slog.New(slog.DiscardHandler))
	look := func(query string) (out snapshot.Space) {
		t.Helper()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, snapshot.SpacePath+query, nil))
		if w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	set := func(maps, pods int64) {
		now = snapshot.Space{Resources: []snapshot.Amount{{Name: "configmaps", Bytes: maps}, {Name: "pods", Bytes: pods}}, Namespaces: []snapshot.Amount{{Name: "a", Bytes: maps + pods}},
			Placed: []snapshot.Amount{{Name: "configmaps", Namespace: "a", Bytes: maps}, {Name: "configmaps", Namespace: fmt.Sprint("n-", maps), Bytes: 7}}}
	}
	set(100, 50)
	if s := look(""); s.Since != nil || s.Resources[0].Grown != nil {
		t.Errorf("the first look is compared: %+v", s)
	}
	set(300, 20)
	if s := look("?recent=1m"); looks != 1 || s.Resources[0].Bytes != 100 {
		t.Errorf("%d looks within a minute", looks)
	}
	clk.Step(2 * time.Minute)
	s := look("?recent=1m")
	if looks != 2 || s.Since == nil || *s.Resources[0].Grown != 200 || *s.Resources[1].Grown != -30 || *s.Namespaces[0].Grown != 170 || *s.Placed[0].Grown != 200 || *s.Placed[1].Grown != 7 {
		t.Errorf("after %d looks: %+v", looks, s)
	}
	// A look an hour later is compared with the first one, and one after that with it or with the one a day ago.
	for n := range 30 {
		clk.Step(time.Hour)
		set(int64(1000*(n+1)), 20)
		look("")
	}
	clk.Step(time.Hour)
	set(31_000, 20)
	hour, day := look("?since=1h"), look("?since=24h")
	if *hour.Resources[0].Grown != 1000 || *day.Resources[0].Grown != 24_000 || day.Since.Sub(*hour.Since) != -23*time.Hour {
		t.Errorf("in an hour %d since %v, in a day %d since %v", *hour.Resources[0].Grown, hour.Since, *day.Resources[0].Grown, day.Since)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, snapshot.SpacePath+"?since=yesterday", nil))
	if w.Code != 400 {
		t.Errorf("a time that is none: %d", w.Code)
	}
}

// TestGrowthIsKept has a server look by itself, unless its database is large.
func TestGrowthIsKept(t *testing.T) {
	t.Parallel()
	clk, looked, size := testingclock.NewFakeClock(time.Unix(1_700_000_000, 0)), make(chan bool, 10), make(chan int64, 10)
	h := snapshot.NewSpaceHandler(func(context.Context) (*snapshot.Space, error) { looked <- true; return &snapshot.Space{}, nil }, clk, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.Keep(ctx, clk, func(context.Context) (*snapshot.Disk, error) { return &snapshot.Disk{Bytes: <-size}, nil })
	}()
	for !clk.HasWaiters() {
		time.Sleep(time.Millisecond)
	}
	size <- 3 << 30
	clk.Step(time.Hour)
	for len(size) > 0 {
		time.Sleep(time.Millisecond)
	}
	size <- 1 << 30
	clk.Step(time.Hour)
	<-looked
	cancel()
	<-done
	if len(looked) > 0 {
		t.Error("a large database was looked at")
	}
}
