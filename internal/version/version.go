// Package version says which kanzen this is and which Kubernetes API it serves.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"k8s.io/apimachinery/pkg/version"
)

// Kanzen is the version of this program.
const Kanzen = "0.1.0"

// Kubernetes is the version of the API served: that of the k8s.io modules.
const Kubernetes = "1.36.6"

const (
	major            = "1"
	minor            = "36"
	minCompatibility = "35"
)

// Build is what /version answers.
type Build = version.Info

// Info is what /version answers. Clients compare major and minor, and read
// gitVersion as a semantic version.
func Info() Build {
	commit, state, date := built()
	return Build{
		Major: major, Minor: minor,
		EmulationMajor: major, EmulationMinor: minor,
		MinCompatibilityMajor: major, MinCompatibilityMinor: minCompatibility,
		GitVersion: "v" + Kubernetes + "+kanzen." + Kanzen,
		GitCommit:  commit, GitTreeState: state, BuildDate: date,
		GoVersion: runtime.Version(), Compiler: runtime.Compiler,
		Platform: fmt.Sprintf("%s/%s", runtime.GOOS, runtime.GOARCH),
	}
}

// built reads what the Go tool wrote into the binary of its origin.
func built() (commit, state, date string) {
	state, date = "clean", "1970-01-01T00:00:00Z"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", state, date
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value
		case "vcs.time":
			date = s.Value
		case "vcs.modified":
			if s.Value == "true" {
				state = "dirty"
			}
		}
	}
	return commit, state, date
}
