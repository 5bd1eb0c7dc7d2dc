package core

import (
	"context"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

func configMaps() *engine.Resource {
	return &engine.Resource{
		Plural: "configmaps", Kind: "ConfigMap",
		ShortNames: []string{"cm"},
		Namespaced: true,
		Versions:   only(engine.VersionOf[corev1.ConfigMap, corev1.ConfigMapList](v1, defaultConfigMap)),
		Rules: engine.Typed[*corev1.ConfigMap]{
			Validate:       func(_ context.Context, c *corev1.ConfigMap) field.ErrorList { return validateConfigMap(c) },
			ValidateUpdate: validateConfigMapUpdate,
		}.Rules(),
		Table: configMapTable(),
	}
}

func defaultConfigMap(c *corev1.ConfigMap) {
	if c.Data == nil {
		c.Data = map[string]string{}
	}
}

func validateConfigMap(c *corev1.ConfigMap) field.ErrorList {
	e := rules.At(nil)
	e.Add(rules.ObjectMeta(&c.ObjectMeta, true, rules.Subdomain))
	size := 0
	for key, value := range c.Data {
		dataKey(key, e.Field("data"))
		if _, found := c.BinaryData[key]; found {
			e.Field("data").Key(key).Invalid(key, "is in binaryData as well")
		}
		size += len(value)
	}
	for key, value := range c.BinaryData {
		dataKey(key, e.Field("binaryData"))
		size += len(value)
	}
	if size > corev1.MaxSecretSize {
		e.Elsewhere(field.NewPath("")).TooLong(corev1.MaxSecretSize)
	}
	return e.List()
}

func dataKey(key string, e rules.Errors) {
	if m := validation.IsConfigMapKey(key); len(m) > 0 {
		e.Key(key).Messages(key, m)
	}
}

func validateConfigMapUpdate(_ context.Context, c, old *corev1.ConfigMap) field.ErrorList {
	e := rules.At(nil)
	e.Add(rules.ObjectMetaUpdate(&c.ObjectMeta, &old.ObjectMeta))
	if isTrue(old.Immutable) {
		frozen(e, map[string]bool{
			"immutable":  isTrue(c.Immutable),
			"data":       reflect.DeepEqual(c.Data, old.Data),
			"binaryData": reflect.DeepEqual(c.BinaryData, old.BinaryData),
		})
	}
	e.Add(validateConfigMap(c))
	return e.List()
}

// frozen reports the changed fields of an immutable object.
func frozen(e rules.Errors, same map[string]bool) {
	for name, is := range same {
		if !is {
			e.Field(name).Forbidden("field is immutable when `immutable` is set")
		}
	}
}

func isTrue(b *bool) bool { return b != nil && *b }
