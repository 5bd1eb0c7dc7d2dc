//go:build linux

package main

import (
	"os"
	"testing"
	"time"
)

func TestUsage(t *testing.T) {
	for end := time.Now().Add(10 * time.Second); readUsage(os.Getpid()).seconds == 0; {
		if time.Now().After(end) {
			t.Fatal("ten seconds of work take no processor time")
		}
	}
	if u := readUsage(os.Getpid()); u.peak == 0 {
		t.Errorf("%+v", u)
	}
	if u := readUsage(1 << 30); u != (usage{}) {
		t.Errorf("a process that is not there: %+v", u)
	}
}
