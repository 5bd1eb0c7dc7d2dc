package matrix

import (
	"fmt"
	"os"
	"regexp"

	"sigs.k8s.io/yaml"
)

// accepted is a difference that is meant to be.
type accepted struct {
	// Pattern is held against a difference as it is written down.
	Pattern string `json:"pattern"`
	// Reason says why kanzen answers something else.
	Reason string `json:"reason"`
	// Rare differences are not met in each run.
	Rare bool `json:"rare"`

	match *regexp.Regexp
	used  int
}

func readAccepted() ([]*accepted, error) {
	data, err := os.ReadFile("testdata/accepted.yaml")
	if err != nil {
		return nil, err
	}
	var out []*accepted
	if err := yaml.UnmarshalStrict(data, &out); err != nil {
		return nil, err
	}
	for _, a := range out {
		if a.Reason == "" {
			return nil, fmt.Errorf("no reason for %q", a.Pattern)
		}
		if a.match, err = regexp.Compile("(?m)" + a.Pattern); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// allowed says whether a difference is accepted.
func allowed(all []*accepted, difference string) bool {
	for _, a := range all {
		if a.match.MatchString(difference) {
			return true
		}
	}
	return false
}
