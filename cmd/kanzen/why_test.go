package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/observe/recorder"
	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// TestFightIsFolded prints the history of an object over which two writers fight: its beginning and its end, and all else.
func TestFightIsFolded(t *testing.T) {
	s := &story{Kind: "ConfigMap", Object: v1alpha1.ObjectReference{Resource: "configmaps", Name: "a"}, History: &v1alpha1.ObjectHistoryStatus{}}
	add := func(user, field, value string) {
		s.History.Entries = append(s.History.Entries, v1alpha1.HistoryEntry{Operation: "Updated", User: user, Code: 200, Fields: []v1alpha1.FieldChange{{Path: field, New: value}}})
	}
	add("carol", "data.other", "before")
	for n := range 20 {
		add([]string{"alice", "bob"}[n%2], "data.size", fmt.Sprint("v", n))
	}
	add("carol", "data.other", "after")
	s.Fights = recorder.Fights(s.History.Entries)
	var out bytes.Buffer
	s.print(&out, time.Now())
	for _, want := range []string{"FIGHT over data.size", "set to before", "set to v0", "set to v1", "16 entries more of the fight", "set to v18", "set to v19", "set to after"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "set to v2\n") || strings.Contains(out.String(), "set to v17") {
		t.Errorf("not folded:\n%s", out.String())
	}
}

// TestNeverCreated tells an object that was refused from one that is gone, and how long a webhook took.
func TestNeverCreated(t *testing.T) {
	s := &story{Kind: "Service", Object: v1alpha1.ObjectReference{Resource: "services", Name: "a"}, History: &v1alpha1.ObjectHistoryStatus{Entries: []v1alpha1.HistoryEntry{{
		Verb: "create", Code: 400, User: "alice", Steps: []v1alpha1.Step{{Kind: "webhook", Name: "c/w", Result: "Failed", Reason: "ConnectionRefused", Duration: metav1.Duration{Duration: 2512 * time.Millisecond}}}}}}}
	var out bytes.Buffer
	s.print(&out, time.Now())
	for _, want := range []string{"Service a: was not created", "create refused (400) by alice", "webhook c/w: failed (ConnectionRefused), took 2.51s"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
	s.History.Entries = append(s.History.Entries, v1alpha1.HistoryEntry{Operation: "Deleted", Code: 200})
	out.Reset()
	s.print(&out, time.Now())
	if !strings.Contains(out.String(), "Service a: deleted") {
		t.Error(out.String())
	}
}
