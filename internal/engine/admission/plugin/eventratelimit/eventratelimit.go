// Package eventratelimit limits the rate of new events: in total, for a
// namespace, for a user, or for one source and object.
package eventratelimit

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"sigs.k8s.io/yaml"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
)

// Name of the plugin in --enable-admission-plugins.
const Name = "EventRateLimit"

// buckets is the default number of buckets that a limit keeps.
const buckets = 4096

// limit is one limit of a configuration.
type limit struct {
	Type      string `json:"type"`
	QPS       int32  `json:"qps"`
	Burst     int32  `json:"burst"`
	CacheSize int32  `json:"cacheSize"`

	// limiters by key; the least recently used are dropped first.
	limiters *lru.Cache
}

// keys say, for each type of limit, which events share a bucket.
var keys = map[string]func(a *admission.Attributes) string{
	"Server":    func(*admission.Attributes) string { return "" },
	"Namespace": func(a *admission.Attributes) string { return a.Namespace },
	"User": func(a *admission.Attributes) string {
		if a.User == nil {
			return ""
		}
		return a.User.GetName()
	},
	"SourceAndObject": func(a *admission.Attributes) string {
		e, ok := a.Object.(*corev1.Event)
		if !ok {
			return ""
		}
		return strings.Join([]string{
			e.Source.Component, e.Source.Host, e.InvolvedObject.Kind, e.InvolvedObject.Namespace,
			e.InvolvedObject.Name, string(e.InvolvedObject.UID), e.InvolvedObject.APIVersion,
		}, "")
	},
}

// New makes the plugin. configuration is a Configuration of
// eventratelimit.admission.k8s.io in YAML or JSON; there is no default.
func New(clock clock.PassiveClock, configuration []byte) (admission.Plugin, error) {
	limits, err := parse(configuration)
	if err != nil {
		return admission.Plugin{}, fmt.Errorf("configuration of %s: %w", Name, err)
	}
	return admission.Plugin{
		Name: Name, On: []admission.Operation{admission.Create, admission.Update}, Of: []schema.GroupResource{{Resource: "events"}},
		Validator: admission.Func(func(_ context.Context, a *admission.Attributes) error {
			if a.DryRun {
				return nil
			}
			var errs []error
			for _, l := range limits {
				key := keys[l.Type](a)
				if !l.limiter(key).AllowN(clock.Now(), 1) {
					errs = append(errs, fmt.Errorf("limit reached on type %s for key %s", l.Type, key))
				}
			}
			if err := errors.Join(errs...); err != nil {
				return apierrors.NewTooManyRequestsError(err.Error())
			}
			return nil
		}),
	}, nil
}

func (l *limit) limiter(key string) *rate.Limiter {
	if v, ok := l.limiters.Get(key); ok {
		return v.(*rate.Limiter)
	}
	r := rate.NewLimiter(rate.Limit(l.QPS), int(l.Burst))
	l.limiters.Add(key, r)
	return r
}

func parse(data []byte) ([]*limit, error) {
	var c struct {
		metav1.TypeMeta `json:",inline"`
		Limits          []*limit `json:"limits"`
	}
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		return nil, err
	}
	at := field.NewPath("limits")
	var errs field.ErrorList
	if len(c.Limits) == 0 {
		errs = append(errs, field.Invalid(at, c.Limits, "must not be empty"))
	}
	for i, l := range c.Limits {
		if keys[l.Type] == nil {
			errs = append(errs, field.NotSupported(at.Index(i).Child("type"), l.Type, []string{"Server", "Namespace", "User", "SourceAndObject"}))
		}
		if l.Burst <= 0 {
			errs = append(errs, field.Invalid(at.Index(i).Child("burst"), l.Burst, "must be positive"))
		}
		if l.QPS <= 0 {
			errs = append(errs, field.Invalid(at.Index(i).Child("qps"), l.QPS, "must be positive"))
		}
		if l.CacheSize < 0 {
			errs = append(errs, field.Invalid(at.Index(i).Child("cacheSize"), l.CacheSize, "must not be negative"))
		}
		l.limiters = lru.New(buckets)
		if l.CacheSize > 0 && l.Type != "Server" {
			l.limiters = lru.New(int(l.CacheSize))
		}
	}
	return c.Limits, errs.ToAggregate()
}
