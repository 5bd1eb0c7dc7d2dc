// Package rules holds the validation and defaulting rules that more than one
// API group needs: label selectors, object references, names, ports,
// quantities, IP addresses, volume sources. Rules that only one kind needs
// stay with that kind.
package rules
