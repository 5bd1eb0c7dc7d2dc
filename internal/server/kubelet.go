package server

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/kanzen-io/kanzen/internal/api/connect"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/wire/egress"
	"github.com/kanzen-io/kanzen/internal/wire/kubelet"
)

// kubelets wires the requests that are passed on to kubelets, pods and services.
func (b *base) kubelets() (*kubelet.Server, error) {
	cfg := b.cfg
	return kubelet.New(kubelet.Config{
		Node: func(ctx context.Context, name string) (*corev1.Node, error) {
			return connect.Stored[*corev1.Node](ctx, b.objects, "nodes", "", name)
		},
		AddressTypes: cfg.KubeletAddressTypes, Port: int(cfg.KubeletPort),
		CAFile: cfg.KubeletCAFile, CertFile: cfg.KubeletCertFile, KeyFile: cfg.KubeletKeyFile,
		ConnectTimeout: cfg.KubeletTimeout, AnswerTimeout: cfg.RequestTimeout, BytesPerSecond: cfg.MaxConnectionBytesPerSecond,
		NoTranslation: cfg.Gates().Off(features.TranslateStreamCloseWebsocketRequests), NoTunnels: cfg.Gates().Off(features.PortForwardWebsockets),
		Dial: b.process.Egress.Dial(egress.Cluster), WriteError: engine.RefuseRequest,
		Registry: b.metrics.Registry(), Clock: b.process.Clock, Log: b.log,
	})
}
