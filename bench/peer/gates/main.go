// Command gates prints the feature gates of kube-apiserver, one a line: its name; for each version in which it changed
// version:default:stage, with ":locked" if it cannot be set and ":compatible=V" if it holds only from that
// --min-compatibility-version on; and needs:OTHER for gates that must be on for it.
// internal/object/features embeds the output.
package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
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
	all, needs := gates.GetAllVersioned(), gates.Dependencies()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Print(name)
		for _, s := range all[name] {
			stage, locked := string(s.PreRelease), ""
			if stage == "" {
				stage = "GA"
			}
			if s.LockToDefault {
				locked = ":locked"
			}
			if s.MinCompatibilityVersion != nil {
				locked += ":compatible=" + s.MinCompatibilityVersion.String()
			}
			fmt.Printf(" %s:%t:%s%s", s.Version, s.Default, stage, locked)
		}
		for _, other := range needs[name] {
			fmt.Printf(" needs:%s", other)
		}
		fmt.Println()
	}
}
