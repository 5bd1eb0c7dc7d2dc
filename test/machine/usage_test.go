//go:build linux

package machine

import (
	"os"
	"testing"
	"time"
)

func TestUsage(t *testing.T) {
	for end := time.Now().Add(10 * time.Second); readUsage(os.Getpid()).Seconds == 0; {
		if time.Now().After(end) {
			t.Fatal("ten seconds of work take no processor time")
		}
	}
	if u := readUsage(os.Getpid()); u.MiB == 0 {
		t.Errorf("%+v", u)
	}
	if u := readUsage(1 << 30); u != (Usage{}) {
		t.Errorf("a process that is not there: %+v", u)
	}
}
