// Command gates prints the feature gates of kube-apiserver, one a line: name, default, stage, and "locked" for those that
// cannot be changed. internal/features embeds the output.
package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"k8s.io/apimachinery/pkg/util/version"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"
	metricsfeatures "k8s.io/component-base/metrics/features"
	controllermanager "k8s.io/controller-manager/pkg/features"
	_ "k8s.io/kubernetes/pkg/features" // registers the gates, also those of the libraries
)

func main() {
	gates := utilfeature.DefaultMutableFeatureGate
	if err := errors.Join(logsapi.AddFeatureGates(gates), metricsfeatures.AddFeatureGates(gates), controllermanager.SetupCurrentKubernetesSpecificFeatureGates(gates)); err != nil { // as in kube-apiserver
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	all := gates.GetAllVersioned()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s := current(all[name])
		if s == nil {
			continue
		}
		stage, locked := string(s.PreRelease), ""
		if stage == "" {
			stage = "GA"
		}
		if s.LockToDefault {
			locked = " locked"
		}
		fmt.Printf("%s %t %s%s\n", name, s.Default, stage, locked)
	}
}

// current is the specification that holds in the version served; nil: the gate is newer.
func current(specs featuregate.VersionedSpecs) *featuregate.FeatureSpec {
	served := version.MustParse("1.36")
	var out *featuregate.FeatureSpec
	for i, s := range specs {
		if !s.Version.GreaterThan(served) && (out == nil || s.Version.GreaterThan(out.Version)) {
			out = &specs[i]
		}
	}
	return out
}
