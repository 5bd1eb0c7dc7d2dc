// Package facts records what a Kubernetes API server is made of: what it serves, the fields, defaults and columns of its kinds,
// the objects it begins with, its flags, feature gates and metrics. They are asked of the server itself, so that those of
// kube-apiserver and of kanzen compare line by line.
//
// testdata has the facts of the kube-apiserver whose place kanzen takes, with some sets of flags. TestFacts compares kanzen with
// them; what is meant to differ stands in testdata/accepted.txt with its reason. The facts of another version are what is to be
// decided to take it up (`make upstream`, docs/upstream.md).
package facts

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Facts are values by names, such as "gate CBORServingAndStorage": "ALPHA 0". The first word of a name is its family.
type Facts map[string]string

// Set is flags with which facts are recorded.
type Set struct {
	Name  string
	Flags []string
}

// Sets are what a program serves by default, everything, and what it serves in the place of the version before its own.
func Sets(ctx context.Context, program string) ([]Set, error) {
	cmd := exec.CommandContext(ctx, program, "--version")
	cmd.Args[0] = "kube-apiserver"
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s --version: %w", program, err)
	}
	m := ownVersion.FindSubmatch(out)
	if m == nil {
		return nil, fmt.Errorf("%s --version: %q", program, out)
	}
	minor, err := strconv.Atoi(string(m[1]))
	if err != nil {
		return nil, err
	}
	return []Set{
		{"default", nil},
		{"all-gates", []string{"--feature-gates=AllAlpha=true,AllBeta=true", "--runtime-config=api/all=true"}},
		{"former", []string{fmt.Sprintf("--emulated-version=1.%d", minor-1)}},
	}, nil
}

var ownVersion = regexp.MustCompile(`Kubernetes v1\.(\d+)\.`)

// add adds a fact. Names have no line breaks and no tabs.
func (f Facts) add(value string, name ...string) {
	f[strings.Join(name, " ")] = strings.NewReplacer("\n", " ", "\t", " ").Replace(value)
}

// Record asks a server that has just been started. What it asks for changes nothing that is asked later.
func Record(ctx context.Context, s *Server) (Facts, error) {
	f := Facts{}
	for _, family := range []func(context.Context, *Server, Facts) error{flags, discovery, objects, columns, schemas, defaults, health, metrics} {
		if err := family(ctx, s, f); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// Difference is a fact that two servers do not share; an empty value: one has none of the name.
type Difference struct{ Name, Before, After string }

func (d Difference) String() string {
	switch {
	case d.Before == "":
		return fmt.Sprintf("new      %s: %s", d.Name, d.After)
	case d.After == "":
		return fmt.Sprintf("gone     %s: %s", d.Name, d.Before)
	}
	return fmt.Sprintf("changed  %s: %s -> %s", d.Name, d.Before, d.After)
}

// Family is the first word of the fact's name.
func (d Difference) Family() string {
	family, _, _ := strings.Cut(d.Name, " ")
	return family
}

// Compare returns what differs, ordered by name.
func Compare(before, after Facts) []Difference {
	var out []Difference
	for name, value := range before {
		if after[name] != value {
			out = append(out, Difference{name, value, after[name]})
		}
	}
	for name, value := range after {
		if _, ok := before[name]; !ok {
			out = append(out, Difference{name, "", value})
		}
	}
	slices.SortFunc(out, func(a, b Difference) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Read reads facts that Write wrote.
func Read(path string) (Facts, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	r, err := gzip.NewReader(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f := Facts{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), "\t")
		f[name] = value
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// Write writes facts, a line each, compressed.
func (f Facts) Write(path string) error {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if _, err := io.WriteString(w, name+"\t"+f[name]+"\n"); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}
