package server

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/base/guard"
	"github.com/kanzen-io/kanzen/internal/chain/debug"
	"github.com/kanzen-io/kanzen/internal/controllers/kubernetesservice"
	"github.com/kanzen-io/kanzen/internal/object/cbor"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/observe/metrics"
	"github.com/kanzen-io/kanzen/internal/process"
	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/process/encryption"
	"github.com/kanzen-io/kanzen/internal/server/controlplane"
	"github.com/kanzen-io/kanzen/internal/store"
)

// sealed wires encryption. Without --encryption-provider-config nothing is encrypted, and what is cannot be read.
type sealed struct{ *encryption.Encryption }

func encrypted(ctx context.Context, cfg *config.Plane, on *process.Process, measured *metrics.Metrics, guarded *guard.Guard) (sealed, error) {
	if cfg.EncryptionConfigFile == "" {
		encryption.RegisterIdle(measured.Registry(), on.Clock)
		return sealed{}, nil
	}
	e, err := encryption.New(ctx, encryption.Config{
		File: cfg.EncryptionConfigFile, Reload: cfg.EncryptionConfigReload, KMSv1: cfg.Gates().Enabled(features.KMSv1), Server: controlplane.IdentityName(on.Hostname()),
		Registry: measured.Registry(), Clock: on.Clock, Guard: guarded, Log: on.Log,
	})
	if err != nil {
		return sealed{}, fmt.Errorf("--encryption-provider-config: %w", err)
	}
	return sealed{e}, nil
}

func (s sealed) of(gr schema.GroupResource) store.Transformer {
	if s.Encryption == nil {
		return encryption.None{}
	}
	return s.Transformer(gr)
}

// ofKey is how values of custom resources are read of which there is no view.
func (s sealed) ofKey(key string) store.Transformer {
	if s.Encryption == nil {
		return cbor.Storage(encryption.None{}, false)
	}
	return cbor.Storage(s.ForKey(key), false)
}

func (s sealed) checks() []debug.Check {
	if s.Encryption == nil {
		return nil
	}
	return s.Checks()
}

// started is the step of the startup that begins to follow the file, under upstream's name.
func (s sealed) started() []debug.Check {
	if s.Encryption == nil || !s.Reload {
		return nil
	}
	return []debug.Check{{Name: "poststarthook/start-encryption-provider-config-automatic-reload", Test: func(context.Context) error { return nil }}}
}

func (s sealed) close() error {
	if s.Encryption == nil {
		return nil
	}
	return s.Close()
}

// rewriter stores anew what former keys have encrypted.
func (b *base) rewriter(s sealed) *encryption.Rewriter {
	return &encryption.Rewriter{Encryption: s.Encryption, Stores: b.objects.Store.All(), Clock: b.process.Clock,
		Resource: func(key string) (schema.GroupResource, bool) {
			if r, _, _ := b.objects.At(key); r != nil {
				return r.GroupResource, true
			}
			if strings.HasPrefix(key, kubernetesservice.LeasesPlural+"/") {
				return schema.GroupResource{Resource: kubernetesservice.LeasesPlural}, true
			}
			return schema.GroupResource{}, false
		}}
}
