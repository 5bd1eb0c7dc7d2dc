package encryption

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/base/guard"
	"github.com/kanzen-io/kanzen/internal/chain/debug"
	"github.com/kanzen-io/kanzen/internal/controllers/kubernetesservice"
	"github.com/kanzen-io/kanzen/internal/object/cbor"
	"github.com/kanzen-io/kanzen/internal/store"
)

// Sealed is the encryption of a server. Without --encryption-provider-config nothing is encrypted, and what is cannot be read.
type Sealed struct{ *Encryption }

// Open reads the configuration, if a file is named, as New does.
func Open(ctx context.Context, c Config) (Sealed, error) {
	if c.File == "" {
		RegisterIdle(c.Registry, c.Clock)
		return Sealed{}, nil
	}
	e, err := New(ctx, c)
	if err != nil {
		return Sealed{}, fmt.Errorf("--encryption-provider-config: %w", err)
	}
	return Sealed{e}, nil
}

// Of is how values of a resource are stored.
func (s Sealed) Of(gr schema.GroupResource) store.Transformer {
	if s.Encryption == nil {
		return None{}
	}
	return s.Transformer(gr)
}

// OfKey is how values of custom resources are read of which there is no view.
func (s Sealed) OfKey(key string) store.Transformer {
	if s.Encryption == nil {
		return cbor.Storage(None{}, false)
	}
	return cbor.Storage(s.ForKey(key), false)
}

// Checks are those of the plugins.
func (s Sealed) Checks() []debug.Check {
	if s.Encryption == nil {
		return nil
	}
	return s.Encryption.Checks()
}

// Started is the step of the startup that begins to follow the file, under upstream's name.
func (s Sealed) Started() []debug.Check {
	if s.Encryption == nil || !s.Reload {
		return nil
	}
	return []debug.Check{{Name: "poststarthook/start-encryption-provider-config-automatic-reload", Test: func(context.Context) error { return nil }}}
}

// Close ends the connections to plugins.
func (s Sealed) Close() error {
	if s.Encryption == nil {
		return nil
	}
	return s.Encryption.Close()
}

// Tasks are what runs for it; changed is told of each change of the configuration.
func (s Sealed) Tasks(changed func(context.Context)) []guard.Task {
	if s.Encryption == nil {
		return nil
	}
	return []guard.Task{guard.Quiet("", func(ctx context.Context) { s.Run(ctx, changed) })}
}

// Rewriter stores anew what former keys have encrypted.
func (s Sealed) Rewriter(objects *catalog.Raw, clk clock.PassiveClock) *Rewriter {
	return &Rewriter{Encryption: s.Encryption, Stores: objects.Store.All(), Clock: clk,
		Resource: func(key string) (schema.GroupResource, bool) {
			if r, _, _ := objects.At(key); r != nil {
				return r.GroupResource, true
			}
			if strings.HasPrefix(key, kubernetesservice.LeasesPlural+"/") {
				return schema.GroupResource{Resource: kubernetesservice.LeasesPlural}, true
			}
			return schema.GroupResource{}, false
		}}
}
