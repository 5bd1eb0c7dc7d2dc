// Command sampleapiserver is Kubernetes' example of an extension API server, so that tests can put it behind kanzen.
package main

import (
	"os"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/cli"
	"k8s.io/sample-apiserver/pkg/cmd/server"
)

func main() {
	cmd := server.NewCommandStartWardleServer(genericapiserver.SetupSignalContext(), server.NewWardleServerOptions(os.Stdout, os.Stderr), false)
	os.Exit(cli.Run(cmd))
}
