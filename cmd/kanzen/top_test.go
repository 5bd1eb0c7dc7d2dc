package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/internal/recorder/v1alpha1"
)

// The screen fits terminals of any size, whatever there is to show, after any keys.
func TestTopScreen(t *testing.T) {
	for _, records := range []int{0, 1, 100} {
		top := &top{window: time.Second}
		for n := range records {
			top.add(&v1alpha1.Record{User: fmt.Sprintf("user-%d", n), Verb: "get", Resource: "pods", Weight: 1, Code: 200}, time.Now())
			top.watches = append(top.watches, v1alpha1.Watch{})
			top.webhooks = append(top.webhooks, v1alpha1.WebhookStat{})
		}
		for _, key := range []string{"", "\x1b[B", "s", "g", "k", "\r", "j", "g", "\r", "\r", "\x1b", "q"} {
			if more := top.press(key); more == (key == "q") {
				t.Errorf("%q: goes on: %t", key, more)
			}
			for _, width := range []int{1, 20, 80, 400} {
				for _, height := range []int{1, 2, 5, 24, 200} {
					lines := top.screen(width, height)
					if len(lines) == 0 || len(lines) > max(height-1, 1) {
						t.Errorf("%d records, %q, %d by %d: %d lines", records, key, width, height, len(lines))
					}
					for _, l := range lines {
						if len([]rune(l)) > width || strings.ContainsAny(l, "\n\x1b") {
							t.Errorf("%d records, %q, %d by %d: %q", records, key, width, height, l)
						}
					}
				}
			}
		}
	}
}
