// Package features knows the feature gates of kube-apiserver 1.36 and what --feature-gates asks for. kanzen behaves as
// kube-apiserver does with every gate at its default; the gates of switchable may be set otherwise.
package features

import (
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

//go:generate sh -c "cd ../../bench/peer && go run ./gates > ../../internal/features/gates.txt"

//go:embed gates.txt
var table string

// Gates that kanzen switches.
const (
	ComponentFlagz                     = "ComponentFlagz"
	ComponentStatusz                   = "ComponentStatusz"
	AllowUnsafeMalformedObjectDeletion = "AllowUnsafeMalformedObjectDeletion"
	DetectCacheInconsistency           = "DetectCacheInconsistency"
	KMSv1                              = "KMSv1"
)

func switchable(name string) bool {
	return slices.Contains([]string{ComponentFlagz, ComponentStatusz, AllowUnsafeMalformedObjectDeletion, DetectCacheInconsistency, KMSv1}, name)
}

// Gate is a feature gate as kube-apiserver 1.36 has it.
type Gate struct {
	Default bool
	Stage   string // ALPHA, BETA, GA, DEPRECATED
	Locked  bool   // the default cannot be changed
}

// Known returns every gate by name.
func Known() map[string]Gate {
	out := map[string]Gate{}
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		out[f[0]] = Gate{Default: f[1] == "true", Stage: f[2], Locked: len(f) > 3}
	}
	return out
}

// Set is the gates that differ from their default.
type Set struct{ values map[string]bool }

// Parse reads the values of --feature-gates: comma-separated pairs name=bool, each of which may begin with the
// component's name and a colon. It returns every error.
func Parse(values []string) (Set, error) {
	known := Known()
	asked := map[string]bool{}
	var errs []error
	for _, value := range values {
		for _, pair := range strings.Split(value, ",") {
			if pair = strings.TrimSpace(pair); pair == "" {
				continue
			}
			name, on, err := parse(pair)
			if err == nil {
				err = settable(known, name, on)
			}
			if err != nil {
				errs = append(errs, err)
				continue
			}
			asked[name] = on
		}
	}
	out := Set{map[string]bool{}}
	for name, on := range asked {
		// AllBeta=false is not the default: it turns gates off.
		if known[name].Default != on || name == "AllBeta" {
			out.values[name] = on
		}
	}
	out.stage(known, asked, "AllAlpha", "ALPHA")
	out.stage(known, asked, "AllBeta", "BETA")
	return out, errors.Join(errs...)
}

// parse reads [component:]name=bool.
func parse(pair string) (name string, on bool, err error) {
	if component, rest, ok := strings.Cut(pair, ":"); ok {
		if component != "kube" {
			return "", false, fmt.Errorf("component not registered: %s", component)
		}
		pair = rest
	}
	name, value, ok := strings.Cut(pair, "=")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	if !ok {
		return "", false, fmt.Errorf("missing bool value for %s", name)
	}
	if on, err = strconv.ParseBool(value); err != nil {
		return "", false, fmt.Errorf("invalid value of %s=%s, err: %w", name, value, err)
	}
	return name, on, nil
}

func settable(known map[string]Gate, name string, on bool) error {
	g, ok := known[name]
	if !ok {
		return fmt.Errorf("unrecognized feature gate: %s", name)
	}
	if g.Locked && on != g.Default {
		return fmt.Errorf("cannot set feature gate %s to %t, feature is locked to %t", name, on, g.Default)
	}
	return nil
}

// stage sets the switchable gates of a stage that were not set by name. The other gates follow the warning of all.
func (s Set) stage(known map[string]Gate, asked map[string]bool, all, stage string) {
	on, ok := asked[all]
	if !ok {
		return
	}
	for name, g := range known {
		if _, set := asked[name]; !set && g.Stage == stage && g.Default != on && switchable(name) {
			s.values[name] = on
		}
	}
}

// Enabled reports whether a gate is on.
func (s Set) Enabled(name string) bool {
	if on, ok := s.values[name]; ok {
		return on
	}
	return Known()[name].Default
}

// All returns whether each known gate is on.
func (s Set) All() map[string]bool {
	all := map[string]bool{}
	for name, gate := range Known() {
		all[name] = gate.Default
	}
	maps.Copy(all, s.values)
	return all
}

// Ignored returns the settings, as name=bool, that have no effect on this server, sorted.
func (s Set) Ignored() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(s.values)) {
		if !switchable(name) {
			out = append(out, fmt.Sprintf("%s=%t", name, s.values[name]))
		}
	}
	return out
}
