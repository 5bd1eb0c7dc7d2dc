//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

// istio is of its main branch: the names of its releases are not versions of a module.
var istio = operator{
	name:     "istiod",
	modules:  []module{{path: "istio.io/istio@v0.0.0-20260827124520-eed52ebb66ad"}},
	programs: map[string]string{"pilot": "./pilot/cmd/pilot-discovery"},
	install:  installIstio,
	leftOut:  map[string]string{"the mesh": "proxies are not run: the steps ask istiod as proxies do", "gateways": "they are proxies, too"},
	steps: []step{
		{"istiod writes its authority into the configurations of its webhooks", istioInjected},
		{"its authority is in every namespace", istioRoot},
		{"pods of a labelled namespace get a sidecar", sidecarInjected},
		{"pods that do not want one, and those of other namespaces, get none", sidecarLeftOut},
		{"the webhook refuses a virtual service without a route", virtualServiceRefused},
		{"an admission policy refuses what is not of the stable channel", filterRefused},
		{"a proxy is pushed the cluster of a service", clusterPushed},
		{"a proxy is pushed a service that is new", newServicePushed},
		{"a proxy is pushed the addresses of pods", endpointsPushed},
		{"a workload gets a certificate for the token of its service account", workloadSigned},
	},
}

func installIstio(ctx context.Context, w *world) error {
	base, err := w.chart(ctx, w.source+"/manifests/charts/base", "istio-base", "istio-system", "{defaultRevision: default, experimental: {stableValidationPolicy: true}}")
	if err != nil {
		return err
	}
	control, err := w.chart(ctx, w.source+"/manifests/charts/istio-control/istio-discovery", "istiod", "istio-system", "")
	if err != nil {
		return err
	}
	mesh := namespaceOf("plain") + "apiVersion: v1\nkind: Namespace\nmetadata: {name: mesh, labels: {istio-injection: enabled}}\n---\n"
	if err := w.install(ctx, "istio-system", namespaceOf("istio-system")+mesh+base+"\n---\n"+control); err != nil {
		return err
	}
	return w.available(ctx, "istio-system")
}

func istioInjected(ctx context.Context, w *world) error {
	for name, kind := range map[string]string{"istio-validator-istio-system": "Validating", "istiod-default-validator": "Validating", "istio-sidecar-injector": "Mutating"} {
		if err := w.until(ctx, key{"admissionregistration.k8s.io/v1", kind + "WebhookConfiguration", name}, hasAuthority); err != nil {
			return err
		}
	}
	return nil
}

func istioRoot(ctx context.Context, w *world) error {
	_, err := w.root(ctx)
	return err
}

// root is the authority of the mesh, as workloads find it.
func (w *world) root(ctx context.Context) (pool *x509.CertPool, err error) {
	err = w.eventually(ctx, "the root certificate", func(ctx context.Context) error {
		m, err := w.kube.CoreV1().ConfigMaps("mesh").Get(ctx, "istio-ca-root-cert", metav1.GetOptions{})
		if err != nil {
			return err
		}
		pool = x509.NewCertPool()
		if !pool.AppendCertsFromPEM([]byte(m.Data["root-cert.pem"])) {
			return errors.New("it has none")
		}
		return nil
	})
	return pool, err
}

// pod creates a pod with a container.
func (w *world) pod(ctx context.Context, namespace, name string, labels map[string]string) (*corev1.Pod, error) {
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "web", Ports: []corev1.ContainerPort{{ContainerPort: 80}}}}}}
	p.Name, p.Labels = name, labels
	return w.kube.CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{})
}

func hasSidecar(p *corev1.Pod) bool {
	for _, c := range append(append([]corev1.Container{}, p.Spec.InitContainers...), p.Spec.Containers...) {
		if c.Name == "istio-proxy" {
			return true
		}
	}
	return false
}

func sidecarInjected(ctx context.Context, w *world) error {
	p, err := w.pod(ctx, "mesh", "web", map[string]string{"app": "web"})
	if err != nil {
		return err
	}
	if !hasSidecar(p) || p.Annotations["sidecar.istio.io/status"] == "" {
		return fmt.Errorf("its containers are %d, its annotations %v", len(p.Spec.Containers), p.Annotations)
	}
	return nil
}

func sidecarLeftOut(ctx context.Context, w *world) error {
	for namespace, labels := range map[string]map[string]string{"mesh": {"sidecar.istio.io/inject": "false"}, "plain": nil} {
		p, err := w.pod(ctx, namespace, "alone", labels)
		if err != nil {
			return err
		}
		if hasSidecar(p) {
			return fmt.Errorf("the pod in %s has a sidecar", namespace)
		}
	}
	return nil
}

func virtualServiceRefused(ctx context.Context, w *world) error {
	// istiod first lets everything pass, until it has seen that its webhook answers.
	return w.eventually(ctx, "refusal", func(ctx context.Context) error {
		return w.refused(ctx, "mesh", "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: bad}\nspec: {hosts: [web]}", "http, tcp or tls must be provided")
	})
}

