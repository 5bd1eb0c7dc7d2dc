package controllers_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

func gone(err error) string {
	if apierrors.IsNotFound(err) {
		return ""
	}
	return fmt.Sprintf("it is still there: %v", err)
}

// Every namespace has the authority by which pods verify the server, even after users change
// it.
func TestRootCA(t *testing.T) {
	t.Parallel()
	k := kubernetes.NewForConfigOrDie(kanzentest.Start(t).Config())
	has := func() {
		t.Helper()
		await(t, func(ctx context.Context) string {
			m, err := k.CoreV1().ConfigMaps("default").Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			block, _ := pem.Decode([]byte(m.Data["ca.crt"]))
			if block == nil || len(m.Data) != 1 || !strings.HasPrefix(m.Annotations["kubernetes.io/description"], "Contains a CA bundle") {
				return fmt.Sprintf("%v %v", m.Data, m.Annotations)
			}
			cert, err := x509.ParseCertificate(block.Bytes)
			if err != nil || !cert.IsCA {
				return fmt.Sprintf("%v, no authority", err)
			}
			return ""
		})
	}
	has()
	must(t, k.CoreV1().ConfigMaps("default").Delete(t.Context(), "kube-root-ca.crt", metav1.DeleteOptions{}))
	has()
	_, err := k.CoreV1().ConfigMaps("default").Patch(t.Context(), "kube-root-ca.crt", types.MergePatchType, []byte(`{"data":{"ca.crt":"forged","more":"x"}}`), metav1.PatchOptions{})
	must(t, err)
	has()
}

// csr makes a request for a certificate, and returns its key.
func csr(t *testing.T, k kubernetes.Interface, name, signer string, subject pkix.Name, usages ...certificatesv1.KeyUsage) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: subject}, key)
	must(t, err)
	seconds := int32(1800)
	_, err = k.CertificatesV1().CertificateSigningRequests().Create(t.Context(), &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), SignerName: signer, Usages: usages, ExpirationSeconds: &seconds,
		},
	}, metav1.CreateOptions{})
	must(t, err)
	return key
}

func approve(t *testing.T, k kubernetes.Interface, name string) {
	t.Helper()
	requests := k.CertificatesV1().CertificateSigningRequests()
	r, err := requests.Get(t.Context(), name, metav1.GetOptions{})
	must(t, err)
	r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue})
	_, err = requests.UpdateApproval(t.Context(), name, r, metav1.UpdateOptions{})
	must(t, err)
}

// issued waits until a request is decided, and returns its certificate or the reason of its
// failure.
func issued(t *testing.T, k kubernetes.Interface, name string) (certificate []byte, failure string) {
	t.Helper()
	await(t, func(ctx context.Context) string {
		r, err := k.CertificatesV1().CertificateSigningRequests().Get(ctx, name, metav1.GetOptions{})
		must(t, err)
		certificate = r.Status.Certificate
		for _, c := range r.Status.Conditions {
			if c.Type == certificatesv1.CertificateFailed {
				failure = c.Reason + ": " + c.Message
			}
		}
		if certificate == nil && failure == "" {
			return fmt.Sprintf("%s is not decided: %v", name, r.Status.Conditions)
		}
		return ""
	})
	return certificate, failure
}

