package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// TestHelpHasEveryFlag looks for each flag that kube-apiserver's --help names in the help under that name: scripts look there
// before they give a flag.
func TestHelpHasEveryFlag(t *testing.T) {
	data, err := os.ReadFile("../../internal/process/config/testdata/flags.json")
	if err != nil {
		t.Fatal(err)
	}
	var flags []struct{ Name string }
	if err := json.Unmarshal(data, &flags); err != nil {
		t.Fatal(err)
	}
	var help bytes.Buffer
	cmd := apiserverCommand()
	cmd.SetOut(&help)
	cmd.InitDefaultHelpFlag()
	if err := cmd.Usage(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(help.String(), "\n")
	named := map[string]bool{}
	for _, line := range lines {
		if words := strings.Fields(line); len(words) > 0 {
			named[strings.TrimPrefix(words[0], "--")] = true
		}
	}
	for _, f := range flags {
		if !named[f.Name] {
			t.Errorf("--%s is not in the help", f.Name)
		}
	}
}

// TestWordsOfKubeAPIServer compares what kube-apiserver takes and refuses of words that are no flags.
func TestWordsOfKubeAPIServer(t *testing.T) {
	cmd := apiserverCommand()
	if err := cmd.Args(cmd, []string{"", ""}); err != nil {
		t.Errorf("empty words: %v", err)
	}
	want := `"kube-apiserver" does not take any arguments, got ["" "serve"]`
	if err := cmd.Args(cmd, []string{"", "serve"}); err == nil || err.Error() != want {
		t.Errorf("a word: %v, want %s", err, want)
	}
}