func filterRefused(ctx context.Context, w *world) error {
	return w.eventually(ctx, "refusal", func(ctx context.Context) error {
		return w.refused(ctx, "mesh", "apiVersion: networking.istio.io/v1alpha3\nkind: EnvoyFilter\nmetadata: {name: own}\nspec: {}", "stable-channel-")
	})
}

const meshService = "apiVersion: v1\nkind: Service\nmetadata: {name: %s}\nspec: {selector: {app: %s}, ports: [{name: http, port: 80, targetPort: 80}]}"

// istiod is the address of istiod.
func (w *world) istiod(ctx context.Context, port string) (string, error) {
	addresses, err := endpoints(ctx, w.kube, "istiod", "istio-system")
	if err != nil || len(addresses) == 0 {
		return "", errors.Join(err, errors.New("istiod has no address"))
	}
	return net.JoinHostPort(addresses[0].String(), port), nil
}

// pushed waits for a push with a resource that has a text. Meanwhile it does something.
func (w *world) pushed(ctx context.Context, kind string, names []string, text string, meanwhile func() error) error {
	address, err := w.istiod(ctx, "15010")
	if err != nil {
		return err
	}
	conn, err := dial(address, insecure.NewCredentials())
	if err != nil {
		return err
	}
	defer conn.Close()
	d, err := discover(ctx, conn, "sidecar~10.210.0.250~proxy.mesh~mesh.svc.cluster.local", kind, names...)
	if err != nil {
		return err
	}
	for first := true; ; first = false {
		resources, err := d.next()
		if err != nil {
			return fmt.Errorf("waiting for %s: %w", text, err)
		}
		for _, r := range resources {
			if bytes.Contains(r, []byte(text)) {
				if first && meanwhile != nil {
					return errors.New("it was there before")
				}
				return nil
			}
		}
		if first && meanwhile != nil {
			if err := meanwhile(); err != nil {
				return err
			}
		}
	}
}

const clusterKind = "envoy.config.cluster.v3.Cluster"

func clusterPushed(ctx context.Context, w *world) error {
	if err := w.apply(ctx, "mesh", fmt.Sprintf(meshService, "web", "web")); err != nil {
		return err
	}
	return w.pushed(ctx, clusterKind, nil, "outbound|80||web.mesh.svc.cluster.local", nil)
}

func newServicePushed(ctx context.Context, w *world) error {
	return w.pushed(ctx, clusterKind, nil, "outbound|80||newer.mesh.svc.cluster.local", func() error {
		return w.apply(ctx, "mesh", fmt.Sprintf(meshService, "newer", "newer"))
	})
}

func endpointsPushed(ctx context.Context, w *world) error {
	ip := ""
	if err := w.eventually(ctx, "the pod's address", func(ctx context.Context) error {
		addresses, err := endpoints(ctx, w.kube, "web", "mesh")
		if err != nil || len(addresses) == 0 {
			return errors.Join(err, errors.New("there is none"))
		}
		ip = addresses[0].String()
		return nil
	}); err != nil {
		return err
	}
	return w.pushed(ctx, "envoy.config.endpoint.v3.ClusterLoadAssignment", []string{"outbound|80||web.mesh.svc.cluster.local"}, ip, nil)
}

// workloadSigned asks for a certificate as a proxy does. istiod asks the server whose token it is.
func workloadSigned(ctx context.Context, w *world) error {
	roots, err := w.root(ctx)
	if err != nil {
		return err
	}
	token, err := w.kube.CoreV1().ServiceAccounts("mesh").CreateToken(ctx, "default", &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"istio-ca"}}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	address, err := w.istiod(ctx, "15012")
	if err != nil {
		return err
	}
	conn, err := dial(address, credentials.NewClientTLSFromCert(roots, "istiod.istio-system.svc"))
	if err != nil {
		return err
	}
	defer conn.Close()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, private)
	if err != nil {
		return err
	}
	ask := appendField(nil, 1, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
	const method = "/istio.v1.auth.IstioCertificateService/CreateCertificate"
	var answer []byte
	if err := conn.Invoke(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer nonsense"), method, &ask, &answer); err == nil {
		return errors.New("nonsense is taken for a token")
	}
	if err := conn.Invoke(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token.Status.Token), method, &ask, &answer); err != nil {
		return err
	}
	chain, err := fields(answer, 1)
	if err != nil || len(chain) == 0 {
		return errors.Join(err, errors.New("there is no certificate"))
	}
	block, _ := pem.Decode(chain[0])
	if block == nil {
		return fmt.Errorf("it is no certificate: %s", chain[0])
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return err
	}
	if _, err := certificate.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		return err
	}
	if len(certificate.URIs) != 1 || certificate.URIs[0].String() != "spiffe://cluster.local/ns/mesh/sa/default" {
		return fmt.Errorf("it is of %v", certificate.URIs)
	}
	return nil
}
