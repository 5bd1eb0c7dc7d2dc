package controllers

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/base/queue"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// clusterInfo is the ConfigMap from which nodes that join learn the cluster's authority. Whoever knows a bootstrap token
// can verify it by its signature.
const clusterInfo = metav1.NamespacePublic + "/cluster-info"

// signaturePrefix is followed by the ID of a token in the keys of that ConfigMap.
const signaturePrefix = "jws-kubeconfig-"

// runBootstrapSigner signs the kubeconfig in the ConfigMap cluster-info with each bootstrap token that may sign. It
// follows secrets only once there is such a ConfigMap.
func runBootstrapSigner(ctx context.Context, c Config, cl *inprocess.Client) {
	ep := c.endpoint(corev1.Resource("configmaps"))
	k := &bootstrapSigner{Config: c, client: cl, endpoint: ep, maps: engine.IndexOf[*corev1.ConfigMap](ep),
		secrets: engine.IndexOf[*corev1.Secret](c.endpoint(corev1.Resource("secrets"))), found: make(chan struct{}, 1)}
	c.work(ctx, "bootstrap_signer_queue", k.look,
		follow(k.maps, func(c store.Change[*corev1.ConfigMap]) (string, bool) { return c.Key, c.Key == clusterInfo }),
		whenNeeded(k.found, func(ctx context.Context, q *queue.Queue, caught func(int64)) {
			k.secrets.Follow(ctx, func(c store.Change[*corev1.Secret]) {
				was, _ := c.Was(ctx)
				if isBootstrapToken(c.Now) || isBootstrapToken(was) {
					q.Add(clusterInfo)
				}
			}, caught)
		}, func(_ context.Context, q *queue.Queue) { q.Add(clusterInfo) }))
}

func isBootstrapToken(s *corev1.Secret) bool {
	return s != nil && s.Namespace == metav1.NamespaceSystem && s.Type == corev1.SecretTypeBootstrapToken
}

type bootstrapSigner struct {
	Config
	client   *inprocess.Client
	endpoint *engine.Endpoint
	maps     *store.Index[*corev1.ConfigMap]
	secrets  *store.Index[*corev1.Secret]
	found    chan struct{} // there is something to sign
}

// look replaces the signatures if they are not those of the current tokens. It returns when the first token expires.
func (k *bootstrapSigner) look(ctx context.Context, _ string) (again time.Duration, err error) {
	m, ok, err := get(ctx, k.maps, clusterInfo)
	if !ok {
		return 0, err
	}
	content, ok := m.Data["kubeconfig"]
	if !ok {
		return 0, nil
	}
	need(k.found)
	secrets, err := k.secrets.Objects(ctx, metav1.NamespaceSystem+"/")
	if err != nil {
		return 0, err
	}
	want := maps.Clone(m.Data)
	maps.DeleteFunc(want, func(key, _ string) bool { return strings.HasPrefix(key, signaturePrefix) })
	for _, s := range secrets {
		id, token, left, ok := k.signingToken(s)
		if !ok {
			continue
		}
		if want[signaturePrefix+id], err = detachedSignature(content, id, token); err != nil {
			return 0, err
		}
		if left > 0 && (again == 0 || left < again) {
			again = left
		}
	}
	if maps.Equal(want, m.Data) {
		return again, nil
	}
	m = m.DeepCopy()
	m.Data = want
	_, err = k.client.Update(ctx, at(k.endpoint, ""), request.Unchanged(m), m)
	return again, ignoreMissing(err)
}

// signingToken returns the token in a secret, and how long it is still valid (0: forever); ok is false if it may not sign.
func (k *bootstrapSigner) signingToken(s *corev1.Secret) (id, token string, left time.Duration, ok bool) {
	id, token = string(s.Data["token-id"]), string(s.Data["token-secret"])
	if !isBootstrapToken(s) || s.DeletionTimestamp != nil || id == "" || token == "" || s.Name != "bootstrap-token-"+id ||
		string(s.Data["usage-bootstrap-signing"]) != "true" {
		return "", "", 0, false
	}
	expiration := string(s.Data["expiration"])
	if expiration == "" {
		return id, token, 0, true
	}
	end, err := time.Parse(time.RFC3339, expiration)
	left = end.Sub(k.Clock.Now())
	return id, token, left, err == nil && left > 0
}

// detachedSignature signs content with a token: a JWS without its content (RFC 7515, appendix F). Tokens are shorter than
// go-jose allows for a key of HS256.
func detachedSignature(content, id, token string) (string, error) {
	head, err := json.Marshal(map[string]string{"alg": "HS256", "kid": id})
	if err != nil {
		return "", fmt.Errorf("sign with the bootstrap token %s: %w", id, err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte(encode(head) + "." + encode([]byte(content))))
	return encode(head) + ".." + encode(mac.Sum(nil)), nil
}
