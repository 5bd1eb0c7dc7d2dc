package authn

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

const issuer = "https://kubernetes.default.svc"

// request asks for a token of the default account.
func request(t *testing.T, c *kubernetes.Clientset, spec authenticationv1.TokenRequestSpec) string {
	t.Helper()
	r, err := c.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Status.Token
}

func started(t *testing.T, options ...kanzentest.Option) (*kanzentest.Server, *kubernetes.Clientset) {
	t.Helper()
	s := kanzentest.Start(t, options...)
	c := kubernetes.NewForConfigOrDie(s.Config())
	within(t, 10*time.Second, "there is a default account", func() bool {
		_, err := c.CoreV1().ServiceAccounts("default").Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil
	})
	return s, c
}

// TestOthersVerifyTokens verifies a token with what the server publishes and a
// library that it does not use.
func TestOthersVerifyTokens(t *testing.T) {
	_, c := started(t)
	token := request(t, c, authenticationv1.TokenRequestSpec{Audiences: []string{"vault"}})
	var metadata struct {
		Issuer     string
		JWKSURI    string   `json:"jwks_uri"`
		Algorithms []string `json:"id_token_signing_alg_values_supported"`
	}
	get := func(path string, into any) {
		t.Helper()
		data, err := c.RESTClient().Get().AbsPath(path).SetHeader("Accept", "*/*").DoRaw(t.Context())
		if err == nil {
			err = json.Unmarshal(data, into)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	get("/.well-known/openid-configuration", &metadata)
	var keys jose.JSONWebKeySet
	get("/openid/v1/jwks", &keys)
	parsed, err := jwt.Parse(token, func(k *jwt.Token) (any, error) {
		found := keys.Key(fmt.Sprint(k.Header["kid"]))
		if len(found) != 1 {
			return nil, fmt.Errorf("%d keys of ID %v", len(found), k.Header["kid"])
		}
		return found[0].Key, nil
	}, jwt.WithIssuer(issuer), jwt.WithAudience("vault"), jwt.WithValidMethods(metadata.Algorithms), jwt.WithExpirationRequired(), jwt.WithIssuedAt())
	if err != nil {
		t.Fatal(err)
	}
	subject, err := parsed.Claims.GetSubject()
	if err != nil || subject != "system:serviceaccount:default:default" || metadata.Issuer != issuer {
		t.Errorf("subject %q of %q, %v", subject, metadata.Issuer, err)
	}
}

func TestBoundTokens(t *testing.T) {
	s, c := started(t)
	ctx := t.Context()
	known := func(token string) bool { _, err := whoami(ctx, with(s, token)); return err == nil }
	pod, err := c.CoreV1().Pods("default").Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	secret, err := c.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node, err := c.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	bound := func(kind string, o metav1.Object) string {
		return request(t, c, authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: kind, Name: o.GetName(), UID: o.GetUID()}})
	}
	byPod, bySecret, byNode, free := bound("Pod", pod), bound("Secret", secret), bound("Node", node), request(t, c, authenticationv1.TokenRequestSpec{})
	elsewhere := request(t, c, authenticationv1.TokenRequestSpec{Audiences: []string{"vault"}})
	if !known(byPod) || !known(bySecret) || !known(byNode) || !known(free) || known(elsewhere) {
		t.Fatal("tokens are not good to begin with, or one for another audience is")
	}
	u, err := whoami(ctx, with(s, byPod))
	if err != nil || u.Extra["authentication.kubernetes.io/pod-uid"][0] != string(pod.UID) || !slices.Contains(u.Groups, "system:serviceaccounts:default") {
		t.Errorf("%+v, %v", u, err)
	}
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	if err := c.CoreV1().Pods("default").Delete(ctx, "p", now); err != nil {
		t.Fatal(err)
	}
	if err := c.CoreV1().Secrets("default").Delete(ctx, "s", now); err != nil {
		t.Fatal(err)
	}
	if err := c.CoreV1().Nodes().Delete(ctx, "n", now); err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{"pod": byPod, "secret": bySecret, "node": byNode} {
		within(t, 10*time.Second, "the token of the deleted "+name+" is refused", func() bool { return !known(token) })
	}
	if !known(free) {
		t.Error("the token that is bound to nothing ended too")
	}
	// A pod of the same name is another pod.
	pod.ResourceVersion, pod.UID = "", ""
	if _, err := c.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if known(byPod) {
		t.Error("the token of a deleted pod is good for another of its name")
	}
	if err := c.CoreV1().ServiceAccounts("default").Delete(ctx, "default", now); err != nil {
		t.Fatal(err)
	}
	within(t, 10*time.Second, "the token of the deleted account is refused", func() bool { return !known(free) })
}

