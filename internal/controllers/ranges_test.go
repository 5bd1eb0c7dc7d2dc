package controllers_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// A ServiceCIDR becomes ready and is protected; deleted, it stays while a service has an address that no other range
// contains.
func TestServiceCIDRs(t *testing.T) {
	t.Parallel()
	clock := kanzentest.NewClock(time.Time{})
	k := kubernetes.NewForConfigOrDie(kanzentest.Start(t, kanzentest.WithClock(clock)).Config())
	ranges := k.NetworkingV1().ServiceCIDRs()
	create := func(name, cidr string) {
		t.Helper()
		_, err := ranges.Create(t.Context(), &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{cidr}}}, metav1.CreateOptions{})
		must(t, err)
	}
	is := func(name, want string) {
		t.Helper()
		await(t, func(ctx context.Context) string {
			r, err := ranges.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			got := fmt.Sprint(r.Finalizers)
			for _, c := range r.Status.Conditions {
				got += fmt.Sprintf(" %s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
			}
			if got != want {
				return fmt.Sprintf("%s: %s, want %s", name, got, want)
			}
			return ""
		})
	}
	const ready = "[networking.k8s.io/service-cidr-finalizer] Ready=True : Kubernetes Service CIDR is ready"
	is("kubernetes", ready)
	create("wide", "10.100.0.0/16")
	create("narrow", "10.100.1.0/24")
	create("other", "10.200.0.0/24")
	for _, name := range []string{"wide", "narrow", "other"} {
		is(name, ready)
	}
	_, err := k.CoreV1().Services("default").Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"},
		Spec: corev1.ServiceSpec{ClusterIP: "10.100.1.5", Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
	must(t, err)
	for _, name := range []string{"narrow", "wide", "other"} {
		must(t, ranges.Delete(t.Context(), name, metav1.DeleteOptions{}))
	}
	// Both may not go at once: the address would be in none of them.
	is("wide", "[networking.k8s.io/service-cidr-finalizer] Ready=False Terminating: There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR")
	create("wider", "10.96.0.0/12")
	is("wider", ready)
	const grace = 11 * time.Second // in which other servers may allocate from a range that is deleted
	clock.Advance(grace)
	for _, name := range []string{"wide", "narrow", "other"} {
		await(t, func(ctx context.Context) string {
			_, err := ranges.Get(ctx, name, metav1.GetOptions{})
			return gone(err)
		})
	}
	// The end of its last address lets a range go.
	must(t, ranges.Delete(t.Context(), "wider", metav1.DeleteOptions{}))
	is("wider", "[networking.k8s.io/service-cidr-finalizer] Ready=False Terminating: There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR")
	must(t, k.CoreV1().Services("default").Delete(t.Context(), "s", metav1.DeleteOptions{}))
	clock.Advance(grace)
	await(t, func(ctx context.Context) string {
		_, err := ranges.Get(ctx, "wider", metav1.GetOptions{})
		return gone(err)
	})
}

// A VolumeAttributesClass is protected, and goes once no volume or claim names it.
func TestAttributesClassProtection(t *testing.T) {
	t.Parallel()
	k := kubernetes.NewForConfigOrDie(kanzentest.Start(t).Config())
	classes, name := k.StorageV1().VolumeAttributesClasses(), "gold"
	_, err := classes.Create(t.Context(), &storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: name}, DriverName: "d", Parameters: map[string]string{"a": "b"}}, metav1.CreateOptions{})
	must(t, err)
	await(t, func(ctx context.Context) string {
		c, err := classes.Get(ctx, name, metav1.GetOptions{})
		must(t, err)
		if len(c.Finalizers) != 1 || c.Finalizers[0] != "kubernetes.io/vac-protection" {
			return fmt.Sprintf("finalizers %v", c.Finalizers)
		}
		return ""
	})
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	_, err = k.CoreV1().PersistentVolumeClaims("default").Create(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Resources: corev1.VolumeResourceRequirements{Requests: size}, VolumeAttributesClassName: &name}}, metav1.CreateOptions{})
	must(t, err)
	_, err = k.CoreV1().PersistentVolumes().Create(t.Context(), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Capacity: size, VolumeAttributesClassName: &name,
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}}}}, metav1.CreateOptions{})
	must(t, err)
	must(t, classes.Delete(t.Context(), name, metav1.DeleteOptions{}))
	must(t, k.CoreV1().PersistentVolumeClaims("default").Delete(t.Context(), "c", metav1.DeleteOptions{}))
	await(t, func(ctx context.Context) string {
		_, err := k.CoreV1().PersistentVolumeClaims("default").Get(ctx, "c", metav1.GetOptions{})
		return gone(err)
	})
	if c, err := classes.Get(t.Context(), name, metav1.GetOptions{}); err != nil || c.DeletionTimestamp == nil {
		t.Errorf("with a volume that names it: %v, %v", c, err)
	}
	must(t, k.CoreV1().PersistentVolumes().Delete(t.Context(), "v", metav1.DeleteOptions{}))
	await(t, func(ctx context.Context) string {
		_, err := classes.Get(ctx, name, metav1.GetOptions{})
		return gone(err)
	})
}

