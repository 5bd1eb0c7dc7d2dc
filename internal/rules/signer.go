package rules

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// SignerName validates the name of a certificate signer: a domain of at least two labels, a slash, and names joined by
// dots.
func SignerName(name string, e Errors) {
	const longestDomain = validation.DNS1123SubdomainMaxLength
	const longest = longestDomain + 1 + validation.DNS1123LabelMaxLength + 1 + validation.DNS1123SubdomainMaxLength
	if name == "" {
		e.Required("")
		return
	}
	domain, path, found := strings.Cut(name, "/")
	if !found || strings.Contains(path, "/") {
		e.Invalid(name, "must have the form example.com/signer-name")
		return
	}
	if len(domain) > longestDomain {
		e.TooLong(longestDomain)
	}
	labels := strings.Split(domain, ".")
	for _, l := range labels {
		if m := validation.IsDNS1123Label(l); len(m) > 0 {
			e.Messages(domain, m)
			break
		}
	}
	if len(labels) < 2 {
		e.Invalid(domain, "must be a domain of at least two labels")
	}
	for l := range strings.SplitSeq(path, ".") {
		if m := validation.IsDNS1123Subdomain(l); len(m) > 0 {
			e.Messages(path, m)
			break
		}
	}
	if len(name) > longest {
		e.TooLong(longest)
	}
}
