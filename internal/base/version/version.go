// Package version says which kanzen this is and which Kubernetes API it serves.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"

	"k8s.io/apimachinery/pkg/version"
)

// Kanzen is the version of this program. A release sets it when it links the binary (-ldflags -X); nothing else may.
var Kanzen = "0.1.0"

// commit and date are the commit and its time, where a release sets them; otherwise the Go tool knows.
var commit, date string

// Kubernetes is the version of the API served: that of the k8s.io modules.
const Kubernetes = "1.37.2"

const (
	major            = "1"
	minor            = "37"
	minCompatibility = "36"
)

// Build is what /version answers.
type Build = version.Info

// Info is what /version answers. Clients compare major and minor, and read
// gitVersion as a semantic version.
func Info() Build {
	b := built()
	return Build{
		Major: major, Minor: minor,
		EmulationMajor: major, EmulationMinor: minor,
		MinCompatibilityMajor: major, MinCompatibilityMinor: minCompatibility,
		GitVersion: "v" + Kubernetes + "+kanzen." + Kanzen,
		GitCommit:  b.revision, GitTreeState: b.state, BuildDate: b.at,
		GoVersion: runtime.Version(), Compiler: runtime.Compiler,
		Platform: fmt.Sprintf("%s/%s", runtime.GOOS, runtime.GOARCH),
	}
}

// origin is where the binary comes from.
type origin struct{ revision, state, at string }

// built reads what a release, or the Go tool, wrote into the binary of its origin. Each control plane asks for it.
var built = sync.OnceValue(func() origin {
	o := origin{state: "clean", at: "1970-01-01T00:00:00Z"}
	if commit != "" {
		o.revision, o.at = commit, date
		return o
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return o
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			o.revision = s.Value
		case "vcs.time":
			o.at = s.Value
		case "vcs.modified":
			if s.Value == "true" {
				o.state = "dirty"
			}
		}
	}
	return o
})
