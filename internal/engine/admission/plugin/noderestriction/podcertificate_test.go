package noderestriction

import (
	"strings"
	"testing"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	at "github.com/kanzen-io/kanzen/internal/engine/admission/admissiontest"
	"github.com/kanzen-io/kanzen/internal/object/features"
)

// TestPodCertificate has the words of kube-apiserver where it forbids. What it may not have seen yet it does not forbid.
func TestPodCertificate(t *testing.T) {
	wanting := func(edit func(*corev1.Pod)) *corev1.Pod {
		return pod(func(p *corev1.Pod) {
			p.Spec.ServiceAccountName = "default"
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{{PodCertificate: &corev1.PodCertificateProjection{SignerName: "example.com/wanted"}}}}}}}
			if edit != nil {
				edit(p)
			}
		})
	}
	objects := at.NewObjects(node("me", nil), &corev1.ServiceAccount{ObjectMeta: meta("ns", "default")}, wanting(nil),
		wanting(func(p *corev1.Pod) { p.Name, p.Spec.NodeName = "other", "you" }),
		wanting(func(p *corev1.Pod) { p.Name, p.Spec.ServiceAccountName = "gone", "gone" }),
		wanting(func(p *corev1.Pod) {
			p.Name, p.Annotations = "mirror", map[string]string{corev1.MirrorPodAnnotationKey: "x"}
		}))
	for _, c := range []struct {
		name   string
		edit   func(*certificatesv1beta1.PodCertificateRequestSpec)
		want   string
		unseen bool
	}{
		{"wanted", func(*certificatesv1beta1.PodCertificateRequestSpec) {}, "", false},
		{"allowed", func(s *certificatesv1beta1.PodCertificateRequestSpec) { s.SignerName = "example.com/allowed" }, "", false},
		{"another signer", func(s *certificatesv1beta1.PodCertificateRequestSpec) { s.SignerName = "example.com/x" },
			`pod "ns/p" does not mount a podCertificate projected volume for signer "example.com/x"`, false},
		{"another node", func(s *certificatesv1beta1.PodCertificateRequestSpec) { s.NodeName = "you" }, `which is not the requesting node "me"`, false},
		{"another pod", func(s *certificatesv1beta1.PodCertificateRequestSpec) { s.PodName = "other" }, `pod "ns/other" is not running on node "me"`, false},
		{"mirror", func(s *certificatesv1beta1.PodCertificateRequestSpec) { s.PodName = "mirror" }, `pod "ns/mirror" is a mirror pod`, false},
		{"another account", func(s *certificatesv1beta1.PodCertificateRequestSpec) { s.ServiceAccountName = "x" },
			`contains serviceAccountName ("x") that differs from running pod ("default")`, false},
		{"unknown pod", func(s *certificatesv1beta1.PodCertificateRequestSpec) { s.PodName = "x" }, `while retrieving pod "ns/x"`, true},
		{"unknown account", func(s *certificatesv1beta1.PodCertificateRequestSpec) {
			s.PodName, s.ServiceAccountName = "gone", "gone"
		},
			`while retrieving service account "ns/gone"`, true},
		{"former node", func(s *certificatesv1beta1.PodCertificateRequestSpec) { s.NodeUID = "x" }, `UID "x" of node "me"`, true},
		{"former pod", func(s *certificatesv1beta1.PodCertificateRequestSpec) { s.PodUID = "x" }, `UID "x" of pod "ns/p"`, true},
		{"former account", func(s *certificatesv1beta1.PodCertificateRequestSpec) { s.ServiceAccountUID = "x" }, `UID "x" of service account`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &certificatesv1beta1.PodCertificateRequest{ObjectMeta: meta("ns", "r"), Spec: certificatesv1beta1.PodCertificateRequestSpec{
				SignerName: "example.com/wanted", NodeName: "me", NodeUID: "u-1", PodName: "p", PodUID: "u-1", ServiceAccountName: "default", ServiceAccountUID: "u-1",
			}}
			c.edit(&r.Spec)
			a := at.Create(admission.PodCertificateRequests, r)
			a.User = &user.DefaultInfo{Name: "system:node:me", Groups: []string{user.NodesGroup}}
			err := at.Run(New(objects, nobody{}, features.Set{}), a)
			if !c.unseen {
				at.Check(t, err, c.want)
			} else if err == nil || apierrors.ReasonForError(err) != "" || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error without a reason, with %q", err, c.want)
			}
		})
	}
}
