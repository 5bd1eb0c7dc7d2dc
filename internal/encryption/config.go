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
	for _, each := range c.Resources {
		var list []option
		for _, p := range each.Providers {
			made, err := newOption(p, m, plugin)
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

func newOption(p apiserver.ProviderConfiguration, m *metrics, plugin func(*apiserver.KMSConfiguration) (provider, error)) (option, error) {
	switch {
	case p.AESGCM != nil:
		return keyed("k8s:enc:aesgcm:v1:", "AES", p.AESGCM.Keys, m, func(key []byte) (provider, error) { return newGCM(key) })
	case p.AESCBC != nil:
		return keyed("k8s:enc:aescbc:v1:", "AES", p.AESCBC.Keys, m, func(key []byte) (provider, error) {
			block, err := aes.NewCipher(key)
			return aesCBC{block}, err
		})
	case p.Secretbox != nil:
		return keyed("k8s:enc:secretbox:v1:", "Secretbox", p.Secretbox.Keys, m, func(key []byte) (provider, error) {
			return &secretBox{[32]byte(key)}, nil
		})
	case p.KMS != nil:
		made, err := plugin(p.KMS)
		return option{"k8s:enc:kms:v2:" + p.KMS.Name + ":", made}, err
	}
	return option{"", identity{}}, nil
}

// keyed makes a provider with several keys, of which the first one writes.
func keyed(prefix, kind string, keys []apiserver.Key, m *metrics, make func(key []byte) (provider, error)) (option, error) {
	o := &options{none: fmt.Errorf("no matching key was found for the provided %s transformer", kind), metrics: m}
	for _, k := range keys {
		secret, err := base64.StdEncoding.DecodeString(k.Secret)
		if err != nil {
			return option{}, fmt.Errorf("could not obtain secret for named key %s: %w", k.Name, err)
		}
		made, err := make(secret)
		if err != nil {
			return option{}, fmt.Errorf("error while creating cipher for named key %s: %w", k.Name, err)
		}
		o.list = append(o.list, option{k.Name + ":", made})
	}
	return option{prefix, o}, nil
}
