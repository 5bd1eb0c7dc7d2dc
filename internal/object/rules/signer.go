package rules

import (
	"fmt"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
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
		e.Invalid(name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")
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

// IsKubernetesSigner reports whether a signer's name is reserved for the Kubernetes project.
func IsKubernetesSigner(name string) bool {
	domain, _, _ := strings.Cut(name, "/")
	return domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io")
}

// TrustBundleName is the rule for names of the trust bundles of a signer, which begin with the signer's name and a colon. Those
// without a signer have no colon.
func TrustBundleName(signer string) NameRule {
	return func(name string, prefix bool) []string {
		if signer == "" {
			if strings.Contains(name, ":") {
				return []string{`ClusterTrustBundle without signer name must not have ":" in its name`}
			}
			return Subdomain(name, prefix)
		}
		start := strings.ReplaceAll(signer, "/", ":") + ":"
		rest, ok := strings.CutPrefix(name, start)
		if !ok {
			return []string{fmt.Sprintf("ClusterTrustBundle for signerName %s must be named with prefix %s", signer, start)}
		}
		return Subdomain(rest, prefix)
	}
}

// CertificateLifetimes are the shortest and the longest lifetime in seconds that a pod may ask for its certificate. Kubernetes' own
// signers issue certificates for a day at most.
func CertificateLifetimes(signer string) (shortest, longest int32) {
	if IsKubernetesSigner(signer) {
		return 3600, 24 * 3600
	}
	return 3600, 91 * 24 * 3600
}

// UserAnnotations validates what a pod tells the signer of its certificate. Every key needs a domain.
func (e Errors) UserAnnotations(name string, annotations map[string]string) {
	for key := range annotations {
		e.Add(validation.IsDomainPrefixedKey(e.Path().Child(name), strings.ToLower(key)))
	}
	if apivalidation.ValidateAnnotationsSize(annotations) != nil {
		e.Field(name).TooLong(apivalidation.TotalAnnotationSizeLimitB)
	}
}
