package core

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

func secrets() *engine.Resource {
	return &engine.Resource{
		Plural: "secrets", Kind: "Secret",
		Namespaced: true,
		Versions:   only(engine.VersionOf[corev1.Secret, corev1.SecretList](v1, defaultSecret)),
		Rules: engine.Typed[*corev1.Secret]{
			Validate:       func(_ context.Context, s *corev1.Secret) field.ErrorList { return validateSecret(s) },
			Warn:           warnSecret,
			PrepareUpdate:  func(_ context.Context, s, old *corev1.Secret) { rules.Default(&s.Type, old.Type) },
			ValidateUpdate: validateSecretUpdate,
		}.Rules(),
		Fields: engine.Fields(func(s *corev1.Secret) fields.Set { return fields.Set{"type": string(s.Type)} }),
		Table:  secretTable(),
	}
}

// defaultSecret also copies stringData, a write-only convenience, to data.
func defaultSecret(s *corev1.Secret) {
	rules.Default(&s.Type, corev1.SecretTypeOpaque)
	if len(s.StringData) > 0 && s.Data == nil {
		s.Data = make(map[string][]byte, len(s.StringData))
	}
	for key, value := range s.StringData {
		s.Data[key] = []byte(value)
	}
	for key, value := range s.Data {
		if value == nil {
			s.Data[key] = []byte{} // this is how it is stored and read back
		}
	}
	s.StringData = nil
}

// secretKeys are the required keys of the known types of secrets.
var secretKeys = map[corev1.SecretType][]string{
	corev1.SecretTypeDockercfg:        {corev1.DockerConfigKey},
	corev1.SecretTypeDockerConfigJson: {corev1.DockerConfigJsonKey},
	corev1.SecretTypeSSHAuth:          {corev1.SSHAuthPrivateKey},
	corev1.SecretTypeTLS:              {corev1.TLSCertKey, corev1.TLSPrivateKeyKey},
}

func validateSecret(s *corev1.Secret) field.ErrorList {
	e := rules.At(nil)
	e.Add(rules.ObjectMeta(&s.ObjectMeta, true, rules.Subdomain))
	data, size := e.Field("data"), 0
	for key, value := range s.Data {
		dataKey(key, data)
		size += len(value)
	}
	if size > corev1.MaxSecretSize {
		data.TooLong(corev1.MaxSecretSize)
	}
	for _, key := range secretKeys[s.Type] {
		value, found := s.Data[key]
		if !found || s.Type == corev1.SecretTypeSSHAuth && len(value) == 0 {
			data.Key(key).Required("")
		} else if s.Type == corev1.SecretTypeDockercfg || s.Type == corev1.SecretTypeDockerConfigJson {
			if err := json.Unmarshal(value, &map[string]any{}); err != nil {
				data.Key(key).Invalid("<secret contents redacted>", err.Error())
			}
		}
	}
	switch s.Type {
	case corev1.SecretTypeServiceAccountToken:
		if s.Annotations[corev1.ServiceAccountNameKey] == "" {
			e.Field("metadata").Field("annotations").Key(corev1.ServiceAccountNameKey).Required("")
		}
	case corev1.SecretTypeBasicAuth:
		_, user := s.Data[corev1.BasicAuthUsernameKey]
		_, password := s.Data[corev1.BasicAuthPasswordKey]
		if !user && !password {
			data.Key(corev1.BasicAuthUsernameKey).Required("")
			data.Key(corev1.BasicAuthPasswordKey).Required("")
		}
	}
	return e.List()
}

func validateSecretUpdate(_ context.Context, s, old *corev1.Secret) field.ErrorList {
	e := rules.At(nil)
	e.Add(rules.ObjectMetaUpdate(&s.ObjectMeta, &old.ObjectMeta))
	e.Add(rules.Immutable(s.Type, old.Type, field.NewPath("type")))
	if isTrue(old.Immutable) {
		frozen(e, map[string]bool{"immutable": isTrue(s.Immutable), "data": reflect.DeepEqual(s.Data, old.Data)})
	}
	e.Add(validateSecret(s))
	return e.List()
}

// warnSecret warns about a certificate without its key.
func warnSecret(_ context.Context, s, _ *corev1.Secret) []string {
	if s.Type != corev1.SecretTypeTLS {
		return nil
	}
	if _, err := tls.X509KeyPair(s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey]); err != nil {
		return []string{err.Error()}
	}
	return nil
}