// An approved request gets a certificate that the server accepts, valid for as long as it
// asked; one that its signer refuses gets the reason.
func TestCertificates(t *testing.T) {
	t.Parallel()
	s := kanzentest.Start(t, kanzentest.Listen())
	k := kubernetes.NewForConfigOrDie(s.Config())
	client := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
	key := csr(t, k, "alice", certificatesv1.KubeAPIServerClientSignerName, pkix.Name{CommonName: "alice", Organization: []string{"dev"}}, client...)
	approve(t, k, "alice")
	certificate, failure := issued(t, k, "alice")
	if failure != "" {
		t.Fatal(failure)
	}
	block, _ := pem.Decode(certificate)
	cert, err := x509.ParseCertificate(block.Bytes)
	must(t, err)
	if left := time.Until(cert.NotAfter); left < 29*time.Minute || left > 31*time.Minute {
		t.Errorf("valid for %s", left)
	}
	der, err := x509.MarshalECPrivateKey(key)
	must(t, err)
	c := rest.CopyConfig(s.SocketConfig())
	c.BearerToken, c.Username, c.Transport = "", "", nil
	c.CertData, c.KeyData = certificate, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	c.CertFile, c.KeyFile = "", ""
	_, err = kubernetes.NewForConfigOrDie(c).CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `User "alice"`) {
		t.Errorf("with the certificate: %v", err)
	}

	csr(t, k, "wrong", certificatesv1.KubeAPIServerClientSignerName, pkix.Name{CommonName: "alice"}, certificatesv1.UsageServerAuth)
	approve(t, k, "wrong")
	if _, failure := issued(t, k, "wrong"); failure != "SignerValidationFailure: invalid usage for client certificate: server auth" {
		t.Errorf("failure %q", failure)
	}
	// Requests of kubelets are approved if they are allowed to make them.
	csr(t, k, "node", certificatesv1.KubeAPIServerClientKubeletSignerName, pkix.Name{CommonName: "system:node:n1", Organization: []string{"system:nodes"}}, client...)
	_, err = k.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "nodes"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:certificates.k8s.io:certificatesigningrequests:nodeclient"},
		Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "admin"}},
	}, metav1.CreateOptions{})
	must(t, err)
	if certificate, failure := issued(t, k, "node"); certificate == nil {
		t.Errorf("failure %q", failure)
	}
}

// Deleted claims and volumes stay while they are in use.
func TestProtection(t *testing.T) {
	t.Parallel()
	k := kubernetes.NewForConfigOrDie(kanzentest.Start(t).Config())
	claims, pods := k.CoreV1().PersistentVolumeClaims("default"), k.CoreV1().Pods("default")
	claim := func(name string) {
		t.Helper()
		_, err := claims.Create(t.Context(), &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		}, metav1.CreateOptions{})
		must(t, err)
	}
	claim("unused")
	claim("used")
	_, err := pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "user"},
		Spec: corev1.PodSpec{
			NodeName: "n1", Containers: []corev1.Container{{Name: "c", Image: "i"}},
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "used"}}}},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	must(t, claims.Delete(t.Context(), "used", metav1.DeleteOptions{}))
	must(t, claims.Delete(t.Context(), "unused", metav1.DeleteOptions{}))
	await(t, func(ctx context.Context) string {
		_, err := claims.Get(ctx, "unused", metav1.GetOptions{})
		return gone(err)
	})
	if c, err := claims.Get(t.Context(), "used", metav1.GetOptions{}); err != nil || c.DeletionTimestamp == nil {
		t.Errorf("a claim in use: %v, %v", c, err)
	}
	now := int64(0)
	must(t, pods.Delete(t.Context(), "user", metav1.DeleteOptions{GracePeriodSeconds: &now}))
	await(t, func(ctx context.Context) string {
		_, err := claims.Get(ctx, "used", metav1.GetOptions{})
		return gone(err)
	})

	volumes := k.CoreV1().PersistentVolumes()
	_, err = volumes.Create(t.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "v"},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/tmp"}},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	phase := func(phase string) {
		t.Helper()
		_, err := volumes.Patch(t.Context(), "v", types.MergePatchType, []byte(`{"status":{"phase":"`+phase+`"}}`), metav1.PatchOptions{}, "status")
		must(t, err)
	}
	phase("Bound")
	must(t, volumes.Delete(t.Context(), "v", metav1.DeleteOptions{}))
	if _, err := volumes.Get(t.Context(), "v", metav1.GetOptions{}); err != nil {
		t.Errorf("a bound volume: %v", err)
	}
	phase("Released")
	await(t, func(ctx context.Context) string {
		_, err := volumes.Get(ctx, "v", metav1.GetOptions{})
		return gone(err)
	})
}

// A finished job is deleted when its time is over, and not before.
func TestTTLAfterFinished(t *testing.T) {
	t.Parallel()
	k := kubernetes.NewForConfigOrDie(kanzentest.Start(t).Config())
	jobs := k.BatchV1().Jobs("default")
	for name, ttl := range map[string]int32{"now": 0, "later": 3600} {
		_, err := jobs.Create(t.Context(), &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{
			TTLSecondsAfterFinished: &ttl,
			Template:                corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
		}}, metav1.CreateOptions{})
		must(t, err)
		at := metav1.Now()
		j, err := jobs.Get(t.Context(), name, metav1.GetOptions{})
		must(t, err)
		j.Status.StartTime, j.Status.CompletionTime = &at, &at
		j.Status.Conditions = []batchv1.JobCondition{
			{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue, LastTransitionTime: at},
			{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: at},
		}
		_, err = jobs.UpdateStatus(t.Context(), j, metav1.UpdateOptions{})
		must(t, err)
	}
	await(t, func(ctx context.Context) string {
		_, err := jobs.Get(ctx, "now", metav1.GetOptions{})
		return gone(err)
	})
	if j, err := jobs.Get(t.Context(), "later", metav1.GetOptions{}); err != nil || j.DeletionTimestamp != nil {
		t.Errorf("a job whose time is not up: %v, %v", j, err)
	}
}

