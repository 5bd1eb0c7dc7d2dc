package serviceaccount

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kanzen-io/kanzen/internal/request"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const issuer = "https://kubernetes.default.svc"

// objects are stored by "kind namespace/name".
type objects map[string]metav1.Object

func find[T metav1.Object](o objects, kind, namespace, name string) (T, error) {
	obj, ok := o[kind+" "+namespace+"/"+name]
	if !ok {
		var none T
		return none, apierrors.NewNotFound(schema.GroupResource{Resource: kind}, name)
	}
	return obj.(T), nil
}

func (o objects) Referent(_ context.Context, resource schema.GroupResource, namespace, name string) (Referent, error) {
	obj, err := find[metav1.Object](o, resource.Resource, namespace, name)
	if err != nil {
		return Referent{}, err
	}
	r := Referent{UID: obj.GetUID()}
	if d := obj.GetDeletionTimestamp(); d != nil {
		r.Deleted = d.Time
	}
	return r, nil
}

func (o objects) ServiceAccount(_ context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
	return find[*corev1.ServiceAccount](o, "serviceaccounts", namespace, name)
}

func (o objects) Pod(_ context.Context, namespace, name string) (*corev1.Pod, error) {
	return find[*corev1.Pod](o, "pods", namespace, name)
}

func (o objects) Secret(_ context.Context, namespace, name string) (*corev1.Secret, error) {
	return find[*corev1.Secret](o, "secrets", namespace, name)
}

func (o objects) Node(_ context.Context, name string) (*corev1.Node, error) {
	return find[*corev1.Node](o, "nodes", "", name)
}

func (o objects) ValidatingWebhooks(_ context.Context, name string) (*admissionregistrationv1.ValidatingWebhookConfiguration, error) {
	return find[*admissionregistrationv1.ValidatingWebhookConfiguration](o, "validatingwebhookconfigurations", "", name)
}

func (o objects) MutatingWebhooks(_ context.Context, name string) (*admissionregistrationv1.MutatingWebhookConfiguration, error) {
	return find[*admissionregistrationv1.MutatingWebhookConfiguration](o, "mutatingwebhookconfigurations", "", name)
}

func meta(namespace, name, uid string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid)}
}

func world() objects {
	return objects{
		"serviceaccounts ns/sa": &corev1.ServiceAccount{ObjectMeta: meta("ns", "sa", "sa-uid")},
		"secrets ns/secret":     &corev1.Secret{ObjectMeta: meta("ns", "secret", "secret-uid")},
		"nodes /node":           &corev1.Node{ObjectMeta: meta("", "node", "node-uid")},
		"pods ns/pod": &corev1.Pod{
			ObjectMeta: meta("ns", "pod", "pod-uid"),
			Spec:       corev1.PodSpec{ServiceAccountName: "sa", NodeName: "node"},
		},
		"pods ns/far": &corev1.Pod{
			ObjectMeta: meta("ns", "far", "far-uid"),
			Spec:       corev1.PodSpec{ServiceAccountName: "sa", NodeName: "unregistered"},
		},
		"pods ns/other": &corev1.Pod{ObjectMeta: meta("ns", "other", "o"), Spec: corev1.PodSpec{ServiceAccountName: "x"}},
	}
}

func newTestKey(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

type fixture struct {
	objects  objects
	clock    *clocktesting.FakePassiveClock
	issuer   *TokenIssuer
	verifier *Verifier
	keys     *Keys
}

func newFixture(t testing.TB, key crypto.Signer) *fixture {
	t.Helper()
	signer, err := NewSigner(issuer, key)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := NewKeys(key)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{objects: world(), clock: clocktesting.NewFakePassiveClock(now), keys: keys}
	f.issuer = &TokenIssuer{
		Signer: signer, Objects: f.objects, Clock: f.clock, Audiences: []string{issuer}, Extend: true,
		NewID: func() string { return "id" },
	}
	f.verifier = NewVerifier([]string{issuer}, keys, f.objects, f.clock)
	return f
}

func (f *fixture) token(t testing.TB, spec authenticationv1.TokenRequestSpec) string {
	t.Helper()
	out, err := f.issuer.Create(t.Context(), "ns", "sa", &authenticationv1.TokenRequest{Spec: spec}, admitted)
	if err != nil {
		t.Fatal(err)
	}
	return out.Status.Token
}

func boundTokenSpec(kind, name, uid string) authenticationv1.TokenRequestSpec {
	return authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{
		APIVersion: "v1", Kind: kind, Name: name, UID: types.UID(uid),
	}}
}

