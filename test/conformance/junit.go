//go:build linux

package main

import (
	"encoding/xml"
	"fmt"
	"os"
)

// junit is a JUnit report as ginkgo writes it: one suite with all specs. What is not read here is kept as it stands.
type junit struct {
	XMLName xml.Name `xml:"testsuites"`
	Counts
	Suites []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name    string `xml:"name,attr"`
	Package string `xml:"package,attr"`
	Counts
	Skipped   int         `xml:"skipped,attr"`
	Timestamp string      `xml:"timestamp,attr"`
	Cases     []junitCase `xml:"testcase"`
}

// Counts are those of a report and of a suite.
type Counts struct {
	Tests    int     `xml:"tests,attr"`
	Disabled int     `xml:"disabled,attr"`
	Errors   int     `xml:"errors,attr"`
	Failures int     `xml:"failures,attr"`
	Time     float64 `xml:"time,attr"`
}

type junitCase struct {
	Attributes []xml.Attr `xml:",any,attr"`
	Content    string     `xml:",innerxml"`
}

// mergeJUnit makes one report of those of the parts. A spec that was not asked for is in each part's, as skipped; it is in none of the
// merged.
func mergeJUnit(parts [][]byte) ([]byte, error) {
	var all junit
	for _, part := range parts {
		var one junit
		if err := xml.Unmarshal(part, &one); err != nil {
			return nil, fmt.Errorf("JUnit report: %w", err)
		}
		if len(one.Suites) != 1 {
			return nil, fmt.Errorf("JUnit report: %d suites in place of one", len(one.Suites))
		}
		if len(all.Suites) == 0 {
			all.Suites = []junitSuite{{Name: one.Suites[0].Name, Package: one.Suites[0].Package, Timestamp: one.Suites[0].Timestamp}}
		}
		if err := all.Suites[0].add(one.Suites[0]); err != nil {
			return nil, err
		}
	}
	if len(all.Suites) == 1 {
		all.Counts = all.Suites[0].Counts
	}
	b, err := xml.MarshalIndent(all, "", "  ")
	return append([]byte(xml.Header), b...), err
}

// add adds the specs of a suite that were run or skipped themselves.
func (s *junitSuite) add(part junitSuite) error {
	s.Errors += part.Errors
	s.Failures += part.Failures
	s.Time += part.Time
	for _, c := range part.Cases {
		var content struct {
			Skipped *struct {
				Message string `xml:"message,attr"`
			} `xml:"skipped"`
		}
		if err := xml.Unmarshal([]byte("<case>"+c.Content+"</case>"), &content); err != nil {
			return fmt.Errorf("JUnit report: %w", err)
		}
		if content.Skipped != nil {
			if content.Skipped.Message == "skipped" { // one that skipped itself says why
				continue
			}
			s.Skipped++
		}
		s.Cases = append(s.Cases, c)
		s.Tests++
	}
	return nil
}

// writeJUnit writes the merged report of files.
func writeJUnit(path string, files []string) error {
	var parts [][]byte
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		parts = append(parts, b)
	}
	b, err := mergeJUnit(parts)
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}
