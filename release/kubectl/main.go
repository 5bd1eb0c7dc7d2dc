// Command kubectl is kubectl itself, of the version of Kubernetes that kanzen serves. A release has it beside kanzen as kanzen-kubectl, so
// that 'kanzen kubectl' needs no other download.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"

	_ "k8s.io/client-go/plugin/pkg/client/auth" // credentials of identity providers, as kubectl has them
)

func main() {
	typed := os.Args[0]
	os.Args[0] = "kubectl" // what servers read as the client's name
	command := cmd.NewDefaultKubectlCommand()
	if typed == asKanzen {
		speakAsKanzen(command)
	}
	if err := cli.RunNoErrOutput(command); err != nil {
		util.CheckErr(err)
	}
}