func TestVerify(t *testing.T) {
	base := Identity{Namespace: "ns", Name: "sa", UID: "sa-uid", TokenID: "id"}
	with := func(change func(*Identity)) Identity { i := base; change(&i); return i }
	deleted := func(kind string, ago time.Duration) func(*fixture) {
		return func(f *fixture) {
			f.objects[kind].SetDeletionTimestamp(&metav1.Time{Time: now.Add(-ago)})
		}
	}
	for _, c := range []struct {
		name string
		spec authenticationv1.TokenRequestSpec
		then func(*fixture)
		want Identity
		err  string
	}{
		{name: "unbound", want: base},
		{name: "pod", spec: boundTokenSpec("Pod", "pod", "pod-uid"), want: with(func(i *Identity) {
			i.PodName, i.PodUID, i.NodeName, i.NodeUID = "pod", "pod-uid", "node", "node-uid"
		})},
		{name: "pod on an unregistered node", spec: boundTokenSpec("Pod", "far", ""), want: with(func(i *Identity) {
			i.PodName, i.PodUID, i.NodeName = "far", "far-uid", "unregistered"
		})},
		{name: "node", spec: boundTokenSpec("Node", "node", ""), want: with(func(i *Identity) {
			i.NodeName, i.NodeUID = "node", "node-uid"
		})},
		{name: "secret", spec: boundTokenSpec("Secret", "secret", ""), want: base},
		{name: "account deleted a moment ago", then: deleted("serviceaccounts ns/sa", time.Second), want: base},

		{name: "account deleted", then: deleted("serviceaccounts ns/sa", time.Hour), err: "invalidated"},
		{name: "account gone", then: func(f *fixture) { delete(f.objects, "serviceaccounts ns/sa") }, err: "not found"},
		{name: "account replaced", then: func(f *fixture) { f.objects["serviceaccounts ns/sa"].SetUID("new") }, err: "UID"},
		{name: "pod gone", spec: boundTokenSpec("Pod", "pod", ""), then: func(f *fixture) { delete(f.objects, "pods ns/pod") }, err: "invalidated"},
		{name: "pod replaced", spec: boundTokenSpec("Pod", "pod", ""), then: func(f *fixture) { f.objects["pods ns/pod"].SetUID("new") }, err: "UID"},
		{name: "pod deleted", spec: boundTokenSpec("Pod", "pod", ""), then: deleted("pods ns/pod", time.Hour), err: "invalidated"},
		{name: "node gone", spec: boundTokenSpec("Node", "node", ""), then: func(f *fixture) { delete(f.objects, "nodes /node") }, err: "invalidated"},
		{name: "secret gone", spec: boundTokenSpec("Secret", "secret", ""), then: func(f *fixture) { delete(f.objects, "secrets ns/secret") }, err: "invalidated"},
		{name: "expired", then: func(f *fixture) { f.clock.SetTime(now.Add(2 * time.Hour)) }, err: "expired"},
		{name: "not yet", then: func(f *fixture) { f.clock.SetTime(now.Add(-2 * time.Hour)) }, err: "not valid yet"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, newTestKey(t))
			token := f.token(t, c.spec)
			// Twice: only the signature may be remembered.
			if c.then != nil && c.err != "" {
				if _, _, err := f.verifier.Verify(t.Context(), token); err != nil {
					t.Fatal(err)
				}
			}
			if c.then != nil {
				c.then(f)
			}
			got, audiences, err := f.verifier.Verify(t.Context(), token)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want %q", err, c.err)
				}
				return
			}
			if v := got.Valid; err == nil && (v == nil || v.Until.Before(now)) {
				t.Errorf("valid: %+v", v)
			}
			got.Valid = nil
			if err != nil || !reflect.DeepEqual(got, c.want) || !reflect.DeepEqual(audiences, []string{issuer}) {
				t.Errorf("got %+v for %q, %v; want %+v", got, audiences, err, c.want)
			}
		})
	}
}

