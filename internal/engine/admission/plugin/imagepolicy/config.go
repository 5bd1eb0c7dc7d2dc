package imagepolicy

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/kanzen-io/kanzen/internal/engine/admission/webhook"
)

// config is the plugin's configuration.
type config struct {
	backend         *webhook.Endpoint
	allowTTL        time.Duration
	denyTTL         time.Duration
	backoff         time.Duration
	allowOnFailures bool
}

// read reads the configuration in YAML or JSON. Its times are in seconds, and
// in milliseconds for the backoff; 0 is the default and -1 means none.
func read(configuration []byte) (*config, error) {
	if len(configuration) == 0 {
		return nil, errors.New("no config specified")
	}
	var in struct {
		ImagePolicy struct {
			KubeConfigFile string `json:"kubeConfigFile"`
			AllowTTL       int64  `json:"allowTTL"`
			DenyTTL        int64  `json:"denyTTL"`
			RetryBackoff   int64  `json:"retryBackoff"`
			DefaultAllow   bool   `json:"defaultAllow"`
		} `json:"imagePolicy"`
	}
	if err := yaml.Unmarshal(configuration, &in); err != nil {
		return nil, err
	}
	c := &config{allowOnFailures: in.ImagePolicy.DefaultAllow}
	var err error
	if c.backoff, err = duration(in.ImagePolicy.RetryBackoff, time.Millisecond, 1, 5*time.Minute, 500*time.Millisecond); err != nil {
		return nil, err
	}
	if c.allowTTL, err = duration(in.ImagePolicy.AllowTTL, time.Second, time.Second, 30*time.Minute, 5*time.Minute); err != nil {
		return nil, err
	}
	if c.denyTTL, err = duration(in.ImagePolicy.DenyTTL, time.Second, time.Second, 30*time.Minute, 30*time.Second); err != nil {
		return nil, err
	}
	rest, err := clientcmd.BuildConfigFromFlags("", in.ImagePolicy.KubeConfigFile)
	if err != nil {
		return nil, err
	}
	c.backend, err = webhook.NewEndpoint(rest)
	return c, err
}

func duration(n int64, unit, least, most, standard time.Duration) (time.Duration, error) {
	switch n {
	case -1:
		return 0, nil
	case 0:
		return standard, nil
	}
	d := time.Duration(n) * unit
	if n > int64(most/unit) || d < least || d > most {
		return 0, fmt.Errorf("valid value is between %v and %v, got %v", least, most, n)
	}
	return d, nil
}
