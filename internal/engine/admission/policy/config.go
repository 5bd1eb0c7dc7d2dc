package policy

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// ReadConfig reads the configuration of a plugin: the path of the directory with manifests. Without a configuration there is none.
func ReadConfig(plugin string, configuration []byte) (manifests string, err error) {
	var c struct {
		metav1.TypeMeta    `json:",inline"`
		StaticManifestsDir string `json:"staticManifestsDir"`
	}
	if len(configuration) == 0 {
		return "", nil
	}
	if err := yaml.UnmarshalStrict(configuration, &c); err != nil {
		return "", err
	}
	if kind := plugin + "Configuration"; c.APIVersion != "apiserver.config.k8s.io/v1" || c.Kind != kind {
		return "", fmt.Errorf("no %s but %s %s", kind, c.APIVersion, c.Kind)
	}
	return c.StaticManifestsDir, nil
}
