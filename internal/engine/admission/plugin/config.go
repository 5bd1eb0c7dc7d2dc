package plugin

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// ReadConfig reads the file of --admission-control-config-file: the
// configurations of plugins, in YAML or JSON, by their names. A plugin's
// configuration is in the file or in a file of its own, whose path is relative
// to the first file.
func ReadConfig(path string) (map[string][]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var c struct {
		metav1.TypeMeta `json:",inline"`
		Plugins         []struct {
			Name          string          `json:"name"`
			Path          string          `json:"path"`
			Configuration json.RawMessage `json:"configuration"`
		} `json:"plugins"`
	}
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if c.Kind != "AdmissionConfiguration" || c.APIVersion != "apiserver.config.k8s.io/v1" && c.APIVersion != "apiserver.k8s.io/v1alpha1" {
		return nil, fmt.Errorf("%s: it is no AdmissionConfiguration: apiVersion is %q, kind %q", path, c.APIVersion, c.Kind)
	}
	out := map[string][]byte{}
	for _, p := range c.Plugins {
		switch {
		case len(p.Configuration) > 0 && string(p.Configuration) != "null":
			out[p.Name] = p.Configuration
		case p.Path != "":
			file := p.Path
			if !filepath.IsAbs(file) {
				file = filepath.Join(filepath.Dir(path), file)
			}
			if out[p.Name], err = os.ReadFile(file); err != nil {
				return nil, fmt.Errorf("configuration of %s: %w", p.Name, err)
			}
		}
	}
	return out, nil
}
