// Command upstream says what has to be decided to take up another version of Kubernetes: it builds that kube-apiserver from the module
// proxy, records its facts and compares them with those of the version whose place kanzen takes. With -record they become what
// TestFacts asks of kanzen.
//
//	go run ./facts/upstream -version v1.38.0
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kanzen-io/kanzen/test/facts"
)

type settings struct {
	version, program, kanzen, root, cache string
	record, only                          bool
}

func main() {
	var s settings
	flag.StringVar(&s.version, "version", "", "version of Kubernetes to build, such as v1.38.0")
	flag.StringVar(&s.program, "program", "", "kube-apiserver to ask in the place of one that is built")
	flag.StringVar(&s.root, "root", "..", "root of the repository")
	flag.StringVar(&s.cache, "cache", "", "folder for what is built; empty: the user's cache")
	flag.BoolVar(&s.record, "record", false, "write the facts to test/facts/testdata")
	flag.BoolVar(&s.only, "build", false, "only build that kube-apiserver")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, s, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "upstream:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings, w io.Writer) (err error) {
	if s.root, err = filepath.Abs(s.root); err != nil {
		return err
	}
	s.kanzen = filepath.Join(s.root, "bin", "kanzen") // its etcd is used
	if s.program == "" {
		if s.program, err = build(ctx, s, w); err != nil {
			return err
		}
	}
	if s.only {
		return nil
	}
	tree, err := readTree(s.root)
	if err != nil {
		return err
	}
	sets, err := facts.Sets(ctx, s.program)
	if err != nil {
		return err
	}
	for _, set := range sets {
		path := filepath.Join(s.root, "test", "facts", "testdata", set.Name+".txt.gz")
		before, err := facts.Read(path)
		if err != nil && !(s.record && os.IsNotExist(err)) {
			return err
		}
		after, err := recordSet(ctx, s, set)
		if err != nil {
			return fmt.Errorf("%s: %w", set.Name, err)
		}
		report(w, set.Name, facts.Compare(before, after), tree)
		if s.record {
			if err := after.Write(path); err != nil {
				return err
			}
		}
	}
	return nil
}

func recordSet(ctx context.Context, s settings, set facts.Set) (facts.Facts, error) {
	dir, err := os.MkdirTemp("", "facts-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	server, err := facts.Start(ctx, s.program, s.kanzen, dir, set.Flags...)
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	return facts.Record(ctx, server)
}

// questions say what a difference of a family asks of a person; the order is that of the report.
var questions = []struct{ family, question string }{
	{"group", "groups and the order of their versions"},
	{"resource", "kinds, verbs and subresources: serve them, or behind which gate?"},
	{"type", "types"},
	{"field", "fields, enums and requirements: default, validate, drop with which gate?"},
	{"created", "what creating an object gives: defaults, fields that are dropped, refusals"},
	{"column", "columns of tables"},
	{"gate", "feature gates: what does each do here?"},
	{"flag", "flags"},
	{"object", "bootstrap objects"},
	{"check", "health checks"},
	{"metric", "metrics"},
	{"path", "paths"},
	{"operations", "operations in OpenAPI"},
}

// report prints differences by what they ask. A name that the tree has in it is marked, for it may be decided already.
func report(w io.Writer, set string, all []facts.Difference, tree *tree) {
	fmt.Fprintf(w, "\n== %s: %d differences\n", set, len(all))
	for _, q := range questions {
		of := slices.DeleteFunc(slices.Clone(all), func(d facts.Difference) bool { return d.Family() != q.family })
		if len(of) == 0 {
			continue
		}
		fmt.Fprintf(w, "\n-- %s (%d)\n", q.question, len(of))
		for _, d := range of {
			where := ""
			if d.Before == "" {
				if where = tree.mentions(d.Name[strings.LastIndexAny(d.Name, " .")+1:]); where != "" {
					where = "  (named in " + where + ")"
				}
			}
			fmt.Fprintf(w, "%s%s\n", d, where)
		}
	}
}
