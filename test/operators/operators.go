//go:build linux

package main

import (
	"context"
	"fmt"
	"path"
	"strings"
)

// operator is one that is installed and used.
type operator struct {
	name string
	// modules are the operator's own, and modules nested in it, each with its folder.
	modules []module
	// programs are packages by the base name of the image that has the program.
	programs map[string]string
	// installed are programs of the machine that stand for those of images, by the same.
	installed map[string]string
	// places are where an image has its program, by the same, if a command line there can name other programs too. Elsewhere its first word is the program,
	// whatever it says.
	places map[string][]string
	// tools are programs of other modules that the images have beside the operator's own: PACKAGE@VERSION by their paths in an image.
	tools map[string]string
	// packages are those of Debian with what the images have, by a file that each brings.
	packages map[string]string
	// files are what the images have beside the programs: paths in an image, and in the operator's repository.
	files map[string]string
	// serve starts what the world has beside the server, until the context ends.
	serve func(context.Context, *world) error
	// install creates the operator's own manifests. All deployments that they have must become available.
	install func(context.Context, *world) error
	steps   []step
	// leftOut says what of the operator is not used, and why.
	leftOut map[string]string
}

// module is PATH@VERSION, and the folder in which the operator's repository has it.
type module struct {
	path, folder string
	// sum is its checksum if the checksum database does not know it.
	sum string
}

// step is something that users of an operator do and expect. Steps follow each other.
type step struct {
	name string
	run  func(context.Context, *world) error
}

// operators are all of them, in the order of the page.
var operators = []*operator{&certManager, &prometheusOperator, &kueue, &metacontroller, &knative, &crossplane, &istio, &argoCD}

func named(name string) (*operator, error) {
	var names []string
	for _, o := range operators {
		if o.name == name {
			return o, nil
		}
		names = append(names, o.name)
	}
	return nil, fmt.Errorf("there is no operator %q; there are %q", name, names)
}

// version is that of the operator's module.
func (o *operator) version() string {
	_, version, _ := strings.Cut(o.modules[0].path, "@")
	return version
}

// programOf is the base name of an image, and whether there is a program that stands for it.
func (o *operator) programOf(image string) (name string, is bool) {
	base := path.Base(image)
	base, _, _ = strings.Cut(base, "@")
	base, _, _ = strings.Cut(base, ":")
	_, built := o.programs[base]
	_, installed := o.installed[base]
	return base, built || installed
}