// The kubeconfig for nodes that join is signed with every token that may sign, and with no other.
func TestBootstrapSigner(t *testing.T) {
	t.Parallel()
	k := kubernetes.NewForConfigOrDie(kanzentest.Start(t).Config())
	public, secrets := k.CoreV1().ConfigMaps("kube-public"), k.CoreV1().Secrets("kube-system")
	// By another implementation (Python's hmac and base64).
	signatures := map[string]string{
		"first aaaaaa":  "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFhYWFhYSJ9..9_RW6BY-YIlOh8DeGNItAkINekLpPKDADWvhQgFpnE8",
		"first cccccc":  "eyJhbGciOiJIUzI1NiIsImtpZCI6ImNjY2NjYyJ9..egc8lnPcTinCBB19mlYEecD1wPeXczs7ZPUNxNtMIEo",
		"second aaaaaa": "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFhYWFhYSJ9..1PojhmDORR5S0HaE1Z-fQPSVLx0fd0wSr3LgPh4UEAA",
		"second cccccc": "eyJhbGciOiJIUzI1NiIsImtpZCI6ImNjY2NjYyJ9..qRJqebFQ3Phpn0XeRDrAM1mlVWwjgpzBo-edIANnukM",
	}
	token := func(id, signs string) {
		t.Helper()
		_, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + id}, Type: corev1.SecretTypeBootstrapToken, StringData: map[string]string{
			"token-id": id, "token-secret": id + "0123456789", "usage-bootstrap-signing": signs,
		}}, metav1.CreateOptions{})
		must(t, err)
	}
	token("aaaaaa", "true")
	token("bbbbbb", "false")
	_, err := public.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cluster-info"}, Data: map[string]string{"kubeconfig": "first", "jws-kubeconfig-forged": "x..y"}}, metav1.CreateOptions{})
	must(t, err)
	signed := func(content string, ids ...string) {
		t.Helper()
		await(t, func(ctx context.Context) string {
			m, err := public.Get(ctx, "cluster-info", metav1.GetOptions{})
			must(t, err)
			if len(m.Data) != 1+len(ids) {
				return fmt.Sprintf("%v, want signatures by %v", m.Data, ids)
			}
			for _, id := range ids {
				text := m.Data["jws-kubeconfig-"+id]
				if want := signatures[content+" "+id]; text != want {
					return fmt.Sprintf("the signature of %s by %s is %q, want %q", content, id, text, want)
				}
			}
			return ""
		})
	}
	signed("first", "aaaaaa")
	token("cccccc", "true")
	signed("first", "aaaaaa", "cccccc")
	_, err = public.Patch(t.Context(), "cluster-info", types.MergePatchType, []byte(`{"data":{"kubeconfig":"second"}}`), metav1.PatchOptions{})
	must(t, err)
	signed("second", "aaaaaa", "cccccc")
	must(t, secrets.Delete(t.Context(), "bootstrap-token-aaaaaa", metav1.DeleteOptions{}))
	signed("second", "cccccc")
}
