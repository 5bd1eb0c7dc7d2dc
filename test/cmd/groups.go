//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// group is a function of the scripts that is judged apart.
type group struct{ name, file string }

const legacyScript = "test/cmd/legacy-script.sh"

var (
	recorded = regexp.MustCompile(`(?m)^ *record_command (run_\w+)$`)
	defined  = regexp.MustCompile(`(?m)^(?:function )?(run_\w+) ?\(\)`)
	// selectable is a name as the scripts make it from a word of WHAT.
	selectable = regexp.MustCompile(`^run_(.+)_tests$`)
)

// readGroups reads which groups the scripts run, in their order, and the file that has each.
func readGroups(module string) ([]group, error) {
	b, err := os.ReadFile(filepath.Join(module, legacyScript))
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(module, "test/cmd/*.sh"))
	if err != nil {
		return nil, err
	}
	fileOf := map[string]string{}
	for _, path := range files {
		script, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		for _, m := range defined.FindAllSubmatch(script, -1) {
			fileOf[string(m[1])] = filepath.Base(path)
		}
	}
	var groups []group
	for _, m := range recorded.FindAllSubmatch(b, -1) {
		g := group{name: string(m[1]), file: fileOf[string(m[1])]}
		if g.file == "" {
			return nil, fmt.Errorf("%s: no script of test/cmd defines it", g.name)
		}
		if !slices.Contains(groups, g) {
			groups = append(groups, g)
		}
	}
	if len(groups) == 0 {
		return nil, fmt.Errorf("%s names no groups", legacyScript)
	}
	return groups, nil
}

// choose returns the groups of these names, or all if there are none.
func choose(known []group, names []string) ([]group, error) {
	if len(names) == 0 {
		return known, nil
	}
	var chosen []group
	for _, name := range names {
		i := slices.IndexFunc(known, func(g group) bool { return g.name == name || g.name == "run_"+name+"_tests" })
		if i < 0 {
			return nil, fmt.Errorf("%s: there is no such group; %s names them", name, legacyScript)
		}
		if !selectable.MatchString(known[i].name) {
			return nil, fmt.Errorf("%s: the scripts run it with all others only", name)
		}
		chosen = append(chosen, known[i])
	}
	return chosen, nil
}

// what is the variable WHAT, with which the scripts run these groups alone.
func what(groups []group) string {
	var words []string
	for _, g := range groups {
		words = append(words, selectable.FindStringSubmatch(g.name)[1])
	}
	return "WHAT=" + strings.Join(words, " ")
}
