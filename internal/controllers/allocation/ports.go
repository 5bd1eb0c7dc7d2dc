package allocation

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/core"
	"github.com/kanzen-io/kanzen/internal/store"
)

// NodePorts allocates the ports that services open on every node, including health check ports. It is safe for
// concurrent use.
type NodePorts struct {
	view    *store.View
	objects Objects
	ports   portRange
	random  Random

	// turn is held by the one request that changes the stored set; concurrent changes would only conflict. It guards
	// last, the stored set as last seen, nil if unknown.
	turn chan struct{}
	last *store.Item

	// Metrics are set before the first use; nil: nothing is measured.
	Metrics *Metrics
}

var _ core.NodePorts = (*NodePorts)(nil)

// portsKey is the key of the set, below "ranges/".
const portsKey = "servicenodeports"

// NewNodePorts creates an allocator of the ports from first to last.
func NewNodePorts(s *store.Cluster, objects Objects, first, last int, random Random) *NodePorts {
	return &NodePorts{
		view: s.View(store.Kind{Prefix: "ranges/"}), objects: objects,
		ports: portRange{int32(first), int32(last - first + 1)}, random: random,
		turn: make(chan struct{}, 1),
	}
}

// standIn is the result of a dry run without a requested port: it is outside of every usual range, so that no client
// mistakes it for an allocated port.
const standIn = 32769

// Allocate is part of core.NodePorts. Errors are *RangeError, *TakenError, or
// wrap core.ErrExhausted.
func (n *NodePorts) Allocate(ctx context.Context, _ *corev1.Service, port int32, dryRun bool) (int32, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	switch {
	case dryRun && port == 0:
		return standIn, nil
	case dryRun:
		return port, n.check(ctx, port)
	case port != 0 && !n.ports.contains(port):
		return 0, &RangeError{"provided port is not in the valid range. The range of valid ports is " + n.ports.String()}
	}
	asked := port
	err := n.change(ctx, func(s *portSet) error {
		if port = asked; port == 0 {
			port = n.choose(s)
		}
		switch {
		case port == 0:
			return core.ErrExhausted
		case s.has(port):
			return &TakenError{"provided port"}
		}
		s.add(port)
		return nil
	})
	n.Metrics.port(asked != 0, err)
	if err != nil {
		return 0, err
	}
	return port, nil
}

// check returns an error if a port is taken.
func (n *NodePorts) check(ctx context.Context, port int32) error {
	item, err := n.view.Latest(ctx, portsKey)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	s, err := decodePorts(item.Value())
	if err == nil && s.has(port) {
		err = &TakenError{"provided port"}
	}
	return err
}

// choose returns a free port, or zero.
func (n *NodePorts) choose(s *portSet) int32 {
	size := uint64(s.size)
	for k := range choices(size, reserved(size, 32, 128), n.random) {
		if p := s.first + int32(k); !s.has(p) {
			return p
		}
	}
	return 0
}

// Release is part of core.NodePorts. It keeps a port that the stored service still has.
func (n *NodePorts) Release(ctx context.Context, service *corev1.Service, port int32) error {
	if !n.ports.contains(port) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	stored, err := storedService(ctx, n.objects, service.Namespace, service.Name)
	if err != nil || stored != nil && slices.Contains(nodePorts(stored), port) {
		return err
	}
	return n.change(ctx, func(s *portSet) error {
		if !s.has(port) {
			return errUnchanged
		}
		s.remove(port)
		return nil
	})
}

// errUnchanged ends a change that has nothing to do.
var errUnchanged = errors.New("nothing to change")

// change applies f to the stored set. f may run several times, each time on the newest set. If f fails on the cached
// set, it runs again on the set in etcd.
func (n *NodePorts) change(ctx context.Context, f func(s *portSet) error) error {
	if err := n.lock(ctx); err != nil {
		return err
	}
	defer n.unlock()
	for sure := false; ; {
		if n.last == nil {
			if err := n.load(ctx); err != nil {
				return err
			}
			sure = true
		}
		s, err := decodePorts(n.last.Value())
		if err != nil {
			return err
		}
		if s.portRange != n.ports {
			// A server with another range has written the set.
			n.last = nil
			continue
		}
		if err := f(s); err != nil && !sure {
			n.last = nil
			continue
		} else if errors.Is(err, errUnchanged) {
			return nil
		} else if err != nil {
			return err
		}
		conflict, err := n.swap(ctx, s)
		if err != nil || !conflict {
			return err
		}
		sure = true
	}
}

// swap replaces n.last by s. If the stored set has changed, it returns conflict and sets n.last to the stored one.
func (n *NodePorts) swap(ctx context.Context, s *portSet) (conflict bool, err error) {
	value, err := s.encode()
	if err != nil {
		return false, err
	}
	prev := n.last
	n.last = nil // unknown until the write succeeds
	item, err := n.view.Update(ctx, prev, store.Write{Value: value})
	var c *store.ConflictError
	if errors.As(err, &c) {
		n.last = c.Current
		return true, nil
	}
	if err == nil {
		n.last = item
	}
	return false, err
}

// load reads the stored set. If there is none, or one of another range, the existing services determine the allocated
// ports.
func (n *NodePorts) load(ctx context.Context) error {
	item, err := n.view.Latest(ctx, portsKey)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if err == nil {
		s, err := decodePorts(item.Value())
		if err != nil {
			return err
		}
		if s.portRange == n.ports {
			n.last = item
			return nil
		}
	}
	_, err = n.reconcile(ctx, nil)
	return err
}

func (n *NodePorts) lock(ctx context.Context) error {
	select {
	case n.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (n *NodePorts) unlock() { <-n.turn }