func TestVerifySignatures(t *testing.T) {
	good, other := newTestKey(t), newTestKey(t)
	f := newFixture(t, good)
	token := f.token(t, authenticationv1.TokenRequestSpec{})
	parts := strings.Split(token, ".")
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := NewSigner("https://elsewhere", good)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, err := foreign.sign(t.Context(), jwt.Claims{}, privateClaims{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, token string
		notOurs     bool
	}{
		{"empty", "", true},
		{"opaque", "abcdef.0123456789abcdef", true},
		{"other issuer", elsewhere, true},
		{"no signature", parts[0] + "." + parts[1] + ".", false},
		{"other key", newFixture(t, other).token(t, authenticationv1.TokenRequestSpec{}), false},
		{"other kind of key", newFixture(t, rsaKey).token(t, authenticationv1.TokenRequestSpec{}), false},
		{"algorithm none", "eyJhbGciOiJub25lIn0." + parts[1] + ".", true},
	} {
		_, _, err := f.verifier.Verify(t.Context(), c.token)
		if err == nil || errors.Is(err, ErrNotOurs) != c.notOurs {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for name, key := range map[string]crypto.Signer{"RSA": rsaKey, "ECDSA": good} {
		f := newFixture(t, key)
		if _, _, err := f.verifier.Verify(t.Context(), f.token(t, authenticationv1.TokenRequestSpec{})); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTokenClaims(t *testing.T) {
	f := newFixture(t, newTestKey(t))
	life := int64(podLife)
	spec := boundTokenSpec("Pod", "pod", "pod-uid")
	spec.ExpirationSeconds = &life
	parsed, err := jwt.ParseSigned(f.token(t, spec), algorithms)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := parsed.UnsafeClaimsWithoutVerification(&got); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"aud":["https://kubernetes.default.svc"],"exp":1798859045,"iat":1767323045,"iss":"https://kubernetes.default.svc","jti":"id",` +
		`"kubernetes.io":{"namespace":"ns","node":{"name":"node","uid":"node-uid"},"pod":{"name":"pod","uid":"pod-uid"},` +
		`"serviceaccount":{"name":"sa","uid":"sa-uid"},"warnafter":1767326652},"nbf":1767323045,"sub":"system:serviceaccount:ns:sa"}`
	if string(data) != want {
		t.Errorf("claims\n%s\nwant\n%s", data, want)
	}
}

func TestCreateRefuses(t *testing.T) {
	short, long := int64(10), int64(1<<33)
	request := func(change func(*authenticationv1.TokenRequest)) *authenticationv1.TokenRequest {
		r := &authenticationv1.TokenRequest{}
		change(r)
		return r
	}
	webhook := &authenticationv1.BoundObjectReference{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingWebhookConfiguration", Name: "w"}
	attested := func(to *authenticationv1.BoundObjectReference, groups ...string) *authenticationv1.TokenRequest {
		return request(func(r *authenticationv1.TokenRequest) {
			r.Spec.Audiences, r.Spec.BoundObjectRef = []string{"hook"}, to
			if len(groups) > 0 {
				r.Spec.Attestations = map[string]authenticationv1.AttestationValue{attestedGroups: groups}
			}
		})
	}
	for _, c := range []struct {
		name, account string
		request       *authenticationv1.TokenRequest
		reason        metav1.StatusReason
		field         string
	}{
		{"no account", "none", request(func(*authenticationv1.TokenRequest) {}), metav1.StatusReasonNotFound, ""},
		{"other name", "sa", request(func(r *authenticationv1.TokenRequest) { r.Name = "x" }), metav1.StatusReasonInvalid, "metadata.name"},
		{"other namespace", "sa", request(func(r *authenticationv1.TokenRequest) { r.Namespace = "x" }), metav1.StatusReasonInvalid, "metadata.namespace"},
		{"other uid", "sa", request(func(r *authenticationv1.TokenRequest) { r.UID = "x" }), metav1.StatusReasonConflict, ""},
		{"short", "sa", request(func(r *authenticationv1.TokenRequest) { r.Spec.ExpirationSeconds = &short }), metav1.StatusReasonInvalid, "spec.expirationSeconds"},
		{"long", "sa", request(func(r *authenticationv1.TokenRequest) { r.Spec.ExpirationSeconds = &long }), metav1.StatusReasonInvalid, "spec.expirationSeconds"},
		{"no pod", "sa", &authenticationv1.TokenRequest{Spec: boundTokenSpec("Pod", "none", "")}, metav1.StatusReasonNotFound, ""},
		{"another's pod", "sa", &authenticationv1.TokenRequest{Spec: boundTokenSpec("Pod", "other", "")}, metav1.StatusReasonBadRequest, ""},
		{"pod of another time", "sa", &authenticationv1.TokenRequest{Spec: boundTokenSpec("Pod", "pod", "old")}, metav1.StatusReasonConflict, ""},
		{"config map", "sa", &authenticationv1.TokenRequest{Spec: boundTokenSpec("ConfigMap", "x", "")}, metav1.StatusReasonBadRequest, ""},
		{"attestation of nothing", "sa", attested(nil, "apps"), metav1.StatusReasonInvalid, "spec.attestations"},
		{"for a webhook without one", "sa", attested(webhook), metav1.StatusReasonInvalid, "spec.attestations"},
		{"of two groups", "sa", attested(webhook, "apps", "batch"), metav1.StatusReasonInvalid, "spec.attestations[admissionReviewAPIGroups]"},
		{"of no group", "sa", attested(webhook, ""), metav1.StatusReasonInvalid, "spec.attestations[admissionReviewAPIGroups][0]"},
		{"of a group that is none", "sa", attested(webhook, "a/b"), metav1.StatusReasonInvalid, "spec.attestations[admissionReviewAPIGroups][0]"},
		{"for a webhook", "sa", attested(webhook, "*"), metav1.StatusReasonBadRequest, ""},
	} {
		_, err := newFixture(t, newTestKey(t)).issuer.Create(t.Context(), "ns", c.account, c.request, admitted)
		if got := apierrors.ReasonForError(err); got != c.reason {
			t.Errorf("%s: %q (%v), want %q", c.name, got, err, c.reason)
		}
		var status apierrors.APIStatus
		if c.field != "" && (!errors.As(err, &status) || status.Status().Details.Causes[0].Field != c.field) {
			t.Errorf("%s: %v, want a cause at %s", c.name, err, c.field)
		}
	}
}

// TestOtherUID requests a token of an account that has another UID, with the check and without.
func TestOtherUID(t *testing.T) {
	for _, c := range []struct {
		any              bool
		uid, want        types.UID
		reason           metav1.StatusReason
		warned, recorded string
	}{
		{uid: "", want: "sa-uid"},
		{uid: "x", reason: metav1.StatusReasonConflict},
		{any: true, uid: "", want: "sa-uid"},
		{any: true, uid: "sa-uid", want: "sa-uid"},
		{any: true, uid: "x", want: "x",
			warned:   "the UID in the token request (x) does not match the UID of the service account (sa-uid) but TokenRequestServiceAccountUIDValidation is not enabled. In the future, this will return a conflict error",
			recorded: "the UID in the token request (x) does not match the UID of the service account (sa-uid)"},
	} {
		f := newFixture(t, newTestKey(t))
		f.issuer.AnyUID = c.any
		ctx, warnings := request.WithWarnings(t.Context())
		audit := request.NewAudit("", request.AuditMetadata)
		r := &authenticationv1.TokenRequest{}
		r.UID = c.uid
		out, err := f.issuer.Create(request.WithAudit(ctx, audit), "ns", "sa", r, admitted)
		if apierrors.ReasonForError(err) != c.reason || err == nil && out.UID != c.want {
			t.Errorf("%+v: %v, %v", c, out, err)
		}
		recorded := ""
		for _, a := range audit.Facts().Annotations {
			if a.Key == "authentication.k8s.io/token-request-uid-mismatch" {
				recorded = a.Value
			}
		}
		if got := strings.Join(warnings.Take(), " "); got != c.warned || recorded != c.recorded {
			t.Errorf("%+v: warned %q, recorded %q", c, got, recorded)
		}
		if err != nil {
			continue
		}
		if id, _, err := f.verifier.Verify(t.Context(), out.Status.Token); err != nil || id.UID != "sa-uid" {
			t.Errorf("%+v: the token is of %+v, %v", c, id, err)
		}
	}
}

func TestMaxLife(t *testing.T) {
	f := newFixture(t, newTestKey(t))
	f.issuer.MaxLife = 30 * time.Minute
	ctx, warnings := request.WithWarnings(t.Context())
	out, err := f.issuer.Create(ctx, "ns", "sa", &authenticationv1.TokenRequest{}, admitted)
	if err != nil {
		t.Fatal(err)
	}
	if got := *out.Spec.ExpirationSeconds; got != 1800 || !out.Status.ExpirationTimestamp.Time.Equal(now.Add(30*time.Minute)) {
		t.Errorf("lives %d seconds, until %s", got, out.Status.ExpirationTimestamp)
	}
	if got := warnings.Take(); len(got) != 1 {
		t.Errorf("warnings %q", got)
	}
}

func TestLegacy(t *testing.T) {
	key := newTestKey(t)
	signer, err := NewSigner(LegacyIssuer, key)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(account *corev1.ServiceAccount, secret *corev1.Secret)
		err    string
		marked bool
	}{
		{name: "good", marked: true},
		{name: "used today", change: func(_ *corev1.ServiceAccount, s *corev1.Secret) {
			s.Labels = map[string]string{LastUsedLabel: "2026-01-02"}
		}},
		{name: "used by a server ahead", change: func(_ *corev1.ServiceAccount, s *corev1.Secret) {
			s.Labels = map[string]string{LastUsedLabel: "2026-01-03"}
		}},
		{name: "other token", change: func(_ *corev1.ServiceAccount, s *corev1.Secret) { s.Data["token"] = []byte("x") }, err: "copy"},
		{name: "secret deleted", change: func(_ *corev1.ServiceAccount, s *corev1.Secret) { s.DeletionTimestamp = &metav1.Time{} }, err: "invalidated"},
		{name: "account deleted", change: func(a *corev1.ServiceAccount, _ *corev1.Secret) { a.DeletionTimestamp = &metav1.Time{} }, err: "deleted"},
		{name: "account replaced", change: func(a *corev1.ServiceAccount, _ *corev1.Secret) { a.UID = "new" }, err: "UID"},
		{name: "marked invalid", change: func(_ *corev1.ServiceAccount, s *corev1.Secret) {
			s.Labels = map[string]string{InvalidSinceLabel: "2026-01-01"}
		}, err: "invalid", marked: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, key)
			account := f.objects["serviceaccounts ns/sa"].(*corev1.ServiceAccount)
			secret := f.objects["secrets ns/secret"].(*corev1.Secret)
			token, err := signer.SignLegacy(account, "secret")
			if err != nil {
				t.Fatal(err)
			}
			secret.Data = map[string][]byte{"token": []byte(token)}
			if c.change != nil {
				c.change(account, secret)
			}
			v := NewLegacyVerifier(f.keys, f.objects, f.clock)
			marked := ""
			v.MarkUsed = func(_ context.Context, _ *corev1.Secret, day string) { marked = day }
			got, err := v.Verify(t.Context(), token)
			switch {
			case c.err == "" && (err != nil || !reflect.DeepEqual(got, Identity{Namespace: "ns", Name: "sa", UID: "sa-uid"})):
				t.Errorf("got %+v, %v", got, err)
			case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
				t.Errorf("error %v, want %q", err, c.err)
			case c.marked != (marked == "2026-01-02"):
				t.Errorf("marked %q", marked)
			}
		})
	}
}

func TestUser(t *testing.T) {
	u := Identity{Namespace: "ns", Name: "sa", UID: "u", PodName: "p", PodUID: "pu", NodeName: "n", NodeUID: "nu", TokenID: "t"}.User()
	if u.GetName() != "system:serviceaccount:ns:sa" || u.GetUID() != "u" ||
		!reflect.DeepEqual(u.GetGroups(), []string{"system:serviceaccounts", "system:serviceaccounts:ns"}) {
		t.Errorf("user %v", u)
	}
	want := map[string][]string{
		PodNameKey: {"p"}, PodUIDKey: {"pu"}, NodeNameKey: {"n"}, NodeUIDKey: {"nu"},
		"authentication.kubernetes.io/credential-id": {"JTI=t"},
	}
	if !reflect.DeepEqual(u.GetExtra(), want) {
		t.Errorf("extra %v", u.GetExtra())
	}
}

func TestSplitUsername(t *testing.T) {
	for username, ok := range map[string]bool{
		"system:serviceaccount:ns:sa": true, "system:serviceaccount:ns:a.b": true,
		"": false, "admin": false, "system:serviceaccount:ns": false, "system:serviceaccount:ns:": false,
		"system:serviceaccount::sa": false, "system:serviceaccount:ns:sa:x": false, "system:serviceaccount:NS:sa": false,
	} {
		namespace, name, err := SplitUsername(username)
		if (err == nil) != ok || ok && Username(namespace, name) != username {
			t.Errorf("%q: %q, %q, %v", username, namespace, name, err)
		}
	}
}

func TestDiscovery(t *testing.T) {
	f := newFixture(t, newTestKey(t))
	d, err := NewDiscovery(issuer, "", "192.0.2.1:6443", f.keys)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	if err := d.ServeConfiguration(w, httptest.NewRequest(http.MethodGet, ConfigurationPath, nil)); err != nil {
		t.Error(err)
	}
	if want := `{"issuer":"https://kubernetes.default.svc","jwks_uri":"https://192.0.2.1:6443/openid/v1/jwks","response_types_supported":["id_token"],` +
		`"subject_types_supported":["public"],"id_token_signing_alg_values_supported":["ES256"]}`; w.Body.String() != want {
		t.Errorf("configuration %s", w.Body)
	}
	w = httptest.NewRecorder()
	if err := d.ServeKeys(w, httptest.NewRequest(http.MethodGet, JWKSPath, nil)); err != nil {
		t.Error(err)
	}
	if w.Header().Get("Content-Type") != "application/jwk-set+json" || !strings.Contains(w.Body.String(), `"kid":"`+f.keys.all[0].KeyID+`"`) || strings.Contains(w.Body.String(), `"d":`) {
		t.Errorf("keys %s", w.Body)
	}
	for _, bad := range []string{"http://x", "https://x?y", "https://x#y", "kubernetes"} {
		if _, err := NewDiscovery(bad, "", "a", f.keys); err == nil {
			t.Errorf("issuer %q was accepted", bad)
		}
	}
}

func FuzzVerify(f *testing.F) {
	fix := newFixture(f, newTestKey(f))
	f.Add(fix.token(f, authenticationv1.TokenRequestSpec{}))
	f.Add("a.b.c")
	f.Add("eyJhbGciOiJub25lIn0.eyJpc3MiOiJodHRwczovL2t1YmVybmV0ZXMuZGVmYXVsdC5zdmMifQ.")
	fresh := newFixture(f, newTestKey(f))
	f.Fuzz(func(t *testing.T, token string) {
		// No unsigned input may be accepted.
		if _, _, err := fresh.verifier.Verify(t.Context(), token); err == nil {
			t.Errorf("accepted %q", token)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	f := newFixture(b, newTestKey(b))
	token := f.token(b, authenticationv1.TokenRequestSpec{})
	b.Run("known", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := f.verifier.Verify(b.Context(), token); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("new", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			f.verifier = NewVerifier([]string{issuer}, f.keys, f.objects, f.clock)
			if _, _, err := f.verifier.Verify(b.Context(), token); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// TestWebhookTokens refuses tokens that another server has bound to the configuration of a webhook, if the gate is off here.
func TestWebhookTokens(t *testing.T) {
	f := newFixture(t, newTestKey(t))
	account := boundClaims{Namespace: "ns", ServiceAccount: ref{Name: "sa", UID: "sa-uid"}}
	validating, mutating := account, account
	validating.ValidatingWebhook, mutating.MutatingWebhook = &ref{Name: "hook"}, &ref{Name: "hook"}
	for _, claims := range []boundClaims{validating, mutating} {
		token, err := f.issuer.sign(t.Context(), claims, []string{issuer}, "id", now, minLife)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := f.verifier.Verify(t.Context(), token); err == nil || !strings.Contains(err.Error(), "token is webhook bound") {
			t.Errorf("%+v: %v", claims, err)
		}
	}
}

// admitted is an admission that allows everything.
func admitted(context.Context, *authenticationv1.TokenRequest) error { return nil }
