//go:build linux

package main

import (
	"bufio"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kanzen-io/kanzen/test/evidence"
	"github.com/kanzen-io/kanzen/test/machine"
)

// skippedSpecs are lines of a spec's name and, after a tab, why it is not run.
//
//go:embed skipped.txt
var skippedSpecs string

func readSkips(text string) (skips []evidence.Reason, err error) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, reason, ok := strings.Cut(line, "\t")
		if !ok || strings.TrimSpace(reason) == "" {
			return nil, fmt.Errorf("skipped.txt: %q has no reason after a tab", line)
		}
		skips = append(skips, evidence.Reason{Tests: name, Reason: strings.TrimSpace(reason)})
	}
	return skips, nil
}

func specName(containers []string, leaf string) string {
	return strings.Join(append(slices.Clone(containers), leaf), " ")
}

// writeVersion writes what the certification asks for beside logs: the versions of both sides, and the product.
func writeVersion(l layout, s settings, version string) error {
	out, err := machine.Output(l.Program("kubectl"), "--kubeconfig="+l.PKI("admin.kubeconfig"), "version")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(l.Out, "version.txt"), []byte(out), 0o644); err != nil {
		return err
	}
	product := fmt.Sprintf("vendor: kanzen\nname: %s\nversion: %s\nwebsite_url: \"\"\nrepo_url: \"\"\ndocumentation_url: \"\"\nproduct_logo_url: \"\"\ntype: distribution\ndescription: 'kanzen as the API server of %d nodes in namespaces of one machine'\ncontact_email_address: \"\"\n", s.server(), version, s.nodes)
	return os.WriteFile(filepath.Join(l.Out, "PRODUCT.yaml"), []byte(product), 0o644)
}

// report writes the table of specs that did not pass, and the evidence of a whole run. It is an error if a spec failed.
func report(l layout, s settings, outcomes []outcome, result wholeRun) error {
	for _, o := range outcomes {
		switch o.state {
		case "passed":
			result.Passed++
		case "skipped", "pending":
			result.Skipped++
		default:
			result.Failing = append(result.Failing, o.name)
		}
	}
	slices.Sort(result.Failing)
	result.Failed = len(result.Failing)
	table := filepath.Join(l.Out, "table.md")
	if err := writeTable(table, s, outcomes, result); err != nil {
		return err
	}
	fmt.Printf("%d specs passed, %d failed, %d skipped themselves, %d were left out; %d s; the server took %d s of processor time and %d MiB\n",
		result.Passed, result.Failed, result.Skipped, len(s.skips), result.Seconds, result.ProcessorSeconds, result.MiB)
	for _, name := range result.Failing {
		fmt.Println("failed:", name)
	}
	if result.cut != "" {
		return errors.New(result.cut)
	}
	if s.focus == "" && s.evidence != "" {
		if err := keep(l, s, result); err != nil {
			return err
		}
	}
	if result.Failed > 0 {
		return fmt.Errorf("%s has the reasons", table)
	}
	if result.Passed == 0 {
		return errors.New("no spec was run")
	}
	return nil
}

func writeTable(path string, s settings, outcomes []outcome, result wholeRun) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	fmt.Fprintf(w, "# Conformance on %s %s\n\n%d specs passed, %d failed, %d skipped themselves, %d were left out, in %d s. The server took %d s of processor time and at most %d MiB of memory.\n",
		s.server(), result.Version, result.Passed, result.Failed, result.Skipped, len(s.skips), result.Seconds, result.ProcessorSeconds, result.MiB)
	fmt.Fprint(w, "\n| spec | how it ended | seconds | reason |\n|---|---|---|---|\n")
	for _, o := range outcomes {
		if o.state != "passed" {
			fmt.Fprintf(w, "| %s | %s | %.0f | %s |\n", cell(o.name), o.state, o.seconds, cell(o.message))
		}
	}
	for _, skip := range s.skips {
		fmt.Fprintf(w, "| %s | left out | | %s |\n", cell(skip.Tests), cell(skip.Reason))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}

// cell is the first 300 bytes of a text, on one line.
func cell(text string) string {
	text = strings.Join(strings.Fields(strings.ReplaceAll(text, "|", "\\|")), " ")
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + " …"
	}
	return text
}
