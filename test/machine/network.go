//go:build linux

package machine

import (
	"fmt"
	"os"
	"strconv"
)

// bridge joins the nodes. It is in the machine's network, where the control plane is.
const bridge = "nodes"

// MakeBridge makes the bridge and routes the pods of each node to it.
func MakeBridge(nodes int) error {
	if err := commands(
		[]string{"ip", "link", "add", bridge, "type", "bridge"},
		[]string{"ip", "address", "add", Address + "/24", "dev", bridge},
		[]string{"ip", "link", "set", bridge, "up"},
		// A client finds no other addresses. With a default route it is told at once that there is no way, instead of waiting.
		[]string{"ip", "route", "add", "unreachable", "default", "metric", "4000"},
	); err != nil {
		return err
	}
	if err := forward(); err != nil {
		return err
	}
	for n := 1; n <= nodes; n++ {
		if err := Run("ip", "route", "add", PodsOf(n), "via", NodeAddress(n)); err != nil {
			return fmt.Errorf("route to the pods of %s: %w", NodeName(n), err)
		}
	}
	return nil
}

// Connect gives the network of a process an interface eth0 on the bridge. Its other end has the name.
func Connect(name string, pid int) error {
	_ = Run("ip", "link", "delete", name) // of a process that has ended: the kernel removes it a little later
	return commands(
		[]string{"ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", strconv.Itoa(pid)},
		[]string{"ip", "link", "set", name, "master", bridge, "up"},
	)
}

// SetAddress gives eth0 an address of the machine's network. It is called in the network that has eth0.
func SetAddress(address string) error {
	return commands(
		[]string{"ip", "link", "set", "lo", "up"},
		[]string{"ip", "address", "add", address + "/24", "dev", "eth0"},
		[]string{"ip", "link", "set", "eth0", "up"},
		[]string{"ip", "route", "add", "default", "via", Address},
	)
}

// configure gives eth0 the node's address, and routes to the pods of the other nodes. It is called in the node's network.
func configure(node, nodes int) error {
	if err := SetAddress(NodeAddress(node)); err != nil {
		return err
	}
	for n := 1; n <= nodes; n++ {
		if n == node {
			continue
		}
		if err := Run("ip", "route", "add", PodsOf(n), "via", NodeAddress(n)); err != nil {
			return err
		}
	}
	return forward()
}

// forward lets the network pass on packets, as every node has it.
func forward() error {
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0)
}

func commands(list ...[]string) error {
	for _, c := range list {
		if err := Run(c[0], c[1:]...); err != nil {
			return err
		}
	}
	return nil
}
