// Package rules contains validation and defaulting that more than one API group needs: label selectors, object
// references, names, ports, quantities, IP addresses, volume sources. Rules for a single kind are with that kind.
package rules
