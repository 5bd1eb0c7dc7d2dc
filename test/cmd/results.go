//go:build linux

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/kanzen-io/kanzen/test/evidence"
)

// state is how a group ended.
type state string

const (
	passed = state("passed")
	failed = state("failed")
	cut    = state("cut") // the scripts ended before it did
	notRun = state("not run")
)

// outcome is what became of a group.
type outcome struct {
	State state
	Where string // in the scripts, of what failed
	Took  time.Duration
}

// result is what became of the groups on a server.
type result struct {
	Version string // of the server
	Groups  map[string]outcome
}

func newResult(version string) *result {
	return &result{Version: version, Groups: map[string]outcome{}}
}

func (r *result) of(name string) outcome {
	if o, ran := r.Groups[name]; ran {
		return o
	}
	return outcome{State: notRun}
}

func (r *result) allPassed(groups []group) bool {
	for _, g := range groups {
		if r.of(g.name).State != passed {
			return false
		}
	}
	return true
}

// What the scripts print can stand behind half a line of a program's output.
var (
	begins  = regexp.MustCompile(`Recording: (run_\w+)$`)
	ends    = regexp.MustCompile(`\+\+\+ exit code: (\d+)$`)
	frame   = regexp.MustCompile(`^!!! \[.*\] +\d+: .*/(test/cmd/[\w-]+\.sh):(\d+) `)
	fails   = regexp.MustCompile(`([\w-]+\.sh:\d+): FAIL!`)
	chapter = regexp.MustCompile(`\+\+\+ \[[\d :]+\] (.*)$`)
	colours = regexp.MustCompile("\x1b(\\[[0-9;]*m|\\(B)")
)

// follow reads what the scripts print, calls begin for each group, and says how it ended. What one that did not pass has printed is written to
// a file of its name in the folder.
func (r *result) follow(out io.Reader, now func() time.Time, begin func(), folder string) error {
	lines := bufio.NewReaderSize(out, 1<<20)
	began := now()
	name := ""
	var current outcome
	var text strings.Builder
	end := func(s state) error {
		current.State, current.Took = s, now().Sub(began)
		if s == passed {
			current.Where = ""
		}
		r.Groups[name] = current
		fmt.Printf("%-7s %5.0f s  %s %s\n", current.State, current.Took.Seconds(), name, current.Where)
		ended := name
		name = ""
		if s == passed {
			return nil
		}
		return os.WriteFile(filepath.Join(folder, ended+".log"), []byte(text.String()), 0o644)
	}
	for {
		line, err := lines.ReadString('\n')
		text.WriteString(line)
		line = colours.ReplaceAllString(strings.TrimRight(line, "\r\n"), "")
		if m := begins.FindStringSubmatch(line); m != nil {
			name, current, began = m[1], outcome{}, now()
			text.Reset()
			begin()
		} else if name != "" {
			current.look(line)
			if m := ends.FindStringSubmatch(line); m != nil {
				s := failed
				if m[1] == "0" {
					s = passed
				}
				if err := end(s); err != nil {
					return err
				}
			}
		}
		if err == nil {
			continue
		}
		if name != "" {
			return end(cut)
		}
		return nil
	}
}

// look finds the place in the scripts where a group fails: what the scripts said last that they test, unless a line is known. An assertion
// names its own. Frames of a failed command often name none of the group.
func (o *outcome) look(line string) {
	if m := fails.FindStringSubmatch(line); m != nil {
		o.Where = m[1]
	} else if m := frame.FindStringSubmatch(line); m != nil && m[1] != legacyScript {
		o.Where = filepath.Base(m[1]) + ":" + m[2]
	} else if m := chapter.FindStringSubmatch(line); m != nil {
		o.Where = m[1]
	}
}

// tableOf shows the groups in Markdown, for each server that ran them.
func tableOf(groups []group, runs map[string]*result) string {
	var b strings.Builder
	b.WriteString("| group | script |")
	var servers []string
	for _, server := range []string{evidence.Kanzen, evidence.Peer} {
		if runs[server] != nil {
			servers = append(servers, server)
			fmt.Fprintf(&b, " %s | seconds |", server)
		}
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|---|", len(servers)) + "\n")
	for _, g := range groups {
		fmt.Fprintf(&b, "| %s | %s |", g.name, g.file)
		for _, server := range servers {
			o := runs[server].of(g.name)
			said := string(o.State)
			if o.Where != "" {
				said += " at " + strings.ReplaceAll(o.Where, "|", `\|`)
			}
			fmt.Fprintf(&b, " %s | %.0f |", said, o.Took.Seconds())
		}
		b.WriteString("\n")
	}
	return b.String()
}
