package serviceaccount

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	at "github.com/kanzen-io/kanzen/internal/engine/admission/admissiontest"
)

// instant is a clock whose waits end at once; made counts them.
type instant struct {
	clock.RealClock
	waits *int
	after func()
}

func (c instant) After(time.Duration) <-chan time.Time {
	if *c.waits++; c.after != nil {
		c.after()
	}
	ch := make(chan time.Time, 1)
	ch <- time.Time{}
	return ch
}

func account(name string, edit ...func(*corev1.ServiceAccount)) *corev1.ServiceAccount {
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}}
	for _, e := range edit {
		e(sa)
	}
	return sa
}

func newPod(edit func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns"},
		Spec:       corev1.PodSpec{InitContainers: []corev1.Container{{Name: "i"}}, Containers: []corev1.Container{{Name: "c"}}},
	}
	if edit != nil {
		edit(pod)
	}
	return pod
}

func build(objs ...admission.Object) (admission.Plugin, *int) {
	waits := 0
	return New(at.NewObjects(objs...), func() string { return "zzzzz" }, instant{waits: &waits}), &waits
}

func TestDefaults(t *testing.T) {
	no := false
	for _, c := range []struct {
		name    string
		account *corev1.ServiceAccount
		edit    func(*corev1.Pod)
		mounts  string // the volume of the container's token; "" is none
		volumes int
	}{
		{"plain", account("default"), nil, "kube-api-access-zzzzz", 1},
		{"pod without", account("default"), func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = &no }, "", 0},
		{"account without", account("default", func(sa *corev1.ServiceAccount) { sa.AutomountServiceAccountToken = &no }), nil, "", 0},
		{"volume there", account("default"), func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "kube-api-access-mine"}}
		}, "kube-api-access-mine", 1},
		{"mount taken", account("default"), func(p *corev1.Pod) {
			p.Spec.InitContainers = nil
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "t", MountPath: mountPath}}
		}, "t", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, _ := build(c.account)
			pod := newPod(c.edit)
			at.Check(t, at.Run(p, at.Create(admission.Pods, pod)), "")
			if pod.Spec.ServiceAccountName != "default" || pod.Spec.DeprecatedServiceAccount != "default" {
				t.Errorf("account %q", pod.Spec.ServiceAccountName)
			}
			got := ""
			if m := pod.Spec.Containers[0].VolumeMounts; len(m) == 1 {
				got = m[0].Name
			}
			if got != c.mounts || len(pod.Spec.Volumes) != c.volumes {
				t.Errorf("mounts %q with %d volumes, want %q with %d", got, len(pod.Spec.Volumes), c.mounts, c.volumes)
			}
			if c.name == "plain" && (len(pod.Spec.InitContainers[0].VolumeMounts) != 1 || *pod.Spec.Volumes[0].Projected.Sources[0].ServiceAccountToken.ExpirationSeconds != 3607) {
				t.Errorf("pod %+v", pod.Spec)
			}
		})
	}
}

func TestPullSecrets(t *testing.T) {
	p, _ := build(account("default", func(sa *corev1.ServiceAccount) { sa.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "s"}} }))
	pod := newPod(nil)
	at.Check(t, at.Run(p, at.Create(admission.Pods, pod)), "")
	if len(pod.Spec.ImagePullSecrets) != 1 || pod.Spec.ImagePullSecrets[0].Name != "s" {
		t.Errorf("got %v", pod.Spec.ImagePullSecrets)
	}
}

func TestRefusals(t *testing.T) {
	strict := account("strict", func(sa *corev1.ServiceAccount) {
		sa.Annotations = map[string]string{enforceAnnotation: "true"}
		sa.Secrets = []corev1.ObjectReference{{Name: "mine"}}
	})
	fromSecret := func(name string) []corev1.EnvVar {
		return []corev1.EnvVar{{Name: "E", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}}}
	}
	mirror := func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }
	for _, c := range []struct {
		name string
		edit func(*corev1.Pod)
		want string
	}{
		{"missing account", func(p *corev1.Pod) { p.Spec.ServiceAccountName = "x" }, "service account ns/x"},
		{"mirror", mirror, ""},
		{"mirror with account", func(p *corev1.Pod) { mirror(p); p.Spec.ServiceAccountName = "strict" }, "may not reference service accounts"},
		{"mirror with secret", func(p *corev1.Pod) { mirror(p); p.Spec.Containers[0].Env = fromSecret("s") }, "may not reference secrets"},
		{"strict", func(p *corev1.Pod) {
			p.Spec.ServiceAccountName = "strict"
			p.Spec.Containers[0].Env = fromSecret("mine")
		}, ""},
		{"strict env", func(p *corev1.Pod) {
			p.Spec.ServiceAccountName = "strict"
			p.Spec.InitContainers[0].Env = fromSecret("other")
		}, "init container i with envVar E"},
		{"strict volume", func(p *corev1.Pod) {
			p.Spec.ServiceAccountName = "strict"
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "other"}}}}
		}, "secret.secretName=\"other\""},
		{"strict pull", func(p *corev1.Pod) {
			p.Spec.ServiceAccountName = "strict"
			p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "other"}}
		}, "imagePullSecrets[0]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, waits := build(strict)
			at.Check(t, at.Run(p, at.Create(admission.Pods, newPod(c.edit))), c.want)
			if *waits != 0 {
				t.Errorf("waited %d times", *waits)
			}
		})
	}
}

// The plugin waits for the default account, which is created after its
// namespace.
func TestWaitsForDefault(t *testing.T) {
	objects := at.NewObjects()
	waits := 0
	p := New(objects, func() string { return "x" }, instant{waits: &waits, after: func() {
		if waits == 3 {
			objects.Put(account("default"))
		}
	}})
	at.Check(t, at.Run(p, at.Create(admission.Pods, newPod(nil))), "")
	if waits != 3 {
		t.Errorf("waited %d times", waits)
	}
	p, never := build()
	at.Check(t, at.Run(p, at.Create(admission.Pods, newPod(nil))), "service account ns/default")
	if *never != defaultTries-1 {
		t.Errorf("waited %d times", *never)
	}
}
