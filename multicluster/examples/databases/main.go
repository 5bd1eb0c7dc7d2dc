// Command databases is a controller that runs in all planes of a kanzen server that have bound an export: it gives each Database a host
// and a secret. README.md says how to try it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	mccontroller "sigs.k8s.io/multicluster-runtime/pkg/controller"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"

	"github.com/kanzen-io/kanzen/multicluster/planes"
)

func main() {
	export := flag.String("export", "databases", "name of the export, in the plane of --kubeconfig")
	workers := flag.Int("workers", 4, "how many databases are reconciled at a time")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	config, err := ctrl.GetConfig() // of --kubeconfig or $KUBECONFIG
	if err == nil {
		err = run(ctrl.SetupSignalHandler(), config, *export, mccontroller.Options{MaxConcurrentReconciles: *workers})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "databases:", err)
		os.Exit(1)
	}
}

// run runs the controller until ctx ends.
func run(ctx context.Context, config *rest.Config, export string, options mccontroller.Options) error {
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	provider, err := planes.NewExport(config, export, planes.ExportOptions{
		ClusterOptions: []cluster.Option{func(o *cluster.Options) { o.Scheme = scheme }},
	})
	if err != nil {
		return err
	}
	m, err := mcmanager.New(config, provider, manager.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	if err := setUp(m, options); err != nil {
		return err
	}
	return m.Start(ctx)
}