// TestForgedTokens signs with what attackers have.
func TestForgedTokens(t *testing.T) {
	s, c := started(t)
	good := request(t, c, authenticationv1.TokenRequestSpec{})
	parsed, _, err := jwt.NewParser().ParseUnverified(good, jwt.MapClaims{})
	if err != nil {
		t.Fatal(err)
	}
	claims := parsed.Claims.(jwt.MapClaims)
	var keys json.RawMessage
	if keys, err = c.RESTClient().Get().AbsPath("/openid/v1/jwks").SetHeader("Accept", "*/*").DoRaw(t.Context()); err != nil {
		t.Fatal(err)
	}
	with1 := func(name string, value any) jwt.MapClaims {
		out := jwt.MapClaims{}
		for k, v := range claims {
			out[k] = v
		}
		out[name] = value
		return out
	}
	forged := map[string]string{}
	sign := func(name string, method jwt.SigningMethod, key any, claims jwt.Claims) {
		token := jwt.NewWithClaims(method, claims)
		token.Header["kid"] = parsed.Header["kid"]
		text, err := token.SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		forged[name] = text
	}
	sign("alg none", jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, claims)
	sign("HS256 with the published keys", jwt.SigningMethodHS256, []byte(keys), claims)
	sign("another issuer", jwt.SigningMethodHS256, []byte("x"), with1("iss", "https://elsewhere"))
	sign("the issuer of secrets", jwt.SigningMethodHS256, []byte("x"), with1("iss", "kubernetes/serviceaccount"))
	sign("another subject", jwt.SigningMethodHS256, []byte("x"), with1("sub", "system:serviceaccount:kube-system:default"))
	for name, token := range forged {
		if _, err := whoami(t.Context(), with(s, token)); !apierrors.IsUnauthorized(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := whoami(t.Context(), with(s, good)); err != nil {
		t.Errorf("the good one: %v", err)
	}
}

// TestInCluster is a pod's program, which finds the server and its token
// where kubelets put them.
func TestInCluster(t *testing.T) {
	const dir = "/var/run/secrets/kubernetes.io/serviceaccount"
	if _, err := os.Stat("/var/run/secrets/kubernetes.io"); err == nil {
		t.Skip("this is a pod already")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Skipf("cannot act as a pod: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll("/var/run/secrets/kubernetes.io") })
	s, c := started(t, kanzentest.Listen())
	ca, err := os.ReadFile(s.SocketConfig().CAFile)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"token": []byte(request(t, c, authenticationv1.TokenRequestSpec{})), "ca.crt": ca, "namespace": []byte("default")} {
		if err := os.WriteFile(dir+"/"+name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	host, port := "127.0.0.1", s.Address()[len("127.0.0.1:"):]
	t.Setenv("KUBERNETES_SERVICE_HOST", host)
	t.Setenv("KUBERNETES_SERVICE_PORT", port)
	config, err := rest.InClusterConfig()
	if err != nil {
		t.Fatal(err)
	}
	u, err := whoami(t.Context(), kubernetes.NewForConfigOrDie(config))
	if err != nil || u.Username != "system:serviceaccount:default:default" {
		t.Errorf("%+v, %v", u, err)
	}
}
