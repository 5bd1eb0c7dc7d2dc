// Command metricsserver is metrics-server, so that tests can put it behind kanzen. It is a module of its own: it needs newer
// versions of libraries than the product has.
package main

import (
	"os"

	"k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/logs"
	"sigs.k8s.io/metrics-server/cmd/metrics-server/app"
)

func main() {
	logs.InitLogs()
	defer logs.FlushLogs()
	if app.NewMetricsServerCommand(server.SetupSignalHandler()).Execute() != nil {
		os.Exit(1)
	}
}
