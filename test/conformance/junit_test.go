//go:build linux

package main

import (
	"encoding/xml"
	"strings"
	"testing"
)

func TestMergeJUnit(t *testing.T) {
	const frame = `<testsuites tests="3" disabled="0" errors="0" failures="1" time="2.5"><testsuite name="Kubernetes e2e suite" package="/" tests="3" disabled="0" skipped="1" errors="0" failures="1" time="2.5" timestamp="2026-01-02T03:04:05">%</testsuite></testsuites>`
	first := strings.Replace(frame, "%", `<testcase name="[It] a" classname="k" status="failed" time="1"><failure message="&lt;no&gt;" type="failed">text &amp; more</failure></testcase>
		<testcase name="[It] b" status="skipped"><skipped message="skipped"></skipped></testcase>
		<testcase name="[It] c" status="skipped"><skipped message="skipped - no volumes"></skipped></testcase>`, 1)
	second := strings.Replace(frame, "%", `<testcase name="[It] a" status="skipped"><skipped message="skipped"></skipped></testcase><testcase name="[It] b" status="passed" time="1.5"></testcase>`, 1)
	b, err := mergeJUnit([][]byte{[]byte(first), []byte(second)})
	if err != nil {
		t.Fatal(err)
	}
	var got junit
	if err := xml.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	s := got.Suites[0]
	if got.Tests != 3 || got.Failures != 2 || got.Time != 5 || s.Skipped != 1 || len(s.Cases) != 3 {
		t.Errorf("%s", b)
	}
	for _, want := range []string{`<failure message="&lt;no&gt;" type="failed">text &amp; more</failure>`, `name="[It] b" status="passed"`, "skipped - no volumes"} {
		if strings.Count(string(b), want) != 1 {
			t.Errorf("not once in it: %s\n%s", want, b)
		}
	}
	for _, wrong := range []string{"", "<testsuites></testsuites>", "<html>"} {
		if _, err := mergeJUnit([][]byte{[]byte(wrong)}); err == nil {
			t.Errorf("%q is merged", wrong)
		}
	}
}
