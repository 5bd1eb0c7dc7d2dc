package resourcequota

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// limitedResource is a resource that may be used only if a quota covers it.
type limitedResource struct {
	APIGroup      string                                     `json:"apiGroup"`
	Resource      string                                     `json:"resource"`
	MatchContains []string                                   `json:"matchContains"`
	MatchScopes   []corev1.ScopedResourceSelectorRequirement `json:"matchScopes"`
}

// parse reads a ResourceQuotaConfiguration; its versions are all the same.
func parse(data []byte) ([]limitedResource, error) {
	if len(data) == 0 {
		return nil, nil
	}
	var c struct {
		metav1.TypeMeta  `json:",inline"`
		LimitedResources []limitedResource `json:"limitedResources"`
	}
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		return nil, err
	}
	group, _, _ := strings.Cut(c.APIVersion, "/")
	switch {
	case group == "apiserver.config.k8s.io" && c.Kind == "ResourceQuotaConfiguration":
	case group == "resourcequota.admission.k8s.io" && c.Kind == "Configuration":
	default:
		return nil, fmt.Errorf("no ResourceQuotaConfiguration but %s %s", c.APIVersion, c.Kind)
	}
	for i, l := range c.LimitedResources {
		if l.Resource == "" {
			return nil, fmt.Errorf("limitedResources[%d].resource: a value is required", i)
		}
	}
	return c.LimitedResources, nil
}
