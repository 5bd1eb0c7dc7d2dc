package encryption

import (
	"crypto/aes"
	"encoding/base64"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
)

// parseConfig reads the EncryptionConfiguration of a file and validates it.
func parseConfig(file string, data []byte, reload bool) (*apiserver.EncryptionConfiguration, error) {
	if len(data) == 0 {
		return nil, fmt.Errorf("error while loading file: encryption provider configuration file %q is empty", file)
	}
	scheme := runtime.NewScheme()
	install.Install(scheme)
	obj, gvk, err := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder().Decode(data, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("error decoding encryption provider configuration file %q: %w", file, err)
	}
	c, ok := obj.(*apiserver.EncryptionConfiguration)
	if !ok {
		return nil, fmt.Errorf("got unexpected config type: %v", gvk)
	}
	return c, validate(c, reload).ToAggregate()
}

// everything is the wildcard *.*
var everything = schema.GroupResource{Group: "*", Resource: "*"}

// everythingIn is the wildcard of a group.
func everythingIn(group string) schema.GroupResource {
	return schema.GroupResource{Group: group, Resource: "*"}
}

// spelled is a resource as configurations spell it.
func spelled(gr schema.GroupResource) string {
	if gr == everythingIn("") {
		return "*."
	}
	return gr.String()
}

// build makes the providers of a configuration, and calls plugin for each that is a KMS plugin.
func build(c *apiserver.EncryptionConfiguration, m *metrics, plugin func(*apiserver.KMSConfiguration) (provider, error)) (map[schema.GroupResource]*options, error) {
	out := map[schema.GroupResource]*options{}
	for i, each := range c.Resources {
		var list []option
		for j, p := range each.Providers {
			made, err := newOption(fmt.Sprintf("resources[%d].providers[%d]", i, j), p, m, plugin)
			if err != nil {
				return nil, err
			}
			list = append(list, made)
		}
		for _, name := range each.Resources {
			gr := schema.ParseGroupResource(name)
			for _, earlier := range []schema.GroupResource{everythingIn(gr.Group), everything} {
				if out[earlier] != nil {
					return nil, fmt.Errorf("resource %q is masked by earlier rule %q", spelled(gr), spelled(earlier))
				}
			}
			if out[gr] == nil {
				out[gr] = &options{none: errors.New("no matching prefix found"), metrics: m}
			}
			out[gr].list = append(out[gr].list, list...)
		}
	}
	return out, nil
}

// newOption makes the provider that is at a place of the configuration.
func newOption(at string, p apiserver.ProviderConfiguration, m *metrics, plugin func(*apiserver.KMSConfiguration) (provider, error)) (option, error) {
	k := keyed{at: at, metrics: m}
	switch {
	case p.AESGCM != nil:
		return k.option("aesgcm", "AES", p.AESGCM.Keys, func(key []byte) (provider, error) { return newGCM(key) })
	case p.AESCBC != nil:
		return k.option("aescbc", "AES", p.AESCBC.Keys, func(key []byte) (provider, error) {
			block, err := aes.NewCipher(key)
			return aesCBC{block}, err
		})
	case p.Secretbox != nil:
		return k.option("secretbox", "Secretbox", p.Secretbox.Keys, func(key []byte) (provider, error) {
			return &secretBox{[32]byte(key)}, nil
		})
	case p.KMS != nil:
		made, err := plugin(p.KMS)
		return option{"k8s:enc:kms:" + p.KMS.APIVersion + ":" + p.KMS.Name + ":", made, Source{At: at + ".kms", Provider: "kms", Key: p.KMS.Name}}, err
	}
	return option{"", identity{}, Source{At: at + ".identity", Provider: "identity"}}, nil
}

// keyed makes providers that have several keys, of which the first one writes.
type keyed struct {
	at      string
	metrics *metrics
}

func (k keyed) option(name, kind string, keys []apiserver.Key, make func(key []byte) (provider, error)) (option, error) {
	o := &options{none: fmt.Errorf("no matching key was found for the provided %s transformer", kind), metrics: k.metrics}
	for n, key := range keys {
		secret, err := base64.StdEncoding.DecodeString(key.Secret)
		if err != nil {
			return option{}, fmt.Errorf("could not obtain secret for named key %s: %w", key.Name, err)
		}
		made, err := make(secret)
		if err != nil {
			return option{}, fmt.Errorf("error while creating cipher for named key %s: %w", key.Name, err)
		}
		source := Source{At: fmt.Sprintf("%s.%s.keys[%d]", k.at, name, n), Provider: name, Key: key.Name}
		o.list = append(o.list, option{key.Name + ":", made, source})
	}
	return option{"k8s:enc:" + name + ":v1:", o, Source{}}, nil
}