// A secret of type service-account-token gets a token and is deleted with its service
// account; an expired bootstrap token is deleted.
func TestTokens(t *testing.T) {
	t.Parallel()
	s := kanzentest.Start(t, kanzentest.Listen())
	k := kubernetes.NewForConfigOrDie(s.Config())
	secrets := k.CoreV1().Secrets("default")
	_, err := k.CoreV1().ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: "robot"}, Secrets: []corev1.ObjectReference{{Name: "token"}},
	}, metav1.CreateOptions{})
	must(t, err)
	token := func(name, account string) {
		t.Helper()
		_, err := secrets.Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: account}}, Type: corev1.SecretTypeServiceAccountToken,
		}, metav1.CreateOptions{})
		must(t, err)
	}
	token("token", "robot")
	token("of-nobody", "nobody")
	var filled *corev1.Secret
	await(t, func(ctx context.Context) string {
		filled, err = secrets.Get(ctx, "token", metav1.GetOptions{})
		must(t, err)
		if len(filled.Data["token"]) == 0 || string(filled.Data["namespace"]) != "default" || len(filled.Data["ca.crt"]) == 0 || filled.Annotations[corev1.ServiceAccountUIDKey] == "" {
			return fmt.Sprintf("it is not filled: %v %v", len(filled.Data), filled.Annotations)
		}
		return ""
	})
	c := rest.AnonymousClientConfig(s.SocketConfig())
	c.BearerToken = string(filled.Data["token"])
	_, err = kubernetes.NewForConfigOrDie(c).CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "system:serviceaccount:default:robot") {
		t.Errorf("with the token: %v", err)
	}
	is := func(name string) {
		t.Helper()
		await(t, func(ctx context.Context) string {
			_, err := secrets.Get(ctx, name, metav1.GetOptions{})
			return gone(err)
		})
	}
	is("of-nobody")
	token("second", "robot")
	must(t, k.CoreV1().Secrets("default").Delete(t.Context(), "token", metav1.DeleteOptions{}))
	await(t, func(ctx context.Context) string {
		a, err := k.CoreV1().ServiceAccounts("default").Get(ctx, "robot", metav1.GetOptions{})
		must(t, err)
		if len(a.Secrets) > 0 {
			return fmt.Sprintf("the account names %v", a.Secrets)
		}
		return ""
	})
	must(t, k.CoreV1().ServiceAccounts("default").Delete(t.Context(), "robot", metav1.DeleteOptions{}))
	is("second")

	system := k.CoreV1().Secrets("kube-system")
	for name, end := range map[string]time.Time{"bootstrap-token-aaaaaa": time.Now().Add(-time.Second), "bootstrap-token-bbbbbb": time.Now().Add(time.Hour)} {
		_, err := system.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Type: corev1.SecretTypeBootstrapToken, StringData: map[string]string{
			"token-id": strings.TrimPrefix(name, "bootstrap-token-"), "token-secret": "0123456789abcdef", "expiration": end.UTC().Format(time.RFC3339),
		}}, metav1.CreateOptions{})
		must(t, err)
	}
	await(t, func(ctx context.Context) string {
		_, err := system.Get(ctx, "bootstrap-token-aaaaaa", metav1.GetOptions{})
		return gone(err)
	})
	if _, err := system.Get(t.Context(), "bootstrap-token-bbbbbb", metav1.GetOptions{}); err != nil {
		t.Errorf("a token that has not expired: %v", err)
	}
}

