package authz

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// object is one to be made, by a POST to a path.
type object struct {
	Path string `json:"path"`
	Body any    `json:"body"`
}

// world makes random objects out of a seed.
type world struct {
	*rand.Rand
	objects []object
}

func (w *world) add(path string, o any) { w.objects = append(w.objects, object{path, o}) }

func pick[T any](w *world, of ...T) T { return of[w.IntN(len(of))] }

// some picks a few, at least one.
func some(w *world, of ...string) []string {
	out := []string{pick(w, of...)}
	for w.IntN(3) == 0 {
		out = append(out, pick(w, of...))
	}
	return out
}

func namespaces() []string { return []string{"ns0", "ns1", "ns2"} }

func named(kind string, n int) string { return fmt.Sprintf("%s%d", kind, n) }

// newWorld makes namespaces, accounts, roles, bindings, and what nodes use.
func newWorld(seed uint64) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 1))}
	for _, ns := range namespaces() {
		w.add("/api/v1/namespaces", &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: ns}})
		for _, sa := range []string{"default", "sa0", "sa1"} {
			w.add("/api/v1/namespaces/"+ns+"/serviceaccounts", &corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: metav1.ObjectMeta{Name: sa}})
		}
	}
	w.roles()
	w.bindings()
	w.pods()
	w.volumes()
	w.impersonators()
	return w
}

const rbacPath = "/apis/rbac.authorization.k8s.io/v1/"

func (w *world) roles() {
	for n := range 16 {
		rules := []rbacv1.PolicyRule{}
		for range 1 + w.IntN(4) {
			rules = append(rules, w.rule(n >= 8))
		}
		if n < 8 {
			w.add(rbacPath+"namespaces/"+pick(w, namespaces()...)+"/roles", &rbacv1.Role{
				TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role"}, ObjectMeta: metav1.ObjectMeta{Name: named("role", n)}, Rules: rules})
			continue
		}
		w.add(rbacPath+"clusterroles", &rbacv1.ClusterRole{
			TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"}, ObjectMeta: metav1.ObjectMeta{Name: named("role", n)}, Rules: rules})
	}
}

func (w *world) rule(paths bool) rbacv1.PolicyRule {
	if paths && w.IntN(4) == 0 {
		return rbacv1.PolicyRule{Verbs: some(w, "get", "post", "*"), NonResourceURLs: some(w, "/healthz", "/healthz/*", "/foo*", "/logs/", "*", "/")}
	}
	r := rbacv1.PolicyRule{
		Verbs:     some(w, "get", "list", "watch", "create", "delete", "impersonate", "bind", "*"),
		APIGroups: some(w, "", "apps", "example.com", "*"),
		Resources: some(w, "pods", "pods/log", "*/scale", "secrets", "deployments", "deployments/scale", "users", "*", "pods/*", "nodes", "pods/"),
	}
	if w.IntN(4) == 0 {
		r.ResourceNames = some(w, "a", "b", "name0")
	}
	return r
}

func (w *world) bindings() {
	for n := range 40 {
		meta := metav1.ObjectMeta{Name: named("binding", n)}
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole",
			Name: pick(w, named("role", 8+w.IntN(9)), "view", "edit", "system:node", "missing")}
		var subjects []rbacv1.Subject
		for range 1 + w.IntN(3) {
			subjects = append(subjects, w.subject())
		}
		if n < 14 {
			w.add(rbacPath+"clusterrolebindings", &rbacv1.ClusterRoleBinding{
				TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRoleBinding"}, ObjectMeta: meta, RoleRef: ref, Subjects: subjects})
			continue
		}
		if w.IntN(2) == 0 {
			ref.Kind, ref.Name = "Role", named("role", w.IntN(9))
		}
		w.add(rbacPath+"namespaces/"+pick(w, namespaces()...)+"/rolebindings", &rbacv1.RoleBinding{
			TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "RoleBinding"}, ObjectMeta: meta, RoleRef: ref, Subjects: subjects})
	}
}

func (w *world) subject() rbacv1.Subject {
	switch w.IntN(5) {
	case 0:
		return rbacv1.Subject{Kind: "ServiceAccount", Namespace: pick(w, namespaces()...), Name: pick(w, "sa0", "sa1")}
	case 1:
		return rbacv1.Subject{Kind: "Group", APIGroup: rbacv1.GroupName, Name: pick(w, "g0", "g1", "g2", "system:serviceaccounts:ns0")}
	case 2:
		return rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: pick(w, "system:serviceaccount:ns1:sa0", "u0")}
	}
	return rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: named("u", w.IntN(6))}
}

// pods run on nodes and use what there need not be.
func (w *world) pods() {
	for n := range 24 {
		ns := pick(w, namespaces()...)
		use := func(kind string) string { return named(kind, w.IntN(6)) }
		p := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: named("pod", n)}}
		p.Spec = corev1.PodSpec{ServiceAccountName: pick(w, "sa0", "sa1", "default"), NodeName: pick(w, "n0", "n1", "n2", ""),
			Containers: []corev1.Container{{Name: "c", Image: "i",
				EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: use("secret")}}}},
				Env: []corev1.EnvVar{{Name: "E", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
					LocalObjectReference: corev1.LocalObjectReference{Name: use("map")}, Key: "k"}}}},
			}},
			ImagePullSecrets: []corev1.LocalObjectReference{{Name: use("secret")}},
			Volumes: []corev1.Volume{
				{Name: "claim", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: use("claim")}}},
				{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: use("secret")}}},
				{Name: "all", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
					{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: use("map")}}}}}}},
				{Name: "own", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
					Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"},
						Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}}}}}}},
			}}
		if w.IntN(2) == 0 {
			name := use("rc")
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "r", ResourceClaimName: &name}}
		}
		w.add("/api/v1/namespaces/"+ns+"/pods", p)
	}
}

func (w *world) volumes() {
	for n := range 8 {
		secret := func(kind string) *corev1.SecretReference {
			return &corev1.SecretReference{Namespace: pick(w, namespaces()...), Name: named("secret", w.IntN(6)) + kind}
		}
		pv := &corev1.PersistentVolume{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}, ObjectMeta: metav1.ObjectMeta{Name: named("pv", n)}}
		pv.Spec = corev1.PersistentVolumeSpec{Capacity: corev1.ResourceList{"storage": resource.MustParse("1Gi")},
			AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"},
			ClaimRef:    &corev1.ObjectReference{Namespace: pick(w, namespaces()...), Name: named("claim", w.IntN(6))},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d.example.com", VolumeHandle: "h",
				NodeStageSecretRef: secret("-stage"), NodePublishSecretRef: secret("-publish"), ControllerPublishSecretRef: secret("-controller")}}}
		if n == 0 {
			pv.Spec.ClaimRef = nil
		}
		w.add("/api/v1/persistentvolumes", pv)
		source := named("pv", n)
		w.add("/apis/storage.k8s.io/v1/volumeattachments", &storagev1.VolumeAttachment{
			TypeMeta: metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "VolumeAttachment"}, ObjectMeta: metav1.ObjectMeta{Name: named("va", n)},
			Spec: storagev1.VolumeAttachmentSpec{Attacher: "d", NodeName: named("n", w.IntN(3)), Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &source}}})
		node := named("n", w.IntN(3))
		w.add("/apis/resource.k8s.io/v1/resourceslices", &resourcev1.ResourceSlice{
			TypeMeta: metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "ResourceSlice"}, ObjectMeta: metav1.ObjectMeta{Name: named("slice", n)},
			Spec: resourcev1.ResourceSliceSpec{Driver: "d.example.com", NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1}}})
	}
}
