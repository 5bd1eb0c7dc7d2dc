package h2_test

import (
	"bytes"
	"io"
	"net/http"
	"runtime/pprof"
	"sync"
	"testing"
	"time"
)

// waiting returns how many goroutines wait for handlers to run.
func waiting(t *testing.T) int {
	t.Helper()
	var all bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&all, 2); err != nil {
		t.Fatal(err)
	}
	return bytes.Count(all.Bytes(), []byte("h2.(*workers).run")) // who created it
}

// TestWorkersEnd: goroutines that wait for work do not outlive the need for them.
func TestWorkersEnd(t *testing.T) {
	const requests = 6
	var here sync.WaitGroup
	here.Add(requests)
	s := serve(t, true, func(w http.ResponseWriter, _ *http.Request) {
		here.Done()
		here.Wait()
		_, _ = io.WriteString(w, "hello")
	})
	c := client(s)
	var all sync.WaitGroup
	for range requests {
		all.Go(func() {
			resp, err := c.Get(s.URL)
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		})
	}
	all.Wait()
	if waiting(t) == 0 {
		t.Error("nobody waits for the next request")
	}
	for deadline := time.Now().Add(20 * time.Second); waiting(t) > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines still wait", waiting(t))
		}
	}
}
