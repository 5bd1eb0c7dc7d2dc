package dynamicadmission

import (
	"context"
	"fmt"
	"slices"

	"github.com/kanzen-io/kanzen/internal/api/builtin/admissionregistration"
	"github.com/kanzen-io/kanzen/internal/engine/admission/manifest"
	"github.com/kanzen-io/kanzen/internal/engine/admission/policy"
	"github.com/kanzen-io/kanzen/internal/engine/admission/webhook"
	"github.com/kanzen-io/kanzen/internal/object/features"
)

// webhookKinds are the kinds that configure plugins.
var webhookKinds = map[string]string{
	webhook.MutatingName: "MutatingWebhookConfiguration", webhook.ValidatingName: "ValidatingWebhookConfiguration",
}

// manifests loads the manifests of a plugin, webhooks or policies. It returns nil if the plugin's configuration names no directory.
func (c *Config) manifests(ctx context.Context, p *Plugins, name, path, what string) (*manifest.Directory, error) {
	if err := manifest.CheckPath(path, c.Gates.Enabled(features.ManifestBasedAdmissionControlConfig)); err != nil {
		return nil, fmt.Errorf("couldn't init admission plugin %q: %w", name, err)
	}
	if path == "" {
		return nil, nil
	}
	d, err := manifest.Load(ctx, manifest.Config{
		Plugin: name, Kinds: manifestKinds(name), Path: path, Registry: c.Registry, Server: c.Server,
		Clock: c.Clock, Log: c.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("failed to initialize admission plugin %q: failed to load static %s manifests from %q: %w", name, what, path, err)
	}
	p.Directories = append(p.Directories, d)
	return d, nil
}

// manifestKinds are the kinds of a plugin's manifests, with the rules that the API has for new objects; but no right to read
// parameters is asked for, as there are none.
func manifestKinds(name string) (kinds []manifest.Kind) {
	names := []string{webhookKinds[name]}
	if name == policy.ValidatingName || name == policy.MutatingName {
		names = []string{name, name + "Binding"}
	}
	for _, r := range admissionregistration.Resources(admissionregistration.Deps{}) {
		if slices.Contains(names, r.Kind) {
			kinds = append(kinds, manifest.Kind{Name: r.Kind, Default: r.Versions[0].Default, Validate: r.Rules.Validate})
		}
	}
	return kinds
}
