//go:build linux

package main

import (
	"fmt"
	"path/filepath"
)

// The addresses of the cluster. They exist in the namespaces of the run only.
const (
	machineAddress = "10.210.0.1"
	serverURL      = "https://10.210.0.1:6443"
	serviceRange   = "10.211.0.0/16"
	serviceOfAPI   = "10.211.0.1"
	serviceOfDNS   = "10.211.0.10"
	podRange       = "10.212.0.0/16"
	domain         = "cluster.local"
)

// cgroups is the control group below which the kubelets of a run make theirs.
const cgroups = "kanzen-conformance"

// layout says where the files of a run are. All are below one folder, which is the cache.
type layout struct {
	Cache string // programs and images are kept here
	Peer  string // programs of Kubernetes are built here
	Out   string // what the run says

	kanzen string // the program
}

// bin is the folder of the programs that are built here.
func (l layout) bin() string { return filepath.Join(l.Cache, "bin") }

// images is the file of all images.
func (l layout) images() string { return filepath.Join(l.Cache, "images.tar") }

// run is the folder of a run's data: keys, the server's data, the nodes' disks. It is new in each run.
func (l layout) run() string { return filepath.Join(l.Cache, "run") }

// program is the path of a program.
func (l layout) program(name string) string {
	if name == "kanzen" {
		return l.kanzen
	}
	if kubernetesPrograms[name] {
		return filepath.Join(l.Peer, name)
	}
	return filepath.Join(l.bin(), name)
}

func (l layout) pki(name string) string { return filepath.Join(l.run(), "pki", name) }

// log is the path of a program's log.
func (l layout) log(name string) string { return filepath.Join(l.Out, "logs", name+".log") }

// parts is the folder of the reports of the parts of the specs.
func (l layout) parts() string { return filepath.Join(l.Out, "parts") }

// node is the folder of a node's disk.
func (l layout) node(number int) string { return filepath.Join(l.run(), nodeName(number)) }

// config is a file of a node's configuration.
func (l layout) config(number int, name string) string {
	return filepath.Join(l.node(number), "config", name)
}

func nodeName(number int) string    { return fmt.Sprintf("node-%d", number) }
func nodeAddress(number int) string { return fmt.Sprintf("10.210.0.%d", 10+number) }
func podsOfNode(number int) string  { return fmt.Sprintf("10.212.%d.0/24", number) }
