//go:build linux

// Package machine makes a machine with nodes of Kubernetes in namespaces of the machine it runs on: their networks, control groups, disks,
// containerd, and images made of programs that are built here. What the nodes run is for others to say.
package machine

import (
	"fmt"
	"path/filepath"
	"strings"
)

// The addresses of the machine. They exist in its namespaces only, so that two of them do not meet.
const (
	Address      = "10.210.0.1"
	ServiceRange = "10.211.0.0/16"
	ServiceOfAPI = "10.211.0.1"
	ServiceOfDNS = "10.211.0.10"
	PodRange     = "10.212.0.0/16"
	Domain       = "cluster.local"
)

// Layout says where the files of a run are.
type Layout struct {
	Cache    string // images, and the data of a run
	Programs string // what is built here beside Kubernetes
	Peer     string // programs of Kubernetes are built here
	Out      string // what the run says
	Kanzen   string // the program
	Group    string // the control group below which kubelets make theirs
}

// Complete makes paths absolute, and says which of them a node would not see.
func (l *Layout) Complete() error {
	for _, path := range []*string{&l.Cache, &l.Programs, &l.Peer, &l.Out, &l.Kanzen} {
		if *path == "" {
			continue
		}
		var err error
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	for _, path := range []string{l.Cache, l.Programs, l.Peer, l.Out} {
		for _, own := range []string{"/tmp/", "/var/", "/run/"} {
			if strings.HasPrefix(path, own) {
				return fmt.Errorf("%s: nodes have a %s of their own and would not see it; choose another folder", path, own)
			}
		}
	}
	return nil
}

// Images is the file of all images.
func (l Layout) Images() string { return filepath.Join(l.Cache, "images.tar") }

// Run is the folder of a run's data: keys, the server's data, the nodes' disks. It is new in each run.
func (l Layout) Run() string { return filepath.Join(l.Cache, "run") }

// PKI is a file of the control plane's keys.
func (l Layout) PKI(name string) string { return filepath.Join(l.Run(), "pki", name) }

// Program is the path of a program.
func (l Layout) Program(name string) string {
	if name == "kanzen" {
		return l.Kanzen
	}
	if kubernetesPrograms[name] {
		return filepath.Join(l.Peer, name)
	}
	return filepath.Join(l.Programs, name)
}

// Log is the path of a program's log.
func (l Layout) Log(name string) string { return filepath.Join(l.Out, "logs", name+".log") }

// Node is the folder of a node's disk.
func (l Layout) Node(number int) string { return filepath.Join(l.Run(), NodeName(number)) }

// Config is a file of a node's configuration.
func (l Layout) Config(number int, name string) string {
	return filepath.Join(l.Node(number), "config", name)
}

// NodeName is the host name of a node; they are numbered from 1.
func NodeName(number int) string { return fmt.Sprintf("node-%d", number) }

// NodeAddress is the address of a node.
func NodeAddress(number int) string { return fmt.Sprintf("10.210.0.%d", 10+number) }

// PodsOf is the range of the addresses of a node's pods.
func PodsOf(number int) string { return fmt.Sprintf("10.212.%d.0/24", number) }
