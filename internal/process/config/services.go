package config

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
)

// validateServices validates the settings of services, and of the kubernetes service.
func (c *Config) validateServices(bad reporter) {
	ranges, err := c.ServiceRanges()
	if err != nil {
		bad("service-cluster-ip-range", "%v", err)
	}
	first, last, err := c.NodePorts()
	if err != nil {
		bad("service-node-port-range", "%v", err)
	} else if p := c.KubernetesServiceNodePort; p != 0 && (p < first || p > last) {
		bad("kubernetes-service-node-port", "%d is not in the range %d-%d of --service-node-port-range", p, first, last)
	}
	if !slices.Contains([]string{"lease", "master-count", "none"}, c.EndpointReconcilerType) {
		bad("endpoint-reconciler-type", "%q is none of lease, master-count, none", c.EndpointReconcilerType)
	}
	if c.APIServerCount <= 0 {
		bad("apiserver-count", "must be positive")
	}
	// The service has one address, and its endpoints must be of the same family.
	ip, err := c.Advertise()
	if err == nil && len(ranges) > 0 && c.EndpointReconcilerType != "none" && !ip.IsLoopback() && (ip.To4() == nil) != (ranges[0].IP.To4() == nil) {
		bad("advertise-address", "%s is not of the address family of the services (%s)", ip, ranges[0])
	}
}

// ServiceRanges parses the service address ranges, one or two.
func (c *Plane) ServiceRanges() ([]*net.IPNet, error) {
	if c.ServiceClusterIPRange == "" {
		_, n, err := net.ParseCIDR("10.0.0.0/24")
		return []*net.IPNet{n}, err
	}
	var out []*net.IPNet
	for _, s := range strings.Split(c.ServiceClusterIPRange, ",") {
		_, n, err := net.ParseCIDR(strings.TrimSpace(s))
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	if len(out) > 2 {
		return nil, errors.New("may hold two ranges at most")
	}
	if len(out) == 2 && (out[0].IP.To4() == nil) == (out[1].IP.To4() == nil) {
		return nil, errors.New("two ranges must be of different address families")
	}
	return out, nil
}

// NodePorts parses the range of node ports: "first-last" or "first+count".
func (c *Plane) NodePorts() (first, last int, err error) {
	s := c.ServiceNodePortRange
	if n, _ := fmt.Sscanf(s, "%d-%d", &first, &last); n != 2 {
		var count int
		if n, _ := fmt.Sscanf(s, "%d+%d", &first, &count); n != 2 {
			return 0, 0, fmt.Errorf("%q is not of the form first-last", s)
		}
		last = first + count
	}
	if first < 1 || last > 65535 || first > last {
		return 0, 0, fmt.Errorf("%q is not a range of ports", s)
	}
	return first, last, nil
}