// There is one trust bundle with the authority by which pods verify the server, even after users change it; other bundles of its
// signer are deleted.
func TestTrustBundle(t *testing.T) {
	t.Parallel()
	bundles := kubernetes.NewForConfigOrDie(kanzentest.Start(t).Config()).CertificatesV1().ClusterTrustBundles()
	var own *certificatesv1.ClusterTrustBundle
	has := func() {
		t.Helper()
		await(t, func(ctx context.Context) string {
			list, err := bundles.List(ctx, metav1.ListOptions{FieldSelector: "spec.signerName=kubernetes.io/kube-apiserver-serving"})
			if err != nil || len(list.Items) != 1 {
				return fmt.Sprintf("%v, %v", list, err)
			}
			if own == nil {
				own = &list.Items[0]
			}
			if b := &list.Items[0]; b.Name != own.Name || b.Spec.TrustBundle != own.Spec.TrustBundle {
				return fmt.Sprintf("bundle %v", b)
			}
			return ""
		})
	}
	has()
	must(t, bundles.Delete(t.Context(), own.Name, metav1.DeleteOptions{}))
	has()
	former := &certificatesv1.ClusterTrustBundle{Spec: own.Spec}
	former.Name = "kubernetes.io:kube-apiserver-serving:former"
	_, err := bundles.Create(t.Context(), former, metav1.CreateOptions{})
	must(t, err)
	has()
	_, err = bundles.Patch(t.Context(), own.Name, types.MergePatchType, []byte(fmt.Sprintf(`{"spec":{"trustBundle":%q}}`, own.Spec.TrustBundle+"\n")), metav1.PatchOptions{})
	must(t, err)
	has()
}

// podCertificate creates a request for the certificate of a pod.
func podCertificate(t *testing.T, k kubernetes.Interface, namespace, name string, owners ...metav1.OwnerReference) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	must(t, err)
	_, err = k.CertificatesV1().PodCertificateRequests(namespace).Create(t.Context(), &certificatesv1.PodCertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners},
		Spec: certificatesv1.PodCertificateRequestSpec{
			SignerName: "example.com/s", PodName: "p", PodUID: "pu", ServiceAccountName: "s", ServiceAccountUID: "su", NodeName: "n", NodeUID: "nu", StubPKCS10Request: der,
		},
	}, metav1.CreateOptions{})
	must(t, err)
}

// A request for the certificate of a pod is deleted a quarter of an hour after its creation.
func TestPodCertificates(t *testing.T) {
	t.Parallel()
	clk := kanzentest.NewClock(time.Time{})
	k := kubernetes.NewForConfigOrDie(kanzentest.Start(t, kanzentest.WithClock(clk)).Config())
	requests := k.CertificatesV1().PodCertificateRequests("default")
	podCertificate(t, k, "default", "r")
	clk.Advance(14 * time.Minute)
	_, err := requests.Get(t.Context(), "r", metav1.GetOptions{})
	must(t, err)
	clk.Advance(time.Minute)
	await(t, func(ctx context.Context) string {
		_, err := requests.Get(ctx, "r", metav1.GetOptions{})
		return gone(err)
	})
}

// Requests for certificates are stored in a version that is not served. They are deleted with their owner and their namespace all
// the same, and lose an owner that they are to outlive.
func TestUnservedStorageVersion(t *testing.T) {
	t.Parallel()
	k := kubernetes.NewForConfigOrDie(kanzentest.Start(t).Config())
	requests := k.CertificatesV1().PodCertificateRequests("default")
	for name, policy := range map[string]metav1.DeletionPropagation{"background": metav1.DeletePropagationBackground, "orphan": metav1.DeletePropagationOrphan} {
		owner, err := k.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		must(t, err)
		podCertificate(t, k, "default", name, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: owner.UID})
		must(t, k.CoreV1().ConfigMaps("default").Delete(t.Context(), name, metav1.DeleteOptions{PropagationPolicy: &policy}))
	}
	await(t, func(ctx context.Context) string {
		_, err := requests.Get(ctx, "background", metav1.GetOptions{})
		return gone(err)
	})
	await(t, func(ctx context.Context) string {
		r, err := requests.Get(ctx, "orphan", metav1.GetOptions{})
		if err != nil || len(r.OwnerReferences) > 0 {
			return fmt.Sprintf("%v, %v", r, err)
		}
		return ""
	})
	_, err := k.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
	must(t, err)
	podCertificate(t, k, "a", "r")
	must(t, k.CoreV1().Namespaces().Delete(t.Context(), "a", metav1.DeleteOptions{}))
	await(t, func(ctx context.Context) string {
		_, err := k.CoreV1().Namespaces().Get(ctx, "a", metav1.GetOptions{})
		return gone(err)
	})
}
