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

// TestState tells what objects say of themselves.
func TestState(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	deployments, pods := v1alpha1.ObjectReference{Group: "apps", Resource: "deployments", Name: "a"}, v1alpha1.ObjectReference{Resource: "pods", Name: "a"}
	gadgets := v1alpha1.ObjectReference{Group: "example.com", Resource: "gadgets", Name: "a"}
	for name, c := range map[string]struct {
		of           v1alpha1.ObjectReference
		spec, status string
		says         []string
		not          string
	}{
		"nobody has looked": {deployments, `{"replicas":2}`, `{}`, []string{"waits for its controller, which has seen generation 0 of 3", "waits for replicas: 0 of 2 are ready"}, " is "},
		"on its way": {deployments, `{"replicas":2}`, `{"observedGeneration":3,"readyReplicas":1,"conditions":[{"type":"Available","status":"False","reason":"TooFew","message":"one of two","lastTransitionTime":"2026-01-02T03:04:00Z"}]}`,
			[]string{"waits for replicas: 1 of 2 are ready", "Available is False for 5s, TooFew: one of two\n"}, "controller"},
		"done":            {deployments, `{"replicas":2}`, `{"observedGeneration":3,"readyReplicas":2}`, nil, "waits"},
		"no scheduler":    {pods, `{}`, `{"phase":"Pending"}`, []string{"waits for a scheduler, which has not looked at it"}, "controller"},
		"no room":         {pods, `{}`, `{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"0/3 nodes"}]}`, []string{"PodScheduled is False, Unschedulable: 0/3 nodes\n"}, "waits"},
		"no image":        {pods, `{"nodeName":"n"}`, `{"phase":"Pending","containerStatuses":[{"name":"c","state":{"waiting":{"reason":"ImagePullBackOff","message":"no such image"}}}]}`, []string{"waits for container c: ImagePullBackOff: no such image"}, "scheduler"},
		"a strange kind":  {gadgets, `[1]`, `{"conditions":"none","observedGeneration":"many"}`, nil, "waits"},
		"a usual kind":    {gadgets, `{}`, `{"conditions":[{"type":"Ready","status":"True"}],"observedGeneration":2}`, []string{"its controller, which has seen generation 2 of 3", "Ready is True\n"}, "replicas"},
		"nothing is told": {gadgets, ``, ``, nil, "waits"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &story{Object: c.of}
			s.state(&stated{Metadata: metav1.ObjectMeta{Generation: 3}, Spec: []byte(c.spec), Status: []byte(c.status)})
			var out bytes.Buffer
			s.printState(&out, at.Time)
			for _, want := range c.says {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is missing in\n%s", want, out.String())
				}
			}
			if c.not != "" && strings.Contains(out.String(), c.not) {
				t.Errorf("%q is in\n%s", c.not, out.String())
			}
		})
	}
}

// TestAbout finds what is wrong with an object, as the one that a finding is about or as one of several.
func TestAbout(t *testing.T) {
	web, other := v1alpha1.ObjectReference{Group: "apps", Resource: "deployments", Namespace: "a", Name: "web"}, v1alpha1.ObjectReference{Resource: "pods", Namespace: "a", Name: "web"}
	all := []v1alpha1.Finding{{Check: "first", Object: &web}, {Check: "second", Object: &other, Objects: []v1alpha1.ObjectReference{other, web}}, {Check: "third", Objects: []v1alpha1.ObjectReference{other}}}
	if got := about(all, &web); len(got) != 2 || got[0].Check != "first" || got[1].Check != "second" {
		t.Errorf("%+v", got)
	}
}

// TestNoRecorder says what a server has that lies below another one.
func TestNoRecorder(t *testing.T) {
	for url, want := range map[string]string{
		"https://a:1":                "the server has no flight recorder (--flight-recorder-memory)",
		"https://a:1/forks/try":      "a fork has no flight recorder of its own (the server at https://a:1 has one)",
		"https://a:1/planes/team-a":  "a plane has no flight recorder of its own (the server at https://a:1 has one)",
		"https://a:1/x/planes/t/b/c": "a plane has no flight recorder of its own (the server at https://a:1/x has one)",
	} {
		if got := (&asker{url: url}).noRecorder(); got != want {
			t.Errorf("%s: %s", url, got)
		}
	}
}
